"""The page of `devmod view` for tests: its server, and checks of what it shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser_driver import Browser

import devmod
from devmod_webgpu._page import page
from devmod_webgpu._serve import Server

PAGE = page()
DRAWN = "['mandelbrot', 'blur'].every((id) => Number(document.getElementById(id)?.dataset.drawn) >= 1)"


@contextmanager
def served(file: Path) -> Iterator[str]:
    server = Server(file, PAGE, 0, "secret")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def show(browser: Browser, file: Path, **options: Any) -> None:
    """Open the page with a file, as `devmod view` does, and wait until it is idle."""
    with served(file) as url:
        browser.open(url, options)
        browser.wait("document.getElementById('status').textContent === '' && document.querySelector('.tree button, #alert p')")
        browser.wait("!document.querySelector('[aria-current=true]') || document.querySelector('.details .functions, .details .quiet')")
        browser.wait(f"!document.querySelector('.run') || {DRAWN} || document.querySelector('.bad')")


def saved(path: Path, *modules: devmod.Module) -> Path:
    devmod.save(devmod.bundle(*modules) if len(modules) > 1 else modules[0], path)
    return path


def low_contrast(browser: Browser) -> list[str]:
    """Return the elements whose text has a contrast below 4.5, which WCAG requires."""
    found: list[str] = browser.evaluate(
        """
        const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
        const level = (colour) => {
          canvas.fillStyle = colour;
          canvas.fillRect(0, 0, 1, 1);
          const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((each) => (each /= 255) <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const under = (each) => {
          for (; each; each = each.parentElement) {
            const { backgroundColor } = getComputedStyle(each);
            if (!/, 0\\)$|transparent/.test(backgroundColor)) return backgroundColor;
          }
          return "white";
        };
        const found = new Set();
        for (const each of document.querySelectorAll("main *, header *")) {
          if (!each.offsetParent || ![...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
          const [high, low] = [level(getComputedStyle(each).color), level(under(each))].sort((one, other) => other - one);
          if ((high + 0.05) / (low + 0.05) < 4.5) found.add(`${each.tagName}.${each.className} ${((high + 0.05) / (low + 0.05)).toFixed(2)}`);
        }
        return [...found];
        """
    )
    return found
