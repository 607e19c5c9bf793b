"""The page of `devmod view` for tests: its server, and checks of what it shows."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from browser_driver import Browser, decode_array
from interruptible import interruptible_python

import devmod
from devmod_workbench._view.page import page
from devmod_workbench._view.serve import Server

PAGE = page()
IDLE = "document.querySelector('.tree button, #alert p') && !document.querySelector('[aria-busy=true]')"


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


@contextmanager
def viewed(file: Path) -> Iterator[str]:
    """The URL of `devmod view` in a process of its own."""
    command = interruptible_python("-u", "-m", "devmod", "view", str(file), "--no-open")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0
        process.stdout.close()


def show(browser: Browser, file: Path, **options: Any) -> None:
    """Show a file, and wait until the page is idle: in the page that an earlier call has opened, as
    a user who chooses another file.

    A page with a script is opened as `devmod view` does, and so is the first one.
    """
    if "script" not in options and browser.shared and browser.address() == browser.shared:
        browser.emulate(options)
        browser.messages()  # those of the file before
        browser.files("#choose", [str(file)])
    else:
        browser.resources.close()
        url = browser.resources.enter_context(served(file))
        browser.open(url, options)
        browser.shared = "" if "script" in options else url
    browser.wait(IDLE)


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


# -- forms


def argument(name: str, field: str) -> str:
    """Return the selector of a field of an array or a struct."""
    return f'.kernel fieldset:has(> legend code:text-is("{name}")) .field:has(> label:text-is("{field}")) :is(input, select)'


def number(name: str) -> str:
    """Return the selector of a field for numbers."""
    return f'.kernel .field:has(> label code:text-is("{name}")) > input'


LAUNCH = '.kernel .field:has(> label:text-is("Number in x, y, z")) input'
UNIT = '.kernel .field:has(> label:text-is("Given as")) select'

#: A chosen file is read at once, and its error is shown.
UNDECODABLE = "[...document.querySelectorAll('.kernel .problem')].some((each) => each.textContent.startsWith('this browser cannot decode'))"


def press_run(page: Browser) -> None:
    """Press the button, and wait until the kernel has run or an error is shown."""
    page.click(".run-button")
    page.wait("!document.querySelector('.results[aria-busy=true]')")


def problems(page: Browser, *, focus: bool = True) -> dict[str, str]:
    """Return the errors at the fields, by the label of the field. Check that each field is marked
    and that one of them has the focus.
    """
    body = """
    const wrong = [...document.querySelectorAll(".kernel .field")].filter((each) => each.querySelector(".problem").textContent);
    const marked = wrong.every((each) => each.querySelector("[aria-invalid=true]").getAttribute("aria-describedby").includes(each.querySelector(".problem").id));
    const focused = wrong.some((each) => each.contains(document.activeElement));
    return [Object.fromEntries(wrong.map((each) => [each.querySelector("label").textContent, each.querySelector(".problem").textContent])), marked, focused];
    """
    found, marked, focused = page.evaluate(body)
    assert marked
    assert focused or not found or not focus
    return dict(found)


def result(page: Browser, name: str) -> dict[str, str]:
    """Return the facts of an array in the result."""
    body = """
    const part = [...document.querySelectorAll(".result")].find((each) => each.querySelector("h4 code").textContent === argument);
    return Object.fromEntries([...part.querySelectorAll("dt")].map((each) => [each.textContent, each.nextSibling.textContent]));
    """
    return dict(page.evaluate(body, name))


def picture(page: Browser, name: str) -> np.ndarray:
    """Return the pixels of the picture of an array."""
    body = """
    const part = [...document.querySelectorAll(".result")].find((each) => each.querySelector("h4 code").textContent === argument);
    const canvas = part.querySelector("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return [canvas.height, canvas.width, btoa(String.fromCharCode(...data)), canvas.getAttribute("aria-label")];
    """
    height, width, data, label = page.evaluate(body, name)
    assert label == f"{name} as a picture of {width} × {height} pixels"
    return decode_array(data, "uint8").reshape(height, width, 4)


def open_kernel(browser: Browser, path: Path, *sources: str, **options: Any) -> None:
    show(
        browser,
        saved(path / "k.devmod", *(devmod.compile(text, "webgpu") for text in sources)),
        **options,
    )
    browser.wait("document.querySelector('.kernel')")
