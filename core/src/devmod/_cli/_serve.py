"""The server of `devmod view`: one file and a page, to the browsers of this machine alone.

Another page in the same browser must not read the file: its requests come with another Host where its name was made to point here,
and without the address's secret part in any case. Nor does another user of the machine know that part, but where they may read the
command line of the browser that was opened with it. Nothing outside the page and the one file is served, and no folder is listed.
"""

from __future__ import annotations

import os
import re
import socketserver
import stat
import sys
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote_to_bytes

from devmod.errors import DevmodError

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".devmod": "application/octet-stream",
}
#: A name in an address: nothing hidden, and no way up.
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


class Server(ThreadingHTTPServer):
    """Serves on 127.0.0.1.

    Parameters
    ----------
    file
        The bundle.
    page
        Folders and files, by the path that they are served under; "" is the page itself.
    port
        0 takes a free one.
    secret
        The first part of every address.

    Raises
    ------
    DevmodError
        The port cannot be had.
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # elsewhere it would let two programs have one port

    def __init__(self, file: Path, page: Mapping[str, Path], port: int, secret: str) -> None:
        self.file, self.page, self.secret = file, page, secret
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            why = error.strerror or str(error)
            raise DevmodError(f"port {port} of 127.0.0.1 cannot be used: {why}. Leave --port out, and a free one is taken") from None
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}
        # Quoted twice: once as a part of the file's address, once as the value of ?file=.
        self.url = f"http://127.0.0.1:{self.server_port}/{secret}/?file={quote('file/' + quote(os.fsencode(file.name), safe=''), safe='/')}"

    def server_bind(self) -> None:
        """Without HTTPServer's question for this machine's name, which goes to the network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that went away in the middle; anything else is an error of ours and shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "devmod"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing: standard error is for what went wrong."""

    def _answer(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "This server answers to 127.0.0.1 alone.")
            return
        place = self._place(self.path.partition("?")[0].partition("#")[0])
        file = _opened(place) if place is not None else None
        if place is None or file is None:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page here.")
            return
        with file:
            self._send(file, _TYPES.get(place.suffix.lower(), "application/octet-stream"))

    def _place(self, path: str) -> Path | None:
        """The file that an address means, of those that are served."""
        parts = path.split("/")
        if len(parts) < 3 or parts[0] or not _same(parts[1], self.server.secret):
            return None
        rest = parts[2:]
        if rest[0] == "file":
            return self.server.file if len(rest) == 2 and unquote_to_bytes(rest[1]) == os.fsencode(self.server.file.name) else None
        if rest == [""]:
            rest = ["index.html"]
        if not all(map(_NAME.fullmatch, rest)):
            return None
        for count in range(len(rest), -1, -1):
            base = self.server.page.get("/".join(rest[:count]))
            if base is not None:
                place = base.joinpath(*rest[count:])
                return place if place.suffix in _TYPES else None
        return None

    def _send(self, file: BinaryIO, content_type: str) -> None:
        status = os.fstat(file.fileno())
        size, tag = status.st_size, f'"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"'
        wanted = self._range(size) if self.headers.get("If-Range") in (None, tag) else None
        if wanted is not None and wanted[0] >= wanted[1]:
            self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, {"Content-Range": f"bytes */{size}", "Content-Length": "0"})
            return
        first, end = wanted or (0, size)
        headers = {"Content-Type": content_type, "Content-Length": str(end - first), "Accept-Ranges": "bytes", "ETag": tag}
        if wanted is not None:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        self._head(HTTPStatus.OK if wanted is None else HTTPStatus.PARTIAL_CONTENT, headers)
        if self.command == "HEAD":
            return
        file.seek(first)
        left = end - first
        while left:
            part = file.read(min(_CHUNK, left))
            if not part:  # it was cut meanwhile; the connection's end says so
                self.close_connection = True
                return
            self.wfile.write(part)
            left -= len(part)

    def _range(self, size: int) -> tuple[int, int] | None:
        """The one range that is asked for, as first byte and end; empty where it lies outside; None for the whole."""
        found = _RANGE.fullmatch(self.headers.get("Range", ""))
        if found is None or found.group() == "bytes=-":
            return None
        first, last = found.groups()
        if not first:
            return (max(0, size - int(last)), size)
        if last and int(last) < int(first):
            return None
        return (int(first), min(size, int(last) + 1) if last else size)

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


def _same(one: str, other: str) -> bool:
    """Whether two strings are the same, in a time that does not tell how far."""
    import hmac

    return hmac.compare_digest(one.encode(), other.encode())


def _opened(place: Path) -> BinaryIO | None:
    """A regular file, opened; None where there is none."""
    try:
        file = place.open("rb")
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    return None
