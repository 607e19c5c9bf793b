"""The predeclared names of OpenCL C for libclang, which contains no headers.

libclang declares the built-in functions (``-fdeclare-opencl-builtins``) and includes a header ``opencl-c-base.h`` for the types, the
constants and the feature macros. This module provides that header in memory, so the program's line numbers do not change. Only names
and types matter: no program runs with these values.
"""

from __future__ import annotations

from functools import cache

#: The name of the header that libclang includes.
NAME = "opencl-c-base.h"

_LANES = (2, 3, 4, 8, 16)
_NUMBERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "half")

#: Vendor extensions that libclang's generic target defines. They are undefined, so that a program skips its vendor branches.
_VENDORS = "cl_amd_media_ops cl_amd_media_ops2 cl_intel_device_side_avc_motion_estimation cl_intel_subgroups cl_intel_subgroups_short"

#: The built-in functions of OpenCL C 1.2 whose names a kernel may have by mistake (the specification's chapters 6.12.2 to 6.12.6 and
#: 6.12.12). PoCL's headers rename them by macros, and other compilers refuse a second declaration.
_FUNCTION_NAMES = """
abs abs_diff acos acosh acospi add_sat all any asin asinh asinpi atan atan2 atan2pi atanh atanpi barrier bitselect cbrt ceil clamp clz
copysign cos cosh cospi cross degrees distance dot erf erfc exp exp10 exp2 expm1 fabs fast_distance fast_length fast_normalize fdim
floor fma fmax fmin fmod fract frexp hadd hypot ilogb isfinite isinf isnan isnormal ldexp length lgamma log log10 log1p log2 logb mad
mad24 mad_hi mad_sat max maxmag min minmag mix modf mul24 mul_hi nan nextafter normalize popcount pow pown powr prefetch printf radians
remainder remquo rhadd rint rootn rotate round rsqrt select shuffle shuffle2 sign signbit sin sincos sinh sinpi smoothstep sqrt step
sub_sat tan tanh tanpi tgamma trunc upsample
"""
FUNCTIONS = frozenset(_FUNCTION_NAMES.split())

_FEATURES = """
#if __OPENCL_C_VERSION__ == 200
#define __opencl_c_generic_address_space 1
#define __opencl_c_device_enqueue 1
#define __opencl_c_pipes 1
#define __opencl_c_program_scope_global_variables 1
#define __opencl_c_read_write_images 1
#define __opencl_c_subgroups 1
#define __opencl_c_work_group_collective_functions 1
#define __opencl_c_atomic_order_acq_rel 1
#define __opencl_c_atomic_order_seq_cst 1
#define __opencl_c_atomic_scope_device 1
#define __opencl_c_atomic_scope_all_devices 1
#elif __OPENCL_C_VERSION__ >= 300
#define __opencl_c_work_group_collective_functions 1
#define __opencl_c_atomic_scope_device 1
#define __opencl_c_atomic_scope_all_devices 1
#endif
#ifndef __opencl_c_generic_address_space
#define __opencl_c_named_address_space_builtins 1
#endif
#define __opencl_subgroup_builtins 1
#define __opencl_depth_image_builtins 1
#define __OPENCL_VERSION__ __OPENCL_C_VERSION__
#define __half half
"""

_TYPES = """
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef uint cl_mem_fence_flags;
#if __OPENCL_C_VERSION__ < 120
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
"""

_SYNCHRONIZATION = """
#if __OPENCL_C_VERSION__ >= 200
typedef enum memory_scope {
  memory_scope_work_item = __OPENCL_MEMORY_SCOPE_WORK_ITEM,
  memory_scope_work_group = __OPENCL_MEMORY_SCOPE_WORK_GROUP,
  memory_scope_device = __OPENCL_MEMORY_SCOPE_DEVICE,
  memory_scope_all_svm_devices = __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES,
  memory_scope_all_devices = __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES,
  memory_scope_sub_group = __OPENCL_MEMORY_SCOPE_SUB_GROUP
} memory_scope;
typedef enum memory_order {
  memory_order_relaxed = __ATOMIC_RELAXED,
  memory_order_acquire = __ATOMIC_ACQUIRE,
  memory_order_release = __ATOMIC_RELEASE,
  memory_order_acq_rel = __ATOMIC_ACQ_REL,
  memory_order_seq_cst = __ATOMIC_SEQ_CST
} memory_order;
typedef struct { uint dimensions; size_t first[3], all[3], each[3]; } ndrange_t;
typedef int kernel_enqueue_flags_t;
typedef int clk_profiling_info;
#define ATOMIC_VAR_INIT(x) (x)
#define ATOMIC_FLAG_INIT 0
#define CLK_NULL_QUEUE 0
#define CLK_NULL_EVENT (__builtin_astype((__SIZE_MAX__), clk_event_t))
#define CLK_NULL_RESERVE_ID (__builtin_astype(((void *)(__SIZE_MAX__)), reserve_id_t))
#endif
#if !defined(__OPENCL_C_VERSION__) || __OPENCL_C_VERSION__ >= 120
int printf(__constant const char *form, ...);
#endif
#define kernel_exec(x, type) __kernel __attribute__((work_group_size_hint(x, 1, 1))) __attribute__((vec_type_hint(type)))
#define __kernel_exec(x, type) kernel_exec(x, type)
"""

_CONSTANTS = """
NULL ((void *)0)
MAXFLOAT 0x1.fffffep127f
HUGE_VALF (__builtin_huge_valf())
HUGE_VAL (__builtin_huge_val())
INFINITY (__builtin_inff())
NAN (__builtin_nanf(""))
FP_ILOGB0 (-2147483647 - 1)
FP_ILOGBNAN 2147483647
CHAR_BIT 8
SCHAR_MAX 127
SCHAR_MIN (-128)
UCHAR_MAX 255
CHAR_MAX 127
CHAR_MIN (-128)
SHRT_MAX 32767
SHRT_MIN (-32768)
USHRT_MAX 65535
INT_MAX 2147483647
INT_MIN (-2147483647 - 1)
UINT_MAX 0xffffffffU
LONG_MAX 0x7fffffffffffffffL
LONG_MIN (-0x7fffffffffffffffL - 1)
ULONG_MAX 0xffffffffffffffffUL
FLT_DIG 6
FLT_MANT_DIG 24
FLT_MAX_10_EXP 38
FLT_MAX_EXP 128
FLT_MIN_10_EXP (-37)
FLT_MIN_EXP (-125)
FLT_RADIX 2
FLT_MAX 0x1.fffffep127f
FLT_MIN 0x1.0p-126f
FLT_EPSILON 0x1.0p-23f
DBL_DIG 15
DBL_MANT_DIG 53
DBL_MAX_10_EXP 308
DBL_MAX_EXP 1024
DBL_MIN_10_EXP (-307)
DBL_MIN_EXP (-1021)
DBL_RADIX 2
DBL_MAX 0x1.fffffffffffffp1023
DBL_MIN 0x1.0p-1022
DBL_EPSILON 0x1.0p-52
HALF_DIG 3
HALF_MANT_DIG 11
HALF_MAX_10_EXP 4
HALF_MAX_EXP 16
HALF_MIN_10_EXP (-4)
HALF_MIN_EXP (-13)
HALF_RADIX 2
HALF_MAX 0x1.ffcp15h
HALF_MIN 0x1.0p-14h
HALF_EPSILON 0x1.0p-10h
CLK_LOCAL_MEM_FENCE 1
CLK_GLOBAL_MEM_FENCE 2
CLK_IMAGE_MEM_FENCE 4
CLK_ADDRESS_NONE 0
CLK_ADDRESS_CLAMP_TO_EDGE 2
CLK_ADDRESS_CLAMP 4
CLK_ADDRESS_REPEAT 6
CLK_ADDRESS_MIRRORED_REPEAT 8
CLK_NORMALIZED_COORDS_FALSE 0
CLK_NORMALIZED_COORDS_TRUE 1
CLK_FILTER_NEAREST 16
CLK_FILTER_LINEAR 32
CL_COMPLETE 0
CL_RUNNING 1
CL_SUBMITTED 2
CL_QUEUED 3
CLK_SUCCESS 0
CLK_ENQUEUE_FAILURE (-101)
CLK_INVALID_QUEUE (-102)
CLK_INVALID_NDRANGE (-160)
CLK_INVALID_EVENT_WAIT_LIST (-57)
CLK_DEVICE_QUEUE_FULL (-161)
CLK_INVALID_ARG_SIZE (-51)
CLK_EVENT_ALLOCATION_FAILURE (-100)
CLK_OUT_OF_RESOURCES (-5)
CLK_ENQUEUE_FLAGS_NO_WAIT 0
CLK_ENQUEUE_FLAGS_WAIT_KERNEL 1
CLK_ENQUEUE_FLAGS_WAIT_WORK_GROUP 2
CLK_PROFILING_COMMAND_EXEC_TIME 1
MAX_WORK_DIM 3
"""

_MATHEMATICS = {
    "M_E": "2.718281828459045235360287",
    "M_LOG2E": "1.442695040888963407359925",
    "M_LOG10E": "0.434294481903251827651129",
    "M_LN2": "0.693147180559945309417232",
    "M_LN10": "2.302585092994045684017991",
    "M_PI": "3.141592653589793238462643",
    "M_PI_2": "1.570796326794896619231322",
    "M_PI_4": "0.785398163397448309615661",
    "M_1_PI": "0.318309886183790671537768",
    "M_2_PI": "0.636619772367581343075535",
    "M_2_SQRTPI": "1.128379167095512573896159",
    "M_SQRT2": "1.414213562373095048801689",
    "M_SQRT1_2": "0.707106781186547524400844",
}

#: The channel types and orders of images, in the order of OpenCL's numbers.
_CHANNEL_TYPES = (
    "SNORM_INT8 SNORM_INT16 UNORM_INT8 UNORM_INT16 UNORM_SHORT_565 UNORM_SHORT_555 UNORM_INT_101010 SIGNED_INT8 "
    "SIGNED_INT16 SIGNED_INT32 UNSIGNED_INT8 UNSIGNED_INT16 UNSIGNED_INT32 HALF_FLOAT FLOAT UNORM_INT24 UNORM_INT_101010_2"
)
_CHANNEL_ORDERS = "R A RG RA RGB RGBA BGRA ARGB INTENSITY LUMINANCE Rx RGx RGBx DEPTH DEPTH_STENCIL sRGB sRGBx sRGBA sBGRA ABGR"


@cache
def text() -> str:
    """Return the header's text."""
    lines = [f"#undef {name}" for name in _VENDORS.split()]
    lines += [_FEATURES, _TYPES]
    for number in _NUMBERS:
        lines += [f"typedef {number} {number}{lanes} __attribute__((ext_vector_type({lanes})));" for lanes in _LANES]
        lines += [f"#define as_{name}(x) __builtin_astype((x), {name})" for name in [number] + [f"{number}{lanes}" for lanes in _LANES]]
    lines += [f"#define as_{name}(x) __builtin_astype((x), {name})" for name in ("size_t", "ptrdiff_t", "intptr_t", "uintptr_t")]
    lines.append(_SYNCHRONIZATION)
    lines += [f"#define {line}" for line in _CONSTANTS.split("\n") if line]
    for name, digits in _MATHEMATICS.items():
        lines += [f"#define {name} {digits}", f"#define {name}_F {digits}f", f"#define {name}_H {digits}h"]
    lines += [f"#define CLK_{name} {0x10D0 + index}" for index, name in enumerate(_CHANNEL_TYPES.split())]
    lines += [f"#define CLK_{name} {0x10B0 + index}" for index, name in enumerate(_CHANNEL_ORDERS.split())]
    return "\n".join(lines) + "\n"
