// The features, and the types that precede the vectors (_prelude.py).
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
