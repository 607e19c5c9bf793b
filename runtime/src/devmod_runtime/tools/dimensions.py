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
_MEMBER, _CALL = r"([%\w]+)\s*\.\s*[xyz]*([yz])\b", r"\bget_(?:global|group)_id\s*\(\s*([12])\s*\)"
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
    given = [
        each if isinstance(each, (tuple, list)) else (each,)
        for each in (grid, threads)
        if each is not None
    ]
    if not given or any(
        re.search(r"(?<![\w.])1(?![\w.])", repr(getattr(each, "shape", None) or each))
        for each in values
    ):
        return
    blocks = (
        (block if isinstance(block, (tuple, list)) else function.block or ())
        if threads is None
        else ()
    )
    count = max([len(given[0]), *(axis for axis, each in enumerate(blocks, 1) if each > 1)])
    if count < (
        read := _known.get(function) or _known.setdefault(function, _dimensions_read(function))
    ):
        text = f"{function.label} reads its place in {read} dimensions, and the launch has {count}; give all, such as threads=(100, 1)"
        warnings.warn(escape(text), stacklevel=4)


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
    names = "|".join(
        map(re.escape, (function.info.name, function.name.partition("<")[0].rpartition("::")[2]))
    )
    kernel = re.search(rf"\b(?:{names})\s*\((.*?)(?:{_KERNEL}|\Z)", text, re.DOTALL)
    if kernel is None or re.search(_SIZE, kernel[1]):
        return 1
    places = {"blockIdx", "%ctaid", *chain(*re.findall(_PLACE, text))} - {""}
    axes = [axis for name, axis in re.findall(_MEMBER, kernel[1]) if name in places] + re.findall(
        _CALL, kernel[1]
    )
    return max(({"1": 2, "y": 2, "2": 3, "z": 3}[axis] for axis in axes), default=1)
