// Every sort of scalar and vector by value.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef enum { NEAREST, LINEAR } mode_t;

__kernel void scalars(char c, uchar uc, short s, ushort us, int i, uint ui, long l, ulong ul, float f, double d, half h, mode_t mode, __global int *out) {}
__kernel void lanes(char2 c, uchar3 uc, short4 s, int8 i, ulong16 ul, float3 f, double2 d, half4 h, __global float3 *out) {}
