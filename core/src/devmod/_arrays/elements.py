"""Element types and shapes of arrays: devmod's names, NumPy's dtypes, and the bytes of elements.

Elements of less than a byte are packed on devices and in files: the first one has the lowest bits,
as in DLPack. In NumPy each is in the low bits of a byte, as in the types of ml_dtypes.
"""

from __future__ import annotations

from devmod._values.dtypes import array_bytes, dtype_name, is_packed, parse_dtype
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
else:
    from devmod._util.numpy import np

#: Elements that are packed at once; a multiple of 8, so that each piece begins with a whole byte.
_PIECE = 1 << 20

#: NumPy's kinds of numbers and the prefix of their names.
_NUMBERS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def elements_of(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of a C-contiguous NumPy array in the layout of files and devices: elements
    of less than a byte are packed.

    Raises
    ------
    FormatError
        No device supports the element type.
    """
    dtype = parse_dtype(dtype_name_of(array.dtype))
    if not is_packed(dtype):
        return bytes_of(array)
    elements = array.reshape(-1).view(np.uint8)
    pieces = []
    for start in range(0, len(elements), _PIECE):
        separate = np.unpackbits(
            elements[start : start + _PIECE, None], axis=1, count=dtype[1], bitorder="little"
        )
        pieces.append(np.packbits(separate.reshape(-1), bitorder="little").tobytes())
    return memoryview(b"".join(pieces))


def unpack(data: memoryview, bits: int, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Unpack `count` elements of `bits` bits into one byte each."""
    packed = np.frombuffer(data, np.uint8)
    if bits == 1:
        return np.unpackbits(packed, count=count, bitorder="little")
    elements = np.empty(count, np.uint8)
    for start in range(0, count, _PIECE):
        length = min(_PIECE, count - start)
        first = start * bits // 8
        separate = np.unpackbits(
            packed[first : first + (length * bits + 7) // 8], count=length * bits, bitorder="little"
        )
        elements[start : start + length] = np.packbits(
            separate.reshape(length, bits), axis=1, bitorder="little"
        )[:, 0]
    return elements


def bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of a C-contiguous NumPy array; writable if the array is."""
    flat = array.reshape(-1)
    if not flat.dtype.itemsize:
        return memoryview(b"")
    return flat.view(np.uint8).data


def dtype_name_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a NumPy dtype. A structured dtype of N bytes is "uint8xN".

    Raises
    ------
    FormatError
        The elements are Python objects, text or times, which no device supports, or their byte
        order is not this machine's.
    """
    if not dtype.isnative:
        raise FormatError(
            f"{dtype} has another byte order than this machine; pass array.astype(array.dtype.newbyteorder('='))"
        )
    if dtype.isbuiltin == 1 and dtype.kind in _NUMBERS:
        # NumPy imports a module for each `dtype.name`, which fails at the interpreter's exit.
        return dtype_name(parse_dtype(f"{_NUMBERS[dtype.kind]}{8 * dtype.itemsize}"))
    if dtype.kind == "V" and dtype.name.startswith("void") and not dtype.hasobject:
        if dtype.itemsize == 1:
            return "uint8"
        return f"uint8x{dtype.itemsize}"
    if dtype.kind in "OSUMm":
        raise FormatError(f"no device supports elements of type {dtype}")
    return dtype_name(parse_dtype(dtype.name))


def scalar_shape(dtype: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...], int]:
    """Return the element type without lanes, the shape with the lanes as last dimension, and the
    bytes of one lane.
    """
    code, bits, lanes = parse_dtype(dtype)
    base = (code, bits, 1)
    if lanes != 1:
        shape = (*shape, lanes)
    return dtype_name(base), shape, array_bytes(base)


def packing_problem(dtype: str) -> str:
    """Return the reason why the buffer protocol cannot represent elements of a type; "" if it
    can.
    """
    parsed = parse_dtype(dtype)
    if is_packed(parsed):
        return f"elements of {dtype} are packed: a lane has {parsed[1]} bits, which is not a whole number of bytes"
    if not array_bytes((*parsed[:2], 1)):
        return f"elements of {dtype} have no bytes"
    return ""
