"""The types of CUDA's headers: the type of devmod for each. The folders ``prelude`` and ``stubs`` have their layout in C++.

Source: vector_types.h, cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, cuda_fp6.h, cuda_fp4.h and cuda.h of CUDA 13.5. A test compares the layouts
with NVRTC's.
"""

from __future__ import annotations

#: The names of a tensor map's struct: that of cuda.h, and that of programs which declare it themselves, as NVRTC does not compile CUDA's
#: cuda.h.
TENSOR_MAPS = ("CUtensorMap_st", "CUtensorMap")
#: The lanes of the vectors with these prefixes.
_NUMBERS = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "longlong": "int64",
    "ulonglong": "uint64",
    "float": "float32",
    "double": "float64",
}
_LANES = {"1": "", "2": "x2", "3": "x3", "4": "x4"}
#: The small floats: name in C++ before and after the lanes, type of devmod. A type that devmod has no name for is described as bytes.
_SMALL = (
    ("fp8", "e5m2", "float8_e5m2"),
    ("fp8", "e4m3", "float8_e4m3fn"),
    ("fp8", "e8m0", "float8_e8m0fnu"),
    ("fp8", "ue5m3", "uint8"),
    ("fp6", "e3m2", "uint8"),
    ("fp6", "e2m3", "uint8"),
)
#: The type of devmod of each C++ type, by its name.
DTYPES = {
    **{prefix + end: dtype + lanes for prefix, dtype in _NUMBERS.items() for end, lanes in _LANES.items()},
    **{f"{prefix}4_{align}a": f"{dtype}x4" for prefix, dtype in _NUMBERS.items() if "64" in dtype for align in (16, 32)},
    **{f"__nv_{width}{lanes}_{name}": dtype + lanes for width, name, dtype in _SMALL for lanes in ("", "x2", "x4")},
    "dim3": "uint32x3",
    "__half": "float16",
    "__half2": "float16x2",
    "__nv_bfloat16": "bfloat16",
    "__nv_bfloat162": "bfloat16x2",
    "__nv_fp4_e2m1": "uint8",
    "__nv_fp4x2_e2m1": "uint8",
    "__nv_fp4x4_e2m1": "uint8x2",
}
