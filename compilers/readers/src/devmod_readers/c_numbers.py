"""Numbers as C has them: the types that OpenCL C, MSL and the headers of CUDA and HIP have by the
same names, structs as bytes, and divisions of integers.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Each type by its name. A language has more: ``half``, ``double``, ``bool``.
C_NUMBERS = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "float": "float32",
}

_LANES = ("", "2", "3", "4", "8", "16")


def number_type(name: str, numbers: Mapping[str, str]) -> str:
    """Return the type of a number, or of a vector such as ``float4``; "" for others.

    Parameters
    ----------
    name
        The name in the language.
    numbers
        The types of numbers by their names there.
    """
    base = name.rstrip("0123456789")
    lanes = name.removeprefix(base)
    dtype = numbers.get(base, "")
    if not dtype or lanes not in _LANES:
        return ""
    if not lanes:
        return dtype
    return f"{dtype}x{lanes}"


def bytes_type(size: int) -> str:
    """Return the type of an argument of some bytes, such as a struct."""
    if size <= 1:
        return "uint8"
    return f"uint8x{size}"


def quotient(dividend: int, divisor: int) -> int:
    """Return a quotient that is truncated; Python rounds down."""
    result = abs(dividend) // abs(divisor)
    if (dividend < 0) != (divisor < 0):
        return -result
    return result


def remainder(dividend: int, divisor: int) -> int:
    """Return the remainder of a truncated quotient, which has the sign of the dividend."""
    return dividend - divisor * quotient(dividend, divisor)
