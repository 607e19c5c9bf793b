"""Numbers as C has them: the types that OpenCL C, MSL and the headers of CUDA and HIP have by the
same names, and divisions of integers.
"""

from __future__ import annotations

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


def quotient(dividend: int, divisor: int) -> int:
    """Return a quotient that is truncated; Python rounds down."""
    result = abs(dividend) // abs(divisor)
    if (dividend < 0) != (divisor < 0):
        return -result
    return result


def remainder(dividend: int, divisor: int) -> int:
    """Return the remainder of a truncated quotient, which has the sign of the dividend."""
    return dividend - divisor * quotient(dividend, divisor)
