"""Chromium for tests: playwright-core in a separate process, and a server that counts the bytes
that it sends.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import gzip
import json
import mimetypes
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
JS = ROOT / "extras" / "browser" / "js"
#: The seconds after which a command of the browser is aborted and the test fails.
TIMEOUT = 300
#: Debian's Chromium supports WebGPU without a GPU, on SwiftShader.
WEBGPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")


def node() -> str:
    """Return the path of node. Skip the test if node is missing or too old."""
    found = shutil.which("node") or shutil.which("nodejs")
    if found is None:
        pytest.skip("node is not installed (make test-setup installs it)")
    if int(_output(found, "--version").removeprefix("v").split(".")[0]) < 20:
        pytest.skip(f"node is older than 20: {_output(found, '--version')}")
    return found


def run_in_node(body: str, argument: Any = None) -> Any:
    """Run the body of an async function in node, with the package's folder `src` as its folder.
    Return its value.
    """
    program = (
        "import { text } from 'node:stream/consumers';\nconst argument = JSON.parse(await text(process.stdin));\n"
        f"const found = await (async () => {{{body}\n}})();\nprocess.stdout.write(JSON.stringify(found ?? null));"
    )
    command = [node(), "--input-type=module", "--eval", program]
    done = subprocess.run(
        command,
        cwd=JS / "src",
        input=json.dumps(argument),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.cache
def _output(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=300
    ).stdout.strip()


def _chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("chromium is not installed (Debian and Ubuntu: apt-get install chromium)")


class Browser:
    """One Chromium. Each method is a command of driver.mjs.

    Attributes
    ----------
    shared
        The address of the page in which tests show one file after the other, and "" if there is
        none.
    resources
        What that page needs.
    """

    def __init__(self, *flags: str) -> None:
        program, driver = node(), JS / "test" / "browser" / "driver.mjs"
        if not (JS / "node_modules" / "playwright-core").is_dir():
            pytest.skip("playwright-core is not installed (make test-setup)")
        command = [
            program,
            str(driver),
            _chromium(),
            "--no-sandbox",
            "--disable-dev-shm-usage",
            *flags,
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.shared, self.resources = "", contextlib.ExitStack()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(self._call, name)

    def _call(self, *command: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        guard = threading.Timer(TIMEOUT, self._process.kill)
        guard.start()
        try:
            line = self._process.stdout.readline()
        finally:
            guard.cancel()
        assert line, f"the browser ended, or took more than {TIMEOUT} s: {str(command)[:200]}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    @property
    def alive(self) -> bool:
        """Whether the browser is still running."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the browser."""
        self.resources.close()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def encode_array(array: np.ndarray) -> str:
    """Encode an array for the page."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def decode_array(text: str, dtype: str) -> np.ndarray:
    """Decode an array from the page."""
    return np.frombuffer(base64.b64decode(text), dtype)


#: Helpers for code that runs in the page.
PRELUDE = """
const kit = await import("/devmod-webgpu/index.js");
const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0)).buffer;
const text = (array) => {
  const data = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  let made = "";
  for (let at = 0; at < data.length; at += 8192) made += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(made);
};
const failure = async (work) => {
  try {
    await work();
    return null;
  } catch (error) {
    return [error.name, error.message];
  }
};
"""


class FileServer(ThreadingHTTPServer):
    """Serves the npm package, an empty page, and files in memory, and counts the bytes of bodies
    that it sends.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/"
        self.reset()

    def reset(self) -> None:
        """Forget the files and what was sent."""
        self.files: dict[str, bytes] = {}
        self.sent = 0
        self.asked: list[str] = []
        self.ranges = True
        self.compresses = False


class _Handler(BaseHTTPRequestHandler):
    server: FileServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.removeprefix("/")
        kind = "application/octet-stream"
        if path == "":
            data, kind = b"<!doctype html><title>test</title>", "text/html"
        elif path == "favicon.ico":
            data = b""
        elif path.startswith("devmod-webgpu/"):
            data, kind = (JS / "src" / Path(path).name).read_bytes(), "text/javascript"
        elif path in self.server.files:
            data, kind = self.server.files[path], mimetypes.guess_type(path)[0] or kind
        else:
            self.send_error(404)
            return
        wanted = self.headers.get("Range", "") if self.server.ranges else ""
        self.server.asked.append(f"{path} {wanted}".strip())
        if wanted:
            first, last = map(int, wanted.removeprefix("bytes=").split("-"))
            total, data = len(data), data[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{first + len(data) - 1}/{total}")
        else:
            self.send_response(200)
            if self.server.compresses and "gzip" in self.headers.get("Accept-Encoding", ""):
                data = gzip.compress(data)
                self.send_header("Content-Encoding", "gzip")
        self.send_header("ETag", '"one"')
        if path in self.server.files:  # another test may have another file of this name
            self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if path in self.server.files:
            self.server.sent += len(data)
        self.wfile.write(data)


@contextlib.contextmanager
def file_server() -> Iterator[FileServer]:
    """A server for the time of the body."""
    server = FileServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
