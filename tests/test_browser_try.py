"""The kernels that docs/browser.md runs, from a plain file server: a digit by mouse and by
keyboard, a photo, and a browser without WebGPU.
"""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from browser_driver import Browser  # noqa: E402

import devmod  # noqa: E402
import try_page  # noqa: E402

#: The strokes of a 7 on a field of 280 pixels.
SEVEN = [(60, 40), (220, 40), (190, 110), (150, 180), (120, 250)]
PHONE = {"viewport": {"width": 375, "height": 800}}


class Server(http.server.ThreadingHTTPServer):
    """A plain file server, which lists what was asked for."""

    asked: list[str]
    folder: Path


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The page without Sphinx: what stands in Markdown as HTML, with the files that `make docs`
    copies.
    """
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "docs" / "_static", folder / "_static")
    shutil.copytree(ROOT / "docs" / "images", folder / "images")
    try_page.write_files(folder / "_static")
    text = (
        (ROOT / "docs" / "browser.md")
        .read_text(encoding="utf-8")
        .partition("\n## Try it here\n")[2]
        .partition("\n## ")[0]
        .replace("![A recorded", '<img src="images/try.png" alt="recorded">![A recorded')
    )
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"><link rel="stylesheet" href="_static/try.css"><title>try</title>'
    (folder / "try.html").write_text(head + text, encoding="utf-8")
    made = Server(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    made.asked = []
    made.folder = folder
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def opened(browser: Browser, server: Server, **options: Any) -> None:
    server.asked.clear()
    browser.open(f"http://127.0.0.1:{server.server_port}/try.html", options)
    browser.wait(
        "document.querySelector('.try button') || document.querySelector('#try-problem').textContent"
    )


def test_a_page_from_the_disk_says_that_it_needs_a_server(browser: Browser, server: Server) -> None:
    browser.open((server.folder / "try.html").as_uri(), {})
    browser.wait("document.querySelector('#try-problem').textContent")
    text = browser.text("#try-problem")
    assert text.startswith("This page was opened from the disk, ")
    assert "python -m http.server -d build/docs" in text


def reads(browser: Browser) -> str:
    """Wait until the classifier has read what is drawn, and return the text."""
    browser.wait(
        "document.querySelector('#try-digits [role=status]:not([aria-busy=true])')?.textContent.startsWith('It reads')"
    )
    return browser.text("#try-digits [role=status]")


def test_the_page_opens_its_files_by_their_digests(server: Server) -> None:
    address = f"http://127.0.0.1:{server.server_port}/_static"
    with urllib.request.urlopen(f"{address}/try.js") as answer:
        script = answer.read().decode()
    for name in ("digits", "pictures"):
        pin = re.search(rf'{name}: "(#.*?)"', script)
        assert pin is not None
        assert f'open(file("{name}.devmod") + PINS.{name})' in script
        assert isinstance(devmod.load(f"{address}/try/{name}.devmod{pin[1]}"), devmod.Module)


@pytest.mark.row("R45")
@pytest.mark.parametrize(
    "options", [{}, {**PHONE, "colorScheme": "dark"}], ids=["light", "phone, dark"]
)
def test_a_digit_is_read(browser: Browser, server: Server, options: dict[str, Any]) -> None:
    opened(browser, server, **options)
    assert not any("devmod" in path for path in server.asked)  # nothing before a button is pressed
    assert browser.text("#try-digits button").startswith("Load the classifier (fetches up to 0.")
    browser.click("#try-digits button")
    browser.wait("document.querySelector('#try-digits canvas')")
    assert browser.evaluate(
        "return document.querySelector('#try-recorded').hidden && document.activeElement.tagName === 'CANVAS'"
    )
    left, top, scale = browser.evaluate(
        "const box = document.querySelector('#try-digits canvas').getBoundingClientRect(); return [box.left, box.top, box.width / 280]"
    )
    browser.drag([[left + x * scale, top + y * scale] for x, y in SEVEN])
    assert reads(browser).startswith("It reads 7 ")
    assert (
        browser.evaluate(
            "return [...document.querySelectorAll('meter')].map((each) => each.value > 0.5)"
        ).index(True)
        == 7
    )
    assert browser.evaluate("return document.documentElement.scrollWidth <= innerWidth")
    # By keyboard: a vertical bar.
    browser.press("Delete")
    for key in (*["ArrowUp"] * 3, *["Space", "ArrowDown"] * 7, "Space"):
        browser.press(key)
    assert reads(browser).startswith("It reads 1 ")
    assert not any("pictures" in path for path in server.asked)
    assert browser.messages() == []


@pytest.mark.row("R45")
def test_a_photo_is_improved(browser: Browser, server: Server) -> None:
    opened(browser, server)
    browser.click("#try-photo button")
    browser.wait("document.querySelector('#try-photo canvas')")
    browser.files("#try-photo input", [str(ROOT / "examples" / "images" / "lake.png")])
    browser.wait(
        "document.querySelector('#try-photo [role=status]').textContent.includes('pixels in')"
    )
    contrast = """
    return [...document.querySelectorAll("#try-photo canvas")].map((canvas) => {
      const { data } = canvas.getContext("2d", { willReadFrequently: true }).getImageData(0, 0, canvas.width, canvas.height);
      const greens = data.filter((_, at) => at % 4 === 1);
      const mean = greens.reduce((sum, each) => sum + each, 0) / greens.length;
      return Math.sqrt(greens.reduce((sum, each) => sum + (each - mean) ** 2, 0) / greens.length);
    });
    """
    before, after = browser.evaluate(contrast)
    assert after > 1.2 * before > 0
    assert browser.messages() == []


def test_a_browser_without_webgpu_shows_the_recorded_picture(
    browser: Browser, server: Server
) -> None:
    opened(
        browser,
        server,
        script="Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined });",
    )
    assert browser.text("#try-problem").startswith(
        "This browser has no WebGPU here, so that nothing can run"
    )
    assert browser.evaluate(
        "return document.querySelector('#try-recorded img').checkVisibility() && !document.querySelector('.try button')"
    )
    assert browser.messages() == []
