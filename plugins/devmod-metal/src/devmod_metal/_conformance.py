"""Entry point ``devmod.conformance.metal``: samples for `devmod conformance metal` and for the tests of this plugin."""

from __future__ import annotations

from devmod import FunctionInfo
from devmod_conformance import Call, Conformance, Sample, axpy_call, count_call, linear_functions, spin_call, transpose_call

_LINEAR = """#include <metal_stdlib>
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
"""
# TVM's layout: all scalars in one struct after the buffers.
_TRANSPOSE = b"""#include <metal_stdlib>
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
"""
_SPIN = b"""#include <metal_stdlib>
using namespace metal;

kernel void spin(device uint *x [[buffer(0)]], constant int &n [[buffer(1)]], uint i [[thread_position_in_grid]])
{
    uint value = x[i];
    for (int round = 0; round < n; round++) value = value * 1664525u + 1013904223u;
    x[i] = value;
}
"""
_TAGS = ("blockIdx.x", "threadIdx.x")
_FLAT = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y")


_K = FunctionInfo("k", ["handle"])


class MetalConformance(Conformance):
    """Metal source with an interface, without one (as TVM declares functions), and compiled by devmod."""

    kind = "metal"
    driver_modules = ("Metal", "objc", "Foundation", "libdispatch")
    samples = (
        Sample(
            dict.fromkeys(("axpy", "count"), _LINEAR.encode()),
            "metal",
            linear_functions(_TAGS, range(4)),
            source={"metal": _LINEAR},
            calls=[axpy_call(), count_call()],
        ),
        Sample(
            {"transpose": _TRANSPOSE},
            "metal",
            {"transpose": FunctionInfo("transpose", ["handle", "handle", "int32", "int32"], _FLAT)},
            calls=[transpose_call()],
        ),
        Sample.compiled(
            "kernel void scale(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= FACTOR; }",
            "metal",
            defines={"FACTOR": "3"},
            calls=[Call("scale", lambda rng: [rng.random(64, "float32")], lambda x: x.__imul__(3), grid=2, block=32)],
        ),
    )
    slow = Sample(
        {"spin": _SPIN}, "metal", {"spin": FunctionInfo("spin", ["handle", "int32"], _TAGS)}, calls=[spin_call(grid=64, block=16)]
    )
    bad_payloads = (
        Sample({"k": b"kernel void k(device float *x) { x[0] = ; }"}, "metal", {"k": _K}),
        Sample({"k": b"\x00\xff"}, "metal", {"k": _K}),
        Sample({"k": b"no library"}, "metallib", {"k": _K}),
        Sample({"k": b"MTLB no library either"}, "metallib", {"k": _K}),
        Sample({"k": b"kernel void k(device float *x) {}"}, "metal", {"k": FunctionInfo("other", ["handle"])}),
        Sample({"other": b"kernel void k(device float *x) {}"}, "metal", {"k": _K}),
    )
