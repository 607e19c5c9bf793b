"""Valid names of kinds and formats. They come from untrusted files, and are used in messages and keys."""

from __future__ import annotations

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz")
_REST = _FIRST | frozenset("0123456789_")


def is_valid_name(name: object) -> bool:
    """Return whether `name` is of the form ``[a-z][a-z0-9_]{0,31}``. The import of re takes longer than a look-up."""
    return isinstance(name, str) and 0 < len(name) <= 32 and name[0] in _FIRST and _REST.issuperset(name)
