"""The number types of C and their dtypes. The compiler maps C to dtypes, and the launch maps dtypes
to C.
"""

from __future__ import annotations

#: libclang's name of each type on the target that sources are parsed for (x86-64 Linux), and its
#: dtype.
DTYPES = {
    "_Bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned int": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "_Float16": "float16",
    "float": "float32",
    "double": "float64",
}

#: Each dtype and a C type of that size on every machine. The names are the compiler's, which need
#: no header.
C_TYPES = {
    "bool": "_Bool",
    **{
        f"{sign}int{bits}": f"__{sign.upper()}INT{bits}_TYPE__"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "float16": "_Float16",
    "float32": "float",
    "float64": "double",
}
