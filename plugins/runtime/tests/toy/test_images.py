"""Images and samplers: what every backend shares. The toy backend's memory of an image is a
bytearray.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import refusal

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import IMAGE_FORMATS, fits, requirements
from devmod_runtime import Image, Sampler, check_extent


class ImageDevice(toy.ToyDevice):
    """A device with images of up to 64 texels in a dimension and 4 layers, without border and
    without writes to 8-bit formats.
    """

    def create_image(self, image: Image) -> bytearray:
        check_extent(
            image, [("max_width", 64), ("max_height", 64), ("max_depth", 64), ("max_layers", 4)]
        )
        return bytearray(image.nbytes)

    def create_sampler(self, sampler: Sampler) -> str:
        if sampler.address == "border":
            raise devmod.ArgumentError(
                "sampler: toys have no border", kind="toy", argument="address"
            )
        return sampler.filter

    def write_image(self, image: Image, data: memoryview, stream: devmod.Stream) -> None:
        image.handle[:] = data

    def read_image(self, image: Image, out: memoryview, stream: devmod.Stream) -> None:
        out[:] = image.handle

    def image_problem(self, format: str, access: str) -> str:
        return "its kernels cannot write to 8-bit texels" if "8" in format and "w" in access else ""


class ForeignImage:
    """An image of a library that the toy backend adopts."""

    def __init__(self, image: Image, work: toy.ToyStream | None = None) -> None:
        self.image, self.work = image, work


class ImageKernel(toy.ToyKernel):
    def check_images(self, images: Any) -> tuple[int, str] | None:
        linear = any(
            isinstance(each, Sampler) and each.filter == "linear" for each in images.values()
        )
        for number, each in images.items():
            if linear and isinstance(each, Image) and each.format == "r32float":
                return number, each.filter_mismatch("toys filter no floats")
        return None


class ImageLauncher(toy.ToyLauncher):
    has_images = True

    def kernel(self, device: devmod.Device) -> ImageKernel:
        return ImageKernel(device, self.run)

    def adopt(self, value: object) -> Any:
        return (
            (value.image, value.work) if isinstance(value, ForeignImage) else super().adopt(value)
        )


@pytest.fixture
def device() -> Iterator[ImageDevice]:
    with toy.fresh_devices() as devices:
        devices[:] = [ImageDevice(0), ImageDevice(1)]
        assert isinstance(devices[0], ImageDevice)
        yield devices[0]


def function(*params: Param, **fields: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function with these parameters, and the list of the values of its launches."""
    seen: list[Any] = []
    types = [
        "handle" if param.kind in ("buffer", "image", "sampler") else param.type for param in params
    ]
    info = FunctionInfo("f", types, (), (), Interface(params, **fields))
    module = toy.module(
        {"f": info}, {"f": lambda shape, *values: seen.append(values)}, ImageLauncher
    )
    return module["f"], seen


def message(
    call: Callable[..., Any],
    *args: Any,
    error: type[Exception] = devmod.ArgumentError,
    **named: Any,
) -> str:
    return refusal(error, call, *args, **named)


PICTURE = Param("picture", "image", "2d", "r", sample="float")
OUT = Param("out", "image", "2d", "w", format="r32float", sample="float")
HOW = Param("how", "sampler")


# -- images


@pytest.mark.parametrize(
    ("shape", "layers", "name", "type_", "array_shape"),
    [
        (5, 0, "r8unorm", "1d", (5,)),
        ((5, 3), 0, "rgba32float", "2d", (3, 5, 4)),
        ([5, 3, 2], 0, "rg16sint", "3d", (2, 3, 5, 2)),
        (5, 2, "r32uint", "1d_array", (2, 5)),
        ((5, 3), 4, "bgra8unorm", "2d_array", (4, 3, 5, 4)),
    ],
)
def test_an_image_has_the_shape_of_a_grid_and_its_array_the_reverse(
    device: ImageDevice,
    shape: Any,
    layers: int,
    name: str,
    type_: str,
    array_shape: tuple[int, ...],
) -> None:
    image = device.image(shape, name, layers=layers)
    dtype = IMAGE_FORMATS[name].dtype
    assert (image.type, image.array_shape, image.layers, image.format) == (
        type_,
        array_shape,
        layers,
        name,
    )
    assert np.array_equal(image.numpy(), np.zeros(array_shape, dtype))
    texels = np.arange(image.numpy().size).astype(dtype).reshape(array_shape)
    image.copy_from(texels)
    assert image.numpy().dtype == dtype
    assert np.array_equal(image.numpy(), texels)
    image.copy_from(np.asfortranarray(texels + 1))
    assert np.array_equal(image.numpy(), texels + 1)


@pytest.mark.parametrize(
    ("array", "name", "shape"),
    [
        (np.ones((3, 5), "uint8"), "r8unorm", (5, 3)),
        (np.ones((3, 5, 4), "uint8"), "rgba8unorm", (5, 3)),
        (np.ones((3, 5, 2), "float32"), "rg32float", (5, 3)),
        (np.ones((3, 5, 1), "uint16"), "r16uint", (5, 3)),
        (np.ones((3, 5), "float16"), "r16float", (5, 3)),
    ],
)
def test_a_picture_becomes_an_image_of_the_format_of_its_elements(
    device: ImageDevice, array: Any, name: str, shape: Any
) -> None:
    image = device.image_from_numpy(array)
    assert (image.format, image.shape) == (name, shape)
    assert np.array_equal(image.numpy(), array.reshape(image.array_shape))


def test_a_picture_takes_the_format_that_is_named(device: ImageDevice) -> None:
    assert device.image_from_numpy(np.ones((2, 2), "uint8"), "r8uint").format == "r8uint"
    assert device.image_from_numpy(np.ones((2, 2, 4), "uint8"), "bgra8unorm").format == "bgra8unorm"


def test_images_that_do_not_exist_are_errors(device: ImageDevice) -> None:
    formats = ", ".join(IMAGE_FORMATS)
    assert message(device.image, (2, 2), "rgba8unorn") == (
        f"image: 'rgba8unorn' is not a format of images; expected one of {formats}. Did you mean 'rgba8unorm'?"
    )
    assert (
        message(device.image, (2, 0), "r8uint")
        == "image: expected a shape of 1 to 3 lengths of 1 or more, x first, got (2, 0)"
    )
    assert message(device.image, (2, 2, 2, 2), "r8uint") == (
        "image: expected a shape of 1 to 3 lengths of 1 or more, x first, got (2, 2, 2, 2)"
    )
    assert message(device.image, (2, 2, 2), "r8uint", layers=2) == (
        "image: expected a number of layers, which a 3-D image does not have, got layers=2 for the shape (2, 2, 2)"
    )
    assert message(device.image, (2, 2), "r8uint", layers=-1) == (
        "image: expected a number of layers, which a 3-D image does not have, got layers=-1 for the shape (2, 2)"
    )
    # Python converts no number of so many digits to text.
    assert (
        message(device.image, 10**5000, "r8uint")
        == "a length of a shape is an int of 16610 bits; expected less than 2**63"
    )
    assert message(device.image, 2, "r8uint", layers=10**5000).endswith(
        "got layers=an int of 16610 bits for the shape (2,)"
    )
    assert message(device.image, (65, 2), "r8uint") == (
        "image: toy device 0 (toy number 0) supports no image of the shape (65, 2): its max_width is 64"
    )
    assert message(device.image, (2, 2), "r8uint", layers=5) == (
        "image: toy device 0 (toy number 0) supports no image of the shape (2, 2) with 5 layers: its max_layers is 4"
    )
    assert message(device.image_from_numpy, np.ones((3, 5, 3), "uint8")) == (
        "image_from_numpy: expected an array of height × width, or height × width × channels with 1, 2 or 4 channels, got uint8 of the "
        "shape (3, 5, 3); use device.image(shape, format) and image.copy_from(array) for other images"
    )
    assert message(device.image_from_numpy, np.ones((3, 5))) == (
        "image_from_numpy: expected elements of 'uint8', 'int8', 'uint16', 'int16', 'float16', 'uint32', 'int32', 'float32', got float64 of "
        "the shape (3, 5); use array.astype('float32')"
    )
    assert (
        message(device.image_from_numpy, [1, 2])
        == "image_from_numpy takes an array of the host, got a list"
    )
    assert (
        message(toy.ToyDevice(0).image, (2, 2), "r8uint")
        == "image: the toy backend does not support images"
    )
    assert message(toy.ToyDevice(0).sampler) == "sampler: the toy backend does not support images"


def test_a_copy_of_another_shape_or_type_is_an_error(device: ImageDevice) -> None:
    image = device.image((5, 3), "rg8unorm")
    expected = "expected uint8 and (3, 5, 2) for an image of rg8unorm"
    assert message(image.copy_from, np.ones((5, 3, 2), "uint8")) == (
        f"copy_from: the source is an array of uint8 with the shape (5, 3, 2); {expected}"
    )
    assert message(image.copy_from, np.ones((3, 5, 2), "float32")) == (
        f"copy_from: the source is an array of float32 with the shape (3, 5, 2); {expected}"
    )
    assert (
        message(image.copy_from, 3) == "copy_from: the source is 3, expected an array of the host"
    )


def test_samplers(device: ImageDevice) -> None:
    sampler = device.sampler(filter="linear", address="clamp", normalized=False)
    assert (sampler.filter, sampler.address, sampler.normalized, sampler.handle) == (
        "linear",
        "clamp",
        False,
        "linear",
    )
    assert (
        message(device.sampler, filter="cubic")
        == "sampler: filter is 'cubic'; expected 'nearest', 'linear'"
    )
    assert (
        message(device.sampler, address="wrap")
        == "sampler: address is 'wrap'; expected 'clamp', 'repeat', 'mirror', 'border'"
    )
    assert message(device.sampler, address="border") == "sampler: toys have no border"
    for address in ("repeat", "mirror"):
        assert device.sampler(address=address).address == address
        assert message(device.sampler, address=address, normalized=False) == (
            f"sampler: address is {address!r}; with normalized=False, expected 'clamp' or 'border'"
        )
    assert (
        message(device.sampler, normalized="no")
        == "sampler: normalized is 'no'; expected True or False"
    )
    # The comparisons of an array have no single truth value.
    assert message(device.sampler, filter=np.array(["linear", "x"])).startswith(
        "sampler: filter is an array of shape (2,); expected"
    )
    assert (
        message(device.sampler, normalized=np.ones(2))
        == "sampler: normalized is an array of shape (2,); expected True or False"
    )


def test_names_of_a_file_stay_on_one_line(device: ImageDevice) -> None:
    image = device.image((5, 3), "r8unorm")
    assert image.mismatch(Param("t", "image", "2d", format="x\n::error::")) == (
        "is an image of r8unorm, and the kernel takes x\\n::error::"
    )
    device.features = frozenset()
    assert (
        fits(requirements(Interface(needs=["x\n::error::"])), device.capabilities)
        == f"needs 'x\\n::error::', which neither this devmod nor {device} has: pip install --upgrade devmod-core devmod-runtime"
    )


def test_reprs_and_pickles(device: ImageDevice) -> None:
    image, sampler = device.image((5, 3), "r8unorm", layers=2), device.sampler()
    assert repr(image) == "<Image 'r8unorm' 5×3[2] on toy device 0 (toy number 0)>"
    assert (
        repr(sampler)
        == "<Sampler filter='nearest', address='clamp', normalized=True on toy device 0 (toy number 0)>"
    )
    assert message(pickle.dumps, image, error=TypeError) == (
        "cannot pickle or copy 'Image' object: it belongs to this process; pass image.numpy(), and call device.image_from_numpy there"
    )
    assert message(pickle.dumps, sampler, error=TypeError) == (
        "cannot pickle or copy 'Sampler' object: it belongs to this process; call device.sampler there"
    )


# -- calls


@pytest.mark.row("R34")
def test_a_kernel_receives_the_image_and_the_sampler(device: ImageDevice) -> None:
    f, seen = function(PICTURE, HOW, OUT)
    picture, how, out = (
        device.image((4, 4), "rgba8unorm"),
        device.sampler(),
        device.image((2, 2), "r32float"),
    )
    f(picture, how, out, grid=1, block=1)
    f(out=out, picture=picture, how=how, grid=1, block=1)
    launch = f.bind(picture, how, out, grid=1, block=1)  # type: ignore[attr-defined]
    launch()
    assert seen == [(picture, how, out)] * 3


@pytest.mark.row("R34")
def test_a_wrong_image_is_an_error_before_the_launch(device: ImageDevice) -> None:
    f, seen = function(PICTURE, HOW, OUT)
    picture, how, out = (
        device.image((4, 4), "rgba8unorm"),
        device.sampler(),
        device.image((2, 2), "r32float"),
    )

    def text(*args: Any) -> str:
        return message(f, *args, grid=1, block=1).removeprefix("the toy function 'f': ")

    assert text(np.ones((4, 4), "float32"), how, out) == (
        "argument 1 'picture' is an array of shape (4, 4), and the kernel takes an image, such as device.image_from_numpy(array), whose format you choose"
    )
    assert text(how, how, out).endswith(
        "and the kernel takes an image, such as device.image_from_numpy(array), whose format you choose"
    )
    assert (
        text(picture, picture, out)
        == "argument 2 'how' is an Image, and the kernel takes a sampler, such as device.sampler()"
    )
    assert (
        text(device.image(4, "r8unorm"), how, out)
        == "argument 1 'picture' is an image of type 1d, and the kernel takes 2d"
    )
    assert text(device.image((4, 4), "r8uint"), how, out) == (
        "argument 1 'picture' is an image of r8uint, whose texels are uint, and the kernel takes float"
    )
    assert (
        text(picture, how, picture)
        == "argument 3 'out' is an image of rgba8unorm, and the kernel takes r32float"
    )
    other = toy.DEVICES[1].sampler()
    assert text(picture, other, out) == (
        "argument 2 'how' is on toy device 1 (toy number 1), and argument 1 'picture' is on toy device 0 (toy number 0); a launch runs on "
        "one device: copy the array through the host"
    )
    assert text(device.image((4, 4), "r32float"), device.sampler(filter="linear"), out) == (
        "argument 1 'picture' is an image of r32float, which a linear sampler cannot read: toys filter no floats; pass a sampler with "
        "filter='nearest'"
    )
    g, _ = function(Param("out", "image", "2d", "w"))
    assert message(g, picture, grid=1, block=1) == (
        "the toy function 'f': argument 1 'out' is an image of rgba8unorm: its kernels cannot write to 8-bit texels"
    )
    h, _ = function(Param("x", "buffer", "float32", "r"))
    assert (
        message(h, picture, grid=1, block=1)
        == "the toy function 'f': argument 1 'x' is an Image, and the kernel takes an array of float32"
    )
    assert message(h, ForeignImage(picture), grid=1, block=1).endswith(
        "is a ForeignImage, and the kernel takes an array of float32"
    )
    assert seen == []


def test_an_image_of_another_library_is_taken_and_its_work_waited_for(device: ImageDevice) -> None:
    f, seen = function(PICTURE)
    image = device.image((4, 4), "rgba8unorm")
    f(ForeignImage(image), grid=1, block=1)
    assert seen == [(image,)]
    stream = device.stream()
    f(ForeignImage(image, stream), grid=1, block=1)
    assert len(stream.queued) == 1


def test_images_beside_numpy_arrays(device: ImageDevice) -> None:
    f, seen = function(PICTURE, Param("y", "buffer", "float32", "w"))
    image, y = device.image((4, 4), "rgba8unorm"), np.ones(4, "float32")
    f(image, y, grid=1, block=1)
    f(image, y, grid=1, block=1)
    assert [values[0] for values in seen] == [image, image]
    assert message(f, None, y, grid=1, block=1).startswith(
        "the toy function 'f': argument 1 'picture' is None"
    )


# -- needs


@pytest.mark.row("R40")
def test_a_function_whose_needs_the_device_lacks_is_not_built(device: ImageDevice) -> None:
    f, _ = function(Param("n", "scalar", "int32"), needs=["fp16", "fp64"], subgroup=16)
    f(1, grid=1, block=1)  # the device does not report what it has
    device.features, device.subgroup_sizes = frozenset({"fp64"}), (32, 64)
    text = message(
        function,
        Param("n", "scalar", "int32"),
        needs=["fp16", "fp64"],
        subgroup=16,
        error=devmod.DeviceNotFoundError,
    )
    assert text == (
        "the toy function 'f' needs fp16 and subgroups of 16 threads (it has subgroups of 32, 64), which toy device 0 (toy number 0) does "
        "not have"
    )
    device.features, device.subgroup_sizes = frozenset({"fp16", "fp64"}), (16, 32)
    g, seen = function(Param("n", "scalar", "int32"), needs=["fp16", "fp64"], subgroup=16)
    g(1, grid=1, block=1)
    assert len(seen) == 1
