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
    module: Any = None
    if len(data) < _LARGE and "hashlib" not in sys.modules:
        try:
            if sys.version_info >= (3, 12):
                import _sha2 as module  # type: ignore[import-not-found, no-redef, unused-ignore]
            else:
                import _sha256 as module  # type: ignore[import-not-found, no-redef, unused-ignore]
        except ImportError:  # this build of Python lacks it
            pass
    if module is None:
        import hashlib as module
    digest: bytes = module.sha256(data).digest()
    return digest
