// TVM's layout: all scalars in one struct after the buffers.
#include <metal_stdlib>
using namespace metal;

union __TVMArgUnion {
 int v_int[2];
};
struct transpose_args_t {
  int width[2];
  int height[2];
};
kernel void transpose(device const float *source [[ buffer(0) ]], device float *target [[ buffer(1) ]],
                      constant transpose_args_t &arg [[ buffer(2) ]],
                      uint2 blockIdx [[threadgroup_position_in_grid]], uint2 threadIdx [[thread_position_in_threadgroup]])
{
    threadgroup float tile[4][4];
    int x = threadIdx.x, y = threadIdx.y, left = blockIdx.x * 4, top = blockIdx.y * 4, width = arg.width[0], height = arg.height[0];
    if (left + x < width && top + y < height) tile[y][x] = source[(top + y) * width + left + x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (top + x < height && left + y < width) target[(left + y) * height + top + x] = tile[x][y];
}
