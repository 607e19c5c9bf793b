"""Ranges of files on HTTP servers, through the session of fsspec's file system.

`fsspec` itself returns the whole file if a server ignores the range, and does not check the answer.
"""

from __future__ import annotations

import asyncio
import io
from typing import Any

from devmod.backend import debug
from devmod.errors import describe_error

#: The statuses after which a request is repeated.
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
#: The answer's head may take so many time-outs: a connection and an answer, and those of redirects.
_HEAD_TIMEOUTS = 4
#: The bytes that a server must send within a time-out. One byte at a time could take years.
_LEAST = 1024
#: OpenSSL's codes for a certificate of an unknown authority: of itself, of the chain, and without
#: an issuer.
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
#: The headers that another origin gets after a redirect.
_PUBLIC = {"Host", "Range", "Accept-Encoding", "User-Agent"}
#: The limit on a text of the server in a message.
_MAX_TEXT = 200


class HttpError(OSError):
    """A request failed.

    Attributes
    ----------
    status
        The status of the answer; None if there is none.
    pause
        The seconds to wait before the next attempt, at least; None if there is no use in one.
    """

    def __init__(self, message: str, pause: float | None = 0, status: int | None = None) -> None:
        super().__init__(message)
        self.pause = pause
        self.status = status


async def get_range(
    files: Any, url: str, start: int, stop: int, timeout: float
) -> tuple[bytes, int]:
    """Return the bytes from `start` to `stop`, fewer if the file ends before, and the size of the
    file; -1 if it is unknown.

    Parameters
    ----------
    files
        An ``fsspec.implementations.http.HTTPFileSystem``.
    timeout
        The longest wait for a connection, and for the next bytes, in seconds.

    Raises
    ------
    HttpError
        The server cannot be reached, stops, or answers with an error or with another range.
    """
    import aiohttp

    options = dict(files.kwargs)
    # Ranges of a compressed transfer are of no use, and one byte of it may be a thousand.
    options["headers"] = {
        **(options.get("headers") or {}),
        "Range": f"bytes={start}-{stop - 1}",
        "Accept-Encoding": "identity",
    }
    options["timeout"] = aiohttp.ClientTimeout(
        total=None, connect=timeout, sock_connect=timeout, sock_read=timeout
    )
    options["auto_decompress"] = False
    try:
        session = await files.set_session()
        address = files.encode_url(url)
        # The middlewares of a request replace those of the session, which the caller may have set.
        options["middlewares"] = (*getattr(session, "_middlewares", ()), _Guard(address))
        async with asyncio.timeout(_HEAD_TIMEOUTS * timeout):
            response = await session.get(address, **options)
        async with response:
            return await _body(response, start, stop, timeout)
    except TimeoutError:
        raise HttpError(
            f"the server sent nothing for {timeout:g} s; `timeout` allows more"
        ) from None
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        raise HttpError(_tls_text(error), None) from error
    except _InsecureRedirectError:
        raise HttpError(
            "the server redirects from HTTPS to HTTP, which anyone on the way can change", None
        ) from None
    except aiohttp.TooManyRedirects as error:
        raise HttpError("the server redirects without an end", None) from error
    except aiohttp.RedirectClientError as error:
        raise HttpError(
            "the server redirects to an address that is not an HTTP URL", None
        ) from error
    except aiohttp.InvalidURL as error:
        raise HttpError(describe_error(error), None) from error
    except aiohttp.ClientResponseError as error:  # its text has the URL
        raise HttpError(
            f"the answer is not HTTP: {_short(' '.join(error.message.split()))}"
        ) from error
    except aiohttp.ClientError as error:
        raise HttpError(describe_error(error)) from error


class _InsecureRedirectError(Exception):
    """A server redirects from HTTPS to HTTP. It is no OSError, which aiohttp would take for one of
    the connection.
    """


class _Guard:
    """What each request of a chain of redirects must hold to: a middleware of aiohttp.

    Another origin gets nothing of the caller: no headers, no cookies and no password. Those of the
    session are in the headers of each request. Without TLS anyone on the way could give the rest of
    a chain that began with it.
    """

    def __init__(self, address: Any) -> None:
        self._origin = address.origin()

    async def __call__(self, request: Any, handler: Any) -> Any:
        if self._origin.scheme == "https" and request.url.scheme != "https":
            raise _InsecureRedirectError
        if request.url.origin() != self._origin:
            for name in {*request.headers} - _PUBLIC:
                request.headers.popall(name, None)
        return await handler(request)


def _tls_text(error: Exception) -> str:
    """Return why there is no secure connection, and what to do."""
    cause: Any = getattr(error, "certificate_error", None) or error.__cause__ or error
    reason = _short(
        str(
            getattr(cause, "verify_message", "")
            or getattr(cause, "reason", "")
            or type(cause).__name__
        )
    ).rstrip(".")
    if not getattr(cause, "verify_message", ""):
        return f"there is no secure connection: {reason}"
    text = f"the certificate of the server is not trusted: {reason}"
    if cause.verify_code in _UNKNOWN_AUTHORITY:
        text += ". To trust an authority of your own, set SSL_CERT_FILE to its file before Python starts"
    return text


async def _body(response: Any, start: int, stop: int, timeout: float) -> tuple[bytes, int]:
    status = response.status
    skip = 0
    if status == 206:
        end, size = _span(response, start, stop)
    elif status == 200:  # the server has no ranges
        skip = start
        end = stop
        size = -1
        length = response.content_length
        if length is not None:
            size = length
            end = max(start, min(stop, size))
        if start:
            debug(f"{response.host} has no ranges: {start} bytes are read and dropped")
    elif status == 416:  # the file ends before
        return b"", -1
    else:
        text = f"the server answered {status} {_short(response.reason or '')}".rstrip()
        raise HttpError(text, _pause(response), status)

    encoding = response.headers.get("Content-Encoding", "")
    if encoding.lower() not in ("", "identity"):
        raise HttpError(
            f"the server compressed the answer ({_short(encoding)}), and was asked not to: turn that off for this file",
            None,
        )

    data = io.BytesIO()
    while data.tell() < end - start:
        chunk = await _next_bytes(response.content, timeout)
        if not chunk:
            if size < 0 and status == 200:
                break
            raise HttpError(f"the answer ended after {data.tell()} of {end - start} bytes")
        dropped = min(skip, len(chunk))
        skip -= dropped
        data.write(memoryview(chunk)[dropped : dropped + end - start - data.tell()])
    return data.getvalue(), size


def _pause(response: Any) -> int | None:
    """Return the seconds that the server asks to wait; None if a further attempt cannot help."""
    if response.status not in _TRANSIENT:
        return None
    text = response.headers.get("Retry-After", "")
    if len(text) < 6 and _is_number(text):
        return int(text)
    return 0


async def _next_bytes(content: Any, timeout: float) -> bytes:
    """Return the next bytes of an answer: at least 1 kB in the time of a time-out, or up to its
    end. b"" is the end.
    """
    parts = io.BytesIO()
    try:
        async with asyncio.timeout(timeout):
            while parts.tell() < _LEAST and (chunk := await content.readany()):
                parts.write(chunk)
    except TimeoutError:
        if parts.tell():
            raise HttpError(
                f"the server sent {parts.tell()} bytes in {timeout:g} s; `timeout` allows more"
            ) from None
        raise
    return parts.getvalue()


def _short(text: str) -> str:
    """Return the text of a server for a message."""
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}…"


def _span(response: Any, start: int, stop: int) -> tuple[int, int]:
    """Return the end of the range in an answer, and the size of the file. Raise HttpError if
    another range was requested.
    """
    text = response.headers.get("Content-Range", "")
    unit, _, rest = text.partition(" ")
    span, _, total = rest.partition("/")
    first, _, last = span.partition("-")
    if unit == "bytes" and all(map(_is_number, (first, last))):
        end = int(last) + 1
        size = -1
        if _is_number(total):
            size = int(total)
        if int(first) == start and (end == stop or (start < end < stop and end == size)):
            return end, size
    raise HttpError(
        f"the server was asked for bytes {start}-{stop - 1}, and answered with Content-Range {_short(text)!r}",
        None,
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19
