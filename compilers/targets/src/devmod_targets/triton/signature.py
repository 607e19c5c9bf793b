"""The types of Triton's arguments, as parameters of devmod.

Triton writes a type as "fp32", a pointer as "*fp32", one to constant data as "*kfp32", a constant
as "constexpr". A tuple is passed as its elements. A tensor descriptor, ``tensordesc<fp32[16,
32]>``, is passed as several arguments:

- CUDA's tensor map of 128 bytes if the metadata describes it; else the pointer, the lengths, the
  strides (i64 each) and two flags;
- then the lengths (i32 each) and the strides (i64 each).

Source: triton/backends/driver.py and triton/backends/nvidia/driver.py, versions 3.2 to 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from devmod import Param
from devmod.backend import array_bytes, parse_dtype
from devmod.errors import FormatError

_SCALARS = {
    "i1": "bool",
    "u1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "f32": "float32",
    "fp64": "float64",
}
#: The elements of pointers that no scalar has. "": a type that devmod does not have, so any array
#: is accepted.
_ELEMENTS = _SCALARS | {
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
    "fp8e4b15": "",
}
_DESCRIPTOR = re.compile(r"tensordesc(?:_im2col)?<([^\[>]{1,64})\[([^\]]{0,256})\]")
_INPUT_RANK = re.compile(r",input_rank=(\d{1,2})")
_MAX_RANK = 8
_MAX_ARGUMENTS = 4096


class Slot(NamedTuple):
    """One argument of the kernel: its type in the FunctionInfo, its parameter, and its bytes."""

    arg_type: str
    param: Param
    size: int


def expand_signature(
    name: str, signature: Mapping[Any, Any], constants: Collection[int], descriptors: Any
) -> list[Slot]:
    """Return the arguments that a kernel takes, in its order.

    Parameters
    ----------
    name
        The kernel, for messages.
    signature
        From the name or the number of an argument to its type.
    constants
        The numbers of the arguments that are constants.
    descriptors
        The descriptions of the tensor maps in the metadata; empty or None if there are none.

    Raises
    ------
    FormatError
        A type is not supported.
    """
    result: list[Slot] = []
    for number, (key, kind) in enumerate(signature.items()):
        if number not in constants:
            label = f"arg_{key}"
            if isinstance(key, str):
                label = key
            result += _slots(name, label, kind, bool(descriptors), 0)
        if len(result) > _MAX_ARGUMENTS:
            raise FormatError(
                f"the Triton kernel {name!r} has more than {_MAX_ARGUMENTS} arguments",
                function=name,
            )
    return result


def _slots(name: str, label: str, kind: Any, has_maps: bool, depth: int) -> Iterator[Slot]:
    if isinstance(kind, (tuple, list)) and depth < 8:
        for number, each in enumerate(kind):
            yield from _slots(name, f"{label}_{number}", each, has_maps, depth + 1)
    elif not isinstance(kind, str):
        raise _unsupported(name, label, kind)
    elif kind.startswith("tensordesc"):
        yield from _descriptor(name, label, kind, has_maps)
    elif kind.startswith("*"):
        yield _pointer(name, label, kind)
    elif kind == "nvTmaDesc":
        yield _tensor_map(label)
    elif kind != "constexpr":
        if kind not in _SCALARS:
            raise _unsupported(name, label, kind)
        yield _scalar(label, _SCALARS[kind])


def _pointer(name: str, label: str, kind: str) -> Slot:
    element = kind[1:]
    access = ""
    if element not in _ELEMENTS and element.startswith("k"):
        element = element[1:]
        access = "r"
    if element.startswith("*"):
        return Slot("handle", Param(label, "buffer", "uint64", access), 8)
    if element not in _ELEMENTS:
        raise _unsupported(name, label, kind)
    return Slot("handle", Param(label, "buffer", _ELEMENTS[element], access), 8)


def _scalar(label: str, dtype: str) -> Slot:
    return Slot(dtype, Param(label, "scalar", dtype), array_bytes(parse_dtype(dtype)))


def _tensor_map(label: str) -> Slot:
    return Slot("uint8x128", Param(label, "scalar", "uint8x128", align=64), 128)


def _descriptor(name: str, label: str, kind: str, has_map: bool) -> Iterator[Slot]:
    match = _DESCRIPTOR.match(kind)
    if match is None:
        raise _unsupported(name, label, kind)
    count = match[2].count(",") + 1
    rank = _INPUT_RANK.search(kind)
    if rank:
        count = int(rank[1])
    if not 1 <= count <= _MAX_RANK:
        raise _unsupported(name, label, kind)
    if has_map:
        yield _tensor_map(label)
    else:
        yield _pointer(name, label, f"*{match[1]}")
        yield from _lengths(f"{label}_base", count, "int64")
        yield _scalar(f"{label}_pads_with_nan", "bool")
        yield _scalar(f"{label}_rounds_to_tf32", "bool")
    yield from _lengths(label, count, "int32")


def _lengths(label: str, count: int, dtype: str) -> Iterator[Slot]:
    """Yield the lengths of an array's dimensions, and their strides."""
    for name, type_ in (("shape", dtype), ("stride", "int64")):
        for axis in range(count):
            yield _scalar(f"{label}_{name}_{axis}", type_)


def _unsupported(name: str, label: str, kind: object) -> FormatError:
    return FormatError(
        f"the Triton kernel {name!r} has the argument {label!r} of type {kind!r}, which is not supported",
        function=name,
    )
