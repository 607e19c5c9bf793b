"""Kernels in OpenCL C with images and samplers, compiled for CUDA: against NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from cuda_kernels import check_samples
from each_case import refusal

import devmod
from devmod.backend import IMAGE_FORMATS

pytestmark = pytest.mark.row("R34", "R58")
#: A coordinate of OpenCL C, the coordinate of the texel of a thread, and the numbers of threads, by
#: the type of an image.
TYPES = {
    "1d": ("int", "x", (7,), 0),
    "2d": ("int2", "(int2)(x, y)", (7, 5), 0),
    "3d": ("int4", "(int4)(x, y, z, 0)", (7, 5, 3), 0),
    "1d_array": ("int2", "(int2)(x, y)", (7,), 4),
    "2d_array": ("int4", "(int4)(x, y, z, 0)", (7, 5), 4),
}
COPY = """
#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable
kernel void {name}({access} image{type}_t a, write_only image{type}_t b) {{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    {place} p = {at};
    write_image{suffix}(b, p, read_image{suffix}(a, {sampler}p));
}}
"""
#: A sampler in the source, a read without one, and an image that is read and written.
WAYS = {
    "sampled": (
        "read_only",
        "CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST, ",
    ),
    "read": ("read_only", ""),
    "both": ("read_write", ""),
}


@cache
def saved(source: str) -> bytes:
    return devmod.dumps(
        devmod.compile(
            source, "cuda -arch=compute_80", language="OpenCL C", options=["-cl-std=CL2.0"]
        )
    )


def kernel(source: str, name: str) -> Any:
    return devmod.loads(saved(source))[name]


def texels(format: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    dtype = np.dtype(IMAGE_FORMATS[format].dtype)
    values = np.random.default_rng(1).random(shape)
    return (
        values.astype(dtype) if dtype.kind == "f" else (values * np.iinfo(dtype).max).astype(dtype)
    )


@pytest.mark.volume_but("2d_array", "3d")
@pytest.mark.parametrize("type_", TYPES)
def test_each_format_is_read_and_written(device: Any, type_: str) -> None:
    place, at, shape, layers = TYPES[type_]
    source = "".join(
        COPY.format(
            name=f"{way}_{suffix}",
            access=access,
            type=type_,
            place=place,
            at=at,
            suffix=suffix,
            sampler=sampler,
        )
        for way, (access, sampler) in WAYS.items()
        for suffix in ("f", "i", "ui")
    )
    module = devmod.loads(saved(source))
    counts = (*shape, layers) if layers else shape
    suffixes = {"float": "f", "int": "i", "uint": "ui"}
    for format, each in IMAGE_FORMATS.items():
        if format == "bgra8unorm":
            continue
        a, b = (device.image(shape, format, layers=layers) for _ in range(2))
        values = texels(format, a.array_shape)
        for way in WAYS:
            a.copy_from(values)
            b.copy_from(np.zeros_like(values))
            module[f"{way}_{suffixes[each.sample]}"](a, b, grid=1, block=counts)
            np.testing.assert_array_equal(b.numpy(), values, err_msg=f"{format} {way}")


def test_an_image_of_floats_beside_halves(device: Any) -> None:
    """Behind a definition for half, clang knows no other type of a function."""
    access, sampler = WAYS["both"]
    place, at, shape, _ = TYPES["2d"]
    source = COPY.format(
        name="copy", access=access, type="2d", place=place, at=at, suffix="f", sampler=sampler
    )
    halves = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\nkernel void k(global half *x) { x[0] = rint(x[1]); }"
    a, b = (device.image(shape, "r16unorm") for _ in range(2))
    values = texels("r16unorm", a.array_shape)
    a.copy_from(values)
    kernel(source + halves, "copy")(a, b, grid=1, block=shape)
    np.testing.assert_array_equal(b.numpy(), values)


SAMPLE = """
kernel void sample(read_only image2d_t source, sampler_t how, global const float2 *places, global float4 *out) {
    out[get_global_id(0)] = read_imagef(source, how, places[get_global_id(0)]);
}
kernel void layered(read_only image2d_array_t source, sampler_t how, global float4 *out) {
    const sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
    out[0] = read_imagef(source, how, (float4)(0.5f, 0.5f, 1.6f, 0));
    out[1] = read_imagef(source, nearest, (int4)(1, 0, 9, 0));
    out[2] = read_imagef(source, (int4)(0, 1, -3, 0));
}
"""


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
    sample = kernel(SAMPLE, "sample")
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
    values = np.arange(12, dtype="float32").reshape(3, 2, 2)
    source.copy_from(values)
    out = np.zeros((3, 4), "float32")
    kernel(SAMPLE, "layered")(source, device.sampler(filter="linear"), out, grid=1, block=1)
    np.testing.assert_array_equal(out, [[9.5, 0, 0, 1], [9, 0, 0, 1], [2, 0, 0, 1]])


def test_what_is_outside_is_transparent_black(device: Any) -> None:
    """An image without an alpha channel has the alpha 1 there too, as OpenCL defines."""
    places, out = np.array([[-1, -1]], "float32"), np.ones((1, 4), "float32")
    how = device.sampler(address="border")
    for format, alpha in (("rgba8unorm", 0), ("rg8unorm", 1)):
        kernel(SAMPLE, "sample")(device.image((2, 2), format), how, places, out, grid=1, block=1)
        np.testing.assert_array_equal(out, [[0, 0, 0, alpha]])


def test_values_are_rounded_and_saturated(device: Any) -> None:
    source = """
    kernel void k(write_only image2d_t f, write_only image2d_t s, write_only image2d_t i, write_only image2d_t u) {
        write_imagef(f, (int2)(0), (float4)(-1, 0.5f, 7, NAN));
        write_imagef(s, (int2)(0), (float4)(-3, 0.5f, 7, -0.25f));
        write_imagei(i, (int2)(0), (int4)(-300, 40000, -7, 7));
        write_imageui(u, (int2)(0), (uint4)(300, 0, 255, 7));
        write_imagef(f, (int2)(1, 0), (float4)(1));
        write_imagef(f, (int2)(-1, 0), (float4)(1));
    }"""
    images = [
        device.image((1, 1), name)
        for name in ("rgba8unorm", "rgba16snorm", "rgba8sint", "rgba8uint")
    ]
    kernel(source, "k")(*images, grid=1, block=1)
    assert [image.numpy().ravel().tolist() for image in images] == [
        [0, 128, 255, 0],
        [-32767, 16384, 32767, -8192],
        [-128, 127, -7, 7],
        [255, 0, 255, 7],
    ]


SIZES = """
float4 at(read_only image2d_t image, sampler_t how, int2 place) { return read_imagef(image, how, place); }
kernel void k(read_only image3d_t volume, write_only image2d_array_t layers, read_write image2d_t flat, sampler_t how, global int *out) {
    int4 size = get_image_dim(volume);
    int2 plane = get_image_dim(layers);
    out[0] = size.x; out[1] = size.y; out[2] = size.z; out[3] = plane.x; out[4] = plane.y; out[5] = get_image_array_size(layers);
    out[6] = get_image_width(flat); out[7] = get_image_height(flat); out[8] = get_image_depth(volume);
    out[9] = get_image_channel_data_type(flat) == CLK_HALF_FLOAT; out[10] = get_image_channel_order(flat) == CLK_RG;
    out[11] = get_image_channel_data_type(volume) == CLK_UNSIGNED_INT8; out[12] = get_image_channel_order(volume) == CLK_R;
}
kernel void halves(read_only image2d_t image, read_write image2d_t out, sampler_t how, local float *tile, float scale) {
    tile[0] = scale;
    half4 h = read_imageh(image, how, (int2)(0)) + convert_half4(at(image, how, (int2)(1, 0)));
    write_imageh(out, (int2)(0), h * (half)tile[0]);
}
"""


def test_sizes_formats_and_halves(device: Any) -> None:
    volume, layers, flat = (
        device.image((3, 4, 5), "r8uint"),
        device.image((6, 7), "r8unorm", layers=8),
        device.image((9, 10), "rg16float"),
    )
    out, how = np.zeros(13, "int32"), device.sampler(normalized=False)
    kernel(SIZES, "k")(volume, layers, flat, how, out, grid=1, block=1)
    np.testing.assert_array_equal(out, [3, 4, 5, 6, 7, 8, 9, 10, 5, 1, 1, 1, 1])
    image = device.image_from_numpy(np.array([[[1, 2, 3, 4], [5, 6, 7, 8]]], "float16"))
    target = device.image((1, 1), "rgba32float")
    # A prepared launch keeps its images.
    launch = kernel(SIZES, "halves").bind(
        image, target, how, devmod.Local(16), 0.5, grid=1, block=1
    )
    del image
    launch()
    np.testing.assert_array_equal(target.numpy(), [[[3, 4, 5, 6]]])


RESIZE = """
constant sampler_t nearest = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
kernel void resize(read_only image2d_t source, write_only image2d_t result, sampler_t how, int2 size, float part) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    float2 place = (convert_float2(at) + 0.5f) / convert_float2(size);
    if (all(at < size))
        write_imagef(result, at, mix(read_imagef(source, how, place), read_imagef(source, nearest, place), part));
}
"""


def test_one_call_for_opencl_and_cuda(device: Any) -> None:
    targets = ("opencl", "cuda -arch=compute_80")
    resize = devmod.bundle(
        *(devmod.compile(RESIZE, target, language="OpenCL C") for target in targets)
    )["resize"]
    picture = np.random.default_rng(4).random((6, 8, 4), "float32")
    results = []
    for each in (device, *(other for other in devmod.devices() if other.kind == "opencl")):
        result = each.image((16, 12), "rgba8unorm")
        resize.on(each)(
            source=each.image_from_numpy(picture),
            how=each.sampler(filter="linear", address="mirror"),
            result=result,
            size=np.array([16, 12], "int32"),
            part=0.25,
            threads=(16, 12),
        )
        results.append(result.numpy().astype(int))
    assert results[0].std() > 30
    for other in results[1:]:
        assert np.abs(results[0] - other).max() <= 1  # the weights of CUDA have 8 bits


def test_a_sampler_without_an_image(device: Any) -> None:
    out = np.zeros(1, "float32")
    kernel("kernel void k(sampler_t how, global float *out) { out[0] = 3; }", "k")(
        device.sampler(), out, grid=1, block=1
    )
    assert out[0] == 3


def test_the_arguments_are_those_of_opencl(device: Any) -> None:
    modules = [
        devmod.compile(SAMPLE, target, language="OpenCL C")
        for target in ("opencl", "cuda -arch=compute_80")
    ]
    interfaces = [each.functions["sample"].interface for each in modules]
    assert interfaces[0] is not None
    assert interfaces[1] is not None
    assert interfaces[0].params == interfaces[1].params
    devmod.bundle(*modules)
    sample = kernel(SAMPLE, "sample")
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
    either = """
    kernel void k(read_only image2d_t a, sampler_t s, global int4 *out, int which) {
        out[0] = which ? read_imagei(a, s, (int2)(0)) : convert_int4(read_imageui(a, s, (int2)(0)));
    }"""
    with pytest.raises(
        devmod.ArgumentError, match="which a linear sampler cannot read: CUDA filters no integers"
    ):
        kernel(either, "k")(whole, how, np.zeros((1, 4), "int32"), 0, grid=1, block=1)
