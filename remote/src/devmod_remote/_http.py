"""Ranges of files on HTTP servers, through the session of fsspec's file system.

`fsspec` itself returns the whole file if a server ignores the range, and does not check the answer.
"""

from __future__ import annotations

import io

from devmod.backend import debug
from devmod.errors import describe_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The statuses after which a request is repeated.
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)


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


async def get_range(files: Any, url: str, start: int, stop: int, timeout: float) -> tuple[bytes, int]:
    """Return the bytes from `start` to `stop`, fewer if the file ends before, and the size of the file; -1 if it is unknown.

    Parameters
    ----------
    files
        An ``fsspec.implementations.http.HTTPFileSystem``.
    url, start, stop
        The file, and the range.
    timeout
        The longest wait for a connection, and for the next bytes, in seconds.

    Raises
    ------
    HttpError
        The server cannot be reached, stops, or answers with an error or with another range.
    """
    import aiohttp

    options = dict(files.kwargs)
    # Ranges of a compressed transfer are of no use.
    options["headers"] = {**(options.get("headers") or {}), "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
    options["timeout"] = aiohttp.ClientTimeout(total=None, connect=timeout, sock_connect=timeout, sock_read=timeout)
    try:
        session = await files.set_session()
        async with session.get(files.encode_url(url), **options) as response:
            return await _body(response, start, stop)
    except TimeoutError:
        raise HttpError(f"the server sent nothing for {timeout:g} s; `timeout` allows more") from None
    except (aiohttp.InvalidURL, aiohttp.TooManyRedirects, aiohttp.ClientSSLError) as error:
        raise HttpError(describe_error(error), None) from error
    except aiohttp.ClientError as error:
        raise HttpError(describe_error(error)) from error


async def _body(response: Any, start: int, stop: int) -> tuple[bytes, int]:
    status, length = response.status, response.content_length
    if status == 206:
        skip, (end, size) = 0, _span(response, start, stop)
    elif status == 200:  # the server has no ranges
        skip, end, size = start, stop, -1
        if length is not None and not response.headers.get("Content-Encoding"):
            size = length
            end = max(start, min(stop, size))
        if start:
            debug(f"{response.host} has no ranges: {start} bytes are read and dropped")
    elif status == 416:  # the file ends before
        return b"", -1
    else:
        pause = response.headers.get("Retry-After", "")
        raise HttpError(
            f"the server answered {status} {response.reason}".rstrip(),
            (int(pause) if pause.isdecimal() and len(pause) < 6 else 0) if status in _TRANSIENT else None,
            status,
        )
    data = io.BytesIO()
    while data.tell() < end - start:
        chunk = await response.content.readany()
        if not chunk:
            if size < 0 and status == 200:
                break
            raise HttpError(f"the answer ended after {data.tell()} of {end - start} bytes")
        dropped = min(skip, len(chunk))
        skip -= dropped
        data.write(memoryview(chunk)[dropped : dropped + end - start - data.tell()])
    return data.getvalue(), size


def _span(response: Any, start: int, stop: int) -> tuple[int, int]:
    """Return the end of the range in an answer, and the size of the file. Raise HttpError if another range was requested."""
    text = response.headers.get("Content-Range", "")
    unit, _, rest = text.partition(" ")
    span, _, total = rest.partition("/")
    first, _, last = span.partition("-")
    if unit == "bytes" and all(each.isdecimal() and len(each) < 19 for each in (first, last)):
        end, size = int(last) + 1, int(total) if total.isdecimal() and len(total) < 19 else -1
        if int(first) == start and (end == stop or (start < end < stop and end == size)):
            return end, size
    raise HttpError(f"the server was asked for bytes {start}-{stop - 1}, and answered with Content-Range {text!r}", None)
