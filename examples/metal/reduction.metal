// Sum of n floats. Each threadgroup adds the part that its threads stride over, and writes one partial sum. A second launch with one
// threadgroup adds those. `scratch` has one float for each thread, and the number of threads in a threadgroup is a power of two.
#include <metal_stdlib>
using namespace metal;

kernel void sum(device const float *x [[buffer(0)]], device float *partial [[buffer(1)]], constant int &n [[buffer(2)]],
                threadgroup float *scratch [[threadgroup(0)]], uint group [[threadgroup_position_in_grid]],
                uint index [[thread_position_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                uint place [[thread_position_in_grid]], uint places [[threads_per_grid]])
{
    float own = 0.0f;
    for (int i = place; i < n; i += places)
        own += x[i];
    scratch[index] = own;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint stride = threads / 2; stride > 0; stride /= 2) {
        if (index < stride)
            scratch[index] += scratch[index + stride];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (index == 0)
        partial[group] = scratch[0];
}
