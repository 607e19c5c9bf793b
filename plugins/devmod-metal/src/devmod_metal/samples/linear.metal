#include <metal_stdlib>
using namespace metal;

kernel void axpy(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], constant float &a [[buffer(2)]],
                 constant int &n [[buffer(3)]], uint i [[thread_position_in_grid]])
{
    if (int(i) < n) y[i] += a * x[i];
}

kernel void count(device const int *values [[buffer(0)]], device atomic_uint *counts [[buffer(1)]], constant int &n [[buffer(2)]],
                  uint i [[thread_position_in_grid]])
{
    if (int(i) < n) atomic_fetch_add_explicit(&counts[values[i] & 7], 1, memory_order_relaxed);
}
