"""C's number types and devmod's names of them: the compiler reads them, the launch writes them."""

from __future__ import annotations

#: What libclang calls a type on the one target that sources are read for (x86-64 Linux), to devmod's name.
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

#: devmod's name to a C type of that size on every machine; the compiler's own names, which need no header.
C_TYPES = {
    "bool": "_Bool",
    **{f"{sign}int{bits}": f"__{sign.upper()}INT{bits}_TYPE__" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": "_Float16",
    "float32": "float",
    "float64": "double",
}
