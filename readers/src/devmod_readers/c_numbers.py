"""The types of numbers that OpenCL C, MSL and the headers of CUDA and HIP have by the same
names.
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
