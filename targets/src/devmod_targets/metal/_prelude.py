"""The predeclared names of the Metal shading language for libclang, which reads it as C++.

Metal's address spaces become clang's address spaces for SYCL. These convert to the generic one as in Metal: a struct can be copied from
any of them, and its methods can be called. Only names matter, and the types, sizes and address spaces of a kernel's arguments, so
functions are templates that accept any arguments. Vectors are clang's, for their components. C++ has no ``float4(a, b)`` for these, so
a macro of that form replaces it. The folder ``headers`` has its text; this module adds what repeats for each type.
"""

from __future__ import annotations

from functools import cache

from devmod_targets._text import header_text

#: A pointer into each address space. clang's numbers of the address spaces differ between versions.
SPACES = "".join(f"__attribute__(({name})) int *{name};\n" for name in ("opencl_global", "opencl_global_host", "opencl_local"))
#: The name of the header that clang includes before the program.
NAME = "devmod_metal.h"
_HEADERS = """
stdlib algorithm array assert atomic command_buffer common compute compute_private config cooperative_tensor depth extended_vector
functional geometric graphics imageblocks initializer_list integer interpolate iterator limits logging math matrix mesh numeric pack
packed_vector pull_vertex_inputs quadgroup raytracing relational simdgroup simdgroup_matrix tensor tessellation texture tile_attributes
type_traits types tuple uniform utility vector visible_function_table
"""
#: The headers that programs include; they are empty.
HEADERS = (
    *(f"metal_{name}" for name in _HEADERS.split()),
    "simd/simd.h",
    "simd/vector_types.h",
    "simd/matrix_types.h",
    "TargetConditionals.h",
    "MetalPerformancePrimitives/MetalPerformancePrimitives.h",
)

_NUMBERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float", "bfloat", "bool")
#: The names of the language's functions. The device's compiler checks their arguments.
_FUNCTIONS = """
abs absdiff acos acosh addsat all any asin asinh atan atan2 atanh ceil clamp clz copysign cos cosh cospi cross ctz degrees determinant
distance distance_squared divide dot exp exp10 exp2 extract_bits fabs faceforward fdim floor fma fmax fmax3 fmedian3 fmin fmin3 fmod
fract frexp hadd ilogb insert_bits isfinite isinf isnan isnormal isordered isunordered ldexp length length_squared log log10 log2 mad24
madhi madsat max max3 median3 min min3 mix modf mul24 mulhi nan nextafter normalize not_equal popcount pow powr quantize radians reflect
refract reverse_bits rhadd rint rotate round rsqrt saturate select sign signbit sin sincos sinh sinpi smoothstep sqrt step subsat tan tanh
tanpi transpose trunc cbrt expm1 log1p erf erfc lgamma tgamma hypot remainder
simd_active_threads_mask simd_all simd_and simd_any simd_ballot simd_broadcast simd_broadcast_first simd_is_first simd_is_helper_thread
simd_max simd_min simd_or simd_prefix_exclusive_product simd_prefix_exclusive_sum simd_prefix_inclusive_product simd_prefix_inclusive_sum
simd_product simd_shuffle simd_shuffle_and_fill_down simd_shuffle_and_fill_up simd_shuffle_down simd_shuffle_rotate_down
simd_shuffle_rotate_up simd_shuffle_up simd_shuffle_xor simd_sum simd_xor quad_active_threads_mask quad_all quad_and quad_any
quad_ballot quad_broadcast quad_broadcast_first quad_is_first quad_max quad_min quad_or quad_prefix_exclusive_product
quad_prefix_exclusive_sum quad_prefix_inclusive_product quad_prefix_inclusive_sum quad_product quad_shuffle quad_shuffle_and_fill_down
quad_shuffle_and_fill_up quad_shuffle_down quad_shuffle_rotate_down quad_shuffle_rotate_up quad_shuffle_up quad_shuffle_xor quad_sum
quad_xor simdgroup_load simdgroup_store simdgroup_multiply simdgroup_multiply_accumulate simdgroup_barrier threadgroup_barrier
quadgroup_barrier threadgroup_imageblock_barrier atomic_load_explicit atomic_store_explicit atomic_exchange_explicit
atomic_compare_exchange_weak_explicit atomic_fetch_add_explicit atomic_fetch_sub_explicit atomic_fetch_and_explicit
atomic_fetch_or_explicit atomic_fetch_xor_explicit atomic_fetch_max_explicit atomic_fetch_min_explicit atomic_max_explicit
atomic_min_explicit atomic_thread_fence discard_fragment dfdx dfdy fwidth pack_float_to_snorm4x8 pack_float_to_unorm4x8
pack_float_to_snorm2x16 pack_float_to_unorm2x16 pack_half_to_snorm4x8 pack_half_to_unorm4x8 pack_half_to_snorm2x16
pack_half_to_unorm2x16 unpack_snorm4x8_to_float unpack_unorm4x8_to_float unpack_snorm2x16_to_float unpack_unorm2x16_to_float
unpack_snorm4x8_to_half unpack_unorm4x8_to_half unpack_snorm2x16_to_half unpack_unorm2x16_to_half is_function_constant_defined
is_null_texture is_null_sampler assume make_uniform spline
"""
_TEXTURES = """
texture1d texture1d_array texture2d texture2d_array texture3d texturecube texturecube_array texture2d_ms texture2d_ms_array
texture_buffer depth2d depth2d_array depthcube depthcube_array depth2d_ms depth2d_ms_array
"""
_METHODS = (
    "template <class... B> vec<T, 4> sample(B...) const; template <class... B> vec<T, 4> read(B...) const; "
    "template <class... B> vec<T, 4> gather(B...) const; template <class... B> void write(B...) const; "
    "template <class... B> uint get_width(B...) const; template <class... B> uint get_height(B...) const; "
    "template <class... B> uint get_depth(B...) const; uint get_array_size() const; uint get_num_mip_levels() const; "
    "uint get_num_samples() const; void fence() const;"
)


@cache
def text() -> str:
    """Return the header's text."""
    lines = [header_text(__package__, "headers/begin.h")]
    for number in _NUMBERS:
        for lanes in "234":
            name = number + lanes
            # A bool is a byte in Metal, but clang packs vectors of bool into bits.
            lines.append(f"typedef {'uchar' if number == 'bool' else number} {name} __attribute__((ext_vector_type({lanes})));")
            lines.append(f"typedef metal::__devmod_packed<{number}, {lanes}> packed_{name}; typedef {name} vector_{name}, simd_{name};")
            lines.append(f"namespace metal {{ using ::{name}; using ::packed_{name}; }}")
    lines.append("namespace metal {")
    lines += [f"template <class... A> constexpr typename __devmod_one<A...>::type {name}(A...);" for name in _FUNCTIONS.split()]
    lines += [
        f"template <class T, access = access::sample, memory_coherence = memory_coherence_threadgroup> struct {name} {{ {_METHODS} }};"
        for name in _TEXTURES.split()
    ]
    lines.append(header_text(__package__, "headers/end.h"))
    for number in ("half", "float"):
        for shape in (f"{columns}x{rows}" for columns in "234" for rows in "234"):
            lines.append(
                f"typedef metal::matrix<{number}, {shape[0]}, {shape[2]}> {number}{shape}, matrix_{number}{shape}, simd_{number}{shape};"
            )
            lines.append(f"namespace metal {{ using ::{number}{shape}; }}")
    lines += [f"#define {number}{lanes}(...) __devmod_make<{number}{lanes}>(__VA_ARGS__)" for number in _NUMBERS for lanes in "234"]
    return "\n".join(lines)
