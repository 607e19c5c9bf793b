"""The server of `devmod view`. It serves one file and a page, only to browsers on this machine.

Other pages in the same browser cannot read the file: their requests lack the secret part of the
URL, and after DNS rebinding they also have the wrong Host. Other users of the machine do not have
the secret, unless they can read the browser's command line. The server serves nothing except the
page and the file, and lists no folder.
"""

from __future__ import annotations

import os
import re
import socketserver
import sys
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import compare_digest
from typing import Any, BinaryIO
from urllib.parse import quote, unquote_to_bytes

from devmod.backend import RLock, open_regular
from devmod.errors import DevmodError, FormatError

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".devmod": "application/octet-stream",
}
#: A path segment that is neither hidden nor "..".
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_CHUNK = 1 << 20
#: The most concurrent connections, with a thread each. A browser opens six.
_MOST_CONNECTIONS = 32
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Server(ThreadingHTTPServer):
    """An HTTP server on 127.0.0.1.

    Parameters
    ----------
    file
        The bundle. It is opened once, here. A file or a link that replaces it later is not served.
    page
        Folders and files by their URL path. "" is the path of the page itself.
    port
        The port. 0 selects a free one.
    secret
        The first segment of every URL path.

    Raises
    ------
    DevmodError
        The port cannot be used.
    FormatError, OSError
        The file is not a regular file, or cannot be opened.
    """

    daemon_threads = True
    # With the default of 5, the system delays some of a browser's connections by seconds.
    request_queue_size = 128
    # On other systems it would let two programs share one port.
    allow_reuse_address = os.name == "posix"

    def __init__(self, file: Path, page: Mapping[str, Path], port: int, secret: str) -> None:
        self.file = file
        self.page = page
        self.secret = secret
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self.bundle = _SharedFile(open_regular(file))
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            self.bundle.close()
            why = error.strerror or str(error)
            raise DevmodError(
                f"port {port} of 127.0.0.1 cannot be used: {why}. Omit --port to use a free one"
            ) from None
        names = ("127.0.0.1", "localhost")
        self.hosts = {f"{name}:{self.server_port}" for name in names}
        if self.server_port == 80:  # a browser omits the port of its protocol
            self.hosts.update(names)
        # Quoted twice: as a segment of the file's URL, and as the value of ?file=.
        self.url = f"http://127.0.0.1:{self.server_port}/{secret}/?file={quote('file/' + quote(os.fsencode(file.name), safe=''), safe='/')}"

    def server_bind(self) -> None:
        """Bind the socket without looking up the name of this machine, as HTTPServer does over the
        network.
        """
        socketserver.TCPServer.server_bind(self)
        self.server_name = "127.0.0.1"
        self.server_port = self.server_address[1]

    def server_close(self) -> None:
        """Close the socket and the bundle."""
        super().server_close()
        self.bundle.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a new thread, or immediately with 503 if there are too many."""
        if not self._free.acquire(blocking=False):
            with suppress(OSError):
                request.setblocking(False)
                request.send(_BUSY)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # the thread cannot be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore closed connections. Print other errors."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "devmod"
    sys_version = ""
    timeout = 60

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log no requests. Standard error is for errors only."""

    def _answer(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            self._refuse(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This server answers only requests to 127.0.0.1 and localhost.",
            )
            return
        place = self._resolve(self.path.partition("?")[0].partition("#")[0])
        if place is self.server.file:
            self._send(self.server.bundle, _TYPES[".devmod"])
            return
        file = None
        if place is not None:
            with suppress(OSError, ValueError, FormatError):
                file = _SharedFile(open_regular(place))
        if place is None or file is None:
            self._refuse(HTTPStatus.NOT_FOUND, "This page does not exist.")
            return
        with closing(file):
            self._send(file, _TYPES[place.suffix])

    do_GET = do_HEAD = _answer

    def _resolve(self, path: str) -> Path | None:
        """Return the file for a URL path, or None if it is not served. The bundle is returned as
        the object `Server.file`.
        """
        parts = path.split("/")
        if len(parts) < 3 or parts[0]:
            return None
        if not compare_digest(parts[1].encode(), self.server.secret.encode()):
            return None
        rest = parts[2:]
        if rest[0] == "file":
            if len(rest) != 2 or unquote_to_bytes(rest[1]) != os.fsencode(self.server.file.name):
                return None
            return self.server.file
        if rest == [""]:
            rest = ["index.html"]
        if not all(map(_NAME.fullmatch, rest)):
            return None
        for count in range(len(rest), -1, -1):
            base = self.server.page.get("/".join(rest[:count]))
            if base is not None:
                place = base.joinpath(*rest[count:])
                if place.suffix not in _TYPES:
                    return None
                return place
        return None

    def _send(self, file: _SharedFile, content_type: str) -> None:
        status = file.status()
        size = status.st_size
        tag = f'"{status.st_ino:x}-{size:x}-{status.st_mtime_ns:x}"'
        span = None
        if self.headers.get("If-Range") in (None, tag):
            span = self._range(size)
        if span is not None and span[0] >= span[1]:
            self._head(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
                {"Content-Range": f"bytes */{size}", "Content-Length": "0"},
            )
            return
        first, end = span or (0, size)
        headers = {
            "Content-Type": content_type,
            "Content-Length": str(end - first),
            "Accept-Ranges": "bytes",
            "ETag": tag,
        }
        http_status = HTTPStatus.OK
        if span is not None:
            http_status = HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        self._head(http_status, headers)
        if self.command == "HEAD":
            return
        while first < end:
            part = file.read(first, min(_CHUNK, end - first))
            if not part:  # the file was truncated; closing the connection reports that
                self.close_connection = True
                return
            self.wfile.write(part)
            first += len(part)

    def _range(self, size: int) -> tuple[int, int] | None:
        """Return the requested range as first byte and end: empty if it is outside of the file,
        None for the whole file.
        """
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None or match.group() == "bytes=-":
            return None
        first, last = match.groups()
        if not first:
            return (max(0, size - int(last)), size)
        if last and int(last) < int(first):
            return None
        end = min(size, int(last) + 1) if last else size
        return (int(first), end)

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        body = f"{text}\n".encode()
        self._head(status, {"Content-Type": _TYPES[".txt"], "Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in (_HEADERS | dict(headers)).items():
            self.send_header(name, value)
        self.end_headers()


class _SharedFile:
    """A file that several threads can read concurrently."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        # A file has one position, and os.pread is not available on all systems.
        self._lock = RLock()

    def status(self) -> os.stat_result:
        return os.fstat(self._file.fileno())

    def read(self, start: int, count: int) -> bytes:
        with self._lock:
            self._file.seek(start)
            return self._file.read(count)

    def close(self) -> None:
        self._file.close()
