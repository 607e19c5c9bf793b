"""The forms of images and samplers on the page of `devmod view` in Chromium, and the pictures that
kernels draw.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod
from devmod.backend import IMAGE_FORMATS

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from browser_driver import Browser, decode_array, encode_array  # noqa: E402
from browser_images import RESIZE, kernel  # noqa: E402
from browser_page import (  # noqa: E402
    LAUNCH,
    UNDECODABLE,
    argument,
    low_contrast,
    number,
    press_run,
    problems,
    result,
    saved,
    show,
)

COPY = RESIZE.replace(" * 3.0 - 1.0", "")
#: A kernel that copies one number for each channel: "MADE" is the result at the place id.
DRAW = """
@group(0) @binding(0) var dst: texture_storage_TYPE<FORMAT, write>;
@compute @workgroup_size(1) fn k(@builtin(global_invocation_id) id: vec3u) { textureStore(dst, PLACE, MADE); }
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    yield browser
    assert browser.messages() == []


def open_module(page: Browser, path: Path, *modules: devmod.Module, **options: Any) -> None:
    show(page, saved(path / "k.devmod", *modules), **options)
    page.wait("document.querySelector('.kernel')")


def resizer(output: str = "rgba8unorm") -> devmod.Module:
    return devmod.compile(COPY.replace("rgba32float", output), "webgpu")


def drawer(format: str, made: str, type: str = "2d") -> devmod.Module:
    place = {"1d": "id.x", "2d": "id.xy", "3d": "id", "2d_array": "id.xy, id.z"}[type]
    source = (
        DRAW.replace("TYPE", type)
        .replace("FORMAT", format)
        .replace("PLACE", place)
        .replace("MADE", made)
    )
    return devmod.compile(source, "webgpu")


def shown(page: Browser, name: str = "dst") -> np.ndarray:
    """Return the pixels of the picture of a result, with its label checked."""
    body = """
    const canvas = document.querySelector(".result canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let made = "";
    for (let at = 0; at < data.length; at += 8192) made += String.fromCharCode(...data.subarray(at, at + 8192));
    return [canvas.height, canvas.width, btoa(made), canvas.getAttribute("aria-label")];
    """
    height, width, data, label = page.evaluate(body)
    assert label == f"{name} as a picture of {width} × {height} pixels"
    return decode_array(data, "uint8").reshape(height, width, 4)


def caption(page: Browser) -> str:
    return str(page.text(".result .hint"))


@pytest.mark.row("R34")
def test_a_picture_file_is_resized_and_shown(page: Browser, tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.random.default_rng(5).integers(0, 256, (20, 37, 4), dtype=np.uint8)
    pixels[..., 3] = 255
    Image.fromarray(pixels).save(tmp_path / "noise.png")
    open_module(page, tmp_path, resizer())
    page.select(argument("s", "Filter"), "nearest")
    page.select(argument("src", "Fill"), "file")
    page.files(argument("src", "Picture"), [str(tmp_path / "noise.png")])
    # The size of the picture is that of the other image and of the launch.
    page.wait(
        "[...document.querySelectorAll('.kernel input')].filter((each) => each.value === '37 × 20').length === 3"
    )
    press_run(page)
    assert problems(page) == {}
    assert np.array_equal(shown(page), pixels)
    assert caption(page) == "0 is dark, 255 is bright."
    first = ", ".join(f"({', '.join(map(str, each))})" for each in pixels[0, :4])
    assert result(page, "dst") == {
        "First": f"{first}, …",
        "Minimum": "0",
        "Maximum": "255",
        "Mean": f"{pixels.mean():g}",
    }
    assert page.text(".result h4") == "dst image 2d of rgba8unorm, 37 × 20"
    page.fill(argument("dst", "Size"), "74 × 40")
    page.fill(LAUNCH, "74 × 40")
    press_run(page)
    assert np.array_equal(shown(page), pixels.repeat(2, 0).repeat(2, 1))
    # Sizes that the user has entered stay.
    Image.fromarray(pixels[:10, :10]).save(tmp_path / "small.png")
    page.files(argument("src", "Picture"), [str(tmp_path / "small.png")])
    press_run(page)
    assert shown(page).shape == (40, 74, 4)


@pytest.mark.volume
def test_the_example_draws_a_chosen_picture(page: Browser, tmp_path: Path) -> None:
    """Its integers width and height take the size of the picture."""
    from PIL import Image

    file = ROOT / "examples" / "images" / "lake.png"
    open_module(
        page, tmp_path, devmod.compile(ROOT / "examples" / "webgpu" / "resize.wgsl", "webgpu")
    )
    page.select(argument("source", "Fill"), "file")
    page.files(argument("source", "Picture"), [str(file)])
    page.wait(
        "[...document.querySelectorAll('.kernel input')].some((each) => each.value === '480')"
    )
    press_run(page)
    assert np.array_equal(shown(page, "result"), np.asarray(Image.open(file).convert("RGBA")))
    page.fill(number("width"), "240")
    press_run(page)
    picture = shown(page, "result")
    assert (picture[:, 240:] == 0).all()
    assert (picture[:, :240, 3] == 255).all()


def test_a_result_is_saved_as_a_picture_file(page: Browser, tmp_path: Path) -> None:
    from PIL import Image

    open_module(page, tmp_path, resizer())
    press_run(page)
    name, data = page.download('.result button:text-is("Save as PNG")')
    assert name == "dst.png"
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
    y, x = np.mgrid[:256, :256]
    assert np.array_equal(picture, np.stack([x, y, 0 * x, 0 * x + 255], -1))


@pytest.mark.volume_but("r8unorm")
@pytest.mark.parametrize(
    "format", ["rgba8unorm", "r8unorm", "rgba16float", "r32float", "rgba32float"]
)
def test_every_offered_format_is_filled(page: Browser, tmp_path: Path, format: str) -> None:
    open_module(page, tmp_path, resizer("rgba32float"))
    page.select(argument("src", "Format"), format)
    y, x = np.mgrid[:256, :256] / 255
    grey = 0.2126 * x + 0.7152 * y
    channels = (
        [x, y, 0 * x, 0 * x + 1] if format.startswith("rgba") else [grey, 0 * x, 0 * x, 0 * x + 1]
    )
    press_run(page)
    assert problems(page) == {}
    assert np.abs(shown(page).astype(float) - np.stack(channels, -1) * 255).max() <= 1
    assert caption(page) == "0 is dark, 1 is bright."
    page.select(argument("src", "Fill"), "random")
    means = []
    for seed in ("1", "1", "2"):
        page.fill(argument("src", "Seed"), seed)
        press_run(page)
        means.append(result(page, "dst")["Mean"])
    assert means[0] == means[1] != means[2]
    page.select(argument("src", "Fill"), "zeros")
    press_run(page)
    assert float(result(page, "dst")["Maximum"]) == (1 if format.startswith(("r8", "r32")) else 0)


#: A format, the numbers of its texels, the pixels, and the caption.
SCALED: list[tuple[str, list[list[float]], list[list[int]], str]] = [
    (
        "rgba8unorm",
        [[51, 102, 153, 255], [0, 0, 0, 0]],
        [[51, 102, 153, 255], [0, 0, 0, 0]],
        "0 is dark, 255 is bright.",
    ),
    ("rgba8snorm", [[-127, 127, 0, 127]], [[0, 255, 128, 255]], "-127 is dark, 127 is bright."),
    (
        "rgba16unorm",
        [[0, 65535, 13107, 65535]],
        [[0, 255, 51, 255]],
        "0 is dark, 65,535 is bright.",
    ),
    ("rgba32float", [[0.2, 0.4, 0.6, 1]], [[51, 102, 153, 255]], "0 is dark, 1 is bright."),
    (
        "rgba32float",
        [[-2, 6, 0, 1], [np.nan, np.inf, 2, 9]],
        [[0, 255, 64, 255], [0, 255, 128, 255]],
        "The numbers are outside of 0 to 1, so they are scaled: -2 is dark, 6 is bright.",
    ),
    (
        "rgba16float",
        [[0, 10, 5, 0]],
        [[0, 255, 128, 255]],
        "The numbers are outside of 0 to 1, so they are scaled: 0 is dark, 10 is bright.",
    ),
    (
        "r32float",
        [[1], [3], [0]],
        [[85] * 3 + [255], [255] * 4, [0, 0, 0, 255]],
        "The numbers are outside of 0 to 1, so they are scaled: 0 is dark, 3 is bright.",
    ),
    ("rg32float", [[0.2, 0.4]], [[51, 102, 0, 255]], "0 is dark, 1 is bright."),
    ("rgba8uint", [[1, 2, 3, 255]], [[1, 2, 3, 255]], "0 is dark, 255 is bright."),
    (
        "r32uint",
        [[1000], [3000]],
        [[0, 0, 0, 255], [255] * 4],
        "The numbers are outside of 0 to 255, so they are scaled: 1,000 is dark, 3,000 is bright.",
    ),
    (
        "r32sint",
        [[-2], [0], [1]],
        [[0, 0, 0, 255], [170] * 3 + [255], [255] * 4],
        "The numbers are outside of 0 to 255, so they are scaled: -2 is dark, 1 is bright.",
    ),
    (
        "r32float",
        [[7], [7]],
        [[128] * 3 + [255]] * 2,
        "The numbers are outside of 0 to 1, so they are scaled: 7 is dark, 7 is bright.",
    ),
    ("bgra8unorm", [[0, 51, 255, 255]], [[255, 51, 0, 255]], "0 is dark, 255 is bright."),
]


def test_images_of_every_kind_of_format_are_pictures(page: Browser, tmp_path: Path) -> None:
    open_module(page, tmp_path, resizer())
    body = """
    const { resultOf } = await import("./results.js");
    const found = [];
    for (const [format, count, type, data] of argument) {
      const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
      const read = async () => new globalThis[type](bytes.buffer);
      const part = await resultOf("dst", "", { format, shape: [count, 1], layers: 0, type: "2d", read });
      const pixels = part.querySelector("canvas").getContext("2d").getImageData(0, 0, count, 1).data;
      found.push([[...pixels], part.querySelector(".hint").textContent]);
    }
    return found;
    """
    types = {
        "uint8": "Uint8Array",
        "int8": "Int8Array",
        "uint16": "Uint16Array",
        "float16": "Uint16Array",
        "uint32": "Uint32Array",
    }
    types |= {"int32": "Int32Array", "float32": "Float32Array"}
    given = []
    for format, texels, _, _ in SCALED:
        dtype = IMAGE_FORMATS[format].dtype
        given.append(
            [format, len(texels), types[dtype], encode_array(np.array(texels).astype(dtype))]
        )
    for (format, _, pixels, text), (data, caption) in zip(
        SCALED, page.evaluate(body, given), strict=True
    ):
        assert np.abs(np.array(data) - np.array(pixels).ravel()).max() <= 1, (format, data)
        assert caption.replace("−", "-") == text, format


@pytest.mark.volume
def test_layers_and_depth_are_shown_one_by_one(page: Browser, tmp_path: Path) -> None:
    for type_, label in (("2d_array", "Layer"), ("3d", "Depth")):
        open_module(page, tmp_path, drawer("rgba8unorm", "vec4f(f32(id.z) / 5, 0, 0, 0)", type_))
        page.fill(argument("dst", "Size"), "5 × 4 × 3")
        page.fill(LAUNCH, "5 × 4 × 3")
        press_run(page)
        field = f'.result label:has-text("{label}") input'
        for layer in range(3):
            page.fill(field, str(layer))
            assert shown(page)[..., 0].tolist() == [[51 * layer] * 5] * 4
        # Alpha is zero everywhere, so it is not used.
        assert (shown(page)[..., 3] == 255).all()
        page.fill(field, "3")
        assert page.text(".result .problem") == "Expected a number from 0 to 2."
        assert page.evaluate("return document.querySelector('.result canvas').hidden")


@pytest.mark.volume
def test_a_line_of_texels_is_shown(page: Browser, tmp_path: Path) -> None:
    open_module(page, tmp_path, drawer("rgba8unorm", "vec4f(f32(id.x) / 1024, 0, 0, 1)", "1d"))
    press_run(page)
    assert shown(page).shape == (1, 1024, 4)
    assert (
        page.evaluate(
            "return document.querySelector('.result canvas').getBoundingClientRect().height"
        )
        > 20
    )


def test_errors_are_at_their_fields(page: Browser, tmp_path: Path) -> None:
    open_module(page, tmp_path, resizer())
    wrong = {
        "": "expected 2 lengths such as 64 × 64",
        "64": "expected 2 lengths such as 64 × 64",
        "4 × 0": "expected 2 lengths such as 64 × 64",
        "4 × 100000": "image: this device supports no image of the shape (4, 100000): its maxTextureDimension2D is 8192",
    }
    for text, message in wrong.items():
        page.fill(argument("dst", "Size"), text)
        press_run(page)
        assert problems(page) == {"Size": message}
    page.fill(argument("dst", "Size"), "8 × 8")
    page.select(argument("src", "Fill"), "file")
    press_run(page)
    assert problems(page) == {"Picture": "choose a file"}
    (tmp_path / "no.png").write_bytes(b"no picture")
    page.files(argument("src", "Picture"), [str(tmp_path / "no.png")])
    page.wait(UNDECODABLE)
    page.select(argument("src", "Fill"), "random")
    page.fill(argument("src", "Seed"), "one")
    press_run(page)
    assert problems(page) == {"Seed": "expected a whole number"}


def test_a_sampler_has_the_chosen_address(page: Browser, tmp_path: Path) -> None:
    open_module(page, tmp_path, devmod.compile(RESIZE, "webgpu"))  # it reads from -1 to 2
    page.fill(argument("src", "Size"), "4 × 1")
    page.fill(argument("dst", "Size"), "12 × 1")
    page.fill(LAUNCH, "12 × 1")
    page.select(argument("s", "Filter"), "nearest")
    row = [0, 85, 170, 255]
    for address, left, right in (
        ("clamp", [0] * 4, [255] * 4),
        ("repeat", row, row),
        ("mirror", row[::-1], row[::-1]),
    ):
        page.select(argument("s", "Address"), address)
        press_run(page)
        assert shown(page)[0, :, 0].tolist() == [*left, *row, *right]


@pytest.mark.volume
def test_a_sampler_that_does_not_fit_shows_the_error(page: Browser, tmp_path: Path) -> None:
    source = (
        "@group(0) @binding(0) var src: texture_2d<u32>;\n@group(0) @binding(1) var s: sampler;\n"
        "@group(0) @binding(2) var<storage, read_write> y: array<vec4u>;\n"
        "@compute @workgroup_size(1) fn k() { y[0] = textureGather(0, src, s, vec2f(0.5)); }\n"
    )
    open_module(page, tmp_path, devmod.compile(source, "webgpu"))
    press_run(page)
    assert problems(page)["Filter"].startswith(
        "the webgpu function 'k': argument 2 's' is a linear sampler, and the shader reads an image"
    )
    page.select(argument("s", "Filter"), "nearest")
    press_run(page)
    assert problems(page) == {}
    assert len(result(page, "y")["First"]) > 0


def test_kernels_with_images_that_cannot_run_here_have_the_reason(
    page: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = devmod.Param("t", "image", "1d_array", "r", (0, 0), sample="float")
    modules = [
        (
            kernel(monkeypatch, "", bad),
            "its argument t is an image of type 1d_array, which WebGPU does not support.",
        ),
        (
            kernel(monkeypatch, "", devmod.Param("w", "local", at=0)),
            "its argument w is of kind local, which WebGPU does not support.",
        ),
        (
            kernel(monkeypatch, "", "y float32 rw", needs=["fp16"]),
            "it needs fp16 (WebGPU's shader-f16), which this device does not have.",
        ),
        (
            kernel(monkeypatch, "", "y float32 rw", subgroup=32),
            "it needs subgroups of 32 threads (it has subgroups of 4), which this device does not have.",
        ),
    ]
    devmod.save(
        devmod.bundle(*(module for module, _ in modules), mixed=True), tmp_path / "k.devmod"
    )
    show(page, tmp_path / "k.devmod")
    for at, (_, text) in enumerate(modules):
        page.evaluate(f"document.querySelectorAll('.tree button')[{at}].click()")
        page.wait(
            f"document.querySelector('.why-not')?.innerText === {json.dumps(f'It cannot run here: {text}')}"
        )
    assert page.evaluate("return document.querySelectorAll('.runs-here').length") == 0


def test_the_signature_and_the_code_of_a_call(page: Browser, tmp_path: Path) -> None:
    open_module(page, tmp_path, resizer())
    assert page.text(".functions li > code").startswith(
        "k(src: image 2d float, s: sampler, dst: image 2d rgba8unorm out)"
    )
    legends = page.evaluate(
        "return [...document.querySelectorAll('.kernel legend')].map((each) => each.textContent)"
    )
    assert legends == ["src image 2d of float, in", "s sampler", "dst image 2d of rgba8unorm, out"]
    page.click(".usage summary")
    code = page.evaluate(
        "return document.querySelector('.usage .source pre:last-of-type').textContent"
    )
    assert 'import { image, imageFrom, open, sampler } from "devmod-webgpu";' in code
    assert "const src = await imageFrom(picture); // an ImageBitmap" in code
    assert 'const s = await sampler({ filter: "linear" });' in code
    assert (
        'const dst = await image([/* width, height */], "rgba8unorm"); // await dst.read() has its numbers'
        in code
    )
    assert "await k.run({ src, s, dst }, { threads: [/* threads in x, y, z */] });" in code


@pytest.mark.volume_but("dark")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_at_the_width_of_a_phone_a_form_of_images_does_not_overflow(
    page: Browser, tmp_path: Path, scheme: str
) -> None:
    open_module(
        page, tmp_path, resizer(), viewport={"width": 360, "height": 740}, colorScheme=scheme
    )
    page.select(argument("src", "Fill"), "random")
    press_run(page)
    assert page.evaluate("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert low_contrast(page) == []
