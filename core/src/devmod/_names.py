"""What a kind or a format may be called. Both come from strangers' files, and end up in messages and in keys."""

from __future__ import annotations

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz")
_REST = _FIRST | frozenset("0123456789_")


def well_formed(name: object) -> bool:
    """Whether `name` is of the form ``[a-z][a-z0-9_]{0,31}``. By hand: importing re costs more than a whole look-up."""
    return isinstance(name, str) and 0 < len(name) <= 32 and name[0] in _FIRST and _REST.issuperset(name)
