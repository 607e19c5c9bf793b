"""The memory layout of a struct: its check, and NumPy's dtype for it.

The numbers come from untrusted files. After `check_members`, the elements of a struct do not overlap and are inside it, so their number
is at most its number of bytes.
"""

from __future__ import annotations

from itertools import pairwise

from devmod._values.dtypes import array_bytes, dtype_name, is_packed, parse_dtype
from devmod.errors import FormatError, pip_install, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np

    from devmod._values.param import Member, Param
else:
    from devmod._util.numpy import np

#: The number of structs that may enclose a member.
MAX_DEPTH = 16
#: The limit on the dimensions of an array.
_MAX_DIMENSIONS = 16


def element_bytes(member: Member) -> int:
    """Return the bytes of a member, or of one element if it is an array. Lanes have no padding."""
    return member.size if member.members else array_bytes(parse_dtype(member.type))


def check_members(members: Sequence[Member], size: int, subject: str, depth: int = 0) -> None:
    """Check that the members of a struct of `size` bytes are inside it and do not overlap, and those of nested structs.

    Raises
    ------
    FormatError
        They are outside, they overlap, two have one name, or they are nested too deeply.
    """
    if depth >= MAX_DEPTH:
        raise FormatError(f"more than {MAX_DEPTH} structs enclose a member")
    spans = []
    names = set()
    for member in members:
        path = f"the member {quote_name(member.name)} of {subject}"
        if member.name and member.name in names:
            raise FormatError(f"{subject} has two members {quote_name(member.name)}")
        names.add(member.name)
        if member.members:
            if not member.size:
                raise FormatError(f"{path} is a struct without a size")
            check_members(member.members, member.size, path, depth + 1)
        elif is_packed(parse_dtype(member.type)):
            raise FormatError(f"{path} has the type {member.type}, which is not a whole number of bytes")
        length = _extent(member, path)
        if not length or member.offset + length > size:
            raise FormatError(f"{path} has bytes {member.offset} to {member.offset + length}, and the struct has {size} bytes")
        spans.append((member.offset, member.offset + length, path))
    spans.sort()
    for (_, end, _), (start, _, path) in pairwise(spans):
        if start < end:
            raise FormatError(f"{path} begins at byte {start}, inside the member that ends at byte {end}")


def _extent(member: Member, path: str) -> int:
    """Return the bytes from the first to the last element."""
    if len(member.shape) > _MAX_DIMENSIONS:
        raise FormatError(f"{path} has {len(member.shape)} dimensions; expected at most {_MAX_DIMENSIONS}")
    length = element_bytes(member)
    for count, stride in zip(reversed(member.shape), reversed(member.strides), strict=True):
        if not count:
            raise FormatError(f"{path} is an array of no elements")
        if stride < length:
            raise FormatError(f"{path} has a stride of {stride} bytes; expected at least {length}")
        length += (count - 1) * stride
    return length


def is_value(members: Sequence[Member]) -> bool:
    """Return whether an argument is not a struct but one array or matrix: it has one member at its start, without a name."""
    return len(members) == 1 and not members[0].name and not members[0].offset


def members_by_value(param: Param) -> Sequence[Member]:
    """Return the members of a struct that is passed by value; () for a buffer of structs."""
    return () if param.kind == "buffer" else param.members


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype for an element type without lanes. An element type of fewer than 8 bits has a dtype of one byte.

    Raises
    ------
    FormatError
        NumPy does not support the element type. The package ml_dtypes adds bfloat16, fp8, fp6, fp4 and int4.
    """
    result: np.dtype[Any] | None = None
    try:
        result = np.dtype("bool" if name == "uint1" else name)
    except TypeError:
        from contextlib import suppress
        from importlib import import_module

        with suppress(ImportError, AttributeError, TypeError):
            result = np.dtype(getattr(import_module("ml_dtypes"), name))
    # NumPy and the platform define further names ("void"), whose elements may have another size.
    if result is None or not 0 < result.itemsize == array_bytes(parse_dtype(name)):
        install = pip_install("ml_dtypes")
        raise FormatError(f"NumPy does not support {name}: {install}, or read the bits of a host array with memoryview(array)")
    return result


def param_dtype(param: Param) -> np.dtype[Any] | None:
    """Return the dtype of `devmod.Param.dtype`."""
    if not param.type or param.kind in ("image", "sampler"):
        return None
    code, bits, lanes = parse_dtype(param.type)
    if is_value(members_by_value(param)):
        return _member_dtype(param.members[0])
    if param.members:
        return struct_dtype(param.members, lanes)
    if (code, bits) == (1, 8) and (param.align or param.kind == "uniform"):
        return np.dtype(f"V{lanes}")
    base = numpy_dtype(dtype_name((code, bits, 1)))
    # Three lanes of a buffer take the memory of four.
    padded = lanes == 3 and param.kind in ("buffer", "local") and (code, bits) != (1, 8)
    return base if lanes == 1 else np.dtype((base, (4 if padded else lanes,)))


def struct_dtype(members: Sequence[Member], size: int) -> np.dtype[Any]:
    """Return the structured dtype of a struct of `size` bytes. A member without a name is called ``f0`` by its number."""
    names = [member.name or f"f{number}" for number, member in enumerate(members)]
    formats = [_member_dtype(member) for member in members]
    try:
        return np.dtype({"names": names, "formats": formats, "offsets": [member.offset for member in members], "itemsize": size})
    except ValueError as error:
        raise FormatError(f"NumPy has no dtype for this struct of {size} bytes: {error}") from None


def _member_dtype(member: Member) -> np.dtype[Any]:
    lanes = 1
    if member.members:
        element = struct_dtype(member.members, member.size)
    else:
        code, bits, lanes = parse_dtype(member.type)
        element = numpy_dtype(dtype_name((code, bits, 1)))
        if lanes == 3 and member.strides and member.strides[-1] == 4 * element.itemsize:
            lanes = 4
        element = element if lanes == 1 else np.dtype((element, (lanes,)))
    for count, stride in zip(reversed(member.shape), reversed(member.strides), strict=True):
        if stride != element.itemsize:
            element = np.dtype({"names": ["value"], "formats": [element], "offsets": [0], "itemsize": stride})
        element = np.dtype((element.base, (count, *element.shape)))
    return element
