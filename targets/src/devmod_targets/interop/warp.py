"""Modules that Warp compiled: the folders that it writes. Warp need not be installed here.

A folder has the generated source (``.cu``), the sizes of shared memory (``.meta``), and a cubin or
PTX for each architecture::

    wp_motion_eaab996.cu         wp_motion_eaab996.meta
    wp_motion_eaab996.sm80.ptx   wp_motion_eaab996.sm90.cubin
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import devmod
from devmod import Member, Param
from devmod.backend import (
    array_bytes,
    check_raw_file,
    create_own,
    file_name,
    open_regular,
    parse_dtype,
)
from devmod.errors import ArgumentError, FormatError, list_names, quote_name
from devmod_readers.nvidia import KernelEntry, read_cubin, read_ptx

__all__ = ["array", "bounds", "load"]

_BINARY = re.compile(r"(.+)\.sm\d{2,3}[af]?\.(cubin|ptx)")
_SYMBOL = re.compile(r"(.+?)(_[0-9a-f]{8})?_cuda_kernel_(forward|backward)")
_LARGEST = 64 << 20
_MAX_DIMENSIONS = 4


def load(folder: str | os.PathLike[str], name: str = "") -> devmod.Module:
    """Return the module in a folder that Warp wrote: a bundle of its architectures, or the module
    itself if there is one.

    A kernel ``move`` is the function ``move``, and its adjoint ``move_backward``. The first
    argument is the launch's `bounds`; arrays are passed as the result of `array`.

    Parameters
    ----------
    folder
        The argument ``module_dir=`` of ``wp.compile_aot_module``, or the module's folder in Warp's
        kernel cache.
    name
        The stem of the module's files, if the folder contains several modules.

    Raises
    ------
    FormatError
        The folder has no module of Warp or several, a file is damaged or no regular file, or a
        binary does not fit the source.
    TrustError
        A policy refuses payloads without an index.
    OSError
        A file cannot be read.
    """
    path = Path(file_name(folder))
    check_raw_file(str(path))
    binaries = sorted(
        (match[1], match[2], each)
        for each in path.iterdir()
        if (match := _BINARY.fullmatch(each.name)) is not None
    )
    stems = sorted({stem for stem, _, _ in binaries})
    if name:
        binaries = [each for each in binaries if each[0] == name]
    if not binaries or (len(stems) > 1 and not name):
        expected = "pass name= to choose one" if stems else "expected files such as k.sm90.cubin"
        expected = f"expected the module {name!r}" if name else expected
        raise FormatError(
            f"the folder {os.fspath(folder)!r} has {len(stems)} modules of Warp: {list_names(stems)}; {expected}"
        )
    stem = binaries[0][0]
    text = _read(path / f"{stem}.cu").decode("utf-8", "replace")
    sizes = _read_sizes(path / f"{stem}.meta")
    kernels = list(read_kernels(text))
    block = read_block(text)
    modules = []
    for _, fmt, file in binaries:
        code = _read(file)
        entries = read_cubin(code) if fmt == "cubin" else read_ptx(code.decode("utf-8", "replace"))
        fmap = {
            key: _function(kernel, entries, sizes, block, file.name)
            for key, kernel in _by_key(kernels).items()
        }
        code = code.rstrip(b"\0") if fmt == "ptx" else code
        modules.append(create_own("cuda", code, fmt, fmap, {"cuda": text}))
    return devmod.bundle(*modules) if len(modules) > 1 else modules[0]


def bounds(shape: int | Sequence[int]) -> dict[str, Any]:
    """Return the argument ``dim`` of a kernel of Warp: the threads of the launch in up to four
    dimensions.

    Raises
    ------
    ArgumentError
        `shape` is not an int, or up to four ints, of 1 or more.
    """
    sizes = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    if not 1 <= len(sizes) <= _MAX_DIMENSIONS or not all(
        type(size) is int and 1 <= size < 2**32 for size in sizes
    ):
        raise ArgumentError(
            f"warp.bounds(shape): expected an int of 1 or more, or up to four, got {shape!r}",
            argument="shape",
        )
    return {"shape": sizes, "size": prod(sizes), "coord_mult": 1}


def array(array: Any, ndim: int = 0) -> dict[str, Any]:
    """Return the argument of a kernel of Warp for an array on the device.

    The result has the address of the array and does not keep it alive. The launch's stream must be
    that of the array's other work.

    Parameters
    ----------
    array
        An array with ``__cuda_array_interface__``, such as one of devmod, CuPy, PyTorch or Numba.
    ndim
        The dimensions of Warp's array, if its elements have some of their own: 1 for a `wp.array`
        of `wp.vec3` whose shape is (n, 3). Default: those of the array.

    Raises
    ------
    ArgumentError
        `array` has no such interface, or does not have so many dimensions.
    """
    interface = getattr(array, "__cuda_array_interface__", None)
    if not isinstance(interface, dict):
        what = f"got {type(array).__name__}"
        raise ArgumentError(
            f"warp.array(array): expected an array with __cuda_array_interface__, {what}",
            argument="array",
        )
    shape = [int(length) for length in interface["shape"]]
    count = ndim or len(shape)
    if not 1 <= count <= min(len(shape), _MAX_DIMENSIONS):
        raise ArgumentError(
            f"warp.array(array, ndim): expected 1 to {min(len(shape), _MAX_DIMENSIONS)} dimensions, got {count} for the shape "
            f"{tuple(shape)}",
            argument="ndim",
        )
    strides = interface.get("strides") or _strides(
        int(re.sub(r"\D", "", interface["typestr"])), shape
    )
    padding = [0] * (_MAX_DIMENSIONS - count)
    extents = {
        "shape": shape[:count] + padding,
        "strides": [int(each) for each in strides[:count]] + padding,
    }
    return {"data": int(interface["data"][0]), "grad": 0, **extents, "ndim": count, "flags": 0}


def _by_key(kernels: Sequence[WarpKernel]) -> dict[str, WarpKernel]:
    """Return the kernels by the names of their functions. Overloads of one name have the digest in
    theirs.
    """
    parts = {
        kernel.symbol: match
        for kernel in kernels
        if (match := _SYMBOL.fullmatch(kernel.symbol)) is not None
    }
    overloads = Counter((match[1], match[3]) for match in parts.values())
    result: dict[str, WarpKernel] = {}
    for kernel in kernels:
        match = parts.get(kernel.symbol)
        key = kernel.symbol
        if match is not None:
            digest = (match[2] or "") if overloads[match[1], match[3]] > 1 else ""
            key = f"{match[1]}{digest}{'_backward' if match[3] == 'backward' else ''}"
        result[kernel.symbol if key in result else key] = kernel
    return result


def _function(
    kernel: WarpKernel,
    entries: Mapping[str, KernelEntry],
    sizes: Mapping[str, int],
    block: int,
    file: str,
) -> devmod.FunctionInfo:
    entry = entries.get(kernel.symbol)
    if entry is None:
        raise FormatError(
            f"{file!r} has no kernel {kernel.symbol!r}, which the source has; it has: {list_names(entries)}",
            kind="cuda",
        )
    places = entry.params
    if places is not None and len(places) != len(kernel.params):
        raise FormatError(
            f"{file!r} does not fit its source: the kernel {kernel.symbol!r} has {len(places)} parameters; expected {len(kernel.params)}",
            kind="cuda",
        )
    arg_types, params = [], []
    for number, (name, layout) in enumerate(kernel.params):
        place = places[number] if places is not None else None
        if layout is None and place is None:
            raise FormatError(
                f"{file!r}: the kernel {kernel.symbol!r} has the parameter {name!r} of an unknown type",
                kind="cuda",
            )
        if layout is not None and place is not None and layout.size != place.size:
            raise FormatError(
                f"{file!r} does not fit its source: the parameter {name!r} of the kernel {kernel.symbol!r} has {place.size} bytes; "
                f"expected {layout.size}. devmod reads the layout of Warp 1.19",
                kind="cuda",
            )
        if layout is not None:
            arg_type, param = layout.param(name)
        else:
            assert place is not None
            arg_type = f"uint8x{place.size}"
            param = devmod.Param(name, "scalar", arg_type, align=place.align or 8)
        arg_types.append(arg_type)
        params.append(param)
    shared_memory = sizes.get(f"{kernel.symbol}_smem_bytes", 0)
    # A kernel with tiles counts on the block; each other one gives the same result with every
    # block.
    blocks: dict[str, Any] = {"block" if shared_memory else "default_block": (block, 1, 1)}
    interface = devmod.Interface(params, shared_memory=shared_memory, **blocks)
    return devmod.FunctionInfo(kernel.symbol, arg_types, interface=interface)


def _read_sizes(path: Path) -> dict[str, int]:
    """Return the sizes of shared memory by name."""
    text = _read(path)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{path.name!r} is damaged: it is not JSON ({error})", kind="cuda"
        ) from None
    if not isinstance(data, dict) or not all(
        type(size) is int and size >= 0 for key, size in data.items() if key.endswith("_smem_bytes")
    ):
        raise FormatError(
            f"{path.name!r} is damaged: expected a map with the sizes of shared memory", kind="cuda"
        )
    return {key: size for key, size in data.items() if key.endswith("_smem_bytes")}


def _read(path: Path) -> bytes:
    with open_regular(path) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise FormatError(f"{path.name!r} is too large: over {_LARGEST >> 20} MiB", kind="cuda")
    return data


# -- The kernels in the source that Warp generates: their parameters, with the layout of Warp's
# types.
#
# Layouts (warp/native/array.h and builtin.h, Warp 1.19), with C's alignment::
#
#     launch_bounds_t<N>  u32 shape[N], u64 size, u64 coord_mult
#     array_t<T>          T* data, T* grad, i32 shape[4], i32 strides[4], u16 ndim, u16 flags
#     vec_t<N, T>, mat_t<R, C, T> (by rows), quat_t<T> (4 numbers), transform_t<T> (7 numbers)


_KERNEL = re.compile(
    r'^extern "C" __global__ void (\w{1,1024})\(([^()";{}]{0,65536})\)\s*\{', re.MULTILINE
)
_STRUCT = re.compile(r"^struct (\w{1,1024})\n\{\n((?: {4}[^\n]{1,2048};\n){0,4096})", re.MULTILINE)
_BLOCK = re.compile(r"^#define WP_TILE_BLOCK_DIM (\d{1,4})$", re.MULTILINE)
_NUMBERS = frozenset(
    (
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "bool",
    )
)
_ARRAY = re.compile(r"(vec_t|mat_t|quat_t|transform_t)<((?:\d{1,4}, ){0,2})wp::(\w{1,16})>")
_BOUNDS = re.compile(r"launch_bounds_t<([1-4])>")
_MAX_DEPTH = 8


class Layout(NamedTuple):
    """The type of a parameter or of a member: its size and alignment, and a number with a shape, or
    members.
    """

    size: int
    align: int
    dtype: str = ""
    shape: tuple[int, ...] = ()
    members: tuple[Member, ...] = ()

    def member(self, name: str, offset: int) -> Member:
        """Return a member of this type."""
        if self.members:
            return Member(name, offset=offset, members=self.members, size=self.size)
        return Member(
            name,
            self.dtype,
            offset,
            shape=self.shape,
            strides=_strides(array_bytes(parse_dtype(self.dtype)), self.shape),
        )

    def param(self, name: str) -> tuple[str, Param]:
        """Return the type of an argument and its parameter."""
        if self.dtype and not self.shape:
            return self.dtype, Param(name, "scalar", self.dtype)
        # An array by value is a struct with one member without a name.
        members = self.members or (self.member("", 0),)
        text = f"uint8x{self.size}" if self.size > 1 else "uint8"
        return text, Param(name, "scalar", text, align=self.align, members=members)


class WarpKernel(NamedTuple):
    """A kernel of the source: its symbol, and the types of its parameters by name. None: a type
    that devmod does not read.
    """

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
                raise FormatError(
                    f"the kernel {quote_name(match[1])} has the parameter {quote_name(part.strip())}, which is not supported"
                )
            params.append((name.removeprefix("var_"), _layout(kind, structs, known, 0)))
        yield WarpKernel(match[1], tuple(params))


def read_block(text: str) -> int:
    """Return the threads of a block for which the source was generated."""
    match = _BLOCK.search(text)
    return int(match[1]) if match is not None else 256


def _layout(
    kind: str, structs: dict[str, str], known: dict[str, Layout | None], depth: int
) -> Layout | None:
    """Return the layout of a type; None if it is unknown."""
    if kind not in known:
        known[kind] = None  # also for a struct that contains itself
        known[kind] = _new_layout(kind, structs, known, depth) if depth < _MAX_DEPTH else None
    return known[kind]


def _new_layout(
    kind: str, structs: dict[str, str], known: dict[str, Layout | None], depth: int
) -> Layout | None:
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
        return _number(name)
    bounds = _BOUNDS.fullmatch(name)
    if bounds is not None:
        return _struct(
            [
                ("shape", _number("uint32", int(bounds[1]))),
                ("size", _number("uint64")),
                ("coord_mult", _number("uint64")),
            ]
        )
    if name.startswith("array_t<") and name.endswith(">"):
        pointers = [(each, _number("uint64")) for each in ("data", "grad")]
        extents = [(each, _number("int32", 4)) for each in ("shape", "strides")]
        return _struct(
            [*pointers, *extents, ("ndim", _number("uint16")), ("flags", _number("uint16"))]
        )
    array = _ARRAY.fullmatch(name)
    if array is None or array[3] not in _NUMBERS:
        return None
    counts = [int(each) for each in array[2].split(", ") if each]
    shape = {"vec_t": counts, "mat_t": counts, "quat_t": [4], "transform_t": [7]}[array[1]]
    return _number(array[3], *shape) if shape and all(shape) else None


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


def _strides(size: int, shape: Sequence[int]) -> list[int]:
    return [size * prod(shape[axis + 1 :]) for axis in range(len(shape))]
