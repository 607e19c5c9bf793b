//devmod: -fno-fast-math
// Softmax over the rows of a matrix. One threadgroup works on one row: each of its threads strides along the row, then the
// threadgroup reduces the results of its threads in `scratch`. It has THREADS threads.
#include <metal_stdlib>
using namespace metal;

#define THREADS 64

kernel void softmax(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], constant int &columns [[buffer(2)]],
                    uint group [[threadgroup_position_in_grid]], uint index [[thread_position_in_threadgroup]])
{
    threadgroup float scratch[THREADS];
    device const float *from = x + ulong(group) * columns;
    device float *to = y + ulong(group) * columns;

    // The row's maximum: exp(x - max) cannot overflow.
    float highest = -INFINITY;
    for (int i = index; i < columns; i += THREADS)
        highest = max(highest, from[i]);
    scratch[index] = highest;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        if (index < stride)
            scratch[index] = max(scratch[index], scratch[index + stride]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    highest = scratch[0];
    threadgroup_barrier(mem_flags::mem_threadgroup); // all threads read it before one writes scratch again

    float sum = 0.0f;
    for (int i = index; i < columns; i += THREADS) {
        const float e = precise::exp(from[i] - highest);
        to[i] = e;
        sum += e;
    }
    scratch[index] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        if (index < stride)
            scratch[index] += scratch[index + stride];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    const float scale = 1.0f / scratch[0];
    for (int i = index; i < columns; i += THREADS)
        to[i] *= scale;
}
