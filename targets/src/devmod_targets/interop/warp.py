"""Modules that Warp compiled: the folders that it writes. Warp need not be installed here.

A folder has the generated source (``.cu``), the sizes of shared memory (``.meta``), and a cubin or PTX for each architecture::

    wp_motion_eaab996.cu    wp_motion_eaab996.meta    wp_motion_eaab996.sm80.ptx    wp_motion_eaab996.sm90.cubin
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from math import prod
from pathlib import Path

import devmod
from devmod.backend import open_regular
from devmod.errors import ArgumentError, FormatError, list_names
from devmod_readers.nvidia import read_cubin, read_ptx
from devmod_targets.interop._warp_source import WarpKernel, read_block, read_kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod_readers.nvidia import KernelEntry

__all__ = ["array", "bounds", "load"]

_IMAGE = re.compile(r"(.+)\.sm\d{2,3}[af]?\.(cubin|ptx)")
_SYMBOL = re.compile(r"(.+?)(_[0-9a-f]{8})?_cuda_kernel_(forward|backward)")
_LARGEST = 64 << 20
_MAX_DIMENSIONS = 4


def load(folder: str | os.PathLike[str], name: str = "") -> devmod.Module:
    """Return the module in a folder that Warp wrote: a bundle of its architectures, or the module itself if there is one.

    A kernel ``move`` is the function ``move``, and its adjoint ``move_backward``. The first argument is the launch's `bounds`; arrays are
    passed as the result of `array`.

    Parameters
    ----------
    folder
        The argument ``module_dir=`` of ``wp.compile_aot_module``, or the module's folder in Warp's kernel cache.
    name
        The stem of the module's files, if the folder contains several modules.

    Raises
    ------
    FormatError
        The folder has no module of Warp or several, a file is damaged or no regular file, or an image does not fit the source.
    OSError
        A file cannot be read.
    """
    path = Path(folder)
    images = sorted((match[1], match[2], each) for each in path.iterdir() if (match := _IMAGE.fullmatch(each.name)) is not None)
    stems = sorted({stem for stem, _, _ in images})
    if name:
        images = [each for each in images if each[0] == name]
    if not images or (len(stems) > 1 and not name):
        expected = "pass name= to choose one" if stems else "expected files such as k.sm90.cubin"
        expected = f"expected the module {name!r}" if name else expected
        raise FormatError(f"the folder {os.fspath(folder)!r} has {len(stems)} modules of Warp: {list_names(stems)}; {expected}")
    stem = images[0][0]
    text = _read(path / f"{stem}.cu").decode("utf-8", "replace")
    sizes = _read_sizes(path / f"{stem}.meta")
    kernels = list(read_kernels(text))
    block = read_block(text)
    modules = []
    for _, fmt, file in images:
        code = _read(file)
        entries = read_cubin(code) if fmt == "cubin" else read_ptx(code.decode("utf-8", "replace"))
        fmap = {key: _function(kernel, entries, sizes, block, file.name) for key, kernel in _by_key(kernels).items()}
        code = code.rstrip(b"\0") if fmt == "ptx" else code
        modules.append(devmod.create_with_fallback("cuda", code, fmt, fmap, {"cuda": text}))
    return devmod.bundle(*modules) if len(modules) > 1 else modules[0]


def bounds(shape: int | Sequence[int]) -> dict[str, Any]:
    """Return the argument ``dim`` of a kernel of Warp: the threads of the launch in up to four dimensions.

    Raises
    ------
    ArgumentError
        `shape` is not an int, or up to four ints, of 1 or more.
    """
    sizes = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    if not 1 <= len(sizes) <= _MAX_DIMENSIONS or not all(type(size) is int and 1 <= size < 2**32 for size in sizes):
        raise ArgumentError(f"warp.bounds(shape): expected an int of 1 or more, or up to four, got {shape!r}", argument="shape")
    return {"shape": sizes, "size": prod(sizes), "coord_mult": 1}


def array(array: Any, ndim: int = 0) -> dict[str, Any]:
    """Return the argument of a kernel of Warp for an array on the device.

    The result has the address of the array and does not keep it alive. The launch's stream must be that of the array's other work.

    Parameters
    ----------
    array
        An array with ``__cuda_array_interface__``, such as one of devmod, CuPy, PyTorch or Numba.
    ndim
        The dimensions of Warp's array, if its elements have some of their own: 1 for a `wp.array` of `wp.vec3` whose shape is (n, 3).
        Default: those of the array.

    Raises
    ------
    ArgumentError
        `array` has no such interface, or does not have so many dimensions.
    """
    interface = getattr(array, "__cuda_array_interface__", None)
    if not isinstance(interface, dict):
        what = f"got {type(array).__name__}"
        raise ArgumentError(f"warp.array(array): expected an array with __cuda_array_interface__, {what}", argument="array")
    shape = [int(length) for length in interface["shape"]]
    count = ndim or len(shape)
    if not 1 <= count <= min(len(shape), _MAX_DIMENSIONS):
        raise ArgumentError(
            f"warp.array(array, ndim): expected 1 to {min(len(shape), _MAX_DIMENSIONS)} dimensions, got {count} for the shape "
            f"{tuple(shape)}",
            argument="ndim",
        )
    strides = interface.get("strides")
    if strides is None:
        size = int(re.sub(r"\D", "", interface["typestr"]))
        strides = [size * prod(shape[axis + 1 :]) for axis in range(len(shape))]
    padding = [0] * (_MAX_DIMENSIONS - count)
    extents = {"shape": shape[:count] + padding, "strides": [int(each) for each in strides[:count]] + padding}
    return {"data": int(interface["data"][0]), "grad": 0, **extents, "ndim": count, "flags": 0}


def _by_key(kernels: Sequence[WarpKernel]) -> dict[str, WarpKernel]:
    """Return the kernels by the names of their functions. Overloads of one name have the digest in theirs."""
    parts = {kernel.symbol: match for kernel in kernels if (match := _SYMBOL.fullmatch(kernel.symbol)) is not None}
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
    kernel: WarpKernel, entries: Mapping[str, KernelEntry], sizes: Mapping[str, int], block: int, file: str
) -> devmod.FunctionInfo:
    entry = entries.get(kernel.symbol)
    if entry is None:
        raise FormatError(f"{file!r} has no kernel {kernel.symbol!r}, which the source has; it has: {list_names(entries)}", kind="cuda")
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
            raise FormatError(f"{file!r}: the kernel {kernel.symbol!r} has the parameter {name!r} of an unknown type", kind="cuda")
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
    # A kernel with tiles counts on the block; each other one gives the same result with every block.
    blocks: dict[str, Any] = {"block" if shared_memory else "default_block": (block, 1, 1)}
    interface = devmod.Interface(params, shared_memory=shared_memory, **blocks)
    return devmod.FunctionInfo(kernel.symbol, arg_types, interface=interface)


def _read_sizes(path: Path) -> dict[str, int]:
    """Return the sizes of shared memory by name."""
    text = _read(path)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path.name!r} is damaged: it is not JSON ({error})", kind="cuda") from None
    if not isinstance(data, dict) or not all(type(size) is int and size >= 0 for key, size in data.items() if key.endswith("_smem_bytes")):
        raise FormatError(f"{path.name!r} is damaged: expected a map with the sizes of shared memory", kind="cuda")
    return {key: size for key, size in data.items() if key.endswith("_smem_bytes")}


def _read(path: Path) -> bytes:
    with open_regular(path) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise FormatError(f"{path.name!r} is too large: over {_LARGEST >> 20} MiB", kind="cuda")
    return data
