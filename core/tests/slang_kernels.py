"""Kernels in Slang with every type of parameter, and checks of their results. Each backend that
executes them imports this module.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import devmod

#: Two entry points with groupshared memory, an import-free generic one, and one without [shader].
BASICS = """
[shader("compute")] [numthreads(64, 1, 1)]
void saxpy(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<float> x, uniform RWStructuredBuffer<float> y, uniform float a, uniform uint n)
{
    if (id.x < n) y[id.x] += a * x[id.x];
}

groupshared float tile[64];

[shader("compute")] [numthreads(64, 1, 1)]
void total(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uniform StructuredBuffer<float> x, uniform RWStructuredBuffer<float> sums, uniform uint n)
{
    tile[t] = id.x < n ? x[id.x] : 0;
    GroupMemoryBarrierWithGroupSync();
    for (uint k = 32; k > 0; k /= 2)
    {
        if (t < k) tile[t] += tile[t + k];
        GroupMemoryBarrierWithGroupSync();
    }
    if (t == 0) sums[id.x / 64] = tile[0];
}

interface IOperation { float apply(float x); }
struct Twice : IOperation { float apply(float x) { return 2 * x; } }
struct Square : IOperation { float apply(float x) { return x * x; } }

[shader("compute")] [numthreads(32, 1, 1)]
void map<Operation : IOperation, let Count : int>(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<float> y)
{
    Operation operation;
    for (int k = 0; k < Count; k++) y[id.x] = operation.apply(y[id.x]);
}
"""
#: Every type of parameter that the three shader languages share.
PARAMETERS = """
struct Inner { float3 v; int k; }
struct Element { float2 p; uint3 q; float w; }
struct Settings { float a; Inner inner[2]; float2x3 m; RWStructuredBuffer<float> out_; Texture2D<float4> unused; }
uniform float scale;
RWStructuredBuffer<Element> elements;
ConstantBuffer<Inner> constants;
struct One { int one; }
ConstantBuffer<One> small;
cbuffer Legacy { float old_a; int old_b; }
RWByteAddressBuffer raw;

[shader("compute")] [numthreads(4, 2, 1)]
void all(uint3 id : SV_DispatchThreadID, uniform Settings s, uniform float4 c, uniform float weights[3],
         uniform RWStructuredBuffer<Atomic<uint>> counter, uniform StructuredBuffer<float> nowhere, uniform int never)
{
    counter[1].add(id.x);
    if (id.x + id.y != 0) return;
    float value = s.a * s.inner[1].k * s.m[1][2] * constants.v.y * constants.k * old_a * old_b * c.w * weights[2] * scale * small.one;
    s.out_[0] = value;
    raw.Store(4, asuint(value));
    elements[1].w = elements[0].p.y + elements[0].q.z;
}
"""
#: A constant buffer that is a matrix, and arrays of matrices: in such memory a row of three numbers
#: takes 16 bytes.
MATRIX_BLOCKS = """
struct Turns { float angle; float2x3 each[2]; };
ConstantBuffer<float3x3> turn;
ConstantBuffer<float2x3[2]> turns;
ConstantBuffer<Turns> record;
[shader("compute")] [numthreads(18, 1, 1)]
void copy(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<float> a, uniform RWStructuredBuffer<float> b)
{
    if (id.x < 9) a[id.x] = turn[id.x / 3][id.x % 3];
    if (id.x < 12) b[id.x] = turns[id.x / 6][id.x / 3 % 2][id.x % 3] + 100 * record.each[id.x / 6][id.x / 3 % 2][id.x % 3];
}
"""
#: Images and a sampler.
IMAGES = """
[shader("compute")] [numthreads(8, 8, 1)]
void half_size(uint3 id : SV_DispatchThreadID, uniform Texture2D<float4> source, uniform SamplerState nearest,
               uniform Texture2D<float4> exact, uniform [format("rgba8")] WTexture2D<float4> target, uniform float add)
{
    target.Store(id.xy, source.SampleLevel(nearest, (float2(id.xy) + 0.5) / 8, 0) * 0.5 + exact[id.xy] * 0.25 + add);
}
"""
#: Matrices: alone, in arrays, and as the elements of a buffer.
MATRICES = """
[shader("compute")] [numthreads(64, 1, 1)]
void weigh(uint3 id : SV_DispatchThreadID, uniform float2x3 both[2], uniform StructuredBuffer<float4x4> m, uniform StructuredBuffer<float3x2> n,
           uniform RWStructuredBuffer<float> y)
{
    uint i = id.x;
    if (i < 12) y[i] = both[i / 6][i / 3 % 2][i % 3];
    else if (i < 44) y[i] = m[(i - 12) / 16][(i - 12) / 4 % 4][i % 4];
    else if (i < 56) y[i] = n[(i - 44) / 6][(i - 44) / 2 % 3][i % 2];
}
"""


def check_basics(kind: str) -> None:
    """Call the entry points and the instances by positions, by names, and with arrays of the
    device.
    """
    module = devmod.compile(
        BASICS, kind, language="Slang", name_expressions=["map<Twice, 3>", "map<Square, 1>"]
    )
    assert list(module) == ["saxpy", "total", "map<Twice, 3>", "map<Square, 1>"]
    x, y = np.arange(1000, dtype="float32"), np.ones(1000, "float32")
    module["saxpy"](x, y, 2.0, 999, threads=1000)
    np.testing.assert_array_equal(y, [*(1 + 2 * x[:999]), 1])
    sums = devmod.device(kind).zeros(16, "float32")
    module["total"](sums=sums, n=1000, x=devmod.device(kind).from_numpy(x), grid=16)
    np.testing.assert_array_equal(sums.numpy(), [x[64 * k : 64 * k + 64].sum() for k in range(16)])
    y = np.full(32, 3, "float32")
    module["map<Twice, 3>"](y, grid=1)
    module["map<Square, 1>"](y, grid=1)
    assert set(y.tolist()) == {576.0}


def check_parameters(kind: str) -> None:
    """Pass a struct with members of every type, constants, arrays, raw memory, and arguments that
    the kernel never reads.
    """
    f = devmod.compile(PARAMETERS, kind, language="Slang")["all"]
    params = {param.name: param for param in f.info.interface.params}
    device = devmod.device(kind)
    settings = np.zeros((), params["s"].dtype)
    settings["a"], settings["inner"][1]["k"] = 2, 3
    settings["m"][:, :3] = np.arange(6).reshape(2, 3)
    elements = np.zeros(2, params["elements"].dtype)
    elements[0]["p"][1], elements[0]["q"][2] = 0.5, 7
    raw, out, counter = np.zeros(4, "uint32"), np.zeros(1, "float32"), np.zeros(2, "uint32")
    arguments: dict[str, Any] = {
        "scale": 0.5,
        "elements": elements,
        "constants": {"v": [0, 11, 0], "k": 13},
        "small": {"one": 1},
        "old_a": 17,
        "old_b": 19,
        "raw": raw,
        "s": settings,
        "s_out_": out,
        "s_unused": device.image((4, 4), "rgba8unorm"),
        "c": [0, 0, 0, 23],
        "weights": [0, 0, 29],
        "counter": counter,
        "nowhere": np.zeros(4, "float32"),
        "never": 1,
    }
    f(*arguments.values(), grid=1)
    value = 2 * 3 * 5 * 11 * 13 * 17 * 19 * 23 * 29 * 0.5
    assert out[0] == np.float32(value)
    assert raw.view("float32").tolist() == [0, np.float32(value), 0, 0]
    assert counter.tolist() == [0, 12]
    assert elements[1]["w"] == 7.5
    arguments["s_out_"] = out = np.zeros(1, "float32")
    del arguments["old_a"], arguments["old_b"]
    f(
        **arguments, Legacy={"old_a": 1, "old_b": 1}, grid=1
    )  # the members of a cbuffer as one record
    assert out[0] == np.float32(value / 17 / 19)


def check_matrices(kind: str) -> None:
    """Pass matrices in arrays and in buffers, as NumPy's arrays."""
    f = devmod.compile(MATRICES, kind, language="Slang")["weigh"]
    x, y = np.arange(1, 57, dtype="float32"), np.zeros(56, "float32")
    f(x[:12].reshape(2, 2, 3), x[12:44].reshape(2, 4, 4), x[44:].reshape(2, 3, 2), y, threads=56)
    np.testing.assert_array_equal(y, x)


def check_matrix_blocks(kind: str) -> None:
    """Pass matrices that are constant buffers themselves, and arrays of them."""
    f = devmod.compile(MATRIX_BLOCKS, kind, language="Slang")["copy"]
    turn, turns = (
        np.arange(9, dtype="float32").reshape(3, 3),
        np.arange(12, dtype="float32").reshape(2, 2, 3),
    )
    a, b = np.zeros(9, "float32"), np.zeros(12, "float32")
    f(turn, turns, {"angle": 1, "each": turns[::-1]}, a, b, grid=1)
    assert a.tolist() == turn.ravel().tolist()
    assert b.tolist() == (turns + 100 * turns[::-1]).ravel().tolist()


def check_images(kind: str) -> None:
    """Sample, read and write images."""
    f = devmod.compile(IMAGES, kind, language="Slang")["half_size"]
    device = devmod.device(kind)
    source = np.zeros((16, 16, 4), "uint8")
    source[:8, :8] = 100
    exact = np.full((8, 8, 4), 40, "uint8")
    target = device.image((8, 8), "rgba8unorm")
    f(
        device.image_from_numpy(source),
        device.sampler(filter="nearest"),
        device.image_from_numpy(exact),
        target,
        20 / 255,
        grid=1,
    )
    result = target.numpy()
    assert result[:4, :4].tolist() == [[[80] * 4] * 4] * 4
    assert result[4:, 4:].tolist() == [[[30] * 4] * 4] * 4
