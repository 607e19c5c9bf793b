"""The page of `devmod view` in Chromium: use by mouse and keys, and invalid files."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools"), str(ROOT / "examples" / "demo")]

from browser_driver import Browser  # noqa: E402
from browser_images import kernel  # noqa: E402
from browser_page import (  # noqa: E402
    IDLE,
    LAUNCH,
    argument,
    low_contrast,
    number,
    picture,
    press_run,
    result,
    saved,
    served,
    show,
    viewed,
)
from build import compile_one_source  # noqa: E402

from handmade import file_of  # noqa: E402

NOTHING = "@compute @workgroup_size(1) fn nothing() {}"
EXAMPLES = sorted((ROOT / "examples" / "webgpu").glob("*.wgsl"))
MANDELBROT = ROOT / "examples" / "webgpu" / "mandelbrot.wgsl"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples for WebGPU and OpenCL, and constants, in one file."""
    path = tmp_path_factory.mktemp("page") / "examples.devmod"
    modules: list[devmod.Module] = [devmod.compile(each, "webgpu") for each in EXAMPLES]
    modules.append(devmod.compile(ROOT / "examples" / "opencl" / "softmax.cl", "opencl"))
    program = devmod.loads((ROOT / "tests" / "golden" / "v1" / "program.devmod").read_bytes())
    devmod.save(devmod.bundle(*modules, *program.imports), path)
    return path


@pytest.fixture
def page(browser: Browser, bundle: Path) -> Iterator[Browser]:
    """The page with the examples."""
    show(browser, bundle, viewport={"width": 1280, "height": 900})
    yield browser
    assert browser.messages() == []


# -- the kernels of the examples


def check_mandelbrot(page: Browser) -> None:
    width, height, pixel = 72, 48, 0.048
    page.fill(argument("escape", "Shape"), f"{height} × {width}")
    for name, value in {
        "width": width,
        "height": height,
        "left": -2.25,
        "top": 1.15,
        "pixel": pixel,
        "steps": 300,
    }.items():
        page.fill(number(name), str(value))
    page.fill(LAUNCH, f"{width} × {height}")
    press_run(page)
    x = np.float32(-2.25) + np.arange(width, dtype=np.float32) * np.float32(pixel)
    y = np.float32(1.15) - np.arange(height, dtype=np.float32) * np.float32(pixel)
    c = (x[None, :] + 1j * y[:, None]).astype(np.complex128).ravel()
    z, live, escape = np.zeros_like(c), np.arange(c.size), np.zeros(c.size)
    for step in range(1, 301):
        z = z * z + c
        square = z.real**2 + z.imag**2
        inside = square <= 256
        escape[live[~inside]] = step + 1 - np.log2(0.5 * np.log2(square[~inside]))
        z, c, live = z[inside], c[inside], live[inside]
    grey = (
        picture(page, "escape")[..., 0].astype(float)
        / 255
        * float(result(page, "escape")["Maximum"])
    )
    # Near the border of the set the steps of float32 are others than those of float64.
    assert (np.abs(grey - escape.reshape(height, width)) < 1).mean() > 0.98
    assert (grey[24, 46:48] == 0).all()


@pytest.mark.volume
@pytest.mark.row("R37")
def test_a_kernel_in_slang_by_its_form(browser: Browser, tmp_path: Path) -> None:
    modules = [
        module
        for target in ("vulkan", "webgpu")
        for _, module in compile_one_source(ROOT, "Slang", target)
    ]
    mandelbrot = [module for module in modules if "mandelbrot" in module.functions]
    show(browser, saved(tmp_path / "one_source.devmod", *mandelbrot))
    check_mandelbrot(browser)
    assert browser.messages() == []


def test_the_mandelbrot_set_by_its_form_and_a_lost_device(browser: Browser, tmp_path: Path) -> None:
    show(browser, saved(tmp_path / "mandelbrot.devmod", devmod.compile(MANDELBROT, "webgpu")))
    check_mandelbrot(browser)
    browser.evaluate(
        """
        const { createCommandEncoder } = GPUDevice.prototype;
        GPUDevice.prototype.createCommandEncoder = function (...given) {
          GPUDevice.prototype.createCommandEncoder = createCommandEncoder;
          this.destroy();
          return createCommandEncoder.apply(this, given);
        };
        """
    )
    press_run(browser)
    assert (
        "the GPU device was lost (it was destroyed). Ask for the function again: it then uses a new device"
        in browser.text(".kernel .bad")
    )
    browser.wait("document.querySelector('#lost-device')")
    assert browser.text("#lost-device").startswith("The GPU device was lost")
    assert marked(browser) == []
    browser.click("#lost-device button")
    browser.wait("document.querySelector('.tree .runs-here')")
    press_run(browser)
    assert result(browser, "escape")["Minimum"] == "0"
    assert browser.evaluate("return document.querySelectorAll('.note, .bad').length") == 0
    assert browser.messages() == []


def test_a_second_run_while_one_is_active_is_ignored(browser: Browser, tmp_path: Path) -> None:
    show(browser, saved(tmp_path / "mandelbrot.devmod", devmod.compile(MANDELBROT, "webgpu")))
    body = """
    const { submit } = GPUQueue.prototype;
    let count = 0;
    GPUQueue.prototype.submit = function (...given) {
      count += given[0].length;
      return submit.apply(this, given);
    };
    for (const _ of [1, 2, 3]) document.querySelector(".run-button").click();
    while (document.querySelector(".results[aria-busy=true]")) await new Promise((resolve) => setTimeout(resolve, 20));
    GPUQueue.prototype.submit = submit;
    return [count, document.querySelectorAll(".result").length];
    """
    assert browser.evaluate(body) == [1, 1]


# -- the tree


def test_the_tree_shows_modules_functions_and_sources(page: Browser, bundle: Path) -> None:
    modules = [
        json.loads(each)
        for each in page.evaluate(
            "return [...document.querySelectorAll('.tree button')].map((each) => JSON.stringify(each.innerText))"
        )
    ]
    assert len(modules) > 11
    assert modules[0].startswith("webgpu\nwgsl")
    assert page.text("#file").startswith("examples.devmod · ")
    assert page.text("[aria-current=true] .names") == "blur_rows, blur_columns"
    assert page.evaluate("return document.title") == "examples.devmod – devmod"
    text_shown = page.text(".details")
    assert (
        "blur_rows(picture: uint32[], between: float32x4[] in/out, weights: float32[], radius: int32, width: int32, height: int32)"
        in text_shown
    )
    assert "blocks of 16 × 16 × 1 threads" in text_shown
    assert "gaussian_blur.wgsl" in text_shown
    page.click(".usage summary")
    call = "await blur_rows.run({ picture, between, weights, radius, width, height }, { threads: [/* threads in x, y, z */] });"
    assert call in page.text(".usage")
    assert 'const bundle = await open("examples.devmod");' in page.text(".usage")
    page.click(".usage summary")
    assert (
        page.evaluate(
            "return document.querySelector('[aria-label=Source] pre:last-child').textContent"
        )
        == (ROOT / "examples" / "webgpu" / "gaussian_blur.wgsl").read_text()
    )
    marked = "return Object.fromEntries(['comment', 'keyword', 'type', 'number', 'mark', 'call'].map((each) => [each, [...document.querySelectorAll(`[aria-label=Source] .t-${each}`)].map((at) => at.textContent)]))"
    words = page.evaluate(marked)
    assert "fn" in words["keyword"]
    assert "vec3u" in words["type"]
    assert "@compute" in words["mark"]
    assert "16" in words["number"]
    assert "clamp" in words["call"]
    assert words["comment"][0].startswith("// A Gaussian blur")


def test_modules_of_other_kinds(page: Browser) -> None:
    page.evaluate(
        "[...document.querySelectorAll('.tree button')].find((each) => each.innerText.startsWith('opencl')).click()"
    )
    page.wait("document.querySelector('[aria-label=Source]')")
    assert "pip install devmod-opencl" in page.text(".details")
    assert page.evaluate(
        "return [...document.querySelectorAll('[aria-label=Source] .t-keyword')].some((each) => each.textContent === '__kernel')"
    )
    page.evaluate(
        "[...document.querySelectorAll('.tree button')].find((each) => each.innerText.startsWith('const_loader')).click()"
    )
    page.wait("document.querySelector('.details').innerText.includes('float32[2 × 3]')")
    page.evaluate(
        "[...document.querySelectorAll('.tree button')].find((each) => each.innerText.startsWith('npu')).click()"
    )
    page.wait(
        "document.querySelector('.details').innerText.includes('Only the runtime of this kind')"
    )
    assert "pip install" not in page.text(".details")
    page.evaluate(
        "[...document.querySelectorAll('.tree button')].find((each) => each.innerText.startsWith('Bundle')).click()"
    )
    page.wait(
        "document.querySelector('.details').innerText.includes('Alternatives for the same functions')"
    )


def test_the_page_by_keys_alone(page: Browser) -> None:
    focus = "const each = document.activeElement; return each.id || each.dataset.module || each.className || each.tagName"
    assert (
        page.evaluate(
            "return document.querySelector('a, button, input, select, [tabindex]').className"
        )
        == "skip"
    )
    page.evaluate("document.querySelector('.skip').focus()")
    page.press("Tab")
    assert page.evaluate(focus) == "choose"
    page.press("Tab")
    first = page.evaluate(focus)
    page.press("ArrowDown")
    second = page.evaluate(focus)
    assert first != second
    page.press("Enter")
    page.wait(f"document.querySelector('[aria-current=true]').dataset.module === '{second}'")
    page.press("End")
    last = page.evaluate(focus)
    page.press("Home")
    assert page.evaluate(focus) == first != last
    page.press("Tab")  # leave the tree: only its selected button is in the tab order
    seen = []
    for _ in range(30):
        seen.append(page.evaluate(focus))
        page.press("Tab")
    assert "source" in seen
    unnamed = """
    for (const part of document.querySelectorAll(".run-it")) part.open = true;
    await new Promise((resolve) => setTimeout(resolve));
    return [...document.querySelectorAll("button, input, select, canvas, [tabindex='0']")].filter((each) => each.offsetParent &&
      !(each.innerText?.trim() || each.getAttribute("aria-label") || each.labels?.length)).map((each) => each.outerHTML.slice(0, 80));
    """
    assert page.evaluate(unnamed) == []


@pytest.mark.volume_but("light")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_at_the_width_of_a_phone_nothing_overflows(
    browser: Browser, bundle: Path, scheme: str
) -> None:
    show(browser, bundle, viewport={"width": 360, "height": 740}, colorScheme=scheme)
    assert browser.evaluate("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert low_contrast(browser) == []


# -- opening


def dropped(page: Browser, name: str, data: bytes) -> None:
    page.evaluate(
        """
        const [name, data] = argument;
        const transfer = new DataTransfer();
        transfer.items.add(new File([Uint8Array.from(atob(data), (char) => char.charCodeAt(0))], name));
        for (const type of ["dragenter", "dragover", "drop"]) {
          document.body.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
        }
        """,
        [name, base64.b64encode(data).decode()],
    )


def test_a_dropped_bundle_and_a_chosen_one(browser: Browser, bundle: Path, tmp_path: Path) -> None:
    other = saved(tmp_path / "other.devmod", devmod.compile(NOTHING, "webgpu"))
    with served(other) as url:
        browser.open(url.partition("?")[0])
        browser.wait("!document.getElementById('empty').hidden")
        assert "Drop a .devmod bundle here" in browser.text("#empty")
        dropped(browser, "examples.devmod", bundle.read_bytes())
        browser.wait(IDLE)
        assert browser.text("#file").startswith("examples.devmod · ")
        browser.files("#choose", [str(other)])
        browser.wait("document.getElementById('file').innerText.startsWith('other.devmod')")
        browser.wait("document.querySelectorAll('.tree button').length === 1")
        # A file that is no bundle does not replace the shown one.
        dropped(browser, "notes.txt", b"no bundle")
        browser.wait("document.querySelector('#alert p')")
        assert (
            browser.text("#alert")
            == "'notes.txt' is not a bundle: it does not begin with the magic bytes of a .devmod file"
        )
        assert browser.text("#file").startswith("other.devmod")
    assert browser.messages() == []


@pytest.mark.volume_but("newer-version.devmod")
@pytest.mark.parametrize(
    "name",
    [
        "cut-in-the-index.devmod",
        "wrong-head-digest.devmod",
        "newer-version.devmod",
        "cycle.devmod",
        "empty.devmod",
    ],
)
def test_a_damaged_file_shows_an_alert(browser: Browser, name: str) -> None:
    expected = json.loads((ROOT / "tests" / "golden" / "bad" / "expectations.json").read_text())[
        "files"
    ][name]["message"]
    with served(ROOT / "tests" / "golden" / "bad" / name) as url:
        browser.open(url)
        browser.wait("document.querySelector('#alert p')")
        text_shown = browser.text("#alert")
    known = expected.replace("this devmod reads", "this devmod-webgpu reads").replace(
        "pip install -U devmod-core", "take a newer devmod-webgpu"
    )
    head, tail = known.split("the bundle in memory")
    assert text_shown.startswith(head)
    assert text_shown.endswith(tail)
    assert not browser.evaluate("return document.getElementById('empty').hidden")


def test_compressed_bytes_and_sources_of_binaries(browser: Browser, tmp_path: Path) -> None:
    """`devmod view` decompresses; a page that gets compressed bytes names the command that does
    so.
    """
    file = ROOT / "tests" / "golden" / "v1" / "both.devmod"
    with viewed(file) as url:
        browser.open(url)
        browser.wait(IDLE)
        details = browser.text(".details")
        assert "714 B (714 bytes)" in details
        assert "compressed" not in details
        source = "return document.querySelector('[aria-label=Source] pre:last-child').textContent"
        assert (
            browser.evaluate(source)
            == "__global__ void add_kernel() {} // \N{GREEK SMALL LETTER MU}\n"
        )
        browser.evaluate(
            "[...document.querySelectorAll('.tree button')].find((each) => each.innerText.startsWith('hexagon')).click()"
        )
        browser.wait(
            "document.querySelector('.details').innerText.includes('The file has its bc as 4 B of binary.')"
        )
        assert browser.evaluate(source) == "add_kernel:\n"
        browser.evaluate(
            "[...document.querySelectorAll('.tree button')].find((each) => each.innerText.startsWith('opencl')).click()"
        )
        browser.wait(
            "document.querySelector('[aria-label=Source]')?.innerText.includes('kernel void')"
        )
        browser.files("#choose", [str(file)])
        browser.wait("document.querySelector('.details [role=alert]')")
        details = browser.text(".details")
        assert "714 B (714 bytes)" in details
        assert "117 B, compressed" in details
        assert "devmod bundle kernels.devmod -o plain.devmod --compress none" in details
        assert browser.messages() == []


@pytest.mark.volume
def test_a_compressed_kernel_runs_in_devmod_view(
    browser: Browser, bundle: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "packed.devmod"
    devmod.save(devmod.load(bundle), packed, compress="zstd")
    assert packed.stat().st_size < bundle.stat().st_size
    with viewed(packed) as url:
        browser.open(url)
        browser.wait("document.querySelector('.tree .runs-here')")
        browser.click(".functions li:first-child .run-it summary")
        press_run(browser)
        assert "Mean" in result(browser, "between")
        assert "packed.devmod" in browser.text("#file")
    assert browser.messages() == []


def test_without_webgpu_the_page_and_a_form_show_the_reason(
    browser: Browser, bundle: Path, tmp_path: Path
) -> None:
    show(
        browser,
        bundle,
        script="Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined })",
    )
    browser.wait("document.querySelector('#no-device')")
    assert browser.text("#no-device").startswith(
        "Kernels cannot run here: this browser does not support WebGPU, so no kernel can run. "
    )
    assert "blur_rows" in browser.text(".details")
    assert marked(browser) == []
    browser.files(
        "#choose", [str(saved(tmp_path / "nothing.devmod", devmod.compile(NOTHING, "webgpu")))]
    )
    press_run(browser)
    assert browser.text(".kernel .bad").startswith(
        "this browser does not support WebGPU, so no kernel can run. "
    )
    assert browser.messages() == []


def test_a_damaged_module_shows_an_error_in_its_details(
    browser: Browser, bundle: Path, tmp_path: Path
) -> None:
    data = bytearray(bundle.read_bytes())
    data[data.index(b"fn blur_rows") + 4] ^= 1
    path = tmp_path / "damaged.devmod"
    path.write_bytes(data)
    show(browser, path)
    browser.wait("document.querySelector('.details .bad')")
    assert "is damaged: its SHA-256 is not the one in the index" in browser.text(".details .bad")
    assert browser.evaluate("return document.querySelectorAll('.tree button').length") > 12


def test_a_bundle_without_a_webgpu_module(browser: Browser) -> None:
    show(browser, ROOT / "tests" / "golden" / "v1" / "variants.devmod")
    assert browser.text("#no-webgpu") == (
        "This bundle has no webgpu module, so none of its functions can run in a browser. Compile its sources for webgpu too: devmod compile … -t webgpu"
    )


def test_names_from_files_are_shown_as_text(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTML, invisible characters and changes of direction have no effect."""
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    evil = "<img src=x onerror=alert(1)>\u202egnp\u200b"
    params = [devmod.Param(evil, "buffer", "float32", "rw", (0, 0))]
    info = devmod.FunctionInfo("k", ("handle",), (evil,), interface=devmod.Interface(params))
    text = f"// {evil}\n@compute fn k() {{}}"
    module = devmod.create_with_fallback("webgpu", {evil: text.encode()}, "wgsl", {evil: info})
    show(browser, saved(tmp_path / "<b>evil.devmod", module))
    shown = "<img src=x onerror=alert(1)>\\u{202e}gnp\\u{200b}"
    assert browser.text(".tree .names") == shown
    assert shown in browser.text(".functions")
    assert shown in browser.text("[aria-label=Source]")
    assert browser.text("#file strong") == "<b>evil.devmod"
    assert browser.evaluate("return document.querySelectorAll('main img, #file b').length") == 0
    assert browser.messages() == []


def test_the_code_of_a_call_opens_the_file_by_its_name(browser: Browser, tmp_path: Path) -> None:
    """A name is a URL there: characters that URLs reserve are encoded."""
    module = devmod.compile(MANDELBROT, "webgpu")
    code = "return document.querySelector('.usage .source pre:last-of-type').textContent"
    names = {
        "sax-py_2.devmod": "sax-py_2.devmod",
        'a b+é#1%?:\\"x.devmod': 'a%20b+é%231%25%3F%3A%5C\\"x.devmod',
    }
    for name, url in names.items():
        show(browser, saved(tmp_path / name, module))
        browser.wait("document.querySelector('.usage')")
        assert f'const bundle = await open("{url}");' in browser.evaluate(code)
    assert browser.messages() == []


def raw(path: Path, *modules: dict[str, Any]) -> Path:
    """Write a bundle of modules with the given index entries and three bytes each."""
    from hashlib import sha256

    known = {"size": 3, "sha256": sha256(b"abc").digest()}
    page = {"roots": list(range(len(modules))), "modules": [known | each for each in modules]}
    path.write_bytes(file_of(page, b"abc".ljust(64, b"\0") * (len(modules) - 1) + b"abc"))
    return path


@pytest.mark.volume
def test_names_of_javascript_properties_and_very_long_texts(
    browser: Browser, tmp_path: Path
) -> None:
    origin = {
        "target": "t" * 9000,
        "options": ["-D" + "x" * 900] * 900,
        "sources": {"s" * 9000: "0" * 9000},
    }
    names = ["constructor", "f" * 100_000]
    module = {
        "kind": "constructor",
        "format": "tostring",
        "variant": "v" * 9000,
        "functions": names,
        "origin": origin,
    }
    show(browser, raw(tmp_path / "k.devmod", module), viewport={"width": 360, "height": 740})
    browser.wait(
        "document.querySelector('.details').innerText.includes('Only the runtime of this kind')"
    )
    assert "native code" not in browser.text(".details")
    assert "ffff… (100,000 characters)" in browser.text(".functions")
    assert browser.evaluate("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.evaluate("return document.documentElement.scrollHeight") < 8000
    assert browser.messages() == []


@pytest.mark.volume
def test_a_source_and_a_signature_of_very_many_parts(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a call in JavaScript may have arguments."""
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    info = devmod.FunctionInfo("k", ("handle",) * 200_000)
    module = devmod.create_with_fallback(
        "webgpu", {"k": b"\n".join([b"1 " * 60] * 1200)}, "wgsl", {"k": info}
    )
    show(browser, saved(tmp_path / "k.devmod", module))
    browser.wait("document.querySelector('[aria-label=Source]')")
    assert (
        browser.evaluate("return document.querySelectorAll('[aria-label=Source] .t-number').length")
        == 72_000
    )
    shown, _, reason = browser.text(".functions").partition("\n\n")
    assert shown.endswith(", buffer, and 199940 more)")
    assert (
        reason
        == "It has 200,000 arguments, and this page has forms for 40 at most. A program can run it."
    )


@pytest.mark.volume
def test_the_selected_module_is_scrolled_into_view(browser: Browser, bundle: Path) -> None:
    """Only the list scrolls, not the page."""
    many = [{"kind": "npu", "functions": [f"f{number}"]} for number in range(60)]
    show(browser, raw(bundle.parent / "many.devmod", *many), viewport={"width": 360, "height": 740})
    seen = """
    const [inner, outer] = [document.querySelector("[aria-current=true]"), document.querySelector("nav")].map((each) => each.getBoundingClientRect());
    return [inner.top >= outer.top && inner.bottom <= outer.bottom, scrollY];
    """
    assert browser.evaluate(seen) == [True, 0]
    browser.evaluate("[...document.querySelectorAll('.tree button')].at(-1).click()")
    assert browser.evaluate(seen) == [True, 0]


def test_a_large_module_is_read_after_a_click(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    info = {"big": devmod.FunctionInfo("big", ("handle", "int32"))}
    show(
        browser,
        saved(
            tmp_path / "k.devmod",
            devmod.create_with_fallback("cuda", b"\x7fELF" + bytes(5_000_000), "cubin", info),
        ),
    )
    assert browser.text(".details button") == "Read its 5.0 MB to show signatures and source"
    browser.click(".details button")
    browser.wait("document.querySelector('.functions').innerText.includes('big(buffer, int32)')")
    assert "Its payload is binary, and the file has no source of it." in browser.text(".details")
    assert browser.evaluate("return document.activeElement.id") == "details-title"
    assert browser.evaluate("return document.querySelectorAll('.details button').length") == 0


def marked(browser: Browser) -> list[str]:
    """Return the function names of the modules that the page marks as running."""
    found: list[str] = browser.evaluate(
        "return [...document.querySelectorAll('.tree .runs-here')].map((mark) => mark.closest('button').querySelector('.names').textContent)"
    )
    return found


def test_only_modules_with_a_kernel_that_runs_here_are_marked(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large module is not read for its mark."""
    text = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn twice() { x[0] *= 2; }\n"
    softmax = devmod.compile(ROOT / "examples" / "opencl" / "softmax.cl", "opencl")
    modules = [
        devmod.compile(text, "webgpu"),
        softmax,
        kernel(monkeypatch, "", devmod.Param("t", "image")),
    ]
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    info = devmod.FunctionInfo("large", (), interface=devmod.Interface(block=(1, 1, 1)))
    code = b"@compute @workgroup_size(1) fn large() {}" + b" " * 4_100_000
    large = devmod.create_with_fallback("webgpu", {"large": code}, "wgsl", {"large": info})
    show(browser, saved(tmp_path / "k.devmod", *modules, large))
    browser.wait("document.querySelector('.tree .runs-here')")
    assert marked(browser) == ["twice"]
    assert browser.messages() == []


@pytest.mark.volume_but("imports0-41-")
@pytest.mark.parametrize(
    ("imports", "listed", "more"),
    [
        ([1, 1], 41, "also imports, shown above: Bundle"),
        ([], 1000, "and more; the first 1000 are listed"),
    ],
)
def test_a_tree_with_many_paths_lists_each_module_once(
    browser: Browser, tmp_path: Path, imports: list[int], listed: int, more: str
) -> None:
    """Each of 40 modules imports the next one twice, which gives 2⁴⁰ paths; and one module imports
    1,020.
    """
    if imports:
        modules = [
            {"kind": "bundle", "imports": [number + each for each in imports]}
            for number in range(40)
        ] + [{"kind": "bundle"}]
    else:
        modules = [{"kind": "bundle", "imports": list(range(1, 1021))}] + [
            {"kind": "bundle"}
        ] * 1020
    path = tmp_path / "many.devmod"
    path.write_bytes(file_of({"roots": [0], "modules": modules}))
    show(browser, path)
    assert browser.evaluate("return document.querySelectorAll('.tree button').length") == listed
    assert (
        browser.evaluate("return document.querySelector('.tree .more')?.textContent ?? ''") == more
    )
