"""The cache on the disk for the results of drivers, compilers and checks, which later processes
use.
"""

from __future__ import annotations

import os

from devmod._util.cache_folder import cache_dir, read_private, write_private
from devmod._util.digest import sha256_of
from devmod._util.environment import debug, environment_text
from devmod._util.text import is_number, is_valid_name
from devmod.errors import ArgumentError, describe_error

#: A file has this magic, the SHA-256 of its key and its bytes, and its bytes.
_MAGIC = b"devmod cache 1\n"
_START = len(_MAGIC) + 32


class DiskCache:
    """The entries of one kind on the disk: bytes by key.

    Any entry may be missing at the next call. A missing, damaged or untrusted entry is a miss. An
    entry that cannot be written is not stored. No method raises because of the disk. Processes and
    threads may use one cache at the same time.

    The folder is in `cache_dir`. It must belong to this user or to root, and no other user may
    write to it; every call checks that. All kinds together take at most ``DEVMOD_CACHE_SIZE`` of
    disk space. The least recently used entries are removed first.

    Parameters
    ----------
    kind : str
        The backend's kind, or another name of the same form. It is the name of the folder.

    Raises
    ------
    ArgumentError
        `kind` is not of the form ``[a-z][a-z0-9_]{0,31}``, or is "discovery", which core uses.
    """

    def __init__(self, kind: str) -> None:
        if not is_valid_name(kind) or kind == "discovery":
            raise ArgumentError(
                f"a cache's kind is a name such as 'opencl', not {kind!r}", argument="kind"
            )
        self.kind = kind

    def __repr__(self) -> str:
        return f"DiskCache({self.kind!r})"

    @staticmethod
    def key(*parts: str | bytes) -> str:
        """Return the key of an entry.

        Parameters
        ----------
        parts : str or bytes
            All inputs of the entry's bytes: the compiler or driver and its version, the device, the
            options, the source. Add a name for the format of the bytes if it may change.
        """
        pieces = []
        for part in parts:
            if isinstance(part, str):
                part = part.encode("utf-8", "surrogatepass")
            pieces += [len(part).to_bytes(8, "little"), part]
        return sha256_of(b"".join(pieces)).hex()

    def path(self, key: str) -> str:
        """Return the path of an entry's file; "" if there is no cache folder."""
        base = cache_dir()
        if not base:
            return ""
        return os.path.join(base, self.kind, f"{key}.bin")

    def read(self, key: str) -> bytes | None:
        """Return an entry's bytes; None if it is missing, damaged, or others may have written
        it.
        """
        try:
            path = self.path(key)
            if not path:
                return None
            data = read_private(path, size_bound(), touch=True)
        except Exception as error:  # noqa: BLE001 - a cache never fails its caller
            debug(f"cannot read from {self}: {describe_error(error)}")
            return None
        if data is None:
            return None
        body = memoryview(data)[_START:]
        if data[: len(_MAGIC)] != _MAGIC or _digest(key, body) != data[len(_MAGIC) : _START]:
            debug(f"the entry {path!r} is damaged and is not used")
            return None
        return bytes(body)

    def write(self, key: str, data: bytes | memoryview) -> None:
        """Store an entry's bytes, if the bound allows it."""
        try:
            path = self.path(key)
            bound = size_bound()
            if not path or _START + len(data) > bound:
                return
            if not write_private(path, b"".join((_MAGIC, _digest(key, data), data))):
                debug(f"cannot write the entry {path!r}")
                return
            from devmod._util.cache_files import enforce_bound

            enforce_bound(cache_dir(), _START + len(data), bound)
        except Exception as error:  # noqa: BLE001 - as above
            debug(f"cannot write to {self}: {describe_error(error)}")


def size_bound() -> int:
    """Return the largest disk space of all entries in bytes: ``DEVMOD_CACHE_SIZE``, 1 GiB by
    default.
    """
    text = environment_text("DEVMOD_CACHE_SIZE")
    bound = _bytes_in(text)
    if bound is not None:
        return bound
    if text:
        debug(
            f"DEVMOD_CACHE_SIZE={text} is ignored: expected a number of bytes such as 500000000, 500M or 2G"
        )
    return 1 << 30


def _bytes_in(text: str) -> int | None:
    """Return the number of a text such as "500M" or "500MB"; None if it is none."""
    text = text.upper().removesuffix("IB").removesuffix("B")
    power = "KMGT".find(text[-1:] or " ") + 1
    if power:
        text = text[:-1]
    if not is_number(text, 18):
        return None
    return int(text) << 10 * power


def _digest(key: str, data: bytes | memoryview) -> bytes:
    return sha256_of(b"".join((key.encode(), data)))
