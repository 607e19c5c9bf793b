"""The forms of the page of `devmod view` in Chromium: arguments, files, results, pictures, and
errors at their fields.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from browser_driver import Browser  # noqa: E402
from browser_images import kernel  # noqa: E402
from browser_page import (  # noqa: E402
    LAUNCH,
    UNDECODABLE,
    UNIT,
    argument,
    low_contrast,
    number,
    open_kernel,
    picture,
    press_run,
    problems,
    result,
    saved,
    show,
)

AXPY = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
struct Scalars { alpha: f32, n: i32 }
@group(0) @binding(2) var<uniform> scalars: Scalars;
@compute @workgroup_size(64) fn axpy(@builtin(global_invocation_id) id: vec3u) {
  if (i32(id.x) < scalars.n) { y[id.x] += scalars.alpha * x[id.x]; }
}
"""
INVERT = """
@group(0) @binding(0) var<storage, read> picture: array<u32>;
@group(0) @binding(1) var<storage, read_write> inverted: array<u32>;
@group(0) @binding(2) var<storage, read_write> grey: array<f32>;
struct Size { width: u32, height: u32 }
@group(0) @binding(3) var<uniform> size: Size;
@compute @workgroup_size(8, 8) fn invert(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < size.width && id.y < size.height) {
    let at = id.y * size.width + id.x;
    inverted[at] = picture[at] ^ 0xffffffu;
    grey[at] = f32(picture[at] & 255u);
  }
}
"""
TILED = """
override TILE: u32 = 4;
override scale: f32;
@group(0) @binding(0) var<storage, read_write> y: array<f32, 16>;
@compute @workgroup_size(TILE) fn tiled(@builtin(global_invocation_id) id: vec3u) { y[id.x] = scale * f32(id.x); }
"""
#: A struct with a matrix and an array of structs, and a matrix alone.
SCENE = """
struct Light { on: u32, colour: vec3f }
struct Scene { matrix: mat2x3f, lights: array<Light, 2>, gamma: f32 }
@group(0) @binding(0) var<uniform> scene: Scene;
@group(0) @binding(1) var<uniform> view: mat4x4f;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn shade() {
  for (var i = 0; i < 2; i++) {
    for (var j = 0; j < 3; j++) {
      y[3 * i + j] = scene.matrix[i][j];
      y[6 + 3 * i + j] = f32(scene.lights[i].on) * scene.lights[i].colour[j];
    }
  }
  y[12] = scene.gamma;
  y[13] = view[3][2];
}
"""


def test_a_form_runs_a_kernel_and_shows_its_numbers(browser: Browser, tmp_path: Path) -> None:
    open_kernel(browser, tmp_path, AXPY)
    browser.fill(argument("x", "Shape"), "100")
    browser.select(argument("x", "Fill"), "range")
    browser.fill(argument("y", "Shape"), "10 x 10")
    browser.select(argument("y", "Fill"), "ones")
    browser.fill(number("alpha"), "2.5")
    browser.fill(number("n"), "99")
    browser.fill(LAUNCH, "100")
    press_run(browser)
    assert problems(browser) == {}
    expected = 1 + 2.5 * np.arange(100)
    expected[99] = 1
    assert result(browser, "y") == {
        "First": ", ".join(f"{value:g}" for value in expected[:16]) + ", …",
        "Minimum": "1",
        "Maximum": "246",
        "Mean": f"{expected.mean():g}",
    }
    # x is only read.
    assert browser.evaluate("return document.querySelectorAll('.result').length") == 1
    status = browser.text(".kernel .controls [role=status]")
    assert status.startswith("2 × 1 × 1 blocks of 64 × 1 × 1 threads in ")
    assert status.endswith(" ms, copies included.")
    browser.select(UNIT, "grid")
    browser.fill(LAUNCH, "1")
    press_run(browser)
    assert result(browser, "y")["Maximum"] == f"{1 + 2.5 * 63:g}"
    assert browser.messages() == []


def test_the_form_has_a_field_for_each_argument_with_its_range(
    browser: Browser, tmp_path: Path
) -> None:
    open_kernel(browser, tmp_path, AXPY)
    texts = browser.evaluate(
        "return [...document.querySelectorAll('.kernel legend, .kernel .hint')].map((each) => each.textContent)"
    )
    assert "x array of float32, in" in texts
    assert "y array of float32, in and out" in texts
    assert "int32, −2147483648 to 2147483647" in texts
    assert "float32" in texts
    assert "blocks of 64 × 1 × 1 threads" in texts
    assert (
        browser.text(".details .functions .where")
        == "record scalars · blocks of 64 × 1 × 1 threads"
    )
    assert (
        browser.evaluate("return document.querySelector('.kernel').getAttribute('aria-label')")
        == "Run axpy"
    )


def test_an_integer_has_what_its_name_and_the_arrays_suggest(
    browser: Browser, tmp_path: Path
) -> None:
    names = ("n", "n_elements", "width", "rows", "steps", "radius", "kernel_size")
    source = AXPY.replace("n: i32", ", ".join(f"{name}: i32" for name in names))
    open_kernel(browser, tmp_path, source)

    def values() -> Any:
        fields = "[...document.querySelectorAll('.kernel .field')].filter((each) => each.querySelector('label code'))"
        return browser.evaluate(
            f"return {fields}.map((each) => each.querySelector('input').value)"
        )[1:]  # without alpha

    assert values() == ["1024", "1024", "1024", "1", "1", "1", "1"]
    browser.fill(argument("x", "Shape"), "77")  # the smaller array
    assert values()[:3] == ["77", "77", "77"]
    browser.fill(argument("x", "Shape"), "4 x 6")
    assert values() == ["6", "24", "6", "4", "1", "1", "1"]
    browser.fill(number("n"), "5")
    browser.fill(argument("x", "Shape"), "")
    browser.fill(argument("x", "Shape"), "50")
    assert values() == ["5", "50", "50", "1", "1", "1", "1"]  # a number of the user's stays
    press_run(browser)
    assert problems(browser) == {}


def test_random_numbers_follow_their_seed(browser: Browser, tmp_path: Path) -> None:
    open_kernel(browser, tmp_path, AXPY)
    seen = []
    for seed in ("1", "1", "2"):
        browser.fill(argument("x", "Seed"), seed)
        press_run(browser)
        seen.append(result(browser, "y"))
    assert seen[0] == seen[1] != seen[2]
    assert 0 <= float(seen[0]["Minimum"]) < 0.1
    assert 0.9 < float(seen[0]["Maximum"]) < 1
    assert 0.4 < float(seen[0]["Mean"]) < 0.6


def test_fills_skip_the_padding_of_three_vectors_and_round_to_float16(
    browser: Browser, tmp_path: Path
) -> None:
    open_kernel(browser, tmp_path, AXPY)
    body = """
    const { elementOf, filled, numberOf } = await import("./fills.js");
    const made = (type, fill) => {
      const element = elementOf(type, 0);
      return [...filled(element, 3, fill, 1)].map((lane) => numberOf(element, lane));
    };
    return [made("float32x3", "range"), made("float32x2", "range"), made("float16x3", "range"), made("int32", "ones"), made("float16", "random")];
    """
    found = browser.evaluate(body)
    padded = [0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0]
    assert found[:4] == [padded, [0, 1, 2, 3, 4, 5], padded, [1, 1, 1]]
    assert np.array_equal(found[4], np.float16(found[4]))
    bits = browser.evaluate(
        "const { numberOf } = await import('./fills.js'); return Array.from({ length: 65536 }, (_, at) => String(numberOf({ base: 'float16' }, at)))"
    )
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(float)
    assert np.array_equal(
        [float(each.replace("Infinity", "inf")) for each in bits], halves, equal_nan=True
    )


def test_an_image_is_an_argument_and_a_picture_is_a_result(
    browser: Browser, tmp_path: Path
) -> None:
    from PIL import Image

    pixels = np.random.default_rng(3).integers(0, 256, (5, 12, 4), dtype=np.uint8)
    pixels[..., 3] = 255
    Image.fromarray(pixels).save(tmp_path / "noise.png")
    open_kernel(browser, tmp_path, INVERT)
    browser.select(argument("picture", "Fill"), "file")
    browser.files(argument("picture", "File"), [str(tmp_path / "noise.png")])
    browser.wait("document.querySelector('.kernel .array input').value === '5 × 12'")
    browser.fill(argument("inverted", "Shape"), "5 × 12")
    browser.fill(argument("grey", "Shape"), "60")
    browser.fill(number("width"), "12")
    browser.fill(number("height"), "5")
    browser.fill(LAUNCH, "12, 5")
    press_run(browser)
    assert problems(browser) == {}
    inverted = pixels ^ np.array([255, 255, 255, 0], np.uint8)
    assert np.array_equal(picture(browser, "inverted"), inverted)
    # One dimension is no picture until the user gives its width and height. Grey reaches from the
    # least to the greatest number.
    last = ".result:last-child "
    assert not browser.evaluate("return document.querySelector('.result:last-child details').open")
    browser.click(last + "summary")
    browser.fill(last + "label:has-text('Width') input", "12")
    browser.fill(last + "label:has-text('Height') input", "6")
    browser.wait("document.querySelector('.result:last-child .problem').textContent")
    assert browser.text(last + ".problem") == "12 × 6 pixels are 72; the array has 60 elements."
    browser.fill(last + "label:has-text('Height') input", "zero")
    assert (
        browser.text(last + ".problem")
        == "Width and height are whole numbers from 1 to 8192, and 16,777,216 pixels at most."
    )
    browser.fill(last + "label:has-text('Height') input", "5")
    red = pixels[..., 0].astype(float)
    expected = (red - red.min()) * 255 / (red.max() - red.min())
    found = picture(browser, "grey")
    assert np.abs(found[..., 0] - expected).max() <= 1
    assert (found[..., 3] == 255).all()
    # Packed numbers may also be shown in grey.
    browser.select(".result select >> nth=0", "grey")
    assert (np.ptp(picture(browser, "inverted")[..., :3], axis=-1) == 0).all()
    assert browser.messages() == []


def test_a_file_of_raw_numbers_is_an_argument(browser: Browser, tmp_path: Path) -> None:
    x = np.random.default_rng(5).normal(size=77).astype(np.float32)
    x[3], x[4] = np.nan, np.inf
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    open_kernel(browser, tmp_path, AXPY)
    browser.select(argument("x", "Fill"), "file")
    browser.files(argument("x", "File"), [str(tmp_path / "x.bin")])
    browser.wait("document.querySelector('.kernel .array input').value === '77'")
    browser.select(argument("y", "Fill"), "file")
    browser.files(argument("y", "File"), [str(tmp_path / "x.bin")])
    browser.wait(
        "document.querySelectorAll('.kernel .array input[type=text]')[2].value === '77'"
    )  # and so is n
    for _ in range(2):  # the file is copied for each run
        press_run(browser)
        found = result(browser, "y")
    x *= 2
    numbers = [
        float(each.replace("Infinity", "inf"))
        for each in found["First"].removesuffix(", …").split(", ")
    ]
    assert np.allclose(numbers, x[:16], rtol=1e-5, equal_nan=True)
    assert np.isclose(float(found["Minimum"]), np.nanmin(x), rtol=1e-5)
    assert (found["Maximum"], found["NaN"]) == ("Infinity", "1 of 77")


def test_errors_appear_at_their_fields(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "odd.bin").write_bytes(b"12345")
    (tmp_path / "no.png").write_text("no picture")
    open_kernel(browser, tmp_path, AXPY)
    browser.fill(argument("x", "Shape"), "10 by 10")
    browser.fill(argument("y", "Shape"), "9" * 15)
    browser.fill(number("alpha"), "one")
    browser.fill(number("n"), "2147483648")
    browser.fill(LAUNCH, "1 2 3 4")
    press_run(browser)
    found = browser.evaluate(
        "return [...document.querySelectorAll('.kernel .field .problem')].map((each) => each.textContent).filter(Boolean)"
    )
    limit = browser.evaluate(
        "return (await (await import('./devmod-webgpu/index.js')).defaultDevice()).limits.maxStorageBufferBindingSize.toLocaleString('en')"
    )
    assert found == [
        "expected a length such as 1024, or rows × columns such as 64 × 64",
        f"takes {4 * int('9' * 15):,} bytes, but the limit of this device is {limit}",
        "'one' is not a number",
        "2147483648 does not fit int32 (-2147483648 to 2147483647)",
        "expected a whole number, or up to three such as 64 × 64",
    ]
    assert (
        browser.evaluate(
            "return document.activeElement.closest('fieldset').querySelector('code').textContent"
        )
        == "x"
    )
    assert browser.evaluate("return document.querySelector('.results').children.length") == 0
    # A field whose value changes loses its error.
    browser.fill(number("n"), "64")
    assert set(problems(browser, focus=False)) == {"Shape", "alpha", "Number in x, y, z"}
    for name in ("x", "y"):
        browser.fill(argument(name, "Shape"), "64")
    browser.fill(number("alpha"), "")
    browser.fill(LAUNCH, "5000000")
    browser.select(argument("x", "Fill"), "file")
    press_run(browser)
    assert problems(browser)["alpha"] == "expected one number"
    assert problems(browser)["File"] == "choose a file"
    browser.fill(number("alpha"), "1e39")
    browser.files(argument("x", "File"), [str(tmp_path / "odd.bin")])
    press_run(browser)
    assert problems(browser)["alpha"] == "1e+39 does not fit float32"
    assert (
        problems(browser)["File"]
        == "odd.bin has 5 bytes, which is not a whole number of elements of 4 bytes"
    )
    browser.files(argument("x", "File"), [str(tmp_path / "no.png")])
    browser.wait(UNDECODABLE)
    press_run(browser)
    assert problems(browser)["File"].startswith("this browser cannot decode no.png as a picture: ")
    # Errors of the call itself are at the field of the argument or of the launch, or below the
    # button.
    browser.select(argument("x", "Fill"), "zeros")
    browser.fill(number("alpha"), "-inf")
    press_run(browser)
    assert problems(browser) == {
        "Number in x, y, z": "the webgpu function 'axpy' cannot be launched on this device: its maxComputeWorkgroupsPerDimension is 65535, "
        "but grid=(78125, 1, 1) has more blocks in x. threads=5000000 in blocks of 64 needs grid=78125; launch in several parts, or let "
        "the kernel index more dimensions"
    }
    browser.fill(LAUNCH, "64")
    press_run(browser)
    assert problems(browser) == {}
    assert result(browser, "y")["NaN"] == "64 of 64"
    assert browser.messages() == []


def test_constants_are_fields(browser: Browser, tmp_path: Path) -> None:
    open_kernel(browser, tmp_path, TILED)
    # The kernel declares 64 bytes.
    assert browser.evaluate("return document.querySelector('.kernel .array input').value") == "16"
    press_run(browser)
    assert problems(browser) == {"scale": "expected a number"}
    browser.fill(number("scale"), "0.5")
    browser.fill(number("TILE"), "100000")
    press_run(browser)
    assert "the limit of this device is" in browser.text(".kernel .bad")
    browser.fill(number("TILE"), "-1")
    press_run(browser)
    assert problems(browser)["TILE"].endswith(
        "cannot take the constant 'TILE': -1 does not fit uint32 (0 to 4294967295)"
    )
    browser.fill(number("TILE"), "8")
    browser.fill(argument("y", "Shape"), "8")
    press_run(browser)
    assert problems(browser) == {"Shape": "takes 32 bytes, and the kernel declares 64"}
    browser.fill(argument("y", "Shape"), "16")
    browser.fill(LAUNCH, "16")
    press_run(browser)
    assert result(browser, "y")["First"] == ", ".join(f"{value / 2:g}" for value in range(16))
    assert browser.text(".kernel .controls [role=status]").startswith(
        "2 × 1 × 1 blocks of 8 × 1 × 1 threads in "
    )


def test_a_struct_has_a_field_for_each_member(browser: Browser, tmp_path: Path) -> None:
    open_kernel(browser, tmp_path, SCENE)
    assert "(scene: struct of 112 bytes, view: float32x4[4], y: float32[] in/out)" in browser.text(
        ".functions"
    )
    assert browser.evaluate(
        "return [...document.querySelectorAll('.kernel .hint')].map((each) => each.textContent)"
    )[:3] == [
        "2 × 3 numbers of float32; one number fills all",
        "uint32, 0 to 4294967295",
        "3 numbers of float32; one number fills all",
    ]
    browser.fill(number("view"), ", ".join(map(str, range(16))))
    browser.fill(number("matrix"), "1, 2, 3, 4, 5, 6")
    for at, (on, colour) in enumerate([("1", "7 8 9"), ("2", "10, 11, twelve")]):
        inside = f'.kernel fieldset:has(> legend code:text-is("lights[{at}]")) '
        browser.fill(inside + '.field:has(> label code:text-is("on")) input', on)
        browser.fill(inside + '.field:has(> label code:text-is("colour")) input', colour)
    browser.fill(number("gamma"), "0.5")
    browser.fill(argument("y", "Shape"), "14")
    browser.fill(LAUNCH, "1")
    press_run(browser)
    assert problems(browser) == {"colour": "'twelve' is not a number"}
    second = '.kernel fieldset:has(> legend code:text-is("lights[1]")) .field:has(> label code:text-is("colour")) input'
    browser.fill(second, "10, 11")
    press_run(browser)
    assert problems(browser) == {"colour": "expected 3 numbers, got 2"}
    browser.fill(second, "12")  # one number for all lanes
    press_run(browser)
    assert result(browser, "y")["First"] == "1, 2, 3, 4, 5, 6, 7, 8, 9, 24, 24, 24, 0.5, 14"
    assert browser.messages() == []


def test_kernels_that_cannot_run_here_have_the_reason(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axpy = "__kernel void axpy(__global const float *x, __global float *y, float alpha, int n) {}\n__kernel void other(int n) {}"
    modules = [
        kernel(monkeypatch, "", devmod.Param("t", "image")),
        devmod.compile(AXPY, "webgpu"),
        devmod.compile(axpy, "opencl"),
    ]
    show(browser, saved(tmp_path / "k.devmod", *modules))
    why = "its argument t has no type of an image in its interface; compile the shader with this version of devmod."
    assert browser.text(".why-not") == f"It cannot run here: {why}"
    browser.evaluate(
        "[...document.querySelectorAll('.tree button')].find((each) => each.innerText.startsWith('opencl')).click()"
    )
    browser.wait("document.querySelectorAll('.details .functions .where').length === 2")
    why = (
        "It cannot run here: a browser runs kernels of kind webgpu, and this one is of kind opencl."
    )
    shown = browser.evaluate(
        "return [...document.querySelectorAll('.details .functions .where')].map((each) => each.innerText)"
    )
    assert shown == [
        f"{why} Show its webgpu variant",
        f"{why} The bundle has no webgpu variant of it.",
    ]
    browser.evaluate(
        "[...document.querySelectorAll('.tree button')].find((each) => each.innerText.includes('axpy')).click()"
    )
    browser.wait("document.querySelector('.kernel')")
    browser.fill(number("alpha"), "7")
    browser.evaluate(
        "[...document.querySelectorAll('.tree button')].find((each) => each.innerText.startsWith('opencl')).click()"
    )
    browser.wait("document.querySelectorAll('.details .functions .where').length === 2")
    browser.click("button.link")
    browser.wait("document.querySelector('.kernel')")
    assert (
        browser.evaluate("return document.querySelector('.kernel').getAttribute('aria-label')")
        == "Run axpy"
    )
    assert (
        browser.evaluate("return document.querySelector('[aria-current=true] .names').textContent")
        == "axpy"
    )
    assert (
        browser.evaluate("return document.querySelector('.kernel > .fields > .field input').value")
        == "7"
    )
    assert browser.evaluate("return document.activeElement.id") == "details-title"


@pytest.mark.volume
def test_a_function_of_tvm_has_a_form_without_names(browser: Browser, tmp_path: Path) -> None:
    vectors = ROOT / "core" / "tests" / "vectors" / "tvm"
    module = devmod.interop.tvm.load_imports(
        (vectors / "vadd.webgpu.tvmimports").read_bytes()
    ).imports[0]
    show(browser, saved(tmp_path / "k.devmod", module))
    browser.wait("document.querySelector('.kernel')")
    for at, fill in (("argument 1", "range"), ("argument 2", "ones"), ("argument 3", "zeros")):
        assert browser.evaluate(
            f"return document.querySelector('.kernel').innerText.includes('{at}')"
        )
        browser.select(argument(at, "Fill"), fill)
    # It has blocks alone.
    assert (
        browser.evaluate(
            "return [...document.querySelectorAll('.kernel select')].at(-1).options.length"
        )
        == 1
    )
    browser.fill(LAUNCH, "16")
    press_run(browser)
    assert problems(browser) == {}
    assert (
        result(browser, "argument 3")["First"] == ", ".join(str(at + 1) for at in range(16)) + ", …"
    )
    assert result(browser, "argument 3")["Maximum"] == "1024"


def test_names_of_a_file_are_text_in_a_form(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    evil = '"><img src=x onerror=alert(1)>\u202egnp'
    member = devmod.Member(evil, "float32")
    params = [
        devmod.Param(evil, "buffer", "float32", "rw", (0, 0)),
        devmod.Param(
            f"{evil}2",
            "uniform",
            "uint8x16",
            at=(0, 1),
            align=16,
            members=[member, devmod.Member("__proto__", "int32", 4)],
        ),
    ]
    constants = [
        {"name": evil, "type": evil, "default": evil},
        {"name": "constructor", "type": "float32", "default": 1},
        7,
    ]
    interface = devmod.Interface(params, block=(1, 1, 1), extra={"constants": constants})
    info = devmod.FunctionInfo("k", ("handle", "uint8x16"), interface=interface)
    show(
        browser,
        saved(
            tmp_path / "k.devmod",
            devmod.create_with_fallback(
                "webgpu", {"k": b"@compute fn k() {}"}, "wgsl", {"k": info}
            ),
        ),
    )
    browser.wait("document.querySelector('.kernel')")
    assert browser.evaluate("return document.querySelectorAll('main img').length") == 0
    assert '"><img src=x onerror=alert(1)>\\u{202e}gnp' in browser.text(".kernel")
    assert "\u202e" not in browser.text("main")
    press_run(browser)
    assert (
        browser.text(".kernel .bad")
        == "a constant of the interface is invalid: expected a name or an id, and a type"
    )
    assert browser.messages() == []


@pytest.mark.volume
def test_strange_types_of_a_file_do_not_break_a_form(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    types = [
        "int0",
        "uint0",
        "float32x0",
        "int32x65535",
        "handle",
        "void",
        "type200_3",
        "complex64",
        "bool",
        "uint1x4",
        "uint8x65535",
        "float8_e4m3fn",
    ]
    params = [devmod.Param("", "scalar", each, at=(0, 0)) for each in types]
    params += [
        devmod.Param("", "buffer", each, "rw", (0, at + 1), size=2**62)
        for at, each in enumerate(types)
    ]
    members = [
        devmod.Member("__proto__", "float32"),
        devmod.Member("", "uint8", 4, shape=[60000], strides=[1]),
    ]
    params.append(devmod.Param("__proto__", "uniform", "uint8x60004", at=(1, 0), members=members))
    constants = [{"name": "__proto__", "type": "bool"}]
    interface = devmod.Interface(
        params, [devmod.Block((2, 0), 16)], (0, 0, 0), {"constants": constants}
    )
    info = devmod.FunctionInfo(
        "k",
        [param.type if param.kind != "buffer" else "handle" for param in params],
        interface=interface,
    )
    show(
        browser,
        saved(
            tmp_path / "k.devmod",
            devmod.create_with_fallback("webgpu", {"k": b""}, "wgsl", {"k": info}),
        ),
    )
    browser.wait("document.querySelector('.kernel')")
    assert browser.evaluate(
        "return document.querySelectorAll('.kernel fieldset.array').length"
    ) == len(types)
    press_run(browser)
    found = browser.evaluate(
        "return [...document.querySelectorAll('.kernel .field')].map((each) => [each.querySelector('label'), each.querySelector('.problem')].map((at) => at.textContent))"
    )
    shape = "expected a length such as 1024, or rows × columns such as 64 × 64"
    wrong = [["Shape", shape]] * len(types) + [["__proto__", "expected true or false"]]
    assert [
        [label, shape if label == "Shape" else problem] for label, problem in found if problem
    ] == wrong
    assert browser.messages() == []


@pytest.mark.volume
def test_a_form_by_keys_alone(browser: Browser, tmp_path: Path) -> None:
    open_kernel(browser, tmp_path, AXPY)
    browser.evaluate("document.querySelector('[aria-current=true]').focus()")
    for _ in range(40):
        browser.press("Tab")
        if browser.evaluate("return document.activeElement.labels?.[0]?.textContent === 'alpha'"):
            break
    assert browser.evaluate("return document.activeElement.labels[0].textContent") == "alpha"
    browser.press("Control+a")
    browser.press("x")
    browser.press("Enter")
    browser.wait("document.querySelector('.kernel [aria-invalid=true]')")
    assert problems(browser) == {"alpha": "'x' is not a number"}
    browser.press("Control+a")
    browser.press("0")
    browser.press("Enter")
    browser.wait("document.querySelector('.result')")
    assert result(browser, "y")["Maximum"] == "0"
    assert browser.messages() == []


def test_a_shader_that_does_not_compile_shows_the_compilers_message(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = devmod.compile(AXPY, "webgpu")
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    text = b"@compute @workgroup_size(64)\nfn axpy() {\n  let x = missing;\n}\n"
    show(
        browser,
        saved(
            tmp_path / "k.devmod",
            devmod.create_with_fallback("webgpu", {"axpy": text}, "wgsl", dict(good.functions)),
        ),
    )
    browser.wait("document.querySelector('.kernel')")
    press_run(browser)
    assert browser.text(".kernel .bad").startswith(
        "the webgpu function 'axpy' does not compile in this browser:\nline 3, column 11: "
    )


@pytest.mark.volume_but("light")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_at_the_width_of_a_phone_a_form_does_not_overflow(
    browser: Browser, tmp_path: Path, scheme: str
) -> None:
    open_kernel(
        browser, tmp_path, SCENE, viewport={"width": 360, "height": 740}, colorScheme=scheme
    )
    browser.fill(argument("y", "Shape"), "10 × 10")
    press_run(browser)
    assert browser.evaluate("return document.querySelector('.result canvas').hidden") is False
    browser.fill(number("gamma"), "x")
    browser.click(".run-button")
    browser.wait("document.querySelector('.kernel [aria-invalid=true]')")
    assert browser.evaluate("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert low_contrast(browser) == []
