"""A warning for a launch with fewer dimensions than its kernel reads, by the payload: a text, or
SPIR-V.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from devmod.backend import escape
from devmod_readers.spirv import read_axes, read_module

#: What begins a kernel, and what the languages call the place of a block or a thread in the grid,
#: and the size of the grid.
_KERNEL = r"\b(?:__)?kernel\b|\b__global__\b|@compute\b|\.entry\b"
_PLACE = r"@builtin\s*\(\s*(?:global_invocation_id|workgroup_id)\s*\)\s*(\w+)|(\w+)\s*\[\[\s*thread(?:group)?_position_in_grid"
_SIZE = r"get_global_size|get_num_groups|gridDim|%nctaid|num_workgroups|threads_per_grid|threadgroups_per_grid|\n\s*#\s*if"
_MEMBER = r"([%\w]+)\s*\.\s*[xyz]*([yz])\b"
_CALL = r"\bget_(?:global|group)_id\s*\(\s*([12])\s*\)"
#: The dimensions of a kernel that reads an axis, by its name in a source.
_AXES = {"1": 2, "y": 2, "2": 3, "z": 3}
#: What `_dimensions_read` has returned.
_known: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


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
    count = _count_of(threads)
    if grid is not None:
        count = _count_of(grid)
    lengths: Any = ()
    if threads is None:
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
        warnings.warn(escape(text), stacklevel=4)


def _count_of(dims: Any) -> int:
    if isinstance(dims, (tuple, list)):
        return len(dims)
    return 1


def _has_length_of_one(value: Any) -> bool:
    """Return whether an array has the length 1, or a number is or has 1."""
    shown = repr(getattr(value, "shape", None) or value)
    return re.search(r"(?<![\w.])1(?![\w.])", shown) is not None


def _dimensions_read(function: Any) -> int:
    """Return the dimensions that the kernel reads, or 1: also if it reads the size of the grid, as
    a kernel for any launch does.
    """
    form, code = function._rules.payload or ("", b"")
    if form in ("spv", "vulkan"):
        return read_axes(code[12:], read_module(code[12:]))  # behind TVM's header
    if form not in ("cl", "cuda", "ptx", "hip", "wgsl", "metal"):
        return 1
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", str(code, errors="replace"), flags=re.DOTALL)
    name_in_source = function.name.partition("<")[0].rpartition("::")[2]
    names = f"{re.escape(function.info.name)}|{re.escape(name_in_source)}"
    kernel = re.search(rf"\b(?:{names})\s*\((.*?)(?:{_KERNEL}|\Z)", text, re.DOTALL)
    if kernel is None or re.search(_SIZE, kernel[1]):
        return 1
    places = {"blockIdx", "%ctaid", *chain(*re.findall(_PLACE, text))} - {""}
    axes = re.findall(_CALL, kernel[1])
    for name, axis in re.findall(_MEMBER, kernel[1]):
        if name in places:
            axes.append(axis)
    return max(map(_AXES.__getitem__, axes), default=1)
