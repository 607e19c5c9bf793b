"""Images and samplers on a real device: copies, reads, filters, writes, wgpu's own textures, and
the errors before the driver.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from webgpu_shaders import function

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.backend import IMAGE_FORMATS

SAMPLE = """
@group(0) @binding(0) var picture: texture_2d<f32>;
@group(0) @binding(1) var how: sampler;
@group(0) @binding(2) var result: texture_storage_2d<rgba32float, write>;
@compute @workgroup_size(8, 8) fn resize(@builtin(global_invocation_id) id: vec3u) {
    let size = textureDimensions(result);
    if all(id.xy < size) {
        textureStore(result, id.xy, textureSampleLevel(picture, how, (vec2f(id.xy) * 2.0 - 1.5) / vec2f(size), 0.0));
    }
}
"""
READ = """
@group(0) @binding(0) var picture: texture_2d<f32>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(1) fn read() { x[0] = textureLoad(picture, vec2(0, 0), 0).x; }
"""
WRITE = """
@group(0) @binding(0) var picture: texture_storage_2d<rgba8unorm, write>;
@compute @workgroup_size(1) fn mark() { textureStore(picture, vec2(0, 0), vec4f(1)); }
"""


def message_of(
    call: Callable[..., Any],
    *args: Any,
    error: type[Exception] = devmod.ArgumentError,
    **named: Any,
) -> str:
    return refusal(error, call, *args, **named)


def random_texels(shape: tuple[int, ...], name: str, seed: int = 1) -> np.ndarray[Any, Any]:
    """Return texels that every format keeps as they are: the smallest snorm number is equal to
    another one.
    """
    rng, dtype = np.random.default_rng(seed), np.dtype(IMAGE_FORMATS[name].dtype)
    if dtype.kind == "f":
        return rng.random(shape, "float32").astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min + (limits.min < 0), limits.max, shape, dtype, endpoint=True)


# -- copies


def test_an_image_larger_than_a_buffer_is_copied_in_parts(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [
        device.image((67, 50), "r32float"),
        device.image((3, 5, 7), "r32float"),
        device.image((3, 5), "r32float", layers=7),
    ]
    monkeypatch.setitem(device.limits, "maxBufferSize", 1100)
    for image in images:
        texels = random_texels(image.array_shape, image.format)
        image.copy_from(texels)
        assert np.array_equal(image.numpy(), texels)


# -- kernels


@pytest.mark.parametrize("level", [0.0, 1.5])
def test_a_linear_sampler_is_linear_at_every_level(level: float, device: Any) -> None:
    f = devmod.compile(
        "@group(0) @binding(0) var t: texture_2d<f32>; @group(0) @binding(1) var s: sampler; @group(0) @binding(2) "
        "var<storage, read_write> x: array<f32>; @group(0) @binding(3) var<uniform> level: f32;"
        "@compute @workgroup_size(1) fn k() { x[0] = textureSampleLevel(t, s, vec2(0.5), level).x; }",
        "webgpu",
    )["k"]
    x = np.zeros(1, "float32")
    f(
        device.image_from_numpy(np.array([[1, 3]], "float32")),
        device.sampler(filter="linear"),
        x,
        level,
        grid=1,
    )
    assert x == 2


TYPES = {
    "1d": ((67,), 0, "id.x"),
    "2d": ((9, 5), 0, "id.xy"),
    "3d": ((5, 4, 3), 0, "id"),
    "2d_array": ((9, 5), 3, "id.xy"),
}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(
    "name",
    ["rgba8unorm", "r32float", "rgba32float", "r32uint", "rg32sint", "rgba8snorm", "rgba16uint"],
)
def test_kernels_load_and_store_texels(name: str, type_: str, device: Any) -> None:
    shape, layers, place = TYPES[type_]
    texel = {"float": "f32", "int": "i32", "uint": "u32"}[IMAGE_FORMATS[name].sample]
    layer = ", id.z" if layers else ""
    copy = function(
        f"@group(0) @binding(0) var from_: texture_{type_}<{texel}>; @group(1) @binding(3) var to: texture_storage_{type_}<{name}, write>;",
        f"textureStore(to, {place}{layer}, textureLoad(from_, {place}{layer}, 0));",
    )
    source, target = (
        device.image(shape, name, layers=layers),
        device.image(shape, name, layers=layers),
    )
    texels = random_texels(source.array_shape, name)
    source.copy_from(texels)
    copy(source, target, grid=(*shape, layers)[:3] if layers else shape)
    assert np.array_equal(target.numpy(), texels)


def test_naga_accepts_every_image_that_the_reader_accepts(device: Any) -> None:
    if "texture-format16bit-norm" not in device.features:
        pytest.skip("naga needs the feature for formats of 16 bits")
    types = [f"texture_{type_}<{texel}>" for type_ in TYPES for texel in ("f32", "i32", "u32")]
    types += [
        f"texture_storage_{type_}<{name}, {access}>"
        for type_ in TYPES
        for name in IMAGE_FORMATS
        for access in ("read", "write", "read_write")
    ]
    text = "".join(
        f"@group(0) @binding(0) var t{n}: {type_}; @compute @workgroup_size(1) fn k{n}() {{ _ = textureDimensions(t{n}); }}\n"
        for n, type_ in enumerate(types)
    )
    functions = devmod.compile(text, "webgpu").functions
    assert len(functions) == len(types)
    for info, type_ in zip(functions.values(), types, strict=True):
        assert info.interface is not None
        (param,) = info.interface.params
        access = {"r": "read", "w": "write", "rw": "read_write"}[param.access]
        texel = {"float": "f32", "int": "i32", "uint": "u32"}[param.sample]
        stored = f"texture_storage_{param.type}<{param.format}, {access}>"
        assert type_ == (stored if param.format else f"texture_{param.type}<{texel}>")
    assert device.gpu.create_shader_module(code=text)


def test_a_storage_image_is_read_and_written_in_one_kernel(device: Any) -> None:
    f = function(
        "@group(0) @binding(0) var image: texture_storage_2d<r32float, read_write>; @group(0) @binding(1) "
        "var old: texture_storage_2d<r32uint, read>; @group(0) @binding(2) var<uniform> add: f32;",
        "textureStore(image, id.xy, textureLoad(image, id.xy) + f32(textureLoad(old, id.xy).x) + add);",
    )
    texels = np.arange(35, dtype="float32").reshape(5, 7)
    image, old = (
        device.image_from_numpy(texels),
        device.image_from_numpy((10 * texels).astype("uint32")),
    )
    f(image, old, 0.5, grid=(7, 5))
    assert np.array_equal(image.numpy(), 11 * texels + 0.5)


def test_launches_that_share_an_image_run_in_order(device: Any) -> None:
    step = function(
        "@group(0) @binding(0) var from_: texture_2d<f32>; @group(0) @binding(1) var to: texture_storage_2d<r32float, write>;",
        "textureStore(to, id.xy, textureLoad(from_, (id.xy + 1) % textureDimensions(from_), 0) * 2);",
    )
    texels = random_texels((16, 16), "r32float")
    one, two = device.image_from_numpy(texels), device.image((16, 16), "r32float")
    there, back = step.bind(one, two, grid=(16, 16)), step.bind(two, one, grid=(16, 16))
    for _ in range(3):
        there()
        back()
    step(one, two, grid=(16, 16))
    assert np.array_equal(two.numpy(), np.roll(texels, (-7, -7), (0, 1)) * 128)
    assert there.time() > 0


def test_images_stay_alive_while_work_is_queued(device: Any) -> None:
    read = devmod.compile(READ, "webgpu")["read"]
    x = device.zeros(1, "float32")
    for number in range(8):
        launch = read.bind(
            device.image_from_numpy(np.full((256, 256), number, "float32")), x, grid=1
        )
        launch()
        del launch
        gc.collect()
    assert x.numpy() == 7


def test_images_beside_host_arrays_and_constants(device: Any) -> None:
    f = devmod.compile(
        "override SCALE: f32; @group(0) @binding(0) var picture: texture_2d<f32>; @group(0) @binding(1) var how: sampler;"
        "@group(0) @binding(2) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn k() "
        "{ x[0] = SCALE * textureSampleLevel(picture, how, vec2(0.5), 0).x; }",
        "webgpu",
    )["k"]
    x, picture = np.zeros(1, "float32"), device.image_from_numpy(np.array([[1, 3]], "float32"))
    text = "the webgpu function 'k' has constants without a value; set them: f.specialize(SCALE=…)"
    assert message_of(f, picture, device.sampler(), x, grid=1, error=devmod.LaunchError) == text
    f.specialize(SCALE=10)(picture, device.sampler(filter="linear"), x, grid=1)
    assert x == 20


# -- filters


GATHER = """
@group(0) @binding(0) var numbers: texture_2d<u32>; @group(0) @binding(1) var how: sampler;
@group(0) @binding(2) var<storage, read_write> x: array<vec4u>;
@compute @workgroup_size(1) fn gather() { x[0] = textureGather(0, numbers, how, vec2(0.5)); }
"""


def test_integers_are_gathered_with_a_sampler_that_does_not_filter(device: Any) -> None:
    gather = devmod.compile(GATHER, "webgpu")["gather"]
    numbers, x = (
        device.image_from_numpy(np.array([[1, 2], [3, 4]], "uint32")),
        np.zeros(4, "uint32"),
    )
    gather(numbers, device.sampler(), x, grid=1)
    assert x.tolist() == [3, 4, 2, 1]
    text = (
        "the webgpu function 'gather': argument 2 'how' filters, and the shader reads an image with it that cannot be filtered: Integer "
        "textures can't be sampled with a filtering sampler"
    )
    assert message_of(gather, numbers, device.sampler(filter="linear"), x, grid=1) == text
    assert (
        message_of(
            gather.bind, numbers, device.gpu.create_sampler(), device.empty(4, "uint32"), grid=1
        )
        == text
    )


@pytest.fixture
def plain_device(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The device with WebGPU's guaranteed formats alone."""
    from devmod_webgpu import _driver
    from devmod_webgpu._device import WebGPUDevice

    device.zeros(1, "float32")  # it is opened with what it requests itself
    monkeypatch.setattr(_driver, "_REQUESTED", ("timestamp-query",))
    plain = WebGPUDevice(device._adapter, 7)
    assert plain.features == {"images", "timestamp-query"}
    return plain


def test_without_float32_filterable(plain_device: Any) -> None:
    device = plain_device
    texels = np.array([[1, 3]], "float32")
    floats, halves = (
        device.image_from_numpy(texels),
        device.image_from_numpy(texels.astype("float16")),
    )
    result, linear, nearest = (
        device.image((2, 2), "rgba32float"),
        device.sampler(filter="linear"),
        device.sampler(),
    )
    resize = devmod.compile(SAMPLE, "webgpu")["resize"].on(device)
    resize(floats, nearest, result, threads=(2, 2))
    assert result.numpy()[..., 0].tolist() == [[1, 1], [1, 1]]
    resize(halves, linear, result, threads=(2, 2))
    assert result.numpy()[0, :, 0].tolist() == [1, 1]
    text = (
        "the webgpu function 'resize': argument 2 'how' filters, and the shader reads an image with it that cannot be filtered: "
        f"Non-filterable float textures can't be sampled with a filtering sampler; {device} lacks the feature float32-filterable"
    )
    assert message_of(resize, floats, linear, result, threads=(2, 2)) == text
    assert message_of(resize.bind, floats, linear, result, threads=(2, 2)) == text
    launches = [
        resize.bind(*args, result, threads=(2, 2))
        for args in ((halves, linear), (floats, nearest), (halves, nearest))
    ]
    for launch in launches:
        launch()
    x = device.zeros(1, "float32")
    devmod.compile(READ, "webgpu")["read"].on(device)(floats, x, grid=1)
    assert x.numpy() == 1
    # A texture that no sampler reads may be of any format.
    both = devmod.compile(
        "@group(0) @binding(0) var a: texture_2d<f32>; @group(0) @binding(1) var b: texture_2d<f32>; @group(0) @binding(2) var how: sampler;"
        "@group(0) @binding(3) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn k() "
        "{ x[0] = textureLoad(a, vec2(1, 0), 0).x + textureSampleLevel(b, how, vec2(0.5), 0).x; }",
        "webgpu",
    )["k"].on(device)
    both(floats, halves, linear, x, grid=1)
    assert x.numpy() == 5


def test_formats_that_webgpu_does_not_guarantee(plain_device: Any, device: Any) -> None:
    names = {name for name in IMAGE_FORMATS if "16unorm" not in name and "16snorm" not in name}
    assert {name for name in names if plain_device.image((2, 2), name)} == names
    assert [device.image((2, 2), name).format for name in IMAGE_FORMATS] == [*IMAGE_FORMATS]
    assert message_of(plain_device.image, (2, 2), "r16unorm") == (
        f"image: {plain_device} supports no image of r16unorm: Texture format R16Unorm can't be used due to "
        "missing features; Features Features { features_wgpu: FeaturesWGPU(TEXTURE_FORMAT_16BIT_NORM), features_webgpu: FeaturesWebGPU(0x0) } "
        "are required but not enabled on the device"
    )
    module = devmod.compile(
        "@group(0) @binding(0) var out: texture_storage_2d<r8unorm, write>; @compute @workgroup_size(1) fn k() "
        "{ textureStore(out, vec2(0, 0), vec4f(1)); }",
        "webgpu",
    )
    assert message_of(module["k"].on, plain_device, error=devmod.DeviceNotFoundError) == (
        f"the webgpu function 'k' has the image 'out' of r8unorm: {plain_device} has no storage textures of it with the access "
        "write-only (Binding index 0: WriteOnly access to storage textures with format R8Unorm is not supported)"
    )
    if "texture-adapter-specific-format-features" in device.features:
        out = device.image((2, 2), "r8unorm")
        module["k"](out, grid=1)
        assert out.numpy().tolist() == [[255, 0], [0, 0]]


# -- errors


@pytest.mark.row("R34")
def test_an_image_that_a_launch_reads_and_writes_is_refused(device: Any) -> None:
    resize = devmod.compile(SAMPLE, "webgpu")["resize"]
    picture, how, result = (
        device.image((4, 4), "rgba8unorm"),
        device.sampler(),
        device.image((4, 4), "rgba32float"),
    )

    def text(*args: Any, call: Callable[..., Any] = resize) -> str:
        return message_of(call, *args, threads=(4, 4)).removeprefix(
            "the webgpu function 'resize': "
        )

    shared = (
        "argument 3 'result' and argument 1 'picture' are the same image, and the shader writes to one of them. WebGPU forbids this in one "
        "launch; pass a copy for one of them"
    )
    assert text(result, how, result) == shared
    assert text(result, how, result, call=resize.bind) == shared
    from_later = function(
        "@group(0) @binding(0) var to: texture_storage_2d<r32float, write>; @group(0) @binding(1) var from_: texture_2d<f32>;",
        "textureStore(to, id.xy, textureLoad(from_, id.xy, 0));",
    )
    same = device.image((4, 4), "r32float")
    assert message_of(from_later, same, same, grid=1) == (
        "the webgpu function 'k': argument 2 'from_' and argument 1 'to' are the same image, and the shader writes to one of them. WebGPU "
        "forbids this in one launch; pass a copy for one of them"
    )
    twice = function(
        "@group(0) @binding(0) var a: texture_2d<f32>; @group(0) @binding(1) var b: texture_2d<f32>;"
        "@group(0) @binding(2) var<storage, read_write> x: array<f32>;",
        "x[0] = textureLoad(a, vec2(0, 0), 0).x + textureLoad(b, vec2(0, 0), 0).x;",
    )
    x = np.ones(1, "float32")
    twice(picture, picture, x, grid=1)
    assert x == 0


def test_images_that_the_device_does_not_have(device: Any) -> None:
    most, deep, layers = (
        device.limits[name]
        for name in ("maxTextureDimension2D", "maxTextureDimension3D", "maxTextureArrayLayers")
    )
    assert message_of(device.image, (most + 1, 1), "r8unorm") == (
        f"image: {device} supports no image of the shape ({most + 1}, 1): its maxTextureDimension2D is {most}"
    )
    assert message_of(device.image, (1, 1, deep + 1), "r8unorm") == (
        f"image: {device} supports no image of the shape (1, 1, {deep + 1}): its maxTextureDimension3D is {deep}"
    )
    assert message_of(device.image, (4, 4), "r8unorm", layers=layers + 1) == (
        f"image: {device} supports no image of the shape (4, 4) with {layers + 1} layers: its maxTextureArrayLayers is {layers}"
    )
    assert message_of(device.image, 4, "r8unorm", layers=2) == (
        "image: WebGPU has no arrays of 1-D images; use a 2-D image with a row for each layer"
    )
    nbytes = most * most * layers * 16
    assert message_of(
        device.image, (most, most), "rgba32float", layers=layers, error=devmod.DeviceMemoryError
    ).startswith(f"{device} cannot allocate {nbytes} bytes: ")


def test_samplers_that_webgpu_does_not_have(device: Any) -> None:
    assert message_of(device.sampler, normalized=False) == (
        "sampler: WebGPU has normalized coordinates only: divide by textureDimensions in the kernel, or use textureLoad"
    )
    assert message_of(device.sampler, address="border") == (
        "sampler: WebGPU has no address mode for 'border', only clamp-to-edge, repeat, mirror-repeat; test the coordinates in the kernel"
    )


@pytest.mark.parametrize(
    ("limit", "declared", "used"),
    [
        (
            "maxSampledTexturesPerShaderStage",
            "texture_2d<f32>",
            "_ = textureLoad(v, vec2(0, 0), 0);",
        ),
        (
            "maxStorageTexturesPerShaderStage",
            "texture_storage_2d<r32uint, write>",
            "textureStore(v, vec2(0, 0), vec4u());",
        ),
        ("maxSamplersPerShaderStage", "sampler", "_ = textureSampleLevel(picture, v, vec2f(), 0);"),
    ],
)
def test_the_numbers_of_textures_and_samplers_are_limited(
    limit: str, declared: str, used: str, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that no text can exceed, such as 1,000,000 textures, is lowered."""
    most = min(device.limits[limit], 64)
    monkeypatch.setitem(device.limits, limit, most)
    variables = "".join(f"@group(1) @binding({n}) var v{n}: {declared};" for n in range(most + 1))
    body = "".join(used.replace("v,", f"v{n},") for n in range(most + 1))
    text = message_of(
        function,
        f"{variables} @group(2) @binding(0) var picture: texture_2d<f32>;",
        body,
        error=devmod.DeviceNotFoundError,
    )
    assert (
        text
        == f"the webgpu function 'k' cannot run on {device}: its {limit} is {most}, but the kernel uses {most + 1}"
    )


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("param", "problem"),
    [
        (
            Param("t", "image", "", "r", (0, 0)),
            "is an image of type '' and sample '', which WGSL does not have",
        ),
        (
            Param("t", "image", "1d_array", "r", (0, 0), sample="float"),
            "is an image of type '1d_array' and sample 'float', which WGSL does not have",
        ),
        (
            Param("t", "image", "2d", "w", (0, 0), sample="float"),
            "has the format '', the sample 'float' and the access 'w'; expected a format of images with its sample and an access, or the access "
            "'r' without a format",
        ),
        (
            Param("t", "image", "2d", "w", (0, 0), format="r32uint", sample="float"),
            "has the format 'r32uint', the sample 'float' and the access 'w'; expected a format of images with its sample and an access, or "
            "the access 'r' without a format",
        ),
        (
            Param("t", "image", "2d", "rw", (0, 0), format="\0", sample="float"),
            "has the format '\\x00', the sample 'float' and the access 'rw'; expected a format of images with its sample and an access, or "
            "the access 'r' without a format",
        ),
        (
            Param("t", "sampler", at=(0, 1 << 16)),
            "has the place (0, 65536), expected a group below 8 and a binding up to 65535",
        ),
    ],
)
def test_an_invalid_interface_is_refused(param: Param, problem: str, device: Any) -> None:
    text = b"@compute @workgroup_size(1) fn k() {}"
    module = devmod.create(
        "webgpu",
        {"k": text},
        "wgsl",
        {"k": FunctionInfo("k", ["handle"], interface=Interface([param]))},
    )
    assert message_of(module.get_function, "k", error=devmod.FormatError) == (
        f"the interface of the webgpu function 'k' is invalid: argument 1 't' {problem}"
    )


@pytest.mark.row("R40")
def test_an_interface_that_is_not_that_of_the_shader_is_refused(device: Any) -> None:
    interface = Interface(
        [
            Param("t", "image", "3d", "r", (0, 0), sample="uint"),
            Param("x", "buffer", "float32", "rw", (0, 1)),
        ]
    )
    module = devmod.create(
        "webgpu",
        {"read": READ.encode()},
        "wgsl",
        {"read": FunctionInfo("read", ["handle", "handle"], interface=interface)},
    )
    text = message_of(module.get_function, "read", error=devmod.FormatError)
    assert text.startswith(
        f"{device.name} cannot build the webgpu function 'read' (entry 'read') with the arguments that the payload's fmap"
    )


# -- wgpu's own textures and samplers


def test_textures_views_and_samplers_of_wgpu_are_arguments(device: Any) -> None:
    import wgpu

    gpu, usage = device.gpu, wgpu.TextureUsage
    texels = random_texels((6, 6, 4), "rgba32float")
    picture = gpu.create_texture(
        size=(6, 6, 2), format="rgba32float", usage=usage.TEXTURE_BINDING | usage.COPY_DST
    )
    gpu.queue.write_texture(
        {"texture": picture, "origin": (0, 0, 1)}, texels, {"bytes_per_row": 96}, (6, 6, 1)
    )
    layer = picture.create_view(dimension="2d", base_array_layer=1, array_layer_count=1)
    target = gpu.create_texture(
        size=(6, 6, 1),
        format="rgba32float",
        usage=usage.STORAGE_BINDING | usage.COPY_SRC,
        mip_level_count=2,
    )
    resize = devmod.compile(
        SAMPLE.replace("vec2f(id.xy) * 2.0 - 1.5", "vec2f(id.xy) + 0.5"), "webgpu"
    )["resize"]
    first_level = target.create_view(mip_level_count=1)
    launch = resize.bind(layer, gpu.create_sampler(), first_level, threads=(6, 6))
    for call in (lambda: resize(layer, gpu.create_sampler(), first_level, threads=(6, 6)), launch):
        call()
        read = gpu.queue.read_texture({"texture": target}, {"bytes_per_row": 96}, (6, 6, 1))
        assert np.array_equal(np.frombuffer(read, "float32").reshape(6, 6, 4), texels)
    loads = function(
        "@group(0) @binding(0) var t: texture_2d_array<f32>; @group(0) @binding(1) var<storage, read_write> x: array<f32>;",
        "x[0] = textureLoad(t, vec2(2, 3), 1, 0).y;",
    )
    x = np.zeros(1, "float32")
    loads(picture, x, grid=1)
    assert x == texels[3, 2, 1]


@pytest.mark.row("R34")
def test_unusable_textures_and_samplers_of_wgpu_are_refused(device: Any) -> None:
    import wgpu

    gpu, usage = device.gpu, wgpu.TextureUsage
    other = wgpu.gpu.request_adapter_sync().request_device_sync()
    resize = devmod.compile(SAMPLE, "webgpu")["resize"]
    picture, how, result = (
        device.image((4, 4), "rgba8unorm"),
        device.sampler(),
        device.image((4, 4), "rgba32float"),
    )

    def texture(
        owner: Any = gpu,
        use: int = usage.TEXTURE_BINDING,
        name: str = "rgba32float",
        **options: Any,
    ) -> Any:
        return owner.create_texture(**{"size": (4, 4, 1), "format": name, "usage": use, **options})

    def text(*args: Any) -> str:
        return message_of(resize, *args, threads=(4, 4)).removeprefix(
            "the webgpu function 'resize': argument "
        )

    foreign = "of a GPUDevice that no device of devmod is over; call devmod.device(gpu_device) first and keep the result, or create it on devmod.device('webgpu').gpu"
    assert text(texture(other), how, result) == f"1 'picture' is a wgpu.GPUTexture {foreign}"
    assert (
        text(texture(other).create_view(), how, result)
        == f"1 'picture' is a wgpu.GPUTextureView {foreign}"
    )
    assert (
        text(picture, other.create_sampler(), result) == f"2 'how' is a wgpu.GPUSampler {foreign}"
    )
    for use in (
        texture(use=usage.COPY_DST),
        texture(use=usage.COPY_DST).create_view(usage=usage.COPY_DST),
    ):
        assert (
            text(use, how, result)
            == "1 'picture' is a wgpu.GPUTexture without TextureUsage.TEXTURE_BINDING; create it with that usage"
        )
    assert text(picture, how, texture()) == (
        "3 'result' is a wgpu.GPUTexture without TextureUsage.STORAGE_BINDING; create it with that usage"
    )
    assert text(picture, how, texture(use=usage.STORAGE_BINDING, mip_level_count=3)) == (
        "3 'result' is a wgpu.GPUTexture with 3 mip levels, and a kernel writes to one; pass texture.create_view(mip_level_count=1)"
    )
    samples = texture(
        use=usage.TEXTURE_BINDING | usage.RENDER_ATTACHMENT, name="rgba8unorm", sample_count=4
    )
    assert (
        text(samples, how, result)
        == "1 'picture' is a wgpu.GPUTexture with 4 samples, expected one"
    )
    assert text(texture(name="rgba8unorm-srgb"), how, result) == (
        "1 'picture' is a wgpu.GPUTexture of rgba8unorm-srgb, which is not a format of devmod's images; pass a view with such a format"
    )
    assert (
        text(texture(size=(4, 4, 4), dimension="3d"), how, result)
        == "1 'picture' is an image of type 3d, and the kernel takes 2d"
    )
    assert text(texture(name="rgba32uint").create_view(), how, result) == (
        "1 'picture' cannot be bound: Texture binding 0 expects sample type Float { filterable: true }, but was given a view with format "
        "Rgba32Uint (sample type Uint)"
    )
    assert text(
        picture, how, texture(use=usage.STORAGE_BINDING, name="r32float").create_view()
    ) == (
        "3 'result' cannot be bound: Storage texture binding 2 expects format = Rgba32Float, but given a view with format = R32Float"
    )
    assert text(picture, gpu.create_sampler(compare="less"), result) == (
        "2 'how' cannot be bound: Sampler binding 1 expects comparison = false, but given a sampler with comparison = true"
    )
    destroyed = texture()
    launch = resize.bind(destroyed, how, result, threads=(4, 4))
    launch()
    destroyed.destroy()
    assert message_of(launch, error=devmod.LaunchError) == (
        "a launch of the webgpu function 'resize' failed: Texture with '' label has been destroyed"
    )
    assert (
        text(destroyed, how, result)
        == "1 'picture' is a wgpu.GPUTexture that cannot be used: Texture with '' label has been destroyed"
    )
    add = function("", "x[0] = 1;")
    assert message_of(add, destroyed.create_view, grid=1).startswith(
        "the webgpu function 'k': argument 1 'x' is"
    )
    assert (
        message_of(add, picture, grid=1)
        == "the webgpu function 'k': argument 1 'x' is an Image, and the kernel takes an array of uint32"
    )


@pytest.mark.row("R37")
def test_timestamps_do_not_time_a_launch_on_a_cpu(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many images, those of lavapipe are both behind the work."""
    if not device.is_cpu:
        pytest.skip("the adapter is no CPU")
    monkeypatch.setattr(type(device), "times", lambda *_: [0.0, 1e9])
    launch = devmod.compile(WRITE, "webgpu")["mark"].bind(
        device.image((2, 2), "rgba8unorm"), grid=1
    )
    assert 0 < launch.time() < 1e9
