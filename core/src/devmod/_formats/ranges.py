"""Bundles that are read by ranges: at URLs, in file objects, and in zip files as resources of
packages.
"""

from __future__ import annotations

import errno
import os

from devmod._formats.index import HEADER, head_length
from devmod._formats.pages import data_parts, size_of
from devmod._formats.trust import MEMORY, FileHead, policies, read_signature
from devmod._util.locks import RLock
from devmod._util.regular_files import absolute, path_to_str
from devmod.errors import (
    ArgumentError,
    FetchError,
    FormatError,
    TrustError,
    count_text,
    describe_error,
    not_installed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod._formats.index import Parts, Read


#: What precedes the SHA-256 of the head at the end of a URL.
PIN = "#devmod-head="


# A source has `place`, its name in messages; `address`, what a policy compares; `size`, -1 if it is
# unknown; `head()`, which returns the header and any number of the next bytes; `read(at, parts)`,
# which returns parts that follow each other, given by size, SHA-256 and the number of the bytes
# behind each, and may take them from a cache (without the bytes behind them); and `signature()`,
# the content of the file beside it. The reader checks all digests.
def read_head_of(
    path: Any, signature: bytes | None = None, package: str = "", **options: Any
) -> tuple[FileHead, Read]:
    """Return a bundle's head, and the function that reads its parts.

    The parameters and errors are those of `load`. `package` is that of `FileHead`.
    """
    pin = None
    if isinstance(path, str):
        url, pin = _split_pin(path)
        source = _url_source(url, options)
    else:
        source = _object_source(path)
    paths = policies()
    place = source.place
    head = first = source.head()
    length = head_length(memoryview(first), place)
    found = bytes(head[16:HEADER])
    if pin is not None and found != pin:
        raise TrustError(
            f"{place} is not the file that the address names: the SHA-256 of its head is {found.hex()}, "
            f"and the address has {pin.hex()}. Nothing of it was used"
        )
    if HEADER + length > len(head):
        head = head[:HEADER] + bytes(source.read(HEADER, [(length, head[16:HEADER], 0)])[0])

    def read(at: int, parts: Parts) -> Sequence[memoryview]:
        if at + size_of(parts) <= len(first):
            return data_parts(memoryview(first))(at, parts)
        results = [memoryview(data) for data in source.read(at, parts)]
        for data, (size, _, _) in zip(results, parts, strict=True):
            if len(data) < size:
                raise FormatError(
                    f"{place} is cut short: a part of it has {count_text(size, 'byte')}, and {len(data)} are left"
                )
        return results

    if paths and signature is None:
        signature = source.signature()
    opened = FileHead(
        memoryview(head)[: HEADER + length],
        place,
        source.address,
        source.size,
        package,
        signature,
        paths,
    )
    return opened, read


def _split_pin(url: str) -> tuple[str, bytes | None]:
    """Return a URL without the digest at its end, and the digest; None if there is none."""
    address, mark, digits = url.partition(PIN)
    if not mark:
        return url, None
    if len(digits) != 64 or not {*digits} <= {*"0123456789abcdef"}:
        raise ArgumentError(
            f"load(url): the URL ends with {mark}{digits!r:.80}; expected the 64 hexadecimal digits that devmod pin FILE prints",
            argument="path",
        )
    return address, bytes.fromhex(digits)


def _url_source(url: str, options: dict[str, Any]) -> Any:
    from importlib import import_module

    try:
        return import_module("devmod_remote").UrlSource(url, **options)
    except ModuleNotFoundError as error:
        if error.name != "devmod_remote":
            raise
        text = not_installed("devmod-remote", "devmod-core[remote]")
        raise FetchError(
            f"load(url): a URL with {url.partition('://')[0]}:// cannot be read: {text}"
        ) from None


def _object_source(source: Any) -> _FileSource:
    if hasattr(source, "read") and hasattr(source, "seek"):
        return _FileSource(source, str(getattr(source, "name", "the file object")))
    if not (hasattr(source, "open") and hasattr(source, "is_file")):
        path_to_str(source, "load(path)", "devmod.loads(data) reads a bundle in memory")
    if not source.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
    return _FileSource(source.open("rb"), str(source), source)


class _FileSource:
    """A file object, or a resource of a package, which may have a file with signatures beside
    it.
    """

    def __init__(self, file: Any, name: str, resource: Any = None) -> None:
        self.place = repr(name)
        self.address = MEMORY
        if resource is not None:
            self.address = absolute(name)
        self._file = file
        self._resource = resource
        self._lock = RLock()
        try:
            self.size = file.seek(0, os.SEEK_END)
        except (OSError, ValueError) as error:
            raise ArgumentError(
                f"load(path): {self.place} cannot seek ({describe_error(error)}). devmod.loads(file.read()) reads all of it",
                argument="path",
            ) from None

    def head(self) -> bytes:
        return self._read(0, 4096)

    def signature(self) -> bytes | None:
        if not hasattr(self._resource, "parent"):
            return None
        return read_signature(
            lambda: (self._resource.parent / f"{self._resource.name}.sig").open("rb")
        )

    def read(self, at: int, parts: Parts) -> Sequence[memoryview]:
        data = self._read(at, at + size_of(parts))
        return data_parts(memoryview(data))(0, parts)

    def _read(self, start: int, stop: int) -> bytes:
        parts = []
        with self._lock:
            try:
                self._file.seek(start)
                while start < stop and (part := self._file.read(stop - start)):
                    parts.append(part)
                    start += len(part)
                return b"".join(parts)
            except TypeError:
                raise ArgumentError(
                    f"load(path): {self.place} is open as text; open it in the mode 'rb'",
                    argument="path",
                ) from None
            except (OSError, ValueError, EOFError) as error:
                text = describe_error(error).rstrip(".")
                raise FetchError(
                    f"{self.place} cannot be read: {text}. A file object must be open while modules are first used"
                ) from error
