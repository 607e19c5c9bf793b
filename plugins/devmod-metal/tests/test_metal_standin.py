"""Kernels of Metal that the stand-in runs as C++ on the CPU."""

from __future__ import annotations

import metal_standin
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(bool(metal_standin.missing()), reason=metal_standin.missing())


def test_a_kernel_of_metal_samples_a_texture() -> None:
    text = """#include <metal_stdlib>
using namespace metal;
kernel void shift(texture2d<float> t [[texture(0)]], texture2d<float, access::write> u [[texture(1)]], sampler s [[sampler(0)]],
                  uint2 i [[thread_position_in_grid]])
{
    constexpr sampler own(coord::pixel, filter::linear, address::clamp_to_edge);
    u.write(i.y ? t.sample(own, float2(i.x + 1, 0)) : t.sample(s, float2((i.x + 1.5f) / 3, 0)), i);
}
"""
    source, target = bytearray(b"\x00\x33\xff"), bytearray(6)
    textures = {
        ("texture", 0): metal_standin.Texture("r8unorm", (3, 1, 1), 0, source),
        ("texture", 1): metal_standin.Texture("r8unorm", (3, 2, 1), 0, target),
    }
    sampler = {("sampler", 0): metal_standin.Sampler("nearest", "repeat", True)}
    metal_standin.compile_kernel(text, "shift")(textures | sampler, (3, 2, 1), (1, 1, 1))
    assert list(target) == [0x33, 0xFF, 0, 26, 0x99, 0xFF]


def test_kernels_of_metal_share_a_source_and_their_threads_share_memory() -> None:
    text = """#include <metal_stdlib>
using namespace metal;
static float sum(float value, threadgroup float *scratch, uint i, uint threads)
{
    scratch[i] = value;
    for (uint stride = threads / 2; stride > 0; stride /= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (i < stride)
            scratch[i] += scratch[i + stride];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return scratch[0];
}
kernel void halves(device const half *x [[buffer(0)]], device float *y [[buffer(1)]], uint i [[thread_position_in_threadgroup]],
                   uint group [[threadgroup_position_in_grid]], uint threads [[threads_per_threadgroup]])
{
    threadgroup float scratch[4];
    y[group * threads + i] = sum((float)x[group * threads + i], scratch, i, threads);
}
kernel void negative(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = -x[i]; }
"""
    numbers = np.array([1, -2, 0.5, 65504, 2**-24, 0, 2**-15, -(2**-24)], "float16")
    x, y = bytearray(numbers.tobytes()), bytearray(32)
    metal_standin.compile_kernel(text, "halves")(
        {("buffer", 0): x, ("buffer", 1): y}, (2, 1, 1), (4, 1, 1)
    )
    metal_standin.compile_kernel(text, "negative")({("buffer", 0): y}, (8, 1, 1), (1, 1, 1))
    assert np.frombuffer(y, "float32").tolist() == [-65503.5] * 4 + [-(2**-15)] * 4


def test_threads_of_metal_that_shuffle_wait_for_their_simd_group_alone() -> None:
    text = """#include <metal_stdlib>
using namespace metal;
static half most(half value)
{
    for (ushort delta = 16; delta > 0; delta /= 2)
        value = max(value, simd_shuffle_down(value, delta));
    return simd_shuffle(value, 0);
}
kernel void sums(device half *x [[buffer(0)]], device long *n [[buffer(1)]], uint i [[thread_position_in_threadgroup]])
{
    threadgroup half result[1];
    if (i < 32) {
        const half value = most(x[i]);
        if (i == 0)
            result[0] = value;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[i] = select(x[i], half(result[0] + 0.5h), i >= 32);
    n[i] = min(max(n[i], (long)i), (long)40);
}
"""
    x, n = np.arange(64, dtype="float16") % 32, np.full(64, 1 << 40)
    n[:48] = -1
    data, numbers = bytearray(x.tobytes()), bytearray(n.tobytes())
    metal_standin.compile_kernel(text, "sums")(
        {("buffer", 0): data, ("buffer", 1): numbers}, (1, 1, 1), (64, 1, 1)
    )
    assert np.frombuffer(data, "float16").tolist() == [*range(32), *[31.5] * 32]
    assert np.frombuffer(numbers, "int64").tolist() == [*range(40), *[40] * 24]
