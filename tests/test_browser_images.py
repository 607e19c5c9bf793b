"""Images, samplers and needs in the npm package in Chromium: results compared with NumPy, and
errors before the driver.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import sample_image

import devmod
from devmod import Param
from devmod.backend import IMAGE_FORMATS

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from browser_driver import PRELUDE, Browser, FileServer, decode_array, encode_array, run_in_node  # noqa: E402
from browser_images import RESIZE, RESIZE_PARAMS, kernel, param  # noqa: E402


@pytest.fixture
def page(empty_page: Browser) -> Browser:
    return empty_page


def run(page: Browser, body: str, argument: Any = None) -> Any:
    """Run the body of an async function in the page, with the package as `kit`."""
    return page.evaluate(PRELUDE + body, argument)


def sampled(picture: np.ndarray, width: int, height: int, filter: str, address: str) -> np.ndarray:
    """Return what RESIZE writes: places from -1 to 2 of a picture of floats."""
    x, y = np.meshgrid(*((np.arange(count) + 0.5) / count * 3 - 1 for count in (width, height)))
    return sample_image(
        picture, np.stack([x.ravel(), y.ravel()], 1), filter=filter, address=address
    ).reshape(height, width, -1)


@pytest.mark.row("R34")
def test_a_kernel_samples_an_image(page: Browser, server: FileServer) -> None:
    server.files["k.devmod"] = devmod.dumps(devmod.compile(RESIZE, "webgpu"))
    picture = np.random.default_rng(1).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    samplers = [
        (filter, address)
        for filter in ("nearest", "linear")
        for address in ("clamp", "repeat", "mirror")
    ]
    results = run(
        page,
        """
        const f = await (await kit.open("k.devmod")).getFunction("k");
        const src = await kit.imageFrom(new Uint8Array(bytes(argument.picture)), { width: 7, height: 5 });
        const dst = await kit.image([46, 31], "rgba32float");
        const results = [];
        for (const [filter, address] of argument.samplers) {
          const s = await kit.sampler({ filter, address });
          await f.run({ src, s, dst }, { threads: [46, 31] });
          results.push([src.format, src.shape, s.filter, s.address, text(await dst.read())]);
        }
        return results;
        """,
        {"picture": encode_array(picture), "samplers": samplers},
    )
    for (filter, address), found in zip(samplers, results, strict=True):
        assert found[:4] == ["rgba8unorm", [7, 5], filter, address]
        result = decode_array(found[4], "float32").reshape(31, 46, 4)
        expected = sampled(picture / 255, 46, 31, filter, address)
        # A GPU filters with weights of 8 bits.
        assert np.abs(result - expected).max() <= (2 / 256 if filter == "linear" else 1e-6)


SHAPES: list[tuple[list[int], int]] = [
    ([67], 0),
    ([5, 3], 0),
    ([64, 2], 0),
    ([3, 4, 5], 0),
    ([9, 2], 3),
    ([4, 4], 1),
]


def test_every_format_keeps_its_numbers_and_begins_with_zeros(page: Browser) -> None:
    """The rows of a copy have a pitch of 256 bytes, which `read` removes."""
    found = run(
        page,
        """
        const device = await kit.defaultDevice();
        const result = [];
        for (const format of argument.formats) {
          for (const [shape, layers] of argument.shapes) {
            const refused = await failure(() => kit.image(shape, format, { layers }));
            if (refused) {
              result.push([format, shape, refused[1]]);
              continue;
            }
            const image = await kit.image(shape, format, { layers });
            const zeros = await image.read();
            const numbers = zeros.slice();
            const raw = new Uint8Array(numbers.buffer);
            raw.forEach((_, at) => (raw[at] = (at * 37 + 11) % (format.includes("float") ? 60 : 256))); // no NaN
            await image.copyFrom(numbers);
            const back = new Uint8Array((await image.read()).buffer);
            result.push([format, shape, "", image.type, image.arrayShape, numbers.constructor.name, zeros.every((each) => each === 0), raw.every((each, at) => back[at] === each)]);
            image.destroy();
          }
        }
        return [result, device.features.has("texture-formats-tier1")];
        """,
        {"formats": list(IMAGE_FORMATS), "shapes": SHAPES},
    )
    result, has_tier1 = found
    types = {
        "uint8": "Uint8Array",
        "int8": "Int8Array",
        "uint16": "Uint16Array",
        "int16": "Int16Array",
        "float16": "Float16Array",
    }
    types |= {"uint32": "Uint32Array", "int32": "Int32Array", "float32": "Float32Array"}
    expected = []
    for name, each in IMAGE_FORMATS.items():
        for shape, layers in SHAPES:
            lengths = [
                *([layers] if layers else []),
                *shape[::-1],
                *([each.channels] if each.channels > 1 else []),
            ]
            if name.endswith(("16unorm", "16snorm")) and not has_tier1:
                refusal = f"image: {name} needs the feature 'texture-formats-tier1', which this device does not support"
                expected.append([name, shape, refusal])
                continue
            kind = f"{len(shape)}d{'_array' if layers else ''}"
            expected.append([name, shape, "", kind, lengths, types[each.dtype], True, True])
    assert result == expected


def test_the_formats_are_those_of_python() -> None:
    body = 'const { IMAGE_FORMATS } = await import("./formats.js"); return [...IMAGE_FORMATS];'
    assert run_in_node(body) == [
        [
            each.name,
            {
                "dtype": each.dtype,
                "channels": each.channels,
                "sample": each.sample,
                "texelBytes": each.texel_bytes,
            },
        ]
        for each in IMAGE_FORMATS.values()
    ]


def test_pictures_of_the_browser_become_images(page: Browser) -> None:
    picture = np.random.default_rng(2).integers(0, 256, (9, 33, 4), dtype=np.uint8)
    found = run(
        page,
        """
        const data = new ImageData(new Uint8ClampedArray(bytes(argument)), 33, 9);
        const bitmap = await createImageBitmap(data, { premultiplyAlpha: "none", colorSpaceConversion: "none" });
        const result = [];
        for (const [source, format] of [[data], [bitmap], [bitmap, "rgba32float"], [bitmap, "r8unorm"], [data.data, "rgba8uint"], [data.data, "bgra8unorm"]]) {
          const image = await kit.imageFrom(source, source === data.data ? { width: 33, height: 9, format } : { format });
          result.push([image.format, image.shape, text(await image.read())]);
        }
        return result;
        """,
        encode_array(picture),
    )
    assert [(name, shape) for name, shape, _ in found] == [
        (name, [33, 9])
        for name in (
            "rgba8unorm",
            "rgba8unorm",
            "rgba32float",
            "r8unorm",
            "rgba8uint",
            "bgra8unorm",
        )
    ]
    dtypes = ["uint8", "uint8", "float32", "uint8", "uint8", "uint8"]
    arrays = [decode_array(each[2], dtype) for each, dtype in zip(found, dtypes, strict=True)]
    for at in (0, 1, 4, 5):
        assert np.array_equal(arrays[at], picture.ravel())
    assert np.allclose(arrays[2], picture.ravel() / 255, atol=1e-6)
    assert np.array_equal(arrays[3], picture[..., 0].ravel())


def test_the_format_of_an_array_is_that_of_python(page: Browser) -> None:
    arrays = [
        "Uint8Array",
        "Int8Array",
        "Uint16Array",
        "Int16Array",
        "Float16Array",
        "Uint32Array",
        "Int32Array",
        "Float32Array",
    ]
    found = run(
        page,
        """
        const result = [];
        for (const name of argument) {
          for (const channels of [1, 2, 4]) result.push((await kit.imageFrom(new globalThis[name](6 * channels), { width: 3, height: 2 })).format);
        }
        return result;
        """,
        arrays,
    )
    names = ["8unorm", "8snorm", "16uint", "16sint", "16float", "32uint", "32sint", "32float"]
    assert found == [prefix + name for name in names for prefix in ("r", "rg", "rgba")]


ALL_TYPES = """
@group(0) @binding(0) var line: texture_1d<f32>;
@group(0) @binding(1) var layers: texture_2d_array<u32>;
@group(0) @binding(2) var volume: texture_storage_3d<rgba16sint, write>;
@group(0) @binding(3) var stack: texture_storage_2d_array<r32uint, read_write>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn k(@builtin(global_invocation_id) id: vec3u) {
  textureStore(volume, id, vec4i(vec3i(id), -7));
  textureStore(stack, id.xy, id.z, textureLoad(stack, id.xy, id.z) + textureLoad(layers, id.xy, id.z, 0).x);
  if (id.x == 0 && id.y == 0) { y[id.z] = textureLoad(line, id.z, 0).x; }
}
"""


def test_images_of_every_type_beside_an_array(page: Browser, server: FileServer) -> None:
    server.files["k.devmod"] = devmod.dumps(devmod.compile(ALL_TYPES, "webgpu"))
    found = run(
        page,
        """
        const f = await (await kit.open("k.devmod")).getFunction("k");
        const line = await kit.imageFrom(Float32Array.from([2.5, 3.5]), { width: 2, height: 1 }).then(async (flat) => {
          const image = await kit.image(2, "r32float");
          await image.copyFrom(await flat.read());
          return image;
        });
        const layers = await kit.image([3, 2], "r8uint", { layers: 2 });
        await layers.copyFrom(Uint8Array.from({ length: 12 }, (_, at) => at));
        const volume = await kit.image([3, 2, 2], "rgba16sint");
        const stack = await kit.image([3, 2], "r32uint", { layers: 2 });
        const y = new Float32Array(2);
        await f.run([line, layers, volume, stack, y], { grid: [3, 2, 2] });
        await f.run([line, layers, volume, stack, y], { grid: [3, 2, 2] });
        const results = [[...y], [...(await stack.read())], [...(await volume.read())]];
        // One layer is an array of images too. A kernel writes to the first mip level of a texture.
        const single = await kit.imageFrom(Uint8Array.of(1, 2, 3, 4, 5, 6), { width: 3, height: 2, format: "r8uint" });
        const layer = await kit.image([3, 2], "r8uint", { layers: 1 });
        await layer.copyFrom(await single.read());
        const usage = GPUTextureUsage.STORAGE_BINDING | GPUTextureUsage.COPY_SRC;
        const levels = f.device.createTexture({ size: [3, 2, 1], format: "r32uint", usage, mipLevelCount: 2 });
        await f.run([line, layer, volume, levels, y], { grid: [3, 2, 1] });
        return [...results, [...(await new kit.Image(f.device, [3, 2], "r32uint", 1, levels).read())]];
        """,
    )
    assert found[3] == [1, 2, 3, 4, 5, 6]
    assert found[0] == [2.5, 3.5]
    assert found[1] == [2 * each for each in range(12)]
    z, y, x = np.mgrid[:2, :2, :3]
    assert found[2] == np.stack([x, y, z, np.full_like(x, -7)], -1).ravel().tolist()


def test_textures_views_and_samplers_of_the_caller(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["k.devmod"] = devmod.dumps(kernel(monkeypatch, RESIZE, *RESIZE_PARAMS))
    found = run(
        page,
        """
        const device = await kit.requestDevice();
        const f = await (await kit.open("k.devmod")).getFunction("k", { device });
        const usage = GPUTextureUsage.TEXTURE_BINDING | GPUTextureUsage.COPY_DST;
        const src = device.createTexture({ size: [2, 2, 3], format: "rgba8unorm-srgb", usage, mipLevelCount: 2 });
        const texel = new Uint8Array([255, 0, 128, 255]);
        device.queue.writeTexture({ texture: src, origin: [0, 0, 1] }, Uint8Array.from({ length: 16 }, (_, at) => texel[at % 4]), { bytesPerRow: 8 }, [2, 2]);
        const layer = src.createView({ dimension: "2d", baseArrayLayer: 1, mipLevelCount: 1 });
        const s = device.createSampler({ magFilter: "linear" });
        const dst = await kit.image([4, 4], "rgba32float", { device });
        const launch = await f.bind({ src: layer, s, dst: dst.handle }, { threads: [4, 4] });
        launch.launch();
        launch.launch();
        await launch.done();
        launch.destroy();
        const back = await dst.read();
        const refused = await failure(() => f.run([src, s, dst], { grid: 1 }));
        return [[...back.slice(0, 4)].map((each) => each.toFixed(3)), refused];
        """,
    )
    assert found[0] == ["1.000", "0.000", "0.216", "1.000"]  # sRGB is decoded
    text = "the webgpu function 'k': argument 1 'src' is an image of type 2d_array, and the kernel takes 2d"
    assert found[1] == ["ArgumentError", text]


#: Misuse of a resampler, and the error.
WRONG = {
    "run([new Uint8Array(16), s, dst])": "argument 1 'src' is a Uint8Array, and the kernel takes an image, such as await imageFrom(picture), whose format you choose",
    "run([new ImageData(2, 2), s, dst])": "argument 1 'src' is an ImageData, and the kernel takes an image, such as await imageFrom(picture), whose format you choose",
    "run([s, s, dst])": "argument 1 'src' is a Sampler, and the kernel takes an image, such as await imageFrom(picture), whose format you choose",
    "run([null, s, dst])": "argument 1 'src' is null, and the kernel takes an image, such as await imageFrom(picture), whose format you choose",
    "run([src, src, dst])": "argument 2 's' is an Image, and the kernel takes a sampler, such as await sampler()",
    "run([src, 'linear', dst])": "argument 2 's' is 'linear', and the kernel takes a sampler, such as await sampler()",
    "run([await kit.image(4, 'r8unorm', own), s, dst])": "argument 1 'src' is an image of type 1d, and the kernel takes 2d",
    "run([await kit.image([4, 4], 'r8unorm', { layers: 1, device }), s, dst])": "argument 1 'src' is an image of type 2d_array, and the kernel takes 2d",
    "run([await kit.image([4, 4], 'r8uint', own), s, dst])": "argument 1 'src' is an image of r8uint, whose texels are uint, and the kernel takes float",
    "run([src, s, src])": "argument 3 'dst' is an image of rgba8unorm, and the kernel takes rgba32float",
    "run([dst, nearest, dst])": "argument 3 'dst' is the same image as argument 1 'src', and the kernel may write to one of them: WebGPU forbids that; pass a copy of it",
    "run([await kit.image([4, 4], 'rgba8unorm'), s, dst])": "argument 1 'src' is on another device; make it on the device of the function",
    "run([src, await kit.sampler(), dst])": "argument 2 's' is on another device; make it on the device of the function",
    "run([gone, s, dst])": "argument 1 'src' is an image that was destroyed",
    "run([bare, s, dst])": "argument 1 'src' is a GPUTexture without the usage TEXTURE_BINDING, which the kernel needs",
    "bind([src, s, new Float32Array(4)])": "argument 3 'dst' is a Float32Array, and the kernel takes an image, such as await imageFrom(picture), whose format you choose",
    "run([dst, s, await kit.image([4, 4], 'rgba32float', own)])": "argument 2 's' is a linear sampler, and argument 1 'src' is an image of 32-bit floats; together they need the feature "
    "'float32-filterable', which this device does not support; pass an image of 16-bit floats, or a nearest sampler",
}
SETUP = """
const device = await (await navigator.gpu.requestAdapter()).requestDevice();
let reported = 0;
device.onuncapturederror = () => reported++;
const own = { device };
const f = await (await kit.open("k.devmod")).getFunction("k", own);
const src = await kit.image([4, 4], "rgba8unorm", own);
const dst = await kit.image([4, 4], "rgba32float", own);
const s = await kit.sampler({ filter: "linear", device });
const nearest = await kit.sampler(own);
const gone = await kit.image([4, 4], "rgba8unorm", own);
gone.destroy();
const bare = device.createTexture({ size: [4, 4], format: "rgba8unorm", usage: GPUTextureUsage.COPY_DST });
"""


@pytest.mark.row("R34")
def test_misuse_of_images_is_an_error_before_the_driver(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["k.devmod"] = devmod.dumps(kernel(monkeypatch, RESIZE, *RESIZE_PARAMS))
    # The device has no features and the limits of every device. A test of it counts what reaches
    # the driver.
    calls = ",\n".join(
        f"() => f.{call[:-1]}, {{ grid: 1 }})".replace("() =>", "async () =>") for call in WRONG
    )
    body = f"""
    {SETUP}
    const queued = [];
    for (const name of ["submit", "writeBuffer"]) device.queue[name] = () => queued.push(name);
    const found = [];
    for (const call of [{calls}]) found.push(await failure(call));
    return [found, reported, queued];
    """
    found, reported, queued = run(page, body)
    for call, message in zip(WRONG, found, strict=True):
        assert message == ["ArgumentError", f"the webgpu function 'k': {WRONG[call]}"], call
    assert (reported, queued) == (0, [])


def test_a_nearest_sampler_reads_floats_that_the_device_cannot_filter(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["k.devmod"] = devmod.dumps(kernel(monkeypatch, RESIZE, *RESIZE_PARAMS))
    body = f"""
    {SETUP}
    await dst.copyFrom(Float32Array.from({{ length: 64 }}, (_, at) => at));
    const out = await kit.image([12, 12], "rgba32float", own);
    await f.run([dst, nearest, out], {{ threads: [12, 12] }});
    const read = await out.read();
    await f.run([src, s, out], {{ threads: [12, 12] }}); // an image of another format, with a linear sampler
    return [text(read), (await out.read()).every((each) => each === 0), reported];
    """
    found, zeros, reported = run(page, body)
    expected = sampled(np.arange(64.0).reshape(4, 4, 4), 12, 12, "nearest", "clamp")
    assert np.array_equal(decode_array(found, "float32").reshape(12, 12, 4), expected)
    assert (zeros, reported) == (True, 0)


GATHER = """
@group(0) @binding(0) var src: texture_2d<u32>;
@group(0) @binding(1) var s: sampler;
@group(0) @binding(2) var<storage, read_write> y: array<vec4u>;
@compute @workgroup_size(1) fn k() { y[0] = textureGather(0, src, s, vec2f(0.5)); }
"""


def test_a_sampler_of_integers_is_nearest(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["k.devmod"] = devmod.dumps(
        kernel(monkeypatch, GATHER, "src 2d uint", "s sampler", "y uint32x4 rw", block=(1, 1, 1))
    )
    found = run(
        page,
        """
        const f = await (await kit.open("k.devmod")).getFunction("k");
        const src = await kit.imageFrom(Uint32Array.from([1, 2, 3, 4]), { width: 2, height: 2 });
        const y = new Uint32Array(4);
        await f.run([src, await kit.sampler(), y], { grid: 1 });
        return [[...y], await failure(async () => f.run([src, await kit.sampler({ filter: "linear" }), y], { grid: 1 }))];
        """,
    )
    assert found[0] == [3, 4, 2, 1]
    name, message = found[1]
    start = "the webgpu function 'k': argument 2 's' is a linear sampler, and the shader reads an image with it that cannot be filtered: "
    assert name == "ArgumentError"
    assert message.startswith(start)


#: Misuse of the functions that create images and samplers, and the error.
WRONG_IMAGES = {
    "image([4, 4], 'rgba8unrm')": "image: 'rgba8unrm' is not a format of images; expected one of {formats}. Did you mean 'rgba8unorm'?",
    "image([4, 4], 7)": "image: 7 is not a format of images; expected one of {formats}",
    "image([4, 0], 'r8unorm')": "image: expected a shape of 1 to 3 lengths of 1 or more, x first, got (4, 0)",
    "image(1.5, 'r8unorm')": "image: expected a shape of 1 to 3 lengths of 1 or more, x first, got 1.5",
    "image([1, 2, 3, 4], 'r8unorm')": "image: expected a shape of 1 to 3 lengths of 1 or more, x first, got (1, 2, 3, 4)",
    "image([4, 4, 4], 'r8unorm', { layers: 2 })": "image: expected a number of layers, which only a 2-D image has in WebGPU, got layers=2 for the shape (4, 4, 4)",
    "image(4, 'r8unorm', { layers: 2 })": "image: expected a number of layers, which only a 2-D image has in WebGPU, got layers=2 for the shape (4,)",
    "image([4, 4], 'r8unorm', { layers: -1 })": "image: expected a number of layers, which only a 2-D image has in WebGPU, got layers=-1 for the shape (4, 4)",
    "image([4, 4], 'r8unorm', { layer: 1 })": "image: there is no option 'layer'; there is: layers, device. Did you mean 'layers'?",
    "image([4, 4], 'r8unorm', { device: 7 })": "image expects a GPUDevice as its device, got 7",
    "image([100000, 4], 'r8unorm')": "image: this device supports no image of the shape (100000, 4): its maxTextureDimension2D is 8192",
    "image([1e15], 'r8unorm')": "image: this device supports no image of the shape (1000000000000000,): its maxTextureDimension1D is 8192",
    "image([2, 2, 3000], 'r8unorm')": "image: this device supports no image of the shape (2, 2, 3000): its maxTextureDimension3D is 2048",
    "image([4, 4], 'r8unorm', { layers: 257 })": "image: this device supports no image of the shape (4, 4) with 257 layers: its maxTextureArrayLayers is 256",
    "imageFrom(new Uint8Array(16))": "imageFrom: an array needs width and height, the numbers of its columns and rows; got width=undefined",
    "imageFrom(new Uint8Array(16), { width: 4, height: 0 })": "imageFrom: an array needs width and height, the numbers of its columns and rows; got height=0",
    "imageFrom(new Uint8Array(15), { width: 4, height: 4 })": "imageFrom: expected 1, 2 or 4 numbers for each of 4 × 4 texels, of a type with a format; got 15 elements of uint8; "
    "use image(shape, format) and copyFrom(array) for other images",
    "imageFrom(new Float64Array(16), { width: 4, height: 4 })": "imageFrom: expected 1, 2 or 4 numbers for each of 4 × 4 texels, of a type with a format; got 16 elements of float64; "
    "use image(shape, format) and copyFrom(array) for other images",
    "imageFrom(new Uint8Array(16), { width: 4, height: 4, format: 'r32float' })": "copyFrom: the source is an array of 16 bytes of uint8; expected 64 bytes of float32 for an image of r32float with the shape (4, 4)",
    "imageFrom([1, 2, 3])": "imageFrom: the source is an Array, expected an ImageData, an ImageBitmap or a typed array",
    "imageFrom(new ImageData(2, 2), { width: 3 })": "imageFrom: the picture has the width 2, got 3",
    "imageFrom(new ImageData(2, 2), { format: 'r32uint' })": "imageFrom: a picture cannot be copied to an image of r32uint, only its numbers; expected one of r8unorm, rg8unorm, rgba8unorm, "
    "bgra8unorm, r16float, rg16float, rgba16float, r32float, rg32float, rgba32float",
    "image([4, 4], 'rgba8unorm').then((each) => each.copyFrom(new ImageData(2, 2)))": "copyFrom: the source is a picture of 2 × 2 pixels; expected one for an image of rgba8unorm with the shape (4, 4)",
    "image([4, 4], 'rgba8unorm', { layers: 2 }).then((each) => each.copyFrom(new Int8Array(128)))": "copyFrom: the source is an array of 128 bytes of int8; expected 128 bytes of uint8 for an image of rgba8unorm with the shape (4, 4) and 2 layers",
    "imageFrom(sent(new Uint8Array(16)), { width: 4, height: 4 })": "imageFrom: the source is in an ArrayBuffer that was transferred; pass a copy",
    "imageFrom(sent(new ImageData(4, 4)))": "the ImageData was transferred and has no pixels; pass a copy",
    "image([4, 4], 'rgba8unorm').then((each) => each.copyFrom('x'))": "copyFrom: the source is 'x', expected an ImageData, an ImageBitmap or a typed array",
    "image([4, 4], 'rgba8unorm').then((each) => (each.destroy(), each.read()))": "read: the image was destroyed",
    "sampler({ filter: 'cubic' })": "sampler: filter is 'cubic'; expected 'nearest', 'linear'",
    "sampler({ address: 'border' })": "sampler: address is 'border', which WebGPU does not support; expected 'clamp', 'repeat', 'mirror'",
    "sampler({ normalized: false })": "sampler: there is no option 'normalized'; there is: filter, address, device",
}


def test_misuse_of_the_functions_that_create_images(page: Browser) -> None:
    calls = ",".join(f"() => kit.{call}" for call in WRONG_IMAGES)
    sent = "const sent = (each) => (structuredClone(0, { transfer: [(each.data ?? each).buffer] }), each);"
    found = run(
        page,
        f"{sent} const found = []; for (const call of [{calls}]) found.push(await failure(call)); return found;",
    )
    for (call, text), message in zip(WRONG_IMAGES.items(), found, strict=True):
        assert message == [
            "ArgumentError",
            text.format(formats=", ".join(IMAGE_FORMATS)) if "{formats}" in text else text,
        ], call


#: Interfaces that no WebGPU kernel can have, or this device cannot run, and the error.
BAD_PARAMS: list[tuple[Param, str, str]] = [
    (
        Param("t", "image", "", "r", (0, 0)),
        "FormatError",
        "has no type of an image in its interface; compile the shader with this version of devmod",
    ),
    (
        Param("t", "image", "1d_array", "r", (0, 0), sample="float"),
        "FormatError",
        "is an image of type 1d_array, which WebGPU does not support",
    ),
    (
        Param("t", "image", "2d", "w", (0, 0), format="rgba9", sample="float"),
        "FormatError",
        "is an image of 'rgba9', which is not a known format",
    ),
    (
        Param("t", "image", "2d", "", (0, 0), format="rgba8unorm"),
        "FormatError",
        "has no access in its interface",
    ),
    (
        Param("t", "image", "2d", "w", (0, 0), sample="float"),
        "FormatError",
        "is a written image without a format in its interface",
    ),
    (
        Param("t", "image", "2d", "r", (0, 0)),
        "FormatError",
        "has neither a format nor a sample in its interface",
    ),
    (Param("t", "image", "2d", "r", sample="float"), "FormatError", "has no place (set, binding)"),
    (Param("t", "sampler"), "FormatError", "has no place (set, binding)"),
    (
        param("t 2d bgra8unorm rw", 0),
        "DeviceNotFoundError",
        "is a storage image of bgra8unorm with the access rw, which WebGPU does not support",
    ),
    (
        param("t 2d rg8unorm rw", 0),
        "DeviceNotFoundError",
        "is a storage image of rg8unorm with the access rw, which WebGPU does not support",
    ),
    (
        param("t 2d r8unorm w", 0),
        "DeviceNotFoundError",
        "is a storage image of r8unorm with the access w, which needs the feature 'texture-formats-tier1', and this device does not support it",
    ),
    (
        param("t 2d rgba8unorm rw", 0),
        "DeviceNotFoundError",
        "is a storage image of rgba8unorm with the access rw, which needs the feature 'texture-formats-tier2', and this device does not support it",
    ),
    (
        param("t 2d bgra8unorm w", 0),
        "DeviceNotFoundError",
        "is a storage image of bgra8unorm with the access w, which needs the feature 'bgra8unorm-storage', and this device does not support it",
    ),
]


def test_interfaces_that_the_device_cannot_run_have_the_reason(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (each, _, _) in enumerate(BAD_PARAMS):
        server.files[f"{number}.devmod"] = devmod.dumps(
            kernel(monkeypatch, "@compute @workgroup_size(1) fn k() {}", each, block=(1, 1, 1))
        )
    found = run(
        page,
        """
        const device = await (await navigator.gpu.requestAdapter()).requestDevice();
        const found = [];
        for (let at = 0; at < argument; at++) found.push(await failure(async () => (await kit.open(`${at}.devmod`)).getFunction("k", { device })));
        return found;
        """,
        len(BAD_PARAMS),
    )
    for (each, name, text), message in zip(BAD_PARAMS, found, strict=True):
        assert message == [name, f"the webgpu function 'k': argument 1 't' {text}"], each


def test_every_storage_format_is_what_the_browser_takes(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule of formats agrees with the browser's, for the features of its device."""
    found = run(
        page,
        """
        const { storageFeature } = await import("/devmod-webgpu/formats.js");
        const device = await kit.defaultDevice();
        const wrong = [];
        for (const format of argument) {
          for (const [access, mode] of [["r", "read-only"], ["w", "write-only"], ["rw", "read-write"]]) {
            const feature = storageFeature(format, access);
            device.pushErrorScope("validation");
            let refused = false;
            try {
              device.createBindGroupLayout({ entries: [{ binding: 0, visibility: 4, storageTexture: { format, access: mode } }] });
            } catch {
              refused = true; // a format behind a feature
            }
            refused = (await device.popErrorScope()) !== null || refused;
            if (refused !== (feature === null || (feature !== "" && !device.features.has(feature)))) wrong.push([format, access, feature, refused]);
          }
        }
        return wrong;
        """,
        list(IMAGE_FORMATS),
    )
    assert found == []


def test_too_many_images_name_the_limit(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = {
        "sampled images": "2d float",
        "storage images": "2d rgba8unorm w",
        "samplers": "sampler",
    }
    for name, words in cases.items():
        params = [param(f"t{at} {words}", at) for at in range(33)]
        module = kernel(
            monkeypatch, "@compute @workgroup_size(1) fn k() {}", *params, block=(1, 1, 1)
        )
        server.files[f"{name.split()[0]}.devmod"] = devmod.dumps(module)
    found = run(
        page,
        'const found = []; for (const name of argument) found.push(await failure(async () => (await kit.open(`${name}.devmod`)).getFunction("k"))); return found;',
        [name.split()[0] for name in cases],
    )
    limits = {
        "sampled images": (16, "SampledTextures"),
        "storage images": (4, "StorageTextures"),
        "samplers": (16, "Samplers"),
    }
    for (name, (most, limit)), message in zip(limits.items(), found, strict=True):
        text = f"the webgpu function 'k' uses 33 {name}, but the limit of this device is {most} (max{limit}PerShaderStage)"
        assert message == ["DeviceNotFoundError", text]


# -- needs

ADD = """
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn k() { y[0] += VALUE; }
"""


def adding(monkeypatch: pytest.MonkeyPatch, value: int, **options: Any) -> devmod.Module:
    return kernel(
        monkeypatch, ADD.replace("VALUE", f"{value}.0"), "y float32 rw", block=(1, 1, 1), **options
    )


NEITHER = "which neither this devmod-webgpu nor this device has: take a newer devmod-webgpu"
NEEDS: list[tuple[dict[str, Any], str]] = [
    ({"needs": ["toString"]}, f"needs 'toString', {NEITHER}"),
    ({"needs": ["fp16"]}, "needs fp16 (WebGPU's shader-f16), which this device does not have"),
    (
        {"needs": ["fp64", "images", "image_writes_3d"]},
        "needs fp64, which this device does not have",
    ),
    (
        {"needs": ["int64_atomics", "a\u202eb"]},
        f"needs 'a\\u202eb', {NEITHER}",
    ),
    (
        {"needs": ["texture-formats-tier2", "a" * 200]},
        f"needs '{'a' * 100}'… (200 characters), 'texture-formats-tier2', {NEITHER}",
    ),
    (
        {"needs": ["fp64"], "subgroup": 32},
        "needs fp64 and subgroups of 32 threads (it has subgroups of 4), which this device does not have",
    ),
    (
        {"needs": [f"need{each:02}" for each in range(20)]},
        "needs " + ", ".join(f"'need{each:02}'" for each in range(12)) + f" and 8 more, {NEITHER}",
    ),
    ({"needs": ["images"], "subgroup": 4}, ""),
]


@pytest.mark.row("R34")
def test_needs_are_compared_with_the_device_before_a_build(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (options, _) in enumerate(NEEDS):
        server.files[f"{number}.devmod"] = devmod.dumps(adding(monkeypatch, 1, **options))
    found = run(
        page,
        """
        const device = await (await navigator.gpu.requestAdapter()).requestDevice();
        const found = [];
        let compiled = 0;
        const original = device.createShaderModule;
        device.createShaderModule = (...given) => (compiled++, original.apply(device, given));
        for (let at = 0; at < argument; at++) found.push(await failure(async () => (await kit.open(`${at}.devmod`)).getFunction("k", { device })));
        return [found, compiled];
        """,
        len(NEEDS),
    )
    expected = [
        ["DeviceNotFoundError", f"the webgpu function 'k' {text}"] if text else None
        for _, text in NEEDS
    ]
    assert found == [expected, 1]


@pytest.mark.row("R34")
def test_a_candidate_whose_needs_the_device_lacks_is_skipped(
    page: Browser, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = [
        adding(monkeypatch, 1, needs=["fp64"]),
        adding(monkeypatch, 2, subgroup=64),
        adding(monkeypatch, 3),
    ]
    server.files["k.devmod"] = devmod.dumps(devmod.bundle(*modules))
    server.files["none.devmod"] = devmod.dumps(devmod.bundle(*modules[:2]))
    found = run(
        page,
        """
        const y = new Float32Array(1);
        await (await (await kit.open("k.devmod")).getFunction("k")).run({ y }, { grid: 1 });
        return [y[0], await failure(async () => (await kit.open("none.devmod")).getFunction("k"))];
        """,
    )
    reasons = "webgpu wgsl ('k'): needs fp64, which this device does not have; webgpu wgsl ('k'): needs subgroups of 64 threads (it has subgroups of 4), which this device does not have"
    assert found == [
        3,
        ["DeviceNotFoundError", f"the webgpu function 'k' cannot run on this device: {reasons}"],
    ]


def test_the_default_device_has_the_features_of_images(page: Browser) -> None:
    """It has what the adapter has."""
    found = run(
        page,
        """
        const adapter = await navigator.gpu.requestAdapter();
        const device = await kit.defaultDevice();
        const lacking = argument.filter((name) => adapter.features.has(name) && !device.features.has(name));
        return [lacking, device.features.has("float32-filterable"), device.limits.maxStorageTexturesPerShaderStage === adapter.limits.maxStorageTexturesPerShaderStage];
        """,
        [
            "float32-filterable",
            "bgra8unorm-storage",
            "texture-formats-tier1",
            "texture-formats-tier2",
            "subgroup-size-control",
        ],
    )
    assert found == [[], True, True]


def test_the_public_names_have_images() -> None:
    names = json.loads(
        run_in_node('return JSON.stringify(Object.keys(await import("./index.js")));')
    )
    assert {"Image", "Sampler", "image", "imageFrom", "sampler"} <= set(names)
