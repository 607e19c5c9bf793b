//devmod: -fno-fast-math
// Softmax over the rows of a matrix. One threadgroup of THREADS threads works on one row: its threads stride along the row, then
// add up what they found in `scratch`.
#include <metal_stdlib>
using namespace metal;

#define THREADS 64

kernel void softmax(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], constant int &columns [[buffer(2)]],
                    uint group [[threadgroup_position_in_grid]], uint thread_of [[thread_position_in_threadgroup]])
{
    threadgroup float scratch[THREADS];
    const int own = int(thread_of);
    device const float *from = x + ulong(group) * columns;
    device float *to = y + ulong(group) * columns;

    // The row's maximum: exp(x - max) cannot overflow.
    float highest = -INFINITY;
    for (int i = own; i < columns; i += THREADS)
        highest = max(highest, from[i]);
    scratch[own] = highest;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int half_of = THREADS / 2; half_of > 0; half_of /= 2) {
        if (own < half_of)
            scratch[own] = max(scratch[own], scratch[own + half_of]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    highest = scratch[0];
    threadgroup_barrier(mem_flags::mem_threadgroup); // everyone has read it before scratch is written again

    float sum = 0.0f;
    for (int i = own; i < columns; i += THREADS) {
        const float e = precise::exp(from[i] - highest);
        to[i] = e;
        sum += e;
    }
    scratch[own] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int half_of = THREADS / 2; half_of > 0; half_of /= 2) {
        if (own < half_of)
            scratch[own] += scratch[own + half_of];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    const float scale = 1.0f / scratch[0];
    for (int i = own; i < columns; i += THREADS)
        to[i] *= scale;
}
