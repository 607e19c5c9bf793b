"""The page of `devmod view` with programs: a form with the inputs, a picture that is dropped on
one, and the results.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "vendors")]

import test_program_state as states  # noqa: E402
from browser_driver import Browser  # noqa: E402
from browser_page import argument, low_contrast, number, press_run, problems, result, saved, show  # noqa: E402

pytestmark = pytest.mark.row("R45")
DIGITS = ROOT / "examples" / "applications" / "digits" / "digits.devmod"
LAKE = ROOT / "examples" / "images" / "lake.png"
#: Drop a file on the fields of an array.
DROP = """
const [name, data] = argument;
const file = new File([Uint8Array.from(atob(data), (each) => each.charCodeAt(0))], "lake.png", { type: "image/png" });
const dataTransfer = new DataTransfer();
dataTransfer.items.add(file);
const group = [...document.querySelectorAll("fieldset.array")].find((each) => each.querySelector("legend code").textContent === name);
for (const type of ["dragenter", "dragover", "drop"]) group.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
return document.querySelector("#drop").hidden;
"""


@pytest.fixture
def page(browser: Browser) -> Browser:
    return browser


def test_the_digits_have_a_form(page: Browser) -> None:
    show(page, DIGITS)
    page.wait("document.querySelector('.kernel')")
    assert page.text(".tree [aria-current=true]").startswith("program")
    assert page.text(".tree [aria-current=true] .runs-here") == "runs here"
    page.fill(argument("pictures", "Shape"), "3 × 8 × 8")
    page.select(argument("pictures", "Fill"), "zeros")
    press_run(page)
    assert result(page, "digit")["Minimum"] == result(page, "digit")["Maximum"]
    check_steps(page)
    assert abs(float(result(page, "score")["Mean"]) - 0.1) < 1e-5
    assert page.text(".result:nth-of-type(2) h4") == "score float32, 3 × 10"
    page.fill(argument("pictures", "Shape"), "401 × 8 × 8")
    press_run(page)
    assert "it requires count <= 400, and that is 401 <= 400" in page.text(
        ".kernel [role=alert] .bad"
    )
    page.fill(argument("pictures", "Shape"), "3 × 7 × 8")
    press_run(page)
    assert list(problems(page)) == ["Shape"]
    # The hint and the error have the rank of the argument.
    hints = page.evaluate(
        "return [...document.querySelectorAll('fieldset.array .hint')].map((each) => each.textContent)"
    )
    assert hints[0] == "3 lengths"
    page.fill(argument("pictures", "Shape"), "64 × 64")
    press_run(page)
    assert problems(page) == {"Shape": "expected 3 lengths, such as 64 × 8 × 8"}
    assert low_contrast(page) == []
    assert page.messages() == []


def check_steps(page: Browser) -> None:
    """Check the steps of the digits and their times, and the titles of the modules."""
    title, *items = page.evaluate(
        "return [...document.querySelectorAll('.steps-of :is(h4, .step)')].map((each) => each.innerText)"
    )
    assert (title, len(items)) == ("8 steps", 8)
    kernel, time, arguments, launch = items[0].split("\n")
    assert kernel == "classify_webgpu_k0"
    assert arguments == (
        "data0_409600=t0 float32[409600], data1_25600=pictures uint32[count, 8, 8], "
        "data2_144=first_weight float32[16, 1, 3, 3], data3_16=first_bias float32[16], data4_=count"
    )
    assert launch == "grid 2 × count × 1, block 8 × 8 × 2"
    assert page.text(".steps-of > p") == "requires 1 <= count, count <= 400"

    times = [float(each.split("\n")[1].removesuffix(" ms").replace(",", "")) for each in items]
    assert time.endswith(" ms")
    assert min(times) > 0
    longest = times.index(max(times)) + 1
    assert f"Step {longest} took the longest, " in page.text(".kernel [role=status]")
    assert page.evaluate(
        "return [...document.querySelectorAll('.step')].findIndex((each) => each.querySelector('.most'))"
    ) == (longest - 1)

    boxes = page.evaluate(
        "return [...document.querySelectorAll('.graph g')].map((each) => [each.classList[0], ...[...each.querySelectorAll('text')].map((line) => line.textContent)])"
    )
    assert boxes[0] == ["given", "pictures", "uint8[count, 8, 8]"]
    assert boxes[1] == ["launch-of", "1 webgpu_k0", "float32[409600]", time]
    assert [each[1].partition(" ")[0] for each in boxes[1:-2]] == [
        str(each) for each in range(1, 9)
    ]
    assert boxes[6][2] == "digit int32[count]"
    assert boxes[-2:] == [
        ["given", "digit", "int32[count]"],
        ["given", "score", "float32[count, 10]"],
    ]
    assert (
        page.evaluate(
            "return [...document.querySelectorAll('.graph g')].findIndex((each) => each.classList.contains('most'))"
        )
        == longest
    )
    # Each array that a step uses has a line from the step that has written it.
    edges = page.evaluate("return document.querySelectorAll('.graph path').length")
    assert edges == 14

    titles = page.evaluate(
        "return [...document.querySelectorAll('.tree button strong')].map((each) => each.textContent)"
    )
    assert titles[:5] == [
        "Bundle for opencl",
        "program",
        "Kernels for opencl",
        "opencl",
        "const_loader",
    ]
    assert len(titles) == 5 * 4 + 1
    above = page.evaluate("return document.querySelector('.tree .more').textContent")
    assert above == "also imports, shown above: Kernels for opencl, const_loader"


def test_steps_of_a_loop_and_of_a_program_that_does_not_run_here(
    page: Browser, tmp_path: Path
) -> None:
    source = "kernel void add(global float *x, float by, int n) { if (get_global_id(0) < n) x[get_global_id(0)] += by; }"
    module = devmod.program(
        "grow",
        devmod.compile(source, "opencl", block=64),
        inputs=["by: float32", "times: int32"],
        updates=["x: float32[n]"],
        steps=[
            "add(x=x, by=0.5, n=n, threads=n)",
            devmod.repeat("times + 1", "turn", ["add(x=x, by=by, n=turn, threads=(n, 1))"] * 2),
        ],
    )
    show(page, saved(tmp_path / "p.devmod", module))
    page.wait("document.querySelector('.steps-of')")
    assert page.text(".steps-of > .steps").split("\n") == [
        "add",
        "x=x float32[n], by=0.5, n=n",
        "threads n",
        "for turn in range(times + 1)",
        *["add", "x=x float32[n], by=by, n=turn", "threads n × 1"] * 2,
    ]
    kinds = "return [...document.querySelectorAll('.graph g')].map((each) => each.classList.value)"
    assert page.evaluate(kinds) == ["given", "launch-of", "repeated", "repeated"]
    title = page.evaluate("return document.querySelector('.graph .repeated title').textContent")
    assert title == "2 add\nx float32[n]\nfor turn in range(times + 1)"
    numbers = "return [...document.querySelectorAll('.step')].map((each) => each.value)"
    assert page.evaluate(numbers) == [1, 2, 3]
    assert page.evaluate("return document.querySelector('.kernel')") is None


def test_a_graph_is_no_wider_than_the_page(page: Browser) -> None:
    """It scrolls by itself on a narrow screen."""
    show(page, DIGITS, viewport={"width": 390, "height": 800})
    page.wait("document.querySelector('.graph')")
    assert page.evaluate("return document.documentElement.scrollWidth") == 390


def test_the_first_box_of_a_wide_graph_is_seen(page: Browser, tmp_path: Path) -> None:
    source = "kernel void copy(global const float *x, global float *y) { y[get_global_id(0)] = x[get_global_id(0)]; }"
    outputs = [f"y{number}" for number in range(5)]
    module = devmod.program(
        "wide",
        devmod.compile(source, "opencl", block=64),
        inputs=["x: float32[n]"],
        outputs=[f"{each}: float32[n]" for each in outputs],
        steps=[f"copy(x=x, y={each}, threads=n)" for each in outputs],
    )
    show(page, saved(tmp_path / "p.devmod", module), viewport={"width": 390, "height": 800})
    page.wait("document.querySelector('.graph')")
    first, around = page.evaluate(
        "return ['.graph .given', '.graph-of'].map((each) => { const { left, right } = document.querySelector(each).getBoundingClientRect(); return [left, right]; })"
    )
    assert around[0] <= first[0] < first[1] <= around[1]


def test_a_graph_of_many_arrays_is_bounded(page: Browser, tmp_path: Path) -> None:
    names = [f"x{number}" for number in range(200)]
    source = "kernel void copy(global const float *x, global float *y) { y[get_global_id(0)] = x[get_global_id(0)]; }"
    module = devmod.program(
        "many",
        devmod.compile(source, "opencl", block=64),
        inputs=[f"{each}: float32[n]" for each in names],
        outputs=["y: float32[n]"],
        steps=[f"copy(x={each}, y=y, threads=n)" for each in names] * 2,
    )
    show(page, saved(tmp_path / "p.devmod", module))
    page.wait("document.querySelector('.graph')")
    kinds = page.evaluate(
        "return [...document.querySelectorAll('.graph g')].map((each) => each.classList[0])"
    )
    assert (kinds.count("given"), kinds.count("launch-of")) == (60 + 1, 300)
    assert page.text(".steps-of > .quiet:last-child") == "and 100 more"


ARRAYS: dict[str, tuple[np.ndarray, str]] = {
    "float32": (np.arange(6, dtype="float32").reshape(2, 3), ""),
    "float64": (
        np.zeros((2, 3)),
        'x.npy has elements of float64, and the array has float32: save x.astype("float32")',
    ),
    "columns": (
        np.zeros((2, 3), "float32", order="F"),
        "x.npy is a file of NumPy, by columns: save numpy.ascontiguousarray(x)",
    ),
    "cut": (
        np.zeros((2, 3), "float32"),
        "x.npy has the shape 2 × 3 and 20 bytes of float32; save it again",
    ),
    "objects": (
        np.zeros(2, [("a", "float32")]),
        "x.npy is a file of NumPy, and its header has no type, order or shape of one array of numbers",
    ),
}


@pytest.mark.parametrize("which", ARRAYS)
def test_an_array_of_numpy_fills_an_input(page: Browser, tmp_path: Path, which: str) -> None:
    array, problem = ARRAYS[which]
    path = tmp_path / "x.npy"
    np.save(path, array)
    if which == "cut":
        path.write_bytes(path.read_bytes()[:-4])
    kernels = devmod.compile(GREY, "webgpu", name="invert")
    module = devmod.program(
        "p",
        kernels,
        inputs=["x: float32[h, w]"],
        outputs=["y: float32[h, w]"],
        steps=["invert(x=x, y=y, threads=h * w)"],
    )
    show(page, saved(tmp_path / "p.devmod", module))
    page.wait("document.querySelector('.kernel')")
    page.select(argument("x", "Fill"), "file")
    page.files(argument("x", "File"), [str(path)])
    if problem:
        page.wait("[...document.querySelectorAll('.problem')].some((each) => each.textContent)")
        assert problems(page, focus=False) == {"File": problem}
        return
    page.wait("!document.querySelector('.kernel fieldset input').value.startsWith('64')")
    press_run(page)
    assert page.text(".result h4") == "y float32, 2 × 3"
    assert result(page, "y")["First"] == "1, 0, -1, -2, -3, -4"


BRIGHTEN = """
@group(0) @binding(0) var source: texture_2d<f32>;
@group(0) @binding(1) var result: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(2) var<uniform> by: f32;
@compute @workgroup_size(8, 8) fn brighten(@builtin(global_invocation_id) id: vec3u) {
  textureStore(result, id.xy, textureLoad(source, id.xy, 0) * by);
}"""
GREY = """
@group(0) @binding(0) var<storage> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn invert(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < arrayLength(&y)) { y[id.x] = 1 - x[id.x]; }
}"""


@pytest.mark.parametrize("kind", ["image", "array", "fixed"])
def test_a_picture_is_dropped_on_an_input(page: Browser, tmp_path: Path, kind: str) -> None:
    from PIL import Image

    lake = np.asarray(Image.open(LAKE).convert("RGB"))
    height, width = lake.shape[:2]
    if kind == "image":
        declared: dict[str, Any] = {
            "inputs": ["x: rgba8unorm[h, w]", "by: float32 = 0.5"],
            "outputs": ["y: rgba8unorm[h, w]"],
        }
        kernels, steps = (
            devmod.compile(BRIGHTEN, "webgpu", name="brighten"),
            ["brighten(source=x, result=y, by=by, threads=(w, h))"],
        )
    else:
        shape = "1, h, w" if kind == "array" else "3, 16, 24"
        count = "h * w" if kind == "array" else "1152"
        declared = {"inputs": [f"x: float32[{shape}]"], "outputs": [f"y: float32[{shape}]"]}
        kernels, steps = (
            devmod.compile(GREY, "webgpu", name="invert"),
            [f"invert(x=x, y=y, threads={count})"],
        )
    show(page, saved(tmp_path / "p.devmod", devmod.program("p", kernels, steps=steps, **declared)))
    page.wait("document.querySelector('.kernel')")
    assert page.evaluate(DROP, ["x", b64encode(LAKE.read_bytes()).decode()])
    page.wait("!document.querySelector('.kernel fieldset').textContent.includes('64 × 64')")
    press_run(page)
    assert problems(page, focus=False) == {}
    if kind == "image":
        assert page.text(".result h4") == f"y image 2d of rgba8unorm, {width} × {height}"
        assert abs(float(result(page, "y")["Mean"]) - (lake.mean() * 3 + 255) / 8) < 0.5
    else:
        assert page.text(".result h4") == (
            "y float32, " + (f"1 × {height} × {width}" if kind == "array" else "3 × 16 × 24")
        )
        mean = 1 - ((lake @ [0.2126, 0.7152, 0.0722]) if kind == "array" else lake).mean() / 255
        assert abs(float(result(page, "y")["Mean"]) - mean) < 0.01
    assert page.messages() == []


def test_a_state_and_numbers(page: Browser, tmp_path: Path) -> None:
    module = states.counter(
        "total: float32[4] = first",
        "webgpu",
        constants=["first: float32[4]"],
        inputs=["x: float32[rows]", "extra: int32 = 7"],
    )
    show(page, saved(tmp_path / "p.devmod", module))
    page.wait("document.querySelector('.kernel')")
    page.fill(number("extra"), "many")
    press_run(page)
    assert problems(page) == {"extra": "'many' is not a whole number"}
    page.fill(number("extra"), "8")
    page.fill(argument("x", "Shape"), "4")
    page.select(argument("x", "Fill"), "ones")
    press_run(page)
    assert result(page, "y")["First"] == "1, 2, 3, 4"
