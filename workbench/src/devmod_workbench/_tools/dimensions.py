"""A warning for a launch with fewer dimensions than its kernel reads, by the rule of its kind."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from devmod.backend import LAUNCH_KEYWORDS, escape, find_spec, np

#: What `_dimensions_read` has returned.
_known: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


class DimensionsWarning(UserWarning):
    """A warning that names keywords of the launch, as an error does."""

    keywords = LAUNCH_KEYWORDS


def warn_of_dimensions(
    function: Any, values: Iterable[Any], grid: Any, block: Any, threads: Any
) -> None:
    """Warn if a launch has fewer dimensions than the kernel reads, unless an argument has the
    length 1: that of one row.

    Parameters
    ----------
    function, values
        The function and its arguments.
    grid, block, threads
        The launch as it is given. With a grid, a block of several dimensions is one of several
        dimensions.
    """
    if grid is None and threads is None:
        return
    if any(map(_has_length_of_one, values)):
        return
    count = np.size(threads)
    lengths: Any = ()
    if threads is None:
        count = np.size(grid)
        lengths = block
        if not isinstance(block, (tuple, list)):
            lengths = function.block or ()
    for axis, length in enumerate(lengths, 1):
        if length > 1:
            count = max(count, axis)
    read = _known.get(function)
    if read is None:
        read = _known.setdefault(function, _dimensions_read(function))
    if count < read:
        text = f"{function.label} reads its place in {read} dimensions, and the launch has {count}; give all, such as threads=(100, 1)"
        warnings.warn(escape(text), DimensionsWarning, stacklevel=4)


def _has_length_of_one(value: Any) -> bool:
    """Return whether an array has the length 1, or a number is or has 1."""
    shown = repr(getattr(value, "shape", None) or value)
    return re.search(r"(?<![\w.])1(?![\w.])", shown) is not None


def _dimensions_read(function: Any) -> int:
    """Return the dimensions that the kernel reads, or 1 if they are unknown."""
    spec = find_spec(function.kind)
    if function._rules.payload is None or spec is None or spec.dimensions is None:
        return 1
    form, code = function._rules.payload
    return spec.dimensions(spec.canonical_format(form), code, function.name, function.info)
