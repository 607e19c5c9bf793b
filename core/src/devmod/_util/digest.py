"""SHA-256: without OpenSSL for small data, as the import of hashlib takes longer than hashing 200
kB; in a second thread for large data.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

#: The module of Python's own code.
_SMALL = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
#: From this size on, OpenSSL's faster code saves more than its import takes.
_LARGE = 1 << 18
#: From this size on, hashing in a second thread costs less than it saves.
_OVERLAP_FROM = 1 << 20


def sha256_of(data: bytes | memoryview) -> bytes:
    """Return the SHA-256 of `data`."""
    openssl = sys.modules.get("_hashlib")  # an import statement takes as long as the hash of 1 kB
    if openssl is not None:
        return bytes(openssl.openssl_sha256(data).digest())
    if len(data) < _LARGE:
        try:
            return bytes(__import__(_SMALL).sha256(data).digest())
        except ImportError:  # this build of Python lacks it
            pass
    try:
        # hashlib imports BLAKE2 too, a third of its time.
        from _hashlib import openssl_sha256 as sha256
    except ImportError:  # this build of Python has no OpenSSL
        from hashlib import sha256
    return sha256(data).digest()


def sha256_of_parts(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the SHA-256 of bytes that are in parts."""
    from hashlib import sha256

    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def run_both(one: Callable[[], Any], other: Callable[[], None], size: int) -> Any:
    """Run `one` in a second thread and `other` in this one. Wait for both, and return the result of
    `one`.

    If `size`, the number of bytes that they read, is small, or if the second thread could not
    import, both run in this thread.
    """
    from devmod._util.once import release_import_lock

    if size < _OVERLAP_FROM or not release_import_lock():
        other()
        return one()
    from contextlib import suppress
    from threading import Thread

    results = []

    def run() -> None:
        with suppress(Exception):  # the caller's thread calls `one` again, which raises it there
            results.append(one())

    thread = Thread(target=run, name="devmod-digest")
    thread.start()
    try:
        other()
    finally:
        thread.join()
    if not results:
        return one()
    return results[0]
