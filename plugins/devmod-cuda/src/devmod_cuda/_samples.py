"""The kernels of the conformance kit, as PTX that NVRTC 13.5 made from the CUDA C++ above each.

The version and the target of the PTX are set to the oldest that have all its instructions.
"""

from __future__ import annotations

LINEAR = """
extern "C" __global__ void axpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

extern "C" __global__ void count(const int *values, unsigned *counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[values[i] & 7], 1);
}
"""
LINEAR_PTX = """.version 6.4
.target sm_52
.address_size 64
.visible .entry axpy(
    .param .u64 axpy_param_0,
    .param .u64 axpy_param_1,
    .param .f32 axpy_param_2,
    .param .u32 axpy_param_3
)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [axpy_param_0];
    ld.param.u64 %rd2, [axpy_param_1];
    ld.param.f32 %f1, [axpy_param_2];
    ld.param.u32 %r2, [axpy_param_3];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra $L_BB0_2;
    cvta.to.global.u64 %rd3, %rd1;
    mul.wide.s32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.f32 %f2, [%rd5];
    cvta.to.global.u64 %rd6, %rd2;
    add.s64 %rd7, %rd6, %rd4;
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f2, %f1, %f3;
    st.global.f32 [%rd7], %f4;
$L_BB0_2:
    ret;
}
.visible .entry count(
    .param .u64 count_param_0,
    .param .u64 count_param_1,
    .param .u32 count_param_2
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<7>;
    .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [count_param_0];
    ld.param.u64 %rd2, [count_param_1];
    ld.param.u32 %r2, [count_param_2];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra $L_BB1_2;
    cvta.to.global.u64 %rd3, %rd1;
    mul.wide.s32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.u32 %rd6, [%rd5];
    cvta.to.global.u64 %rd7, %rd2;
    shl.b64 %rd8, %rd6, 2;
    and.b64 %rd9, %rd8, 28;
    add.s64 %rd10, %rd7, %rd9;
    atom.global.add.u32 %r6, [%rd10], 1;
$L_BB1_2:
    ret;
}
"""

# extern "C" __global__ void transpose(const float *from, float *to, int width, int height)
# {
#     __shared__ float tile[4][4];
#     int x = threadIdx.x, y = threadIdx.y, left = blockIdx.x * 4, top = blockIdx.y * 4;
#     if (left + x < width && top + y < height) tile[y][x] = from[(top + y) * width + left + x];
#     __syncthreads();
#     if (top + x < height && left + y < width) to[(left + y) * height + top + x] = tile[x][y];
# }
TRANSPOSE_PTX = """.version 6.4
.target sm_52
.address_size 64
.visible .entry transpose(
    .param .u64 transpose_param_0,
    .param .u64 transpose_param_1,
    .param .u32 transpose_param_2,
    .param .u32 transpose_param_3
)
{
    .reg .pred %p<7>;
    .reg .f32 %f<3>;
    .reg .b32 %r<25>;
    .reg .b64 %rd<9>;
    .shared .align 4 .b8 _ZZ9transposeE4tile[64];
    ld.param.u64 %rd1, [transpose_param_0];
    ld.param.u64 %rd2, [transpose_param_1];
    ld.param.u32 %r9, [transpose_param_2];
    ld.param.u32 %r10, [transpose_param_3];
    mov.u32 %r11, %ctaid.x;
    shl.b32 %r1, %r11, 2;
    mov.u32 %r12, %ctaid.y;
    shl.b32 %r2, %r12, 2;
    mov.u32 %r3, %tid.x;
    add.s32 %r4, %r1, %r3;
    setp.ge.s32 %p1, %r4, %r9;
    mov.u32 %r5, %tid.y;
    add.s32 %r6, %r2, %r5;
    setp.ge.s32 %p2, %r6, %r10;
    or.pred %p3, %p1, %p2;
    @%p3 bra $L_BB0_2;
    cvta.to.global.u64 %rd3, %rd1;
    mad.lo.s32 %r13, %r6, %r9, %r4;
    mul.wide.s32 %rd4, %r13, 4;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5];
    shl.b32 %r14, %r5, 4;
    mov.u32 %r15, _ZZ9transposeE4tile;
    add.s32 %r16, %r15, %r14;
    shl.b32 %r17, %r3, 2;
    add.s32 %r18, %r16, %r17;
    st.shared.f32 [%r18], %f1;
$L_BB0_2:
    bar.sync 0;
    add.s32 %r7, %r2, %r3;
    setp.ge.s32 %p4, %r7, %r10;
    add.s32 %r8, %r1, %r5;
    setp.ge.s32 %p5, %r8, %r9;
    or.pred %p6, %p5, %p4;
    @%p6 bra $L_BB0_4;
    shl.b32 %r19, %r3, 4;
    mov.u32 %r20, _ZZ9transposeE4tile;
    add.s32 %r21, %r20, %r19;
    shl.b32 %r22, %r5, 2;
    add.s32 %r23, %r21, %r22;
    ld.shared.f32 %f2, [%r23];
    mad.lo.s32 %r24, %r8, %r10, %r7;
    cvta.to.global.u64 %rd6, %rd2;
    mul.wide.s32 %rd7, %r24, 4;
    add.s64 %rd8, %rd6, %rd7;
    st.global.f32 [%rd8], %f2;
$L_BB0_4:
    ret;
}
"""

# A struct, a three-vector and a bool by value, and a global variable.
#
# struct How { int amount; int count; };
# __device__ unsigned char table[4] = {1, 2, 3, 4};
# extern "C" __global__ void shift(int *x, How how, float3 add, bool twice)
# {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     int step = i < how.count ? how.amount + (int)(add.x + add.y + add.z) : 0;
#     x[i] += step * (twice ? 2 : 1) + table[i & 3];
# }
SHIFT_PTX = """.version 6.4
.target sm_52
.address_size 64
.visible .global .align 1 .b8 table[4] = {1, 2, 3, 4};
.visible .entry shift(
    .param .u64 shift_param_0,
    .param .align 4 .b8 shift_param_1[8],
    .param .align 4 .b8 shift_param_2[12],
    .param .u8 shift_param_3
)
{
    .reg .pred %p<3>;
    .reg .b16 %rs<2>;
    .reg .f32 %f<6>;
    .reg .b32 %r<18>;
    .reg .b64 %rd<8>;
    ld.param.s8 %rs1, [shift_param_3];
    ld.param.u64 %rd1, [shift_param_0];
    ld.param.f32 %f3, [shift_param_2+8];
    ld.param.f32 %f2, [shift_param_2+4];
    ld.param.f32 %f1, [shift_param_2];
    ld.param.u32 %r5, [shift_param_1+4];
    ld.param.u32 %r4, [shift_param_1];
    mov.u32 %r7, %ntid.x;
    mov.u32 %r8, %ctaid.x;
    mov.u32 %r9, %tid.x;
    mad.lo.s32 %r1, %r8, %r7, %r9;
    setp.ge.s32 %p1, %r1, %r5;
    mov.u32 %r17, 0;
    @%p1 bra $L_BB0_2;
    add.f32 %f4, %f1, %f2;
    add.f32 %f5, %f3, %f4;
    cvt.rzi.s32.f32 %r10, %f5;
    add.s32 %r17, %r10, %r4;
$L_BB0_2:
    setp.eq.s16 %p2, %rs1, 0;
    selp.b32 %r11, 1, 2, %p2;
    and.b32 %r12, %r1, 3;
    cvt.u64.u32 %rd2, %r12;
    mov.u64 %rd3, table;
    add.s64 %rd4, %rd3, %rd2;
    ld.global.u8 %r13, [%rd4];
    mad.lo.s32 %r14, %r17, %r11, %r13;
    cvta.to.global.u64 %rd5, %rd1;
    mul.wide.s32 %rd6, %r1, 4;
    add.s64 %rd7, %rd5, %rd6;
    ld.global.u32 %r15, [%rd7];
    add.s32 %r16, %r14, %r15;
    st.global.u32 [%rd7], %r16;
    ret;
}
"""
