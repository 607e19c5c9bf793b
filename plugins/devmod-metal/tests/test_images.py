"""Images and samplers. `device` is the GPU of a Mac, or the double, whose kernels sample as C++ on
the CPU.
"""

from __future__ import annotations

from typing import Any

import metal_double
import numpy as np
import pytest
from each_case import refusal
from metal_kernels import kernel

import devmod
from devmod import Param
from devmod.backend import IMAGE_FORMATS

BEGIN = "#include <metal_stdlib>\nusing namespace metal;\n"
RESIZE = BEGIN + (
    "kernel void resize(texture2d<float> picture [[texture(3)]], texture2d<float, access::write> smaller [[texture(1)]],\n"
    "                   sampler how [[sampler(2)]], uint2 at [[thread_position_in_grid]])\n"
    "{\n"
    "    float2 size = float2(smaller.get_width(), smaller.get_height());\n"
    "    if (at.x < smaller.get_width() && at.y < smaller.get_height())\n"
    "        smaller.write(picture.sample(how, (float2(at) + 0.5f) / size), at);\n"
    "}\n"
)


def picture(height: int = 9, width: int = 12) -> Any:
    return np.random.default_rng(3).integers(0, 255, (height, width, 4), "uint8")


def resize(**keywords: Any) -> Any:
    return devmod.compile(RESIZE, "metal", block=(4, 4), **keywords)["resize"]


@pytest.mark.row("R34")
def test_textures_and_samplers_are_set_at_their_indices(double: Any) -> None:
    device: Any = devmod.device("metal")
    source, target, sampler = (
        device.image_from_numpy(picture()),
        device.image((2, 2), "rgba8unorm"),
        device.sampler(address="repeat"),
    )
    function = resize()
    assert [param.name for param in function.info.interface.params] == ["smaller", "picture", "how"]
    function(how=sampler, picture=source, smaller=target, threads=(2, 2))
    call = next(call for call in double.calls if call[0] == "launch")
    assert call[6:8] == (((1, target.handle), (3, source.handle)), ((2, sampler.handle),))
    assert [call[1:] for call in double.calls if call[0] == "sampler"] == [
        (device.handle, "nearest", "repeat", True)
    ]


@pytest.mark.row("R37")
@pytest.mark.parametrize("format_", IMAGE_FORMATS)
def test_an_image_has_every_format(format_: str, device: Any) -> None:
    assert device.image((5, 3), format_).format == format_


#: By format: the type of the texels, what a kernel writes, and what is then in the image.
WRITTEN: dict[str, tuple[str, str, Any]] = {
    "rgba8snorm": ("float", "float4(-2, -0.5f, 0.25f, 1)", [-127, -64, 32, 127]),
    "bgra8unorm": ("float", "float4(1, 0.2f, 0, 0.4f)", [0, 51, 255, 102]),
    "rg16float": ("half", "half4(0.5f, 70000.0f, 0, 0)", [0.5, np.inf]),
    "r32sint": ("int", "int4(-7)", -7),
    "rgba16uint": ("ushort", "ushort4(1, 2, 3, 65535)", [1, 2, 3, 65535]),
}


@pytest.mark.row("R37")
def test_a_kernel_writes_texels_of_a_format(device: Any) -> None:
    source = "".join(
        f"kernel void put_{format_}(texture2d<{texel}, access::write> t [[texture(0)]], uint2 at [[thread_position_in_grid]]) "
        f"{{ t.write({value}, at); }}\n"
        for format_, (texel, value, _) in WRITTEN.items()
    )
    module = devmod.compile(BEGIN + source, "metal")
    images = {format_: device.image((2, 2), format_) for format_ in WRITTEN}
    for format_, image in images.items():
        module[f"put_{format_}"](image, threads=(2, 2))
    assert {format_: image.numpy()[1, 1].tolist() for format_, image in images.items()} == {
        format_: written for format_, (_, _, written) in WRITTEN.items()
    }


@pytest.mark.row("R34")
def test_a_read_write_texture_of_three_dimensions(device: Any) -> None:
    source = BEGIN + (
        "kernel void increment(texture3d<uint, access::read_write> t [[texture(0)]], uint3 at [[thread_position_in_grid]])\n"
        "{ t.write(t.read(at) + uint4(1), at); }"
    )
    image = device.image((2, 3, 4), "rgba32uint")
    increment = devmod.compile(source, "metal", block=(2, 3, 4))["increment"]
    increment(image, grid=1)
    bound = increment.bind(image, grid=1)
    bound()
    assert bound.time() >= 0
    assert (image.numpy() == 3).all()


# -- what Metal does not support


@pytest.mark.row("R34")
def test_unsupported_textures_are_refused_by_name(double: Any) -> None:
    source = BEGIN + (
        "kernel void shade(depth2d<float> shadows [[texture(0)]], device float *x [[buffer(0)]]) {}\n"
        "kernel void many(array<texture2d<float>, 4> parts [[texture(0)]]) {}\n"
        "kernel void takes(device float *x [[buffer(0)]]) {}\n"
    )
    module = devmod.compile(source, "metal")
    module["takes"](np.zeros(1, "float32"), grid=1, block=1)
    for name, text in (
        ("shade", "argument 2 'shadows' is of a type that devmod does not support: depth2d"),
        (
            "many",
            "argument 1 'parts' is of a type that devmod does not support: arrays of textures",
        ),
    ):
        with pytest.raises(devmod.LaunchError) as caught:
            module[name]
        assert str(caught.value) == f"the metal function {name!r} cannot be called: {text}"


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("shape", "layers", "text"),
    [
        ((16385,), 0, "the shape (16385,): its maximum 1D texture width is 16384"),
        ((4, 16385), 0, "the shape (4, 16385): its maximum 2D texture height is 16384"),
        ((4, 4, 2049), 0, "the shape (4, 4, 2049): its maximum 3D texture depth is 2048"),
        (
            (4, 4),
            2049,
            "the shape (4, 4) with 2049 layers: its maximum number of layers per texture array is 2048",
        ),
    ],
)
def test_the_limits_of_textures(
    shape: tuple[int, ...], layers: int, text: str, double: Any
) -> None:
    assert (
        refusal(devmod.ArgumentError, devmod.device("metal").image, shape, "r8unorm", layers=layers)
        == f"image: metal device 0 (Double GPU) supports no image of {text}"
    )
    assert "texture" not in double.names()


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("number", "format_", "text"),
    [
        (0, "rg32float", "Metal has no textures of this format with access::read_write"),
        (
            1,
            "rgba32float",
            "access::read_write of this format needs MTLReadWriteTextureTier2, and the readWriteTextureSupport of metal device 1 (Double GPU) "
            "is MTLReadWriteTextureTier1",
        ),
    ],
)
def test_the_tiers_of_read_write_textures(
    number: int, format_: str, text: str, double: Any
) -> None:
    source = "kernel void takes(texture2d<float, access::read_write> t [[texture(0)]]) {}"
    takes = kernel(BEGIN + source, "takes", [Param("t", "image", "2d", "rw", 0, sample="float")])
    assert (
        refusal(
            devmod.ArgumentError,
            takes,
            devmod.device("metal", number).image((2, 2), format_),
            grid=1,
            block=1,
        )
        == f"the metal function 'takes': argument 1 't' is an image of {format_}: {text}"
    )
    takes(devmod.device("metal", number).image((2, 2), "r32float"), grid=1, block=1)


@pytest.mark.row("R34")
def test_a_linear_sampler_needs_a_format_that_the_device_filters(double: Any) -> None:
    source = BEGIN + (
        "kernel void filter(texture2d<float> t [[texture(0)]], sampler s [[sampler(0)]]) { t.sample(s, float2(0)); }\n"
        "kernel void integers(texture2d<uint> t [[texture(0)]], sampler s [[sampler(0)]]) { t.sample(s, float2(0)); }\n"
        "kernel void reads(texture2d<float> t [[texture(0)]], texture2d<uint> u [[texture(1)]], sampler s [[sampler(0)]])\n"
        "{ t.read(uint2(0)); u.read(uint2(0)); }\n"
    )
    module = devmod.compile(source, "metal")
    for number, name, format_, text in (
        (
            1,
            "filter",
            "r32float",
            "supports32BitFloatFiltering of metal device 1 (Double GPU) is NO",
        ),
        (0, "integers", "r32uint", "Metal filters no integers"),
    ):
        device: Any = devmod.device("metal", number)
        image = device.image((2, 2), format_)
        assert refusal(
            devmod.ArgumentError,
            module[name],
            image,
            device.sampler(filter="linear"),
            grid=1,
            block=1,
        ) == (
            f"the metal function {name!r}: argument 1 't' is an image of {format_}, which a linear sampler cannot read: {text}; pass a "
            "sampler with filter='nearest'"
        )
        module[name](image, device.sampler(), grid=1, block=1)
    device = devmod.device("metal", 1)
    module["reads"](
        device.image((2, 2), "r32float"),
        device.image((2, 2), "r8uint"),
        device.sampler(filter="linear"),
        grid=1,
        block=1,
    )
    module["filter"](
        device.image((2, 2), "r16float"), device.sampler(filter="linear"), grid=1, block=1
    )
    device = devmod.device("metal", 0)
    module["filter"](
        device.image((2, 2), "r32float"), device.sampler(filter="linear"), grid=1, block=1
    )


@pytest.mark.row("R40")
def test_indices_of_textures_and_samplers_are_bounded(double: Any) -> None:
    for param, last in (
        (Param("t", "image", "2d", "r", 128), 127),
        (Param("s", "sampler", at=16), 15),
    ):
        assert refusal(
            devmod.FormatError, kernel, "kernel void takes(device float *x) {}", "takes", [param]
        ) == (
            f"the metal function 'takes': argument 1 has the index {last + 1} in the payload's interface; expected a unique index from 0 "
            f"to {last}"
        )


def test_errors_of_metal_for_textures(double: Any) -> None:
    device: Any = devmod.device("metal")
    image = device.image((4, 4), "r8unorm")
    for name, error, action, text in (
        (
            "texture",
            devmod.DeviceMemoryError,
            lambda: device.image((4, 4), "r32float"),
            "cannot allocate 64 bytes: out of memory",
        ),
        ("sampler", devmod.LaunchError, device.sampler, "gives no sampler: out of memory"),
        ("copy_texture", devmod.LaunchError, image.numpy, "failed: out of memory"),
    ):
        double.refuse = {name: "out of memory"}
        assert text in refusal(error, action)
    double.refuse = {}


# -- textures and samplers of pyobjc


@pytest.mark.row("R34")
def test_textures_and_samplers_of_pyobjc_are_taken_as_they_are(double: Any) -> None:
    device: Any = devmod.device("metal")
    target = device.image((12, 9), "rgba8unorm")
    source = metal_double.Texture(device.handle, "2d", "rgba8unorm", (12, 9, 1), 0)
    source.simulated.data[:] = picture().tobytes()
    resize()(
        target,
        source,
        metal_double.Sampler(device.handle, "nearest", "clamp", True),
        threads=(12, 9),
    )
    np.testing.assert_array_equal(target.numpy(), picture())


@pytest.mark.row("R34")
def test_textures_of_pyobjc_that_devmod_does_not_take(double: Any) -> None:
    device: Any = devmod.device("metal")
    extent, usage = (4, 4, 1), ("MTLTextureUsageShaderWrite",)
    other = metal_double.Device("another", device.handle.facts)
    for texture, text in (
        (
            metal_double.Texture(device.handle, 5, "r8unorm", extent, 0),
            "is a texture with the MTLTextureType 5, which devmod does not support",
        ),
        (
            metal_double.Texture(device.handle, "2d", 71, extent, 0),
            "is a texture with the MTLPixelFormat 71, which devmod does not support",
        ),
        (
            metal_double.Texture(device.handle, "2d", "r8unorm", extent, 0, usage),
            "is a texture whose usage lacks MTLTextureUsageShaderWrite",
        ),
        (
            metal_double.Texture(other, "2d", "r8unorm", extent, 0),
            "is a texture of a device that devmod does not list",
        ),
        (
            metal_double.Texture(device.handle, "2d_array", "r8unorm", extent, 2),
            "is an image of type 2d_array, and the kernel takes 2d",
        ),
    ):
        assert (
            refusal(devmod.ArgumentError, resize(), texture, texture, device.sampler(), threads=1)
            == f"the metal function 'resize': argument 1 'smaller' {text}"
        )


@pytest.mark.row("R40")
def test_the_features_of_a_device(double: Any) -> None:
    assert devmod.device("metal").features == {"fp16", "images", "image_writes_3d", "subgroups"}
