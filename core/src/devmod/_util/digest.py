"""SHA-256 without OpenSSL for small data: the import of hashlib takes longer than hashing 200 kB."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: From this size on, OpenSSL's faster code saves more than its import takes.
_LARGE = 1 << 18


def sha256_of(data: bytes | memoryview) -> bytes:
    """Return the SHA-256 of `data`."""
    small = len(data) < _LARGE and "hashlib" not in sys.modules
    sha256 = (_builtin() if small else None) or _of_hashlib()
    digest: bytes = sha256(data).digest()
    return digest


def _builtin() -> Any:
    """Return Python's own implementation, or None if this build of Python lacks it."""
    try:
        if sys.version_info >= (3, 12):
            import _sha2 as module  # type: ignore[import-not-found, unused-ignore]
        else:
            import _sha256 as module  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    return module.sha256


def _of_hashlib() -> Any:
    from hashlib import sha256

    return sha256
