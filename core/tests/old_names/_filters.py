"""The functions of the package."""

from __future__ import annotations

from devmod.backend import warn_deprecated

VERSION = "pictures 0.4"


def blur(radius: int = 3, *, size: int | None = None) -> int:
    """Return the width of a blur. Its parameter was named `size`."""
    if size is not None:
        old = "the parameter size of old_names.blur"
        warn_deprecated(old, new="radius", removed_in=VERSION)
        radius = size
    return 2 * radius + 1


def smooth(radius: int = 3) -> int:
    """Return the result of `blur`, whose old name this is."""
    return _renamed(radius)


def _renamed(radius: int) -> int:
    """Call the function that has the new name. The warning is as deep as it happens to be."""
    warn_deprecated("old_names.smooth", new="old_names.blur", removed_in=VERSION)
    return blur(radius)
