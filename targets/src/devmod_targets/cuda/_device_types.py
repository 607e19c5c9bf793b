"""The types of CUDA's headers: their layout in C++, and the type of devmod for each.

Source: vector_types.h, cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, cuda_fp6.h, cuda_fp4.h and cuda.h of CUDA 13.5. A test compares the layouts
with NVRTC's.
"""

from __future__ import annotations

from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The lanes of the vectors with these prefixes: C++'s type, the type of devmod, its bytes.
_NUMBERS = {
    "char": ("signed char", "int8", 1),
    "uchar": ("unsigned char", "uint8", 1),
    "short": ("short", "int16", 2),
    "ushort": ("unsigned short", "uint16", 2),
    "int": ("int", "int32", 4),
    "uint": ("unsigned int", "uint32", 4),
    "long": ("long", "int64", 8),
    "ulong": ("unsigned long", "uint64", 8),
    "longlong": ("long long", "int64", 8),
    "ulonglong": ("unsigned long long", "uint64", 8),
    "float": ("float", "float32", 4),
    "double": ("double", "float64", 8),
}
#: The small floats by header: name in C++, type of devmod, its bytes. A type that devmod has no name for is described as bytes.
_SMALL = {
    "cuda_fp16.h": (("__half", "float16", 2), ("__half2", "float16x2", 4)),
    "cuda_bf16.h": (("__nv_bfloat16", "bfloat16", 2), ("__nv_bfloat162", "bfloat16x2", 4)),
    "cuda_fp8.h": tuple(
        (f"__nv_fp8{lanes}_{name}", f"{dtype}{lanes}", int(lanes[1:] or 1))
        for name, dtype in (("e5m2", "float8_e5m2"), ("e4m3", "float8_e4m3fn"), ("e8m0", "float8_e8m0fnu"), ("ue5m3", "uint8"))
        for lanes in ("", "x2", "x4")
    ),
    "cuda_fp6.h": tuple(
        (f"__nv_fp6{lanes}_{name}", f"uint8{lanes}", int(lanes[1:] or 1)) for name in ("e3m2", "e2m3") for lanes in ("", "x2", "x4")
    ),
    "cuda_fp4.h": (("__nv_fp4_e2m1", "uint8", 1), ("__nv_fp4x2_e2m1", "uint8", 1), ("__nv_fp4x4_e2m1", "uint8x2", 2)),
}
#: The other names of the small floats.
_ALIASES = {
    "cuda_fp16.h": "__half half nv_half __nv_half __half2 half2 nv_half2 __nv_half2",
    "cuda_bf16.h": "__nv_bfloat16 nv_bfloat16 __nv_bfloat162 nv_bfloat162",
}
#: The declarations of the numbers' bits in those headers.
_RAW = {
    "cuda_fp16.h": (
        "typedef struct __align__(2) { unsigned short x; } __half_raw, __nv_half_raw;\n"
        "typedef struct __align__(4) { unsigned short x, y; } __half2_raw, __nv_half2_raw;\n"
    ),
    "cuda_bf16.h": (
        "typedef struct __align__(2) { unsigned short x; } __nv_bfloat16_raw;\n"
        "typedef struct __align__(4) { unsigned short x, y; } __nv_bfloat162_raw;\n"
    ),
    "cuda_fp8.h": (
        "typedef unsigned char __nv_fp8_storage_t;\n"
        "typedef unsigned short __nv_fp8x2_storage_t;\ntypedef unsigned int __nv_fp8x4_storage_t;\n"
    ),
    "cuda_fp6.h": (
        "typedef unsigned char __nv_fp6_storage_t;\n"
        "typedef unsigned short __nv_fp6x2_storage_t;\ntypedef unsigned int __nv_fp6x4_storage_t;\n"
    ),
    "cuda_fp4.h": (
        "typedef unsigned char __nv_fp4_storage_t;\n"
        "typedef unsigned char __nv_fp4x2_storage_t;\ntypedef unsigned short __nv_fp4x4_storage_t;\n"
    ),
}
_STORAGE = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int"}
#: The alignment of a descriptor of a tensor map in bytes. Before CUDA 13 it was 64.
TENSOR_MAP_ALIGN = 128
#: The names of its struct: that of cuda.h, and that of programs which declare it themselves, as NVRTC does not compile CUDA's cuda.h.
TENSOR_MAPS = ("CUtensorMap_st", "CUtensorMap")


def _vectors() -> Iterator[tuple[str, str, int, int, str]]:
    """Yield name, C++'s type of a lane, lanes, alignment and type of devmod."""
    for prefix, (number, dtype, size) in _NUMBERS.items():
        yield f"{prefix}1", number, 1, size, dtype
        # Two and four lanes are aligned to their size, up to 16 bytes. Three lanes have no padding.
        yield f"{prefix}2", number, 2, 2 * size, f"{dtype}x2"
        yield f"{prefix}3", number, 3, size, f"{dtype}x3"
        yield f"{prefix}4", number, 4, min(4 * size, 16), f"{dtype}x4"
        if size == 8:
            yield f"{prefix}4_16a", number, 4, 16, f"{dtype}x4"
            yield f"{prefix}4_32a", number, 4, 32, f"{dtype}x4"
    yield "dim3", "unsigned int", 3, 4, "uint32x3"


@cache
def dtypes() -> Mapping[str, str]:
    """Return the type of devmod of each C++ type, by its name."""
    result = {name: dtype for name, _, _, _, dtype in _vectors()}
    return result | {name: dtype for types in _SMALL.values() for name, dtype, _ in types}


@cache
def vector_declarations() -> Mapping[str, str]:
    """Return the declaration of each vector, which every program has."""
    lines = {}
    for name, number, lanes, align, _ in _vectors():
        fields = ", ".join("xyzw"[:lanes])
        body = f"{number} {fields};"
        if name == "dim3":
            body += " __device__ constexpr dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1) : x(a), y(b), z(c) {}"
        lines[name] = f"struct __attribute__((aligned({align}))) {name} {{ {body} }};"
    return lines


def float_declarations(header: str) -> str:
    """Return the declarations of the small floats in a header. A value of any type converts to them."""
    lines = [_RAW[header]]
    for name, _, size in _SMALL[header]:
        storage = _STORAGE[size]
        convert = f"{name}() = default; template <class T> __host__ __device__ constexpr {name}(T) : bits() {{}}"
        convert += " __host__ __device__ constexpr operator float() const { return 0; }" if "2" not in name[-2:] and "x" not in name else ""
        lines.append(f"struct __attribute__((aligned({size}))) {name} {{ {storage} bits; {convert} }};")
    base = ""
    for name in _ALIASES.get(header, "").split():
        if any(name == each for each, _, _ in _SMALL[header]):
            base = name
        else:
            lines.append(f"typedef {base} {name};")
    return "\n".join(lines)


def small_float_headers() -> tuple[str, ...]:
    """Return the names of the headers with small floats."""
    return tuple(_SMALL)
