"""`make pictures`: the pictures of the documentation in docs/images, from commands that run here.

A build and `devmod inspect` are SVG files by rich's export. `devmod view` is a picture by Chromium, in its dark scheme. The kernels are
those of examples/. overview.svg is drawn by hand.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from environments import ROOT

OUT = ROOT / "docs" / "images"
SOURCES = ("opencl/softmax.cl", "cuda/softmax.cu", "rocm/softmax.hip", "vulkan/softmax.comp")
SHADERS = ("mandelbrot.wgsl", "gaussian_blur.wgsl")
COLUMNS = 118


def run(words: Sequence[str], folder: Path) -> str:
    """Run a command of devmod in a folder. Return its output and messages, in their order."""
    env = os.environ | {"DEVMOD_CACHE_DIR": str(folder / "cache"), "PYTHONUTF8": "1", "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"pictures: {' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def draw(name: str, steps: Sequence[tuple[str, str]]) -> None:
    """Write the commands and their output as an SVG file with the look of a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for command, output in steps:
        console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
        console.print(Text(output.rstrip("\n")), soft_wrap=False)
    text = console.export_svg(title="devmod", unique_id=name)
    # A page shows the file as an image, which loads no fonts.
    text = re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL).replace("Fira Code,", "")
    (OUT / f"{name}.svg").write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def terminal_pictures(folder: Path) -> None:
    """Draw a build and the inspection of its file."""
    for source in SOURCES:
        shutil.copy(ROOT / "examples" / source, folder)
    commands = ("devmod init", "devmod build", "devmod inspect kernels.devmod")
    steps = [(command, run(command.split(), folder)) for command in commands]
    draw("build", steps[:2])
    draw("inspect", steps[2:])


def page_pictures(folder: Path) -> None:
    """Take pictures of the page of `devmod view` by the browser of the tests (`make test-setup`)."""
    sys.path.insert(0, str(ROOT / "tests"))
    browser_driver, browser_page = import_module("browser_driver"), import_module("browser_page")
    sources = [str(ROOT / "examples" / "webgpu" / name) for name in SHADERS]
    run(["devmod", "compile", *sources, "-t", "webgpu", "-o", "kernels.devmod"], folder)
    browser = browser_driver.Browser(*browser_driver.WEBGPU)
    browser_page.show(browser, folder / "kernels.devmod", viewport={"width": 1500, "height": 700}, colorScheme="dark")
    browser.screenshot(str(folder / "view.png"))
    browser.close()
    from PIL import Image

    Image.open(folder / "view.png").convert("RGB").quantize(128).save(OUT / "view.png", optimize=True)


def main() -> None:
    """Draw all pictures."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        terminal_pictures(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        page_pictures(Path(folder))
    for path in sorted(OUT.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
