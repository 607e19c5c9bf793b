"""The key under which the cache has the first bytes of a bundle: its URL, and the account of `storage_options`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from devmod.backend import DiskCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Names of files are in listings and in backups. With so many iterations, a guess at a password takes 20 ms.
_ITERATIONS = 100_000


def key_of(url: str, options: Mapping[str, Any], *, has_secrets: bool) -> str:
    """Return the key. Another endpoint or account has another one, and it shows no secret.

    Parameters
    ----------
    url, options
        The URL and the options of its file system.
    has_secrets
        Whether the URL has a password or a query.

    Raises
    ------
    TypeError
        An option has a value that other processes cannot recognize; the text is its type.
    """
    if not (options or has_secrets):
        return DiskCache.key("bundle at a URL", url)
    text = f"{url!r} {_text_of(options)}".encode("utf-8", "surrogatepass")
    return DiskCache.key("bundle of an account", hashlib.pbkdf2_hmac("sha256", text, b"devmod-remote", _ITERATIONS))


def _text_of(value: object) -> str:
    """Return a text that is equal for equal options alone. Lists and tuples are equal, and maps in any order."""
    if isinstance(value, str):
        return str.__repr__(value)  # a subclass may have a repr without the text, such as asterisks
    if isinstance(value, bytes):
        return bytes.__repr__(value)
    if value is None or isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, os.PathLike):
        return _text_of(os.fspath(value))
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{_text_of(key)}:{_text_of(each)}' for key, each in value.items()))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_text_of, value))}]"
    if isinstance(value, (set, frozenset)):
        return f"set({','.join(sorted(map(_text_of, value)))})"
    raise TypeError(type(value).__name__)
