"""What receivers made of a payload and keep in the folder of caches, so that the next process need not make it again."""

from __future__ import annotations

import hashlib
import os

from devmod._cachedir import cache_dir, write_private

#: A kept file: this, the SHA-256 of what follows, what is kept.
_MAGIC = b"devmod kept 1\n"
_START = len(_MAGIC) + 32


class Kept:
    """Bytes that a backend keeps, under all that determines them.

    The folder is `cache_dir`'s, and anything in it may be lost: what is missing, damaged or cannot be written is made again.

    Parameters
    ----------
    kind : str
        The backend's kind, the name of its folder.
    parts : str
        What determines the bytes: the compiler or driver and its version, the device, the options, the source; and a word for the form
        of what is kept, where that changes.
    """

    def __init__(self, kind: str, *parts: str) -> None:
        folder = cache_dir()
        key = hashlib.sha256(b"".join(len(part.encode()).to_bytes(8, "little") + part.encode() for part in parts)).hexdigest()
        self.path = os.path.join(folder, kind, f"{key}.bin") if folder else ""

    def read(self) -> bytes:
        """The bytes; ``b""`` where there are none, or they are damaged."""
        if not self.path:
            return b""
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError:
            return b""
        whole = data[: len(_MAGIC)] == _MAGIC and hashlib.sha256(data[_START:]).digest() == data[len(_MAGIC) : _START]
        return data[_START:] if whole else b""

    def write(self, data: bytes) -> None:
        """Keep the bytes, where the user has a place for them."""
        if self.path:
            write_private(self.path, _MAGIC + hashlib.sha256(data).digest() + data)
