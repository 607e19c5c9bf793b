// Sum of n floats. Each threadgroup of THREADS threads adds up the part that its threads stride over and writes one partial sum; a
// second launch with a single group adds those up.
#include <metal_stdlib>
using namespace metal;

#define THREADS 128

kernel void sum(device const float *x [[buffer(0)]], device float *partial [[buffer(1)]], constant int &n [[buffer(2)]],
                uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]],
                uint thread_of [[thread_position_in_threadgroup]])
{
    threadgroup float scratch[THREADS];
    float own = 0.0f;
    for (int i = int(group) * THREADS + int(thread_of); i < n; i += int(groups) * THREADS)
        own += x[i];
    scratch[thread_of] = own;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint half_of = THREADS / 2; half_of > 0; half_of /= 2) {
        if (thread_of < half_of)
            scratch[thread_of] += scratch[thread_of + half_of];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (thread_of == 0)
        partial[group] = scratch[0];
}
