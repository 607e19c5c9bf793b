"""Images and samplers: copies, formats, calls, and what is refused before the driver."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from each_case import check_texts, refusal
from vulkan_kernels import (
    compiled,
    fresh,
    is_memory_error,
    kernel,
    packed,
    shader,
    words,
)

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import IMAGE_FORMATS
from devmod_readers.spirv._reflect import FORMATS

HEAD = "#version 450\nlayout(local_size_x = 8, local_size_y = 4) in;\n"
AT = "ivec2 at = ivec2(gl_GlobalInvocationID.xy); if (any(greaterThanEqual(at, imageSize(to)))) return;"
#: A resampler with a separate sampler.
RESAMPLE = f"""{HEAD}
layout(binding = 0) uniform texture2D picture;
layout(binding = 1) uniform sampler how;
layout(binding = 2, rgba32f) uniform writeonly image2D to;
layout(push_constant) uniform P {{ vec2 scale; vec2 offset; }};
void main() {{ {AT} imageStore(to, at, texture(sampler2D(picture, how), (vec2(at) + 0.5) * scale + offset)); }}
"""
#: The same with a combined sampler.
COMBINED = RESAMPLE.replace(
    "texture2D picture;\nlayout(binding = 1) uniform sampler how;", "sampler2D picture;"
).replace("sampler2D(picture, how)", "picture")
INVERT = f"""{HEAD}
layout(binding = 0, rgba8) uniform readonly image2D source;
layout(binding = 1, rgba8) uniform writeonly image2D to;
void main() {{ {AT} imageStore(to, at, vec4(1) - imageLoad(source, at)); }}
"""


def texels(image: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return an array of an image's shape with random texels."""
    rng, dtype = np.random.default_rng(seed), np.dtype(image.texel.dtype)
    if dtype.kind == "f":
        return rng.random(image.array_shape, "float32").astype(dtype)
    return rng.integers(
        np.iinfo(dtype).min, np.iinfo(dtype).max, image.array_shape, dtype, endpoint=True
    )


# -- copies


@pytest.mark.parametrize("format_", IMAGE_FORMATS)
def test_images_of_every_type_have_every_format(format_: str, device: Any) -> None:
    for shape, layers in (((5,), 0), ((7, 3), 0), ((3, 5, 2), 0), ((9,), 3), ((3, 2), 5)):
        assert device.image(shape, format_, layers=layers).format == format_


@pytest.mark.parametrize(
    ("shape", "format_", "layers"),
    [
        ((800, 1001), "rgba32float", 0),  # pieces of staging memory that end within the picture
        ((129, 65, 300), "rg32uint", 0),  # within slices
        ((700, 300), "rgba8unorm", 13),  # within layers
        ((16384, 1), "rgba16uint", 0),
        ((1, 4097), "r8uint", 0),
    ],
)
def test_images_of_every_size(
    shape: tuple[int, ...], format_: str, layers: int, device: Any
) -> None:
    image = device.image(shape, format_, layers=layers)
    array = texels(image)
    image.copy_from(array)
    np.testing.assert_array_equal(image.numpy(), array)


@pytest.mark.parametrize("side", [16, 1024])
def test_memory_of_collected_images_is_used_again(side: int, device: Any) -> None:
    def blocks() -> int:
        return sum(len(heap.blocks) for heap in device.logical.image_heaps.values())

    images = [device.image((side, side), "rgba32float") for _ in range(4)]
    gc.collect()
    before, handles = blocks(), len(device.logical._owned)
    for _ in range(20):
        images.pop(0)
        images.append(device.image((side, side), "rgba32float"))
    assert blocks() <= before + 1
    assert len(device.logical._owned) <= handles + 2
    assert not images[-1].numpy().any()
    del images
    device.synchronize()
    assert len(device.logical._owned) <= handles - 8


# -- calls


@pytest.mark.parametrize(
    ("glsl", "format_", "prefix"),
    [
        ("rgba8", "rgba8unorm", ""),
        ("r32f", "r32float", ""),
        ("rgba32f", "rgba32float", ""),
        ("r32ui", "r32uint", "u"),
        ("rgba16f", "rgba16float", ""),
        ("rg32i", "rg32sint", "i"),
        ("r8_snorm", "r8snorm", ""),
    ],
)
@pytest.mark.parametrize(
    ("type_", "shape", "layers", "place"),
    [
        ("2D", (11, 6), 0, "at.xy"),
        ("3D", (11, 6, 3), 0, "at"),
        ("2DArray", (11, 6), 3, "at"),
        ("1D", (11,), 0, "at.x"),
        ("1DArray", (11,), 3, "at.xy"),
    ],
)
def test_storage_images(
    glsl: str,
    format_: str,
    prefix: str,
    type_: str,
    shape: Any,
    layers: int,
    place: str,
    device: Any,
) -> None:
    source = f"""{HEAD}
        layout(binding = 0, {glsl}) uniform readonly {prefix}image{type_} source;
        layout(binding = 1, {glsl}) uniform writeonly {prefix}image{type_} to;
        void main() {{ ivec3 at = ivec3(gl_GlobalInvocationID); imageStore(to, {place}, imageLoad(source, {place})); }}
    """
    f = kernel(source)
    source_image, to = (device.image(shape, format_, layers=layers) for _ in range(2))
    array = texels(source_image)
    if array.dtype == np.int8:
        array = np.maximum(array, -127)  # -128 is -1 too
    source_image.copy_from(array)
    f(source=source_image, to=to, threads=(*shape, layers) if layers else shape)
    np.testing.assert_array_equal(to.numpy(), array)


def test_sampled_images_of_integers_and_of_three_dimensions(device: Any) -> None:
    source = f"""{HEAD}
        layout(binding = 0) uniform sampler3D volume;
        layout(binding = 1) uniform usampler2D counts;
        layout(binding = 2) uniform isampler2DArray signs;
        layout(binding = 3) buffer Result {{ float result[]; }};
        void main() {{
            uint x = gl_GlobalInvocationID.x, y = gl_GlobalInvocationID.y;
            if (y > 0) return;
            result[x] = texture(volume, vec3((x + 0.5) / 8, 0.5, 0.5)).x + float(texelFetch(counts, ivec2(x, 1), 0).x)
                + float(texelFetch(signs, ivec3(x, 0, 2), 0).x);
        }}
    """
    f = kernel(source)
    described = [
        (param.name, param.type, param.sample)
        for param in f.info.interface.params
        if param.kind == "image"
    ]  # type: ignore[union-attr]
    assert described == [
        ("volume", "3d", "float"),
        ("counts", "2d", "uint"),
        ("signs", "2d_array", "int"),
    ]
    volume, counts = device.image((8, 2, 2), "r32float"), device.image((8, 2), "r16uint")
    signs = device.image((8, 1), "r8sint", layers=3)
    arrays = [texels(image, seed) for seed, image in enumerate((volume, counts, signs))]
    for image, array in zip((volume, counts, signs), arrays, strict=True):
        image.copy_from(array)
    result = np.zeros(8, "float32")
    linear, nearest = device.sampler(filter="linear"), device.sampler()
    f(volume, linear, counts, nearest, signs, nearest, result, threads=8)
    expected = arrays[0].mean((0, 1)) + arrays[1][1] + arrays[2][2, 0]
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_zeros_beyond_the_border_of_an_image_of_integers(device: Any) -> None:
    declared = (
        "layout(binding = 0) uniform usampler2D t; layout(binding = 1) buffer X { uvec4 x; };"
    )
    f = kernel(f"{HEAD} {declared} void main() {{ x = texture(t, vec2(-1.0)); }}")
    x = np.ones(4, "uint32")
    f(
        device.image_from_numpy(np.full((2, 2, 4), 7, "uint32")),
        device.sampler(address="border"),
        x,
        grid=1,
    )
    assert x.tolist() == [0] * 4


def test_atomic_operations_on_an_image(device: Any) -> None:
    f = kernel(
        f"{HEAD} layout(binding = 0, r32ui) uniform uimage2D bins; void main() {{ imageAtomicAdd(bins, ivec2(gl_LocalInvocationID.x, 0), 1u); }}"
    )
    bins = device.image((8, 1), "r32uint")
    f(bins, threads=(64, 8))
    assert bins.numpy().tolist() == [[64] * 8]


def test_atomic_additions_of_floats(device: Any) -> None:
    feature = "atomics.shaderImageFloat32AtomicAdd"
    if feature not in device.physical.features:
        pytest.skip(f"{device} has no {feature}")
    version, rest = HEAD.split("\n", 1)
    f = kernel(
        f"{version}\n#extension GL_EXT_shader_atomic_float : require\n{rest} layout(binding = 0, r32f) uniform image2D sums;"
        "void main() { imageAtomicAdd(sums, ivec2(gl_LocalInvocationID.x, 0), 0.5); }"
    )
    sums = device.image((8, 1), "r32float")
    f(sums, threads=(64, 8))
    assert sums.numpy().tolist() == [[32.0] * 8]


def test_gathers_with_offsets_from_the_program(device: Any) -> None:
    """They need the capability ImageGatherExtended."""
    if "10.shaderImageGatherExtended" not in device.physical.features:
        pytest.skip(f"{device} has no shaderImageGatherExtended")
    f = kernel(
        f"{HEAD} layout(binding = 0) uniform sampler2D t; layout(binding = 1) buffer X {{ vec4 x[]; }};"
        "layout(push_constant) uniform P { int offset; }; void main() { x[0] = textureGatherOffset(t, vec2(0.5), ivec2(offset, 0)); }"
    )
    x = np.zeros((1, 4), "float32")
    f(
        device.image_from_numpy(np.arange(16, dtype="float32").reshape(4, 4)),
        device.sampler(),
        x,
        1,
        grid=1,
    )
    assert x.tolist() == [[10, 11, 7, 6]]


def test_images_without_a_format_in_the_shader(device: Any) -> None:
    """A write needs the capability StorageImageWriteWithoutFormat, which the device's features are
    compared with.
    """
    f = kernel(
        f"{HEAD} layout(binding = 0) uniform writeonly image2D to; void main() {{ {AT} imageStore(to, at, vec4(at, 3, 4)); }}"
    )
    (param,) = f.info.interface.params  # type: ignore[union-attr]
    assert (param.format, param.sample, param.access) == ("", "float", "w")
    for format_ in ("rgba32float", "r16float", "bgra8unorm"):
        to = device.image((3, 2), format_)
        f(to, threads=(3, 2))
        assert (
            to.numpy()[1, 2].tolist()
            == {"rgba32float": [2, 1, 3, 4], "r16float": 2, "bgra8unorm": [255] * 4}[format_]
        )


def test_a_read_without_a_format_needs_a_capability(device: Any) -> None:
    f = fresh(
        f"""#version 450
        #extension GL_EXT_shader_image_load_formatted : require
        {HEAD.partition(chr(10))[2]}
        layout(binding = 0) uniform readonly image2D source;
        layout(binding = 1, rgba32f) uniform writeonly image2D to;
        void main() {{ {AT} imageStore(to, at, imageLoad(source, at)); }}"""
    )
    if "10.shaderStorageImageReadWithoutFormat" in device.physical.features:
        source, to = device.image((3, 2), "rgba8unorm"), device.image((3, 2), "rgba32float")
        f["k"](source, to, threads=(3, 2))
        return
    assert refusal(devmod.DeviceNotFoundError, f.get_function, "k") == (
        f"the SPIR-V of the vulkan function 'k' needs the capability StorageImageReadWithoutFormat, which {device} does not support (missing "
        "feature: shaderStorageImageReadWithoutFormat)"
    )


def test_launches_see_the_images_of_the_launches_before(device: Any) -> None:
    f = kernel(INVERT)
    picture = np.random.default_rng(0).integers(0, 256, (37, 41, 4), "uint8")
    images = [device.image_from_numpy(picture), device.image((41, 37), "rgba8unorm")]
    for number in range(51):
        f(images[number % 2], images[1 - number % 2], threads=(41, 37))
    np.testing.assert_array_equal(images[1].numpy(), 255 - picture)
    with device.default_stream.batch():
        for number in range(4):
            f(images[number % 2], images[1 - number % 2], threads=(41, 37))
        f(images[0], images[1], threads=(41, 37))
    np.testing.assert_array_equal(images[1].numpy(), 255 - images[0].numpy())


def test_an_image_that_is_read_and_written_in_one_launch(device: Any) -> None:
    f = kernel(INVERT)
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 4), "uint8")
    image = device.image_from_numpy(picture)
    f(image, image, threads=(8, 8))
    np.testing.assert_array_equal(image.numpy(), 255 - picture)


def test_copies_are_in_the_order_of_the_stream(device: Any) -> None:
    f = kernel(INVERT)
    picture = np.random.default_rng(0).integers(0, 256, (200, 100, 4), "uint8")
    with device.stream() as stream:
        source, to = device.image((100, 200), "rgba8unorm"), device.image((100, 200), "rgba8unorm")
        for number in range(10):
            source.copy_from(picture + number)
            # The copy is done, so any other stream may use the image next.
            assert not stream.pending
            f(source, to, threads=(100, 200))
            np.testing.assert_array_equal(to.numpy(), 255 - (picture + number))
        stream.synchronize()


def test_a_prepared_launch_keeps_its_images(device: Any) -> None:
    f = kernel(COMBINED)
    picture = device.image_from_numpy(np.full((4, 4, 4), 255, "uint8"))
    to = device.image((8, 4), "rgba32float")
    launch = f.bind(picture, device.sampler(), to, (1 / 8, 1 / 4), (0, 0), threads=(8, 4))
    del picture
    gc.collect()
    others = [device.image((4, 4), "rgba8unorm") for _ in range(8)]
    launch()
    launch()
    assert to.numpy().tolist() == np.ones((4, 8, 4)).tolist()
    assert launch.time() > 0
    assert not any(image.numpy().any() for image in others)


def test_queued_launches_keep_their_images(device: Any) -> None:
    f = kernel(INVERT)
    result = device.image((512, 512), "rgba8unorm")
    with device.default_stream.batch():  # nothing is submitted before its end
        for _ in range(8):
            f(device.image((512, 512), "rgba8unorm"), result, threads=(512, 512))
        gc.collect()
    assert (result.numpy() == 255).all()


def test_an_unused_image_needs_no_descriptor(device: Any) -> None:
    source = f"""{HEAD}
        layout(binding = 0) uniform texture2D unused;
        layout(binding = 1) buffer X {{ float x[]; }};
        void main() {{ x[gl_GlobalInvocationID.x] = 2.0; }}
    """
    f = kernel(source)
    x = np.zeros(8, "float32")
    f(device.image((2, 2), "rgba8unorm"), x, grid=1)
    assert x.tolist() == [2.0] * 8


def test_equal_samplers_are_one(device: Any) -> None:
    assert device.sampler(filter="linear").handle == device.sampler(filter="linear").handle
    assert device.sampler(filter="linear").handle != device.sampler().handle


# -- what is refused


def refused(call: Callable[[], object], error: type[Exception] = devmod.ArgumentError) -> str:
    return refusal(error, call)


def test_an_image_of_another_device(device: Any) -> None:
    f, how, to = kernel(COMBINED), device.sampler(), device.image((4, 4), "rgba32float")
    other = type(device)(device.physical, 1)  # the same device of the driver, opened once more
    assert refused(
        lambda: f(other.image((4, 4), "rgba8unorm"), how, to, (1, 1), (0, 0), threads=(4, 4))
    ) == (
        f"the vulkan function 'k': argument 2 'picture_sampler' is on {device}, and argument 1 'picture' is on {other}; a launch runs on one "
        "device: copy the array through the host"
    )
    other.logical.close()


@pytest.fixture
def poor_formats(device: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The features of formats, which a test can reduce."""
    from devmod_vulkan import _images

    for name in IMAGE_FORMATS:
        _images.problem_of(device, device.physical, name, (_images.SAMPLED,))
    features = dict(device.physical.format_features)
    monkeypatch.setattr(device.physical, "format_features", features)
    return features


def test_formats_that_the_device_does_not_support(
    poor_formats: dict[str, int], device: Any
) -> None:
    sampled, storage, linear = 0x1, 0x2, 0x1000
    how, picture, to = (
        device.sampler(),
        device.image((4, 4), "rgba8unorm"),
        device.image((4, 4), "rgba32float"),
    )
    poor_formats["rg8unorm"] &= ~(sampled | storage)
    assert refused(lambda: device.image(4, "rg8unorm")) == (
        f"image: {device} supports no image of rg8unorm: {device} does not have VK_FORMAT_FEATURE_SAMPLED_IMAGE_BIT or "
        "VK_FORMAT_FEATURE_STORAGE_IMAGE_BIT for this format"
    )
    f = kernel(COMBINED)
    poor_formats["rgba32float"] &= ~storage
    assert refused(lambda: f(picture, how, to, (1, 1), (0, 0), threads=4)) == (
        f"the vulkan function 'k': argument 3 'to' is an image of rgba32float: {device} does not have VK_FORMAT_FEATURE_STORAGE_IMAGE_BIT for "
        "this format"
    )
    poor_formats["rgba32float"] |= storage
    poor_formats["rgba8unorm"] &= ~sampled
    assert refused(lambda: f(picture, how, to, (1, 1), (0, 0), threads=4)) == (
        f"the vulkan function 'k': argument 1 'picture' is an image of rgba8unorm: {device} does not have VK_FORMAT_FEATURE_SAMPLED_IMAGE_BIT "
        "for this format"
    )
    poor_formats["rgba8unorm"] |= sampled
    poor_formats["rgba8unorm"] &= ~linear
    smooth = device.sampler(filter="linear")
    for function in (f, kernel(RESAMPLE)):
        assert refused(
            lambda function=function: function(picture, smooth, to, (1, 1), (0, 0), threads=4)
        ) == (  # type: ignore[misc]
            "the vulkan function 'k': argument 1 'picture' is an image of rgba8unorm, which a linear sampler cannot read: "
            f"{device} does not have VK_FORMAT_FEATURE_SAMPLED_IMAGE_FILTER_LINEAR_BIT for this format; pass a sampler with "
            "filter='nearest'"
        )
        function(picture, how, to, (1, 1), (0, 0), threads=4)


def test_a_linear_sampler_for_another_image_of_the_kernel(device: Any) -> None:
    source = f"""{HEAD}
        layout(binding = 0) uniform texture2D picture;
        layout(binding = 1) uniform utexture2D counts;
        layout(binding = 2) uniform sampler smooth_;
        layout(binding = 3) uniform sampler exact;
        layout(binding = 4) buffer X {{ float x[]; }};
        void main() {{
            x[0] = texture(sampler2D(picture, smooth_), vec2(0.5)).x + float(texture(usampler2D(counts, exact), vec2(0.5)).x);
        }}
    """
    f = kernel(source)
    picture, counts = (
        device.image_from_numpy(np.array([[0, 1]], "float32")),
        device.image_from_numpy(np.array([[7]], "uint32")),
    )
    smooth, exact, x = device.sampler(filter="linear"), device.sampler(), np.zeros(1, "float32")
    f(picture, counts, smooth, exact, x, grid=1)
    assert x.tolist() == [7.5]
    assert refused(lambda: f(picture, counts, smooth, smooth, x, grid=1)) == (
        "the vulkan function 'k': argument 2 'counts' is an image of r32uint, which a linear sampler cannot read: "
        f"{device} does not have VK_FORMAT_FEATURE_SAMPLED_IMAGE_FILTER_LINEAR_BIT for this format; pass a sampler with filter='nearest'"
    )


@pytest.mark.parametrize(
    ("declared", "sampled", "image", "problem"),
    [
        (
            "sampler3D t",
            "texture(t, vec3(0))",
            ((2, 2, 2), 0),
            "the kernel samples an image of type 3d",
        ),
        (
            "sampler2DArray t",
            "texture(t, vec3(0))",
            ((2, 2), 2),
            "the kernel samples an image of type 2d_array",
        ),
        (
            "sampler2D t",
            "textureOffset(t, vec2(0), ivec2(1))",
            ((2, 2), 0),
            "the kernel samples with an offset or a projection",
        ),
        (
            "sampler2D t",
            "textureProj(t, vec3(1))",
            ((2, 2), 0),
            "the kernel samples with an offset or a projection",
        ),
        ("sampler2D t", "textureLod(t, vec2(1), 0.0) + textureGather(t, vec2(1))", ((2, 2), 0), ""),
    ],
)
def test_coordinates_in_texels_have_vulkans_rules(
    declared: str, sampled: str, image: Any, problem: str, device: Any
) -> None:
    f = kernel(
        f"{HEAD} layout(binding = 0) uniform {declared}; layout(binding = 1) buffer X {{ vec4 x; }}; void main() {{ x = {sampled}; }}"
    )
    shape, layers = image
    t, how, x = (
        device.image(shape, "rgba8unorm", layers=layers),
        device.sampler(normalized=False),
        np.zeros(4, "float32"),
    )
    f(t, device.sampler(), x, grid=1)
    if not problem:
        f(t, how, x, grid=1)
        return
    assert refused(lambda: f(t, how, x, grid=1)) == (
        f"the vulkan function 'k': argument 2 't_sampler' is a sampler with normalized=False, and {problem}, for which Vulkan requires "
        "normalized coordinates"
    )


def test_extents_beyond_the_limits(device: Any) -> None:
    for dimensions in (1, 2, 3):
        limit = f"maxImageDimension{dimensions}D"
        shape = (*(1 for _ in range(dimensions - 1)), device.limits[limit] + 1)
        assert refused(lambda shape=shape: device.image(shape, "r8unorm")) == (  # type: ignore[misc]
            f"image: {device} supports no image of the shape {shape}: its {limit} is {device.limits[limit]}"
        )
    most = device.limits["maxImageArrayLayers"]
    assert refused(lambda: device.image((4, 4), "r8unorm", layers=most + 1)) == (
        f"image: {device} supports no image of the shape (4, 4) with {most + 1} layers: its maxImageArrayLayers is {most}"
    )
    sides = device.limits["maxImageDimension3D"]
    assert refused(
        lambda: device.image((sides,) * 3, "rgba32float"), devmod.DeviceMemoryError
    ).startswith(f"{device} cannot allocate {sides**3 * 16} bytes: its max")
    assert not device.image((4, 4), "r8unorm").numpy().any()


@pytest.mark.parametrize(
    ("declared", "limit", "param"),
    [
        ("sampler2D t{0}", "maxPerStageDescriptorSampledImages", "texelFetch(t{0}, ivec2(0), 0)"),
        ("sampler2D t{0}", "maxPerStageDescriptorSamplers", "texture(t{0}, vec2(0))"),
        (
            "writeonly image2D t{0}",
            "maxPerStageDescriptorStorageImages",
            "imageStore(t{0}, ivec2(0), vec4(0))",
        ),
    ],
)
def test_descriptors_beyond_a_limit(
    declared: str, limit: str, param: str, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = range(3)
    uniforms = "".join(
        f"layout(binding = {name}) uniform {declared.format(name)};\n" for name in names
    )
    used = "".join(f"{'' if 'Store' in param else 'v += '}{param.format(name)};" for name in names)
    source = f"{HEAD}{uniforms} layout(binding = 9) buffer X {{ vec4 x; }}; void main() {{ vec4 v = vec4(0); {used} x = v; }}"
    monkeypatch.setitem(device.physical.limits, limit, 2)
    assert refused(lambda: fresh(source)["k"], devmod.DeviceNotFoundError) == (
        f"the vulkan function 'k' cannot run on {device}: its {limit} is 2, but the kernel uses 3"
    )
    monkeypatch.setitem(device.physical.limits, limit, 3)
    monkeypatch.setitem(device.physical.limits, "maxPerStageResources", 3)
    assert refused(lambda: fresh(source)["k"], devmod.DeviceNotFoundError) == (
        f"the vulkan function 'k' cannot run on {device}: its maxPerStageResources is 3, but the kernel uses 4"
    )


def test_too_little_memory(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device.image((4, 4), "r8unorm")
    owned = len(device.logical._owned)
    for heap in device.logical.image_heaps.values():
        monkeypatch.setattr(heap, "_find", lambda *_: None)
        monkeypatch.setattr(heap, "_make", lambda _: (-2, None))
    text = refused(lambda: device.image((64, 64), "rgba32float"), devmod.DeviceMemoryError)
    start = f"{device} cannot allocate 65536 bytes: VK_ERROR_OUT_OF_DEVICE_MEMORY"
    assert is_memory_error(text, start, device), text
    device.synchronize()
    assert len(device.logical._owned) <= owned  # the image without memory is destroyed


# -- payloads of strangers


def payload(source: str, *params: Param) -> devmod.Module:
    """Return the module of a shader with an interface that the test gives."""
    info = FunctionInfo(
        "main", ["handle"] * len(params), interface=Interface(params, block=(8, 4, 1))
    )
    return devmod.create("vulkan", {"k": shader(source)}, "spv", {"k": info})


def image_param(at: int, type_: str = "2d", **fields: str) -> Param:
    return Param(f"i{at}", "image", type_, at=(0, at), **fields)


@pytest.mark.row("R12")
def test_an_interface_that_differs_from_the_shader(device: Any) -> None:
    check_texts(
        {
            "has an image of the type '2d' at (set 0, binding 0), 'source', but the payload's fmap gives '3d'": [
                image_param(0, "3d"),
                image_param(1),
            ],
            "has an image of the format 'rgba8unorm' at (set 0, binding 1), 'to', but the payload's fmap gives 'rgba8uint'": [
                image_param(0),
                image_param(1, format="rgba8uint"),
            ],
            "has an image of the sample 'float' at (set 0, binding 1), 'to', but the payload's fmap gives 'int'": [
                image_param(0),
                image_param(1, sample="int"),
            ],
            "has an image at (set 0, binding 1), 'to', but the payload's fmap has sampler there": [
                image_param(0),
                Param("s", "sampler", at=(0, 1)),
            ],
            "has an image at (set 0, binding 1), 'to', but the payload's fmap has nothing there": [
                image_param(0)
            ],
            "has an image at (set 0, binding 1), 'to', but the payload's fmap has buffer there": [
                image_param(0),
                Param("x", "buffer", at=(0, 1)),
            ],
            "has an image at (set 0, binding 1), 'to', but the payload's fmap has image with a sampler there": [
                image_param(0),
                image_param(1),
                Param("s", "sampler", at=(0, 1)),
            ],
        },
        lambda params: refused(lambda: payload(INVERT, *params)["k"], devmod.FormatError),
        start="the SPIR-V of the vulkan function 'k' ",
    )


def test_what_an_interface_omits_is_that_of_the_shader(device: Any) -> None:
    f = payload(INVERT, image_param(0, ""), image_param(1, ""))["k"]
    assert refused(
        lambda: f(device.image((4, 4), "rgba8unorm"), device.image((4, 4), "r8unorm"), threads=4)
    ) == (
        "the vulkan function 'k': argument 2 'i1' is an image of r8unorm, and the kernel takes rgba8unorm"
    )
    source, to = device.image((4, 4), "rgba8unorm"), device.image((4, 4), "rgba8unorm")
    f(source, to, threads=(4, 4))
    assert (to.numpy() == 255).all()


def test_two_arguments_for_one_image(device: Any) -> None:
    module = payload(INVERT, image_param(0), image_param(1), image_param(1))
    assert refused(lambda: module["k"], devmod.FormatError) == (
        "the interface of the vulkan function 'k' places an argument at (0, 1), which another argument uses"
    )


def test_a_combined_sampler_may_be_given_in_any_order(device: Any) -> None:
    params = [Param("s", "sampler", at=(0, 0)), image_param(2), image_param(0)]
    module = payload(
        COMBINED.replace("layout(push_constant) uniform P", "const struct").replace(
            "{ vec2 scale; vec2 offset; };",
            "{ int x; } p = { 0 };\nconst vec2 scale = vec2(0.25), offset = vec2(0);",
        ),
        *params,
    )
    to = device.image((4, 4), "rgba32float")
    module["k"](
        device.sampler(), to, device.image_from_numpy(np.full((4, 4), 255, "uint8")), threads=(4, 4)
    )
    assert to.numpy()[..., 0].tolist() == np.ones((4, 4)).tolist()


def test_two_images_of_a_stranger_at_one_binding(device: Any) -> None:
    """A shader may declare two variables at one binding. devmod makes one descriptor, so both must
    be of one type.
    """
    data = words(INVERT.replace("binding = 1", "binding = 9"))
    binding = b"".join(number.to_bytes(4, "little") for number in (33, 9))
    same = data.replace(binding, binding[:4] + bytes(4))
    assert same != data
    info = FunctionInfo("main", ["handle"], interface=Interface([image_param(0)], block=(8, 4, 1)))
    image = device.image((4, 4), "rgba8unorm")
    devmod.create("vulkan", {"k": packed(same)}, "spv", {"k": info})["k"](image, threads=(4, 4))
    assert (image.numpy() == 255).all()
    # One of them without a format: images have that of the other.
    open_ = words(
        INVERT.replace("binding = 0, rgba8", "binding = 9, rgba8").replace(
            "binding = 1, rgba8", "binding = 0"
        )
    )
    f = devmod.create(
        "vulkan", {"k": packed(open_.replace(binding, binding[:4] + bytes(4)))}, "spv", {"k": info}
    )["k"]
    assert refused(lambda: f(device.image((4, 4), "r32float"), threads=(4, 4))).endswith(
        "r32float, and the kernel takes rgba8unorm"
    )
    mixed = words(RESAMPLE.replace("binding = 2, rgba32f", "binding = 9, rgba32f")).replace(
        binding, binding[:4] + bytes(4)
    )
    assert refused(
        lambda: devmod.create("vulkan", {"k": packed(mixed)}, "spv", {"k": info})["k"],
        devmod.FormatError,
    ) == (
        "the SPIR-V of the vulkan function 'k' has two variables at (set 0, binding 0), 'to' and 'picture', which cannot be one argument"
    )


def test_the_formats_of_spirv_are_those_of_the_runtime() -> None:
    assert {*IMAGE_FORMATS} - {*FORMATS} == {"bgra8unorm"}


def test_the_module_through_a_file(device: Any, tmp_path: Any) -> None:
    devmod.save(compiled(RESAMPLE, "resample"), tmp_path / "k.devmod")
    f = devmod.load(tmp_path / "k.devmod")["resample"]
    assert str(f.__signature__) == (
        "(picture: 'image 2d float r', how: 'sampler', to: 'image 2d rgba32float w', scale: 'float32x2', offset: 'float32x2', *, "
        "P: '{scale: float32x2, offset: float32x2}' = None, grid=None, block=None, threads=None, stream=None) -> None"
    )
    to = device.image((2, 1), "rgba32float")
    f(
        device.image_from_numpy(np.array([[0, 100]], "float32")),
        device.sampler(filter="linear"),
        to,
        (0.5, 1),
        (0, 0),
        threads=(2, 1),
    )
    assert to.numpy()[0, :, 0].tolist() == [0, 100]


# -- the size of subgroups

SIZES = """#version 450
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { uint x[]; };
void main() { x[gl_GlobalInvocationID.x] = gl_SubgroupSize; }
"""


def required(size: int, source: str = SIZES) -> devmod.Module:
    """Return the module of a shader with a required size of its subgroups."""
    module: Any = compiled(source, target="vulkan -arch=vulkan1.1")
    info = module.functions["k"]
    return devmod.create(
        "vulkan",
        module.code,
        "spv",
        {"k": info.replace(interface=info.interface.replace(subgroup=size))},
    )


def test_a_required_size_of_subgroups(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if not device.subgroup_sizes:
        pytest.skip(f"{device} has no feature subgroupSizeControl")
    from devmod_vulkan import _pipeline

    made: list[int] = []

    def make(name: str, **fields: Any) -> Any:
        made.extend(
            [fields["requiredSubgroupSize"]]
            if name == "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo"
            else []
        )
        return original(name, **fields)

    original = _pipeline.make
    monkeypatch.setattr(_pipeline, "make", make)
    for size in device.subgroup_sizes:
        x = np.zeros(64, "uint32")
        required(size)["k"](x, grid=1)
        assert x.tolist() == [size] * 64
    assert made == [*device.subgroup_sizes]
    # One shader with a required size and without one: each has a pipeline of its own, here and on
    # the disk.
    keys: list[str] = []
    cache = _pipeline.Pipeline._cache
    monkeypatch.setattr(
        _pipeline.Pipeline, "_cache", lambda self, key: keys.append(key) or cache(self, key)
    )
    made.clear()
    shader: Any = compiled(SIZES, target="vulkan -arch=vulkan1.1")
    info = shader.functions["k"]
    fixed = info.replace(interface=info.interface.replace(subgroup=device.subgroup_sizes[0]))
    module = devmod.create(
        "vulkan",
        dict.fromkeys(("free", "fixed"), shader.code["k"]),
        "spv",
        {"free": info, "fixed": fixed},
    )
    for name in ("free", "fixed", "free", "fixed"):
        module[name](device.zeros(64, "uint32"), grid=1)
    assert (made, len(keys), len({*keys})) == ([device.subgroup_sizes[0]], 2, 2)


def test_a_size_of_subgroups_that_the_device_does_not_have(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "subgroup_sizes", ())
    assert refused(lambda: required(32)["k"], devmod.DeviceNotFoundError) == (
        f"the vulkan function 'k' needs subgroups of 32 threads, but {device} cannot be required to have a size (missing "
        "feature: subgroupSizeControl)"
    )
    assert devmod.bundle(required(32), compiled(SIZES, target="vulkan -arch=vulkan1.1"))[
        "k"
    ]  # a bundle skips the candidate


def test_too_many_subgroups(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "subgroup_sizes", (8,))
    monkeypatch.setitem(device.physical.limits, "maxComputeWorkgroupSubgroups", 4)
    assert refused(lambda: required(8)["k"], devmod.DeviceNotFoundError) == (
        f"the vulkan function 'k' cannot run on {device}: its maxComputeWorkgroupSubgroups is 4, but the kernel is built for blocks of "
        "8 subgroups"
    )


def test_a_device_of_vulkan_1_2_has_sizes_by_its_extension(device: Any) -> None:
    from devmod_vulkan._device import VulkanDevice
    from devmod_vulkan._driver import instance, vk
    from devmod_vulkan._physical import Physical

    if "VK_EXT_subgroup_size_control" not in device.physical.extensions:
        pytest.skip(f"{device} does not have the extension")
    physical = Physical(device.physical.handle, instance().calls, vk.VK_MAKE_VERSION(1, 2, 0xFFF))
    assert physical.subgroup_sizes == device.subgroup_sizes
    assert "VK_EXT_subgroup_size_control" in physical.needed_extensions
    # It is a part of Vulkan 1.3.
    assert "VK_EXT_subgroup_size_control" not in device.physical.needed_extensions
    old = VulkanDevice(physical, 1)
    x = old.zeros(64, "uint32")
    required(old.subgroup_sizes[0])["k"](x, grid=1)
    assert x.numpy().tolist() == [old.subgroup_sizes[0]] * 64
    old.logical.close()


def test_needs_of_an_interface(device: Any) -> None:
    """What SPIR-V's capabilities state is known without needs; the needs of another origin are
    those of the device's features.
    """
    module: Any = compiled(INVERT)
    info = module.functions["k"]

    def needing(*needs: str) -> devmod.Module:
        return devmod.create(
            "vulkan",
            module.code,
            "spv",
            {"k": info.replace(interface=info.interface.replace(needs=needs))},
        )

    source, to = device.image((4, 4), "rgba8unorm"), device.image((4, 4), "rgba8unorm")
    assert not info.interface.needs
    needing("images", "image_writes_3d")["k"](source, to, threads=(4, 4))
    assert ("fp64" in device.features) == ("10.shaderFloat64" in device.physical.features)
