"""Kernels in OpenCL C that devmod once compiled for CUDA, from a file: their images and samplers
are those of OpenCL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_kernels import check_samples
from each_case import refusal
from stored_opencl_c import STORED, check_stored

import devmod
from devmod.backend import IMAGE_FORMATS

#: The shape and the layers of an image, by its type.
TYPES = {
    "1d": ((7,), 0),
    "2d": ((7, 5), 0),
    "3d": ((7, 5, 3), 0),
    "1d_array": ((7,), 4),
    "2d_array": ((7, 5), 4),
}


def kernel(name: str) -> Any:
    return devmod.load(STORED)[name]


@pytest.mark.row("R34")
def test_a_stored_payload(device: Any) -> None:
    check_stored(device)


@pytest.mark.volume_but("2d_array")
@pytest.mark.parametrize("type_", TYPES)
def test_each_format_is_read_and_written(device: Any, type_: str) -> None:
    shape, layers = TYPES[type_]
    module = devmod.load(STORED)  # once: the stand-in driver parses all kernels of a module
    suffixes = {"float": "f", "int": "i", "uint": "ui"}
    for format, each in IMAGE_FORMATS.items():
        if format == "bgra8unorm":
            continue
        a, b = (device.image(shape, format, layers=layers) for _ in range(2))
        dtype = np.dtype(each.dtype)
        values = np.random.default_rng(1).random(a.array_shape)
        values = (
            values.astype(dtype)
            if dtype.kind == "f"
            else (values * np.iinfo(dtype).max).astype(dtype)
        )
        a.copy_from(values)
        module[f"copy_{type_}_{suffixes[each.sample]}"](
            a, b, grid=1, block=(*shape, layers) if layers else shape
        )
        np.testing.assert_array_equal(b.numpy(), values, err_msg=format)


@pytest.mark.parametrize(
    ("address", "normalized"),
    [
        *((each, True) for each in ("clamp", "repeat", "mirror", "border")),
        ("clamp", False),
        ("border", False),
    ],
)
@pytest.mark.volume_but(
    "nearest-repeat-True", "linear-clamp-False", "linear-mirror-True", "linear-border-True"
)
@pytest.mark.parametrize("filter_", ["nearest", "linear"])
def test_samplers(filter_: str, address: str, normalized: bool, device: Any) -> None:
    sample = kernel("sample")
    check_samples(
        device,
        lambda source, how, places, out: sample(
            source=source, how=how, places=places, out=out, grid=25, block=8
        ),
        filter_,
        address,
        normalized=normalized,
    )


def test_layers_and_samplers_in_the_source(device: Any) -> None:
    source = device.image((2, 2), "r32float", layers=3)
    source.copy_from(np.arange(12, dtype="float32").reshape(3, 2, 2))
    out = np.zeros((3, 4), "float32")
    # A prepared launch keeps its images.
    launch = kernel("layered").bind(
        source, device.sampler(filter="linear"), array := device.from_numpy(out), grid=1, block=1
    )
    del source
    launch()
    np.testing.assert_array_equal(array.numpy(), [[9.5, 0, 0, 1], [9, 0, 0, 1], [2, 0, 0, 1]])


def test_what_is_outside_is_transparent_black(device: Any) -> None:
    """An image without an alpha channel has the alpha 1 there too, as OpenCL defines."""
    places, out = np.array([[-1, -1]], "float32"), np.ones((1, 4), "float32")
    how = device.sampler(address="border")
    for format, alpha in (("rgba8unorm", 0), ("rg8unorm", 1)):
        kernel("sample")(device.image((2, 2), format), how, places, out, grid=1, block=1)
        np.testing.assert_array_equal(out, [[0, 0, 0, alpha]])


def test_sizes_and_formats(device: Any) -> None:
    volume, layers, flat = (
        device.image((3, 4, 5), "r8uint"),
        device.image((6, 7), "r8unorm", layers=8),
        device.image((9, 10), "rg16float"),
    )
    out = np.zeros(13, "int32")
    kernel("sizes")(volume, layers, flat, device.sampler(normalized=False), out, grid=1, block=1)
    np.testing.assert_array_equal(out, [3, 4, 5, 6, 7, 8, 9, 10, 5, 1, 1, 1, 1])


def test_errors_of_images_and_samplers(device: Any) -> None:
    sample = kernel("sample")
    places, out = np.zeros((1, 2), "float32"), np.zeros((1, 4), "float32")
    whole, how = device.image((2, 2), "rgba8uint"), device.sampler(filter="linear")
    for arguments, text in (
        (
            (whole, how),
            "argument 1 'source' is an image of rgba8uint, whose texels are uint, and the kernel takes float",
        ),
        (
            (out, how),
            "argument 1 'source' is an array of shape (1, 4), and the kernel takes an image, such as",
        ),
        (
            (device.image((2, 2), "rgba8unorm"), None),
            "argument 2 'how' is None, and the kernel takes a sampler, such as device.sampler()",
        ),
    ):
        assert refusal(
            devmod.ArgumentError, sample, *arguments, places, out, grid=1, block=1
        ).startswith(f"the cuda function 'sample': {text}")
    with pytest.raises(
        devmod.ArgumentError, match="which a linear sampler cannot read: CUDA filters no integers"
    ):
        kernel("either")(whole, how, np.zeros((1, 4), "int32"), 0, grid=1, block=1)
