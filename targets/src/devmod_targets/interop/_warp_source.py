"""The kernels in the source that Warp generates: their parameters, with the layout of Warp's types.

Layouts (warp/native/array.h and builtin.h, Warp 1.19), with C's alignment::

    launch_bounds_t<N>  u32 shape[N], u64 size, u64 coord_mult
    array_t<T>          T* data, T* grad, i32 shape[4], i32 strides[4], u16 ndim, u16 flags
    vec_t<N, T>, mat_t<R, C, T> (by rows), quat_t<T> (4 numbers), transform_t<T> (7 numbers)
"""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple

from devmod import Member, Param
from devmod.backend import array_bytes, parse_dtype
from devmod.errors import FormatError, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KERNEL = re.compile(r'^extern "C" __global__ void (\w{1,1024})\(([^()";{}]{0,65536})\)\s*\{', re.MULTILINE)
_STRUCT = re.compile(r"^struct (\w{1,1024})\n\{\n((?: {4}[^\n]{1,2048};\n){0,4096})", re.MULTILINE)
_BLOCK = re.compile(r"^#define WP_TILE_BLOCK_DIM (\d{1,4})$", re.MULTILINE)
_NUMBERS = {
    name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32")
} | {"float64": "float64", "bool": "bool"}
_ARRAY = re.compile(r"(vec_t|mat_t|quat_t|transform_t)<((?:\d{1,4}, ){0,2})wp::(\w{1,16})>")
_BOUNDS = re.compile(r"launch_bounds_t<([1-4])>")
_MAX_DEPTH = 8


class Layout(NamedTuple):
    """The type of a parameter or of a member: its size and alignment, and a number with a shape, or members."""

    size: int
    align: int
    dtype: str = ""
    shape: tuple[int, ...] = ()
    members: tuple[Member, ...] = ()

    def member(self, name: str, offset: int) -> Member:
        """Return a member of this type."""
        if self.members:
            return Member(name, offset=offset, members=self.members, size=self.size)
        return Member(name, self.dtype, offset, shape=self.shape, strides=_strides(self.dtype, self.shape))

    def param(self, name: str) -> tuple[str, Param]:
        """Return the type of an argument and its parameter."""
        if self.dtype and not self.shape:
            return self.dtype, Param(name, "scalar", self.dtype)
        # An array by value is a struct with one member without a name.
        members = self.members or (self.member("", 0),)
        text = f"uint8x{self.size}" if self.size > 1 else "uint8"
        return text, Param(name, "scalar", text, align=self.align, members=members)


class WarpKernel(NamedTuple):
    """A kernel of the source: its symbol, and the types of its parameters by name. None: a type that devmod does not read."""

    symbol: str
    params: tuple[tuple[str, Layout | None], ...]


def read_kernels(text: str) -> Iterator[WarpKernel]:
    """Yield the kernels of a source that Warp generated."""
    structs: dict[str, str] = {match[1]: match[2] for match in _STRUCT.finditer(text)}
    known: dict[str, Layout | None] = {}
    for match in _KERNEL.finditer(text):
        params = []
        for part in re.split(r",\n", match[2].strip()) if match[2].strip() else []:
            kind, _, name = part.strip().rpartition(" ")
            if not kind:
                raise FormatError(f"the kernel {quote_name(match[1])} has the parameter {quote_name(part.strip())}, which is not supported")
            params.append((name.removeprefix("var_"), _layout(kind, structs, known, 0)))
        yield WarpKernel(match[1], tuple(params))


def read_block(text: str) -> int:
    """Return the threads of a block for which the source was generated."""
    match = _BLOCK.search(text)
    return int(match[1]) if match is not None else 256


def _layout(kind: str, structs: dict[str, str], known: dict[str, Layout | None], depth: int) -> Layout | None:
    """Return the layout of a type; None if it is unknown."""
    if kind not in known:
        known[kind] = None  # also for a struct that contains itself
        known[kind] = _new_layout(kind, structs, known, depth) if depth < _MAX_DEPTH else None
    return known[kind]


def _new_layout(kind: str, structs: dict[str, str], known: dict[str, Layout | None], depth: int) -> Layout | None:
    if kind in structs:
        fields = []
        for line in structs[kind].splitlines():
            inner, _, name = line.strip().removesuffix(";").rpartition(" ")
            layout = _layout(inner, structs, known, depth + 1)
            if layout is None:
                return None
            fields.append((name, layout))
        return _struct(fields) if fields else None
    name = kind.removeprefix("wp::")
    if name in _NUMBERS:
        return _number(_NUMBERS[name])
    bounds = _BOUNDS.fullmatch(name)
    if bounds is not None:
        return _struct([("shape", _number("uint32", int(bounds[1]))), ("size", _number("uint64")), ("coord_mult", _number("uint64"))])
    if name.startswith("array_t<") and name.endswith(">"):
        pointers = [(each, _number("uint64")) for each in ("data", "grad")]
        extents = [(each, _number("int32", 4)) for each in ("shape", "strides")]
        return _struct([*pointers, *extents, ("ndim", _number("uint16")), ("flags", _number("uint16"))])
    array = _ARRAY.fullmatch(name)
    if array is None or array[3] not in _NUMBERS:
        return None
    counts = [int(each) for each in array[2].split(", ") if each]
    shape = {"vec_t": counts, "mat_t": counts, "quat_t": [4], "transform_t": [7]}[array[1]]
    return _number(_NUMBERS[array[3]], *shape) if shape and all(shape) else None


def _number(dtype: str, *shape: int) -> Layout:
    size = array_bytes(parse_dtype(dtype))
    return Layout(size * prod(shape), size, dtype, shape)


def _struct(fields: Sequence[tuple[str, Layout]]) -> Layout:
    """Return the layout of a struct in C."""
    members = []
    at, align = 0, 1
    for name, layout in fields:
        at = -(-at // layout.align) * layout.align
        members.append(layout.member(name, at))
        at, align = at + layout.size, max(align, layout.align)
    return Layout(-(-at // align) * align, align, members=tuple(members))


def _strides(dtype: str, shape: Sequence[int]) -> list[int]:
    size = array_bytes(parse_dtype(dtype))
    return [size * prod(shape[axis + 1 :]) for axis in range(len(shape))]
