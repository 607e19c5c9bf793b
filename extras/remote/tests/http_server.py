"""A real HTTP server on the loopback device, which counts the bytes that it sends and misbehaves by
request.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO

#: The files of a server: their bytes, or a function that opens them.
Content = bytes | Callable[[], BinaryIO]
#: A response of a test's own: it returns whether it has answered.
Answer = Callable[["Handler", "Server"], bool]


class Server:
    """The state of a server: its files, its counts, and the answers that replace the next ones.

    Attributes
    ----------
    files
        The contents by path.
    requests
        The path and the header ``Range`` of each request.
    sent
        The bytes of all responses, with their headers.
    answers
        Functions that answer the next requests, one each.
    ranges
        Whether the server has ranges.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, Content] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.sent = 0
        self.answers: list[Answer] = []
        self.ranges = True
        #: Released when the test ends, so that a stalled answer ends too.
        self.end = threading.Event()

    def url(self, path: str = "k.devmod") -> str:
        return f"{self.address}/{path}"

    @property
    def spans(self) -> list[str]:
        """The ranges of the requests."""
        return [span for _, span in self.requests]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    state: Server

    def do_GET(self) -> None:
        span = self.headers.get("Range", "")
        self.state.requests.append((self.path, span.removeprefix("bytes=")))
        self.state.headers.append(dict(self.headers.items()))
        if self.state.answers and self.state.answers.pop(0)(self, self.state):
            return
        content = self.state.files.get(self.path.lstrip("/").partition("?")[0])
        if content is None:
            self.status(404)
        elif isinstance(content, bytes):
            self.part(len(content), lambda start, stop: content[start:stop])
        else:
            with content() as file:
                size = file.seek(0, 2)

                def read(start: int, stop: int) -> bytes:
                    file.seek(start)
                    return file.read(stop - start)

                self.part(size, read)

    def part(self, size: int, read: Callable[[int, int], bytes]) -> None:
        """Answer with the requested range of a content, or with all of it in pieces."""
        span = self.headers.get("Range", "")
        if not (span and self.state.ranges):
            self.start(200, {"Content-Length": str(size)})
            for at in range(0, size, 1 << 16):
                self.body(read(at, min(size, at + (1 << 16))))
            return
        first, _, last = span.removeprefix("bytes=").partition("-")
        start, stop = int(first), min(int(last) + 1, size)
        if start >= size:
            self.start(416, {"Content-Range": f"bytes */{size}", "Content-Length": "0"})
            return
        self.start(
            206,
            {
                "Content-Range": f"bytes {start}-{stop - 1}/{size}",
                "Content-Length": str(stop - start),
            },
        )
        self.body(read(start, stop))

    def status(self, status: int, **headers: str) -> None:
        """Answer with a status and no body."""
        self.start(
            status,
            {
                "Content-Length": "0",
                **{name.replace("_", "-"): value for name, value in headers.items()},
            },
        )

    def start(self, status: int, headers: dict[str, str]) -> None:
        """Send the status and the headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.state.sent += sum(map(len, self._headers_buffer)) + 2  # type: ignore[attr-defined]
        self.end_headers()

    def body(self, data: bytes) -> None:
        """Send bytes of the body. A client that has enough closes the connection."""
        self.state.sent += len(data)  # first: the client may go on before this thread does
        try:
            self.wfile.write(data)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def http_server(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run a server until the end of the block, with TLS if there is a context."""

    class Connection(Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Connection)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[assignment,method-assign]
    if context is not None:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    state = Connection.state = Server(
        f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
    )
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield state
    finally:
        state.end.set()
        server.shutdown()
        server.server_close()
        thread.join()
