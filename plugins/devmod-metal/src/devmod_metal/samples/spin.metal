#include <metal_stdlib>
using namespace metal;

kernel void spin(device uint *x [[buffer(0)]], constant int &n [[buffer(1)]], uint i [[thread_position_in_grid]])
{
    uint value = x[i];
    for (int round = 0; round < n; round++) value = value * 1664525u + 1013904223u;
    x[i] = value;
}
