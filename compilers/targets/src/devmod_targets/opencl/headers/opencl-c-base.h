// The types, constants and features of OpenCL C that libclang expects in this header. It declares the functions itself.
// Vendor extensions that libclang's generic target defines: without them a program skips its vendor branches.
#undef cl_amd_media_ops
#undef cl_amd_media_ops2
#undef cl_intel_device_side_avc_motion_estimation
#undef cl_intel_subgroups
#undef cl_intel_subgroups_short
#if __OPENCL_C_VERSION__ == 200
#define __opencl_c_generic_address_space 1
#define __opencl_c_device_enqueue 1
#define __opencl_c_pipes 1
#define __opencl_c_program_scope_global_variables 1
#define __opencl_c_read_write_images 1
#ifndef DEVMOD_NO_SUBGROUPS
#define __opencl_c_subgroups 1
#endif
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
#ifndef DEVMOD_NO_SUBGROUPS
#define __opencl_subgroup_builtins 1
#endif
#define __opencl_depth_image_builtins 1
#define __OPENCL_VERSION__ __OPENCL_C_VERSION__
#define __half half
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
#define DEVMOD_VECTORS(number) \
  typedef number number##2 __attribute__((ext_vector_type(2))); \
  typedef number number##3 __attribute__((ext_vector_type(3))); \
  typedef number number##4 __attribute__((ext_vector_type(4))); \
  typedef number number##8 __attribute__((ext_vector_type(8))); \
  typedef number number##16 __attribute__((ext_vector_type(16)));
DEVMOD_VECTORS(char) DEVMOD_VECTORS(uchar) DEVMOD_VECTORS(short) DEVMOD_VECTORS(ushort) DEVMOD_VECTORS(int) DEVMOD_VECTORS(uint)
DEVMOD_VECTORS(long) DEVMOD_VECTORS(ulong) DEVMOD_VECTORS(float)
// devmod also parses programs as for devices without an extension.
#ifdef cl_khr_fp16
DEVMOD_VECTORS(half)
#endif
#ifdef cl_khr_fp64
DEVMOD_VECTORS(double)
#endif
#undef DEVMOD_VECTORS
#define as_char(x) __builtin_astype((x), char)
#define as_char2(x) __builtin_astype((x), char2)
#define as_char3(x) __builtin_astype((x), char3)
#define as_char4(x) __builtin_astype((x), char4)
#define as_char8(x) __builtin_astype((x), char8)
#define as_char16(x) __builtin_astype((x), char16)
#define as_uchar(x) __builtin_astype((x), uchar)
#define as_uchar2(x) __builtin_astype((x), uchar2)
#define as_uchar3(x) __builtin_astype((x), uchar3)
#define as_uchar4(x) __builtin_astype((x), uchar4)
#define as_uchar8(x) __builtin_astype((x), uchar8)
#define as_uchar16(x) __builtin_astype((x), uchar16)
#define as_short(x) __builtin_astype((x), short)
#define as_short2(x) __builtin_astype((x), short2)
#define as_short3(x) __builtin_astype((x), short3)
#define as_short4(x) __builtin_astype((x), short4)
#define as_short8(x) __builtin_astype((x), short8)
#define as_short16(x) __builtin_astype((x), short16)
#define as_ushort(x) __builtin_astype((x), ushort)
#define as_ushort2(x) __builtin_astype((x), ushort2)
#define as_ushort3(x) __builtin_astype((x), ushort3)
#define as_ushort4(x) __builtin_astype((x), ushort4)
#define as_ushort8(x) __builtin_astype((x), ushort8)
#define as_ushort16(x) __builtin_astype((x), ushort16)
#define as_int(x) __builtin_astype((x), int)
#define as_int2(x) __builtin_astype((x), int2)
#define as_int3(x) __builtin_astype((x), int3)
#define as_int4(x) __builtin_astype((x), int4)
#define as_int8(x) __builtin_astype((x), int8)
#define as_int16(x) __builtin_astype((x), int16)
#define as_uint(x) __builtin_astype((x), uint)
#define as_uint2(x) __builtin_astype((x), uint2)
#define as_uint3(x) __builtin_astype((x), uint3)
#define as_uint4(x) __builtin_astype((x), uint4)
#define as_uint8(x) __builtin_astype((x), uint8)
#define as_uint16(x) __builtin_astype((x), uint16)
#define as_long(x) __builtin_astype((x), long)
#define as_long2(x) __builtin_astype((x), long2)
#define as_long3(x) __builtin_astype((x), long3)
#define as_long4(x) __builtin_astype((x), long4)
#define as_long8(x) __builtin_astype((x), long8)
#define as_long16(x) __builtin_astype((x), long16)
#define as_ulong(x) __builtin_astype((x), ulong)
#define as_ulong2(x) __builtin_astype((x), ulong2)
#define as_ulong3(x) __builtin_astype((x), ulong3)
#define as_ulong4(x) __builtin_astype((x), ulong4)
#define as_ulong8(x) __builtin_astype((x), ulong8)
#define as_ulong16(x) __builtin_astype((x), ulong16)
#define as_float(x) __builtin_astype((x), float)
#define as_float2(x) __builtin_astype((x), float2)
#define as_float3(x) __builtin_astype((x), float3)
#define as_float4(x) __builtin_astype((x), float4)
#define as_float8(x) __builtin_astype((x), float8)
#define as_float16(x) __builtin_astype((x), float16)
#define as_double(x) __builtin_astype((x), double)
#define as_double2(x) __builtin_astype((x), double2)
#define as_double3(x) __builtin_astype((x), double3)
#define as_double4(x) __builtin_astype((x), double4)
#define as_double8(x) __builtin_astype((x), double8)
#define as_double16(x) __builtin_astype((x), double16)
#define as_half(x) __builtin_astype((x), half)
#define as_half2(x) __builtin_astype((x), half2)
#define as_half3(x) __builtin_astype((x), half3)
#define as_half4(x) __builtin_astype((x), half4)
#define as_half8(x) __builtin_astype((x), half8)
#define as_half16(x) __builtin_astype((x), half16)
#define as_size_t(x) __builtin_astype((x), size_t)
#define as_ptrdiff_t(x) __builtin_astype((x), ptrdiff_t)
#define as_intptr_t(x) __builtin_astype((x), intptr_t)
#define as_uintptr_t(x) __builtin_astype((x), uintptr_t)
// The types of OpenCL C 2.0, and the constants of all versions.
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
#define NULL ((void *)0)
#define MAXFLOAT 0x1.fffffep127f
#define HUGE_VALF (__builtin_huge_valf())
#define HUGE_VAL (__builtin_huge_val())
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define FP_ILOGB0 (-2147483647 - 1)
#define FP_ILOGBNAN 2147483647
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define CHAR_MAX 127
#define CHAR_MIN (-128)
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 0xffffffffU
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-0x7fffffffffffffffL - 1)
#define ULONG_MAX 0xffffffffffffffffUL
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP 38
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MIN_EXP (-125)
#define FLT_RADIX 2
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define DBL_MAX_10_EXP 308
#define DBL_MAX_EXP 1024
#define DBL_MIN_10_EXP (-307)
#define DBL_MIN_EXP (-1021)
#define DBL_RADIX 2
#define DBL_MAX 0x1.fffffffffffffp1023
#define DBL_MIN 0x1.0p-1022
#define DBL_EPSILON 0x1.0p-52
#define HALF_DIG 3
#define HALF_MANT_DIG 11
#define HALF_MAX_10_EXP 4
#define HALF_MAX_EXP 16
#define HALF_MIN_10_EXP (-4)
#define HALF_MIN_EXP (-13)
#define HALF_RADIX 2
#define HALF_MAX 0x1.ffcp15h
#define HALF_MIN 0x1.0p-14h
#define HALF_EPSILON 0x1.0p-10h
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define CLK_IMAGE_MEM_FENCE 4
#define CLK_ADDRESS_NONE 0
#define CLK_ADDRESS_CLAMP_TO_EDGE 2
#define CLK_ADDRESS_CLAMP 4
#define CLK_ADDRESS_REPEAT 6
#define CLK_ADDRESS_MIRRORED_REPEAT 8
#define CLK_NORMALIZED_COORDS_FALSE 0
#define CLK_NORMALIZED_COORDS_TRUE 1
#define CLK_FILTER_NEAREST 16
#define CLK_FILTER_LINEAR 32
#define CL_COMPLETE 0
#define CL_RUNNING 1
#define CL_SUBMITTED 2
#define CL_QUEUED 3
#define CLK_SUCCESS 0
#define CLK_ENQUEUE_FAILURE (-101)
#define CLK_INVALID_QUEUE (-102)
#define CLK_INVALID_NDRANGE (-160)
#define CLK_INVALID_EVENT_WAIT_LIST (-57)
#define CLK_DEVICE_QUEUE_FULL (-161)
#define CLK_INVALID_ARG_SIZE (-51)
#define CLK_EVENT_ALLOCATION_FAILURE (-100)
#define CLK_OUT_OF_RESOURCES (-5)
#define CLK_ENQUEUE_FLAGS_NO_WAIT 0
#define CLK_ENQUEUE_FLAGS_WAIT_KERNEL 1
#define CLK_ENQUEUE_FLAGS_WAIT_WORK_GROUP 2
#define CLK_PROFILING_COMMAND_EXEC_TIME 1
#define MAX_WORK_DIM 3
// The channel types and orders of images.
#define CLK_SNORM_INT8 4304
#define CLK_SNORM_INT16 4305
#define CLK_UNORM_INT8 4306
#define CLK_UNORM_INT16 4307
#define CLK_UNORM_SHORT_565 4308
#define CLK_UNORM_SHORT_555 4309
#define CLK_UNORM_INT_101010 4310
#define CLK_SIGNED_INT8 4311
#define CLK_SIGNED_INT16 4312
#define CLK_SIGNED_INT32 4313
#define CLK_UNSIGNED_INT8 4314
#define CLK_UNSIGNED_INT16 4315
#define CLK_UNSIGNED_INT32 4316
#define CLK_HALF_FLOAT 4317
#define CLK_FLOAT 4318
#define CLK_UNORM_INT24 4319
#define CLK_UNORM_INT_101010_2 4320
#define CLK_R 4272
#define CLK_A 4273
#define CLK_RG 4274
#define CLK_RA 4275
#define CLK_RGB 4276
#define CLK_RGBA 4277
#define CLK_BGRA 4278
#define CLK_ARGB 4279
#define CLK_INTENSITY 4280
#define CLK_LUMINANCE 4281
#define CLK_Rx 4282
#define CLK_RGx 4283
#define CLK_RGBx 4284
#define CLK_DEPTH 4285
#define CLK_DEPTH_STENCIL 4286
#define CLK_sRGB 4287
#define CLK_sRGBx 4288
#define CLK_sRGBA 4289
#define CLK_sBGRA 4290
#define CLK_ABGR 4291
// The constants of mathematics.
#define M_E 2.718281828459045235360287
#define M_E_F 2.718281828459045235360287f
#define M_E_H 2.718281828459045235360287h
#define M_LOG2E 1.442695040888963407359925
#define M_LOG2E_F 1.442695040888963407359925f
#define M_LOG2E_H 1.442695040888963407359925h
#define M_LOG10E 0.434294481903251827651129
#define M_LOG10E_F 0.434294481903251827651129f
#define M_LOG10E_H 0.434294481903251827651129h
#define M_LN2 0.693147180559945309417232
#define M_LN2_F 0.693147180559945309417232f
#define M_LN2_H 0.693147180559945309417232h
#define M_LN10 2.302585092994045684017991
#define M_LN10_F 2.302585092994045684017991f
#define M_LN10_H 2.302585092994045684017991h
#define M_PI 3.141592653589793238462643
#define M_PI_F 3.141592653589793238462643f
#define M_PI_H 3.141592653589793238462643h
#define M_PI_2 1.570796326794896619231322
#define M_PI_2_F 1.570796326794896619231322f
#define M_PI_2_H 1.570796326794896619231322h
#define M_PI_4 0.785398163397448309615661
#define M_PI_4_F 0.785398163397448309615661f
#define M_PI_4_H 0.785398163397448309615661h
#define M_1_PI 0.318309886183790671537768
#define M_1_PI_F 0.318309886183790671537768f
#define M_1_PI_H 0.318309886183790671537768h
#define M_2_PI 0.636619772367581343075535
#define M_2_PI_F 0.636619772367581343075535f
#define M_2_PI_H 0.636619772367581343075535h
#define M_2_SQRTPI 1.128379167095512573896159
#define M_2_SQRTPI_F 1.128379167095512573896159f
#define M_2_SQRTPI_H 1.128379167095512573896159h
#define M_SQRT2 1.414213562373095048801689
#define M_SQRT2_F 1.414213562373095048801689f
#define M_SQRT2_H 1.414213562373095048801689h
#define M_SQRT1_2 0.707106781186547524400844
#define M_SQRT1_2_F 0.707106781186547524400844f
#define M_SQRT1_2_H 0.707106781186547524400844h
