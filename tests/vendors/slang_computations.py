"""Kernels in Slang for CUDA, ROCm and Hexagon, with what each computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import devmod

#: By name: the source, and a function that calls the kernel `f` of the name and compares its
#: results with NumPy's.
KERNELS: dict[str, tuple[str, Callable[[Any], None]]] = {}
#: The kernels without barriers and waves.
PLAIN: list[str] = []

_rng = np.random.default_rng(7)


def _kernel(
    name: str, source: str, *, is_plain: bool = True
) -> Callable[[Callable[[Any], None]], None]:
    def keep(check: Callable[[Any], None]) -> None:
        KERNELS[name] = source, check
        if is_plain:
            PLAIN.append(name)

    return keep


@cache
def compiled(name: str, target: str) -> bytes:
    """Return a kernel for a target, as bytes."""
    return devmod.dumps(devmod.compile(KERNELS[name][0], target, language="Slang"))


def check(name: str, target: str) -> None:
    """Compile a kernel for a target, and compare its results on the target's device."""
    KERNELS[name][1](devmod.loads(compiled(name, target))[name])


def _floats(*shape: int) -> Any:
    return _rng.random(shape, "float32") * 4 - 2


@_kernel(
    "saxpy",
    """
[shader("compute")] [numthreads(64, 1, 1)]
void saxpy(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<float> x, uniform RWStructuredBuffer<float> y, uniform float a, uniform uint n)
{
    if (id.x < n)
        y[id.x] += a * x[id.x];
}
""",
)
def _saxpy(f: Any) -> None:
    x, y = _floats(1000), _floats(1000)
    expected = y + np.float32(2.5) * x
    f(x, y, 2.5, 1000, threads=1000)
    # A fused product is not rounded: where both numbers cancel, its last digit remains.
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


@_kernel(
    "matmul",
    """
groupshared float left[8][8];
groupshared float right[8][8];
[shader("compute")] [numthreads(8, 8, 1)]
void matmul(uint3 id : SV_DispatchThreadID, uint3 t : SV_GroupThreadID, uniform StructuredBuffer<float> a, uniform StructuredBuffer<float> b,
            uniform RWStructuredBuffer<float> c, uniform uint n)
{
    float sum = 0;
    for (uint start = 0; start < n; start += 8) {
        left[t.y][t.x] = id.y < n && start + t.x < n ? a[id.y * n + start + t.x] : 0;
        right[t.y][t.x] = id.x < n && start + t.y < n ? b[(start + t.y) * n + id.x] : 0;
        GroupMemoryBarrierWithGroupSync();
        for (uint k = 0; k < 8; k++)
            sum += left[t.y][k] * right[k][t.x];
        GroupMemoryBarrierWithGroupSync();
    }
    if (id.x < n && id.y < n)
        c[id.y * n + id.x] = sum;
}
""",
    is_plain=False,
)
def _matmul(f: Any) -> None:
    a, b, c = _floats(20, 20), _floats(20, 20), np.zeros((20, 20), "float32")
    f(a, b, c, 20, threads=(20, 20))
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


@_kernel(
    "blur",
    """
[shader("compute")] [numthreads(8, 4, 1)]
void blur(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<float4> picture, uniform RWStructuredBuffer<float4> result, uniform int2 size)
{
    int2 place = int2(id.xy);
    if (any(place >= size))
        return;
    float4 sum = 0;
    for (int y = -1; y <= 1; y++)
        for (int x = -1; x <= 1; x++) {
            int2 other = clamp(place + int2(x, y), 0, size - 1);
            sum += picture[other.y * size.x + other.x];
        }
    result[place.y * size.x + place.x] = sum / 9;
}
""",
)
def _blur(f: Any) -> None:
    picture, result = _floats(6, 10, 4), np.zeros((6, 10, 4), "float32")
    f(picture, result, (10, 6), threads=(10, 6))
    padded = np.pad(picture, ((1, 1), (1, 1), (0, 0)), "edge")
    expected = sum(padded[y : y + 6, x : x + 10] for y in range(3) for x in range(3)) / 9
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@_kernel(
    "mandelbrot",
    """
struct Complex
{
    float re, im;
    Complex plus(Complex other) { return { re + other.re, im + other.im }; }
    Complex squared() { return { re * re - im * im, 2 * re * im }; }
    float size() { return re * re + im * im; }
}
[shader("compute")] [numthreads(16, 2, 1)]
void mandelbrot(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<uint> counts, uniform uint width, uniform uint height)
{
    if (id.x >= width || id.y >= height)
        return;
    Complex c = { -2.25 + 3.0 * id.x / width, -1.25 + 2.5 * id.y / height };
    Complex z = { 0, 0 };
    uint n = 0;
    for (; n < 20 && z.size() <= 4; n++)
        z = z.squared().plus(c);
    counts[id.y * width + id.x] = n;
}
""",
)
def _mandelbrot(f: Any) -> None:
    counts = np.zeros((20, 33), "uint32")
    f(counts, 33, 20, threads=(33, 20))
    x, y = np.meshgrid(np.arange(33, dtype="float32"), np.arange(20, dtype="float32"))
    c = (np.float32(-2.25) + np.float32(3) * x / 33) + 1j * (
        np.float32(-1.25) + np.float32(2.5) * y / 20
    )
    z, expected = np.zeros_like(c, "complex64"), np.zeros_like(counts)
    with np.errstate(all="ignore"):
        for _ in range(20):
            is_inside = z.real * z.real + z.imag * z.imag <= 4
            expected += is_inside
            z = np.where(is_inside, z * z + c.astype("complex64"), z)
    assert np.mean(counts == expected) > 0.99  # the last bits of a point on the edge may differ


@_kernel(
    "reduction",
    """
groupshared float partial[64];
[shader("compute")] [numthreads(64, 1, 1)]
void reduction(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uint3 group : SV_GroupID, uniform StructuredBuffer<float> x,
               uniform RWStructuredBuffer<float> sums, uniform uint n)
{
    partial[t] = id.x < n ? x[id.x] : 0;
    GroupMemoryBarrierWithGroupSync();
    for (uint k = 32; k > 0; k /= 2) {
        if (t < k)
            partial[t] += partial[t + k];
        GroupMemoryBarrierWithGroupSync();
    }
    if (t == 0)
        sums[group.x] = partial[0];
}
""",
    is_plain=False,
)
def _reduction(f: Any) -> None:
    x, sums = _floats(200), np.zeros(4, "float32")
    f(x, sums, 200, threads=200)
    np.testing.assert_allclose(
        sums, [x[start : start + 64].sum() for start in range(0, 200, 64)], rtol=1e-5, atol=1e-5
    )


@_kernel(
    "wave",
    """
[shader("compute")] [numthreads(64, 1, 1)]
void wave(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<float> x, uniform RWStructuredBuffer<float4> sums)
{
    float value = x[id.x];
    uint lane = WaveGetLaneIndex();
    sums[id.x] = float4(WaveActiveSum(value), WavePrefixSum(value), WaveActiveMax(float2(value, -value)).y, WaveReadLaneAt(value, (lane + 5) % 32));
}
""",
    is_plain=False,
)
def _wave(f: Any) -> None:
    x, sums = _floats(128), np.zeros((128, 4), "float32")
    f(x, sums, threads=128)
    for start in range(0, 128, 32):
        part = x[start : start + 32]
        expected = np.stack(
            [
                np.full(32, part.sum()),
                part.cumsum() - part,
                np.full(32, -part.min()),
                np.roll(part, -5),
            ],
            1,
        )
        np.testing.assert_allclose(sums[start : start + 32], expected, rtol=1e-4, atol=1e-5)


@_kernel(
    "lanes",
    """
[shader("compute")] [numthreads(64, 1, 1)]
void lanes(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<int> x, uniform RWStructuredBuffer<uint4> bits)
{
    uint lane = WaveGetLaneIndex();
    int value = x[id.x];
    if (lane % 3 == 0)
        bits[id.x] = uint4(WaveActiveBallot(value > 0).x, WaveActiveCountBits(value > 0), WaveActiveMin(lane), WaveActiveBitOr(lane));
}
""",
    is_plain=False,
)
def _lanes(f: Any) -> None:
    x, bits = _rng.integers(-9, 9, 64, "int32"), np.zeros((64, 4), "uint32")
    f(x, bits, threads=64)
    third = range(0, 32, 3)
    for part, result in zip(x.reshape(2, 32), bits.reshape(2, 32, 4), strict=True):
        ballot = sum(1 << lane for lane in third if part[lane] > 0)
        row = [ballot, ballot.bit_count(), 0, int(np.bitwise_or.reduce(third))]
        assert result[third].tolist() == [row] * len(third)


@_kernel(
    "particles",
    """
struct Particle { float3 place; float mass; int2 cell; bool alive; float weights[3]; float2x3 spin; half2 small; };
[shader("compute")] [numthreads(32, 1, 1)]
void particles(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<Particle> all, uniform Particle one, uniform float3 step, uniform float4x4 turn,
               uniform float factors[4], uniform uint n)
{
    if (id.x >= n)
        return;
    Particle p = all[id.x];
    if (p.alive)
        p.place = mul(turn, float4(p.place + step * one.mass, 1)).xyz;
    p.alive = !p.alive;
    p.mass += dot(float3(p.weights[0], p.weights[1], p.weights[2]), float3(factors[0], factors[1], factors[3]));
    p.cell = p.cell * 2 - one.cell;
    p.spin[1] = mul(p.spin, one.spin[0]).xyx;
    p.small += one.small;
    all[id.x] = p;
}
""",
)
def _particles(f: Any) -> None:
    all_, one = f.info.interface.params[:2]
    x = np.zeros(40, all_.dtype)
    value = np.zeros(1, one.dtype)
    for each in (x, value):
        each["place"], each["mass"], each["weights"] = (
            _floats(len(each), 3),
            _floats(len(each)),
            _floats(len(each), 3),
        )
        each["cell"] = _rng.integers(-9, 9, (len(each), 2))
        each["alive"], each["spin"] = _rng.integers(0, 2, len(each)), _floats(len(each), 2, 3)
        each["small"] = _rng.integers(-8, 8, (len(each), 2)) / 4
    step, turn, factors = _floats(3), _floats(4, 4), _floats(4)
    expected = x.copy()
    for i in range(40):
        p = expected[i]
        if p["alive"]:
            p["place"] = (turn @ np.append(p["place"] + step * value[0]["mass"], np.float32(1)))[:3]
        p["alive"] = not p["alive"]
        p["mass"] += p["weights"] @ factors[[0, 1, 3]]
        p["cell"] = p["cell"] * 2 - value[0]["cell"]
        p["spin"][1] = (p["spin"] @ value[0]["spin"][0])[[0, 1, 0]]
        p["small"] += value[0]["small"]
    f(x, value[0], step, turn, factors, 40, threads=40)
    for name in x.dtype.names:
        np.testing.assert_allclose(
            np.float32(x[name]), np.float32(expected[name]), rtol=1e-4, atol=1e-4, err_msg=name
        )


@_kernel(
    "integers",
    """
[shader("compute")] [numthreads(32, 1, 1)]
void integers(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<int> a, uniform RWStructuredBuffer<uint> b, uniform RWStructuredBuffer<int64_t> c,
              uniform RWStructuredBuffer<int16_t> d, uniform RWStructuredBuffer<uint8_t> e, uniform RWStructuredBuffer<uint4> bits, uniform int64_t k)
{
    uint i = id.x;
    int x = a[i];
    uint y = b[i];
    int4 v = int4(x, -x, abs(x), sign(x));
    v = (v / 3 + v % 5) << 1;
    a[i] = v.x + v.y * 3 - (v.z ^ v.w) + min(x, 7) + max(x, -7) + clamp(x, -3, 3);
    b[i] = (y >> 3) / 5 + (y << 2) % 7 + (y & 0xff | ~y) + uint(all(v == v));
    c[i] = c[i] * k + (c[i] >> 2);
    d[i] = (int16_t)(d[i] * 3 - 1);
    e[i] = (uint8_t)(e[i] + 200);
    bits[i] = uint4(countbits(y), firstbithigh(y), firstbitlow(y), reversebits(y));
}
""",
)
def _integers(f: Any) -> None:
    a, b = _rng.integers(-1000, 1000, 32, "int32"), _rng.integers(1, 2**32, 32, "uint32")
    c, d = _rng.integers(-(2**40), 2**40, 32, "int64"), _rng.integers(-99, 99, 32, "int16")
    e, bits = _rng.integers(0, 256, 32, "uint8"), np.zeros((32, 4), "uint32")
    x, y = [int(each) for each in a], [int(each) for each in b]

    def step(value: int) -> int:
        quotient = int(value / 3)
        return (quotient + value - int(value / 5) * 5) << 1

    expected_a = []
    for value in x:
        v = [step(each) for each in (value, -value, abs(value), (value > 0) - (value < 0))]
        expected_a.append(
            v[0]
            + v[1] * 3
            - (v[2] ^ v[3])
            + min(value, 7)
            + max(value, -7)
            + min(max(value, -3), 3)
        )
    mask = 2**32 - 1
    expected_b = [
        ((v >> 3) // 5 + (v << 2 & mask) % 7 + (v & 0xFF | ~v & mask) + 1) & mask for v in y
    ]
    expected_c, expected_d, expected_e = c * 12345 + (c >> 2), d * 3 - 1, e + np.uint8(200)
    expected = [
        [v.bit_count(), v.bit_length() - 1, (v & -v).bit_length() - 1, int(f"{v:032b}"[::-1], 2)]
        for v in y
    ]
    f(a, b, c, d, e, bits, 12345, threads=32)
    assert a.tolist() == expected_a
    assert b.tolist() == expected_b
    assert c.tolist() == expected_c.tolist()
    assert (d.tolist(), e.tolist()) == (expected_d.tolist(), expected_e.tolist())
    assert bits.tolist() == expected


@_kernel(
    "halves",
    """
[shader("compute")] [numthreads(32, 1, 1)]
void halves(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<half> x, uniform RWStructuredBuffer<half> y, uniform RWStructuredBuffer<half4> z, uniform half a)
{
    uint i = id.x;
    y[i] = a * x[i] + y[i];
    half4 v = z[i] * half4(2, 1, 0.5h, -1) + half4(x[i]);
    v.w = (half)sqrt(abs((float)v.w));
    z[i] = max(v, half4(0)) + (half)dot(v, half4(1));
}
""",
)
def _halves(f: Any) -> None:
    x, y, z = (
        _rng.integers(-32, 32, shape).astype("float16") / np.float16(4)
        for shape in (32, 32, (32, 4))
    )
    expected_y = np.float16(3) * x + y
    v = z * np.array([2, 1, 0.5, -1], "float16") + x[:, None]
    v[:, 3] = np.sqrt(np.abs(np.float32(v[:, 3])))
    expected_z = np.maximum(v, 0) + ((v[:, 0] + v[:, 1]) + v[:, 2] + v[:, 3])[:, None]
    f(x, y, z, 3.0, threads=32)
    assert y.tolist() == expected_y.tolist()
    np.testing.assert_allclose(np.float32(z), np.float32(expected_z), rtol=4e-3, atol=2e-2)


@_kernel(
    "functions",
    """
[shader("compute")] [numthreads(16, 1, 1)]
void functions(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<float> x, uniform RWStructuredBuffer<float> out)
{
    float v = x[id.x], p = abs(v) + 0.25;
    float2 w = float2(v, p);
    float values[20] = { sin(v), cos(v), exp(v), log(p), sqrt(p), rsqrt(p), pow(p, 1.5), floor(v), ceil(v), round(v), trunc(v), frac(v), fmod(v, 0.75),
        tanh(v), exp2(v), log2(p), lerp(v, p, 0.25), smoothstep(-1.0, 1.0, v), step(0.5, v), dot(normalize(w), w) };
    for (int i = 0; i < 20; i++)
        out[id.x * 20 + i] = values[i];
}
""",
)
def _functions(f: Any) -> None:
    x, out = _floats(32), np.zeros((32, 20), "float32")
    f(x, out, threads=32)
    p = np.abs(x) + np.float32(0.25)
    s = np.clip((x + 1) / 2, 0, 1)
    expected = [
        np.sin(x),
        np.cos(x),
        np.exp(x),
        np.log(p),
        np.sqrt(p),
        1 / np.sqrt(p),
        p**1.5,
        np.floor(x),
        np.ceil(x),
        np.rint(x),
        np.trunc(x),
    ]
    expected += [
        x - np.floor(x),
        np.fmod(x, 0.75),
        np.tanh(x),
        np.exp2(x),
        np.log2(p),
        x + (p - x) / 4,
        s * s * (3 - 2 * s),
        x >= 0.5,
    ]
    expected.append(np.hypot(x, p))
    np.testing.assert_allclose(out, np.stack(expected, 1), rtol=2e-5, atol=2e-6)


@_kernel(
    "atomics",
    """
groupshared uint total;
RWByteAddressBuffer wide;
void greatest(RWByteAddressBuffer b, uint place, uint id) { b.InterlockedMaxU64(place, (uint64_t)id << 40); }
[shader("compute")] [numthreads(32, 1, 1)]
void atomics(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uniform RWStructuredBuffer<uint> counts, uniform RWStructuredBuffer<int> extremes,
             uniform RWByteAddressBuffer bytes, uniform RWStructuredBuffer<float> sum)
{
    if (t == 0)
        total = 0;
    GroupMemoryBarrierWithGroupSync();
    InterlockedAdd(total, t);
    InterlockedAdd(counts[id.x % 4], 1);
    InterlockedMax(extremes[0], int(id.x) * 3);
    InterlockedMin(extremes[1], -int(id.x));
    InterlockedOr(counts[4], 1u << (id.x % 20));
    bytes.InterlockedAdd(4, 2);
    bytes.InterlockedAddI64(24, 1ll << 31);
    greatest(bytes, 32, id.x);
    greatest(wide, 8 * (id.x % 2), id.x);
    wide.InterlockedAdd(16, 3);
    wide.InterlockedAddF32(20, 0.5);
    InterlockedAdd(sum[0], 0.5);
    GroupMemoryBarrierWithGroupSync();
    if (t == 0)
        bytes.Store(8 + 4 * (id.x / 32), total);
}
""",
    is_plain=False,
)
def _atomics(f: Any) -> None:
    counts, extremes, data, total = (
        np.zeros(5, "uint32"),
        np.zeros(2, "int32"),
        np.zeros(10, "uint32"),
        np.zeros(1, "float32"),
    )
    wide = np.zeros(6, "uint32")
    f(wide, counts, extremes, data, total, threads=96)
    assert counts.tolist() == [24, 24, 24, 24, 2**20 - 1]
    assert extremes.tolist() == [285, -95]
    assert data[:5].tolist() == [0, 192, 496, 496, 496]
    assert data[6:].view("uint64").tolist() == [96 << 31, 95 << 40]
    assert wide[:4].view("uint64").tolist() == [94 << 40, 95 << 40]
    assert (wide[4], wide[5:].view("float32")[0]) == (288, 48)
    assert total.tolist() == [48]


@_kernel(
    "bytes",
    """
struct Item { uint id; float3 place; };
[shader("compute")] [numthreads(8, 1, 1)]
void bytes(uint3 id : SV_DispatchThreadID, uniform ByteAddressBuffer source, uniform RWByteAddressBuffer target)
{
    Item item = source.Load<Item>(16 * id.x);
    item.id += source.Load(0);
    item.place *= 2;
    target.Store<Item>(16 * id.x + 4, item);
    uint3 words = source.Load3(4);
    if (id.x == 0)
        target.Store(0, words.x ^ words.y ^ words.z);
}
""",
)
def _bytes(f: Any) -> None:
    item = np.dtype([("id", "u4"), ("place", "f4", 3)])
    source, target = np.zeros(8, item), np.zeros(33, "uint32")
    source["id"], source["place"] = np.arange(8) + 5, _floats(8, 3)
    f(source.view("uint32"), target, threads=8)
    result = target[1:].view(item)
    assert result["id"].tolist() == list(range(10, 18))
    assert result["place"].tolist() == (source["place"] * 2).tolist()
    assert target[0] == np.bitwise_xor.reduce(source.view("uint32")[1:4])


@_kernel(
    "scale",
    """
StructuredBuffer<float> x;
RWStructuredBuffer<float> y;
cbuffer Settings { float factor; uint n; float4 offsets; }
struct Limits { float least, greatest; };
ConstantBuffer<Limits> limits;
static const float weights[4] = { 1, 0.5, 0.25, 0.125 };
float shifted(uint i) { return factor * x[i] + offsets[i % 4]; }
[shader("compute")] [numthreads(32, 1, 1)]
void scale(uint3 id : SV_DispatchThreadID, uniform float bias)
{
    if (id.x < n)
        y[id.x] = clamp(shifted(id.x) * weights[id.x % 4] + bias, limits.least, limits.greatest);
}
""",
)
def _scale(f: Any) -> None:
    x, y, offsets = _floats(50), np.zeros(50, "float32"), _floats(4)
    f(
        x=x,
        y=y,
        factor=1.5,
        n=50,
        offsets=offsets,
        limits={"least": -1, "greatest": 1},
        bias=0.25,
        threads=50,
    )
    weights = np.array([1, 0.5, 0.25, 0.125], "float32")
    expected = (1.5 * x + np.resize(offsets, 50)) * np.resize(weights, 50) + np.float32(0.25)
    np.testing.assert_allclose(y, expected.clip(-1, 1), rtol=1e-5, atol=1e-6)


@_kernel(
    "gradient",
    """
[Differentiable]
float gauss(float x, float mean, float width)
{
    float d = (x - mean) / width;
    return exp(-0.5 * d * d);
}
[shader("compute")] [numthreads(16, 1, 1)]
void gradient(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<float> x, uniform RWStructuredBuffer<float> g, uniform float mean, uniform float width)
{
    var dx = diffPair(x[id.x]);
    var dm = diffPair(mean);
    var dw = diffPair(width);
    bwd_diff(gauss)(dx, dm, dw, 1.0);
    g[2 * id.x] = dm.d;
    g[2 * id.x + 1] = dw.d;
}
""",
)
def _gradient(f: Any) -> None:
    x, g = _floats(16), np.zeros((16, 2), "float32")
    f(x, g, 0.25, 1.5, threads=16)
    d = (x - 0.25) / 1.5
    value = np.exp(-0.5 * d * d)
    np.testing.assert_allclose(
        g, np.stack([value * d / 1.5, value * d * d / 1.5], 1), rtol=1e-4, atol=1e-6
    )


@_kernel(
    "resources",
    """
struct Vectors { StructuredBuffer<float> x; RWStructuredBuffer<float> y; float factor; };
[shader("compute")] [numthreads(16, 1, 1)]
void resources(uint3 id : SV_DispatchThreadID, uniform Vectors v)
{
    v.y[id.x] = v.factor * v.x[id.x];
}
""",
)
def _resources(f: Any) -> None:
    x, y = _floats(16), np.zeros(16, "float32")
    f({"factor": 2}, x, y, threads=16)
    np.testing.assert_array_equal(y, 2 * x)


@_kernel(
    "dimensions",
    """
[shader("compute")] [numthreads(1, 1, 1)]
void dimensions(uniform StructuredBuffer<float3> v, uniform StructuredBuffer<float2x2> m, uniform StructuredBuffer<float4> w,
                uniform RWStructuredBuffer<uint> sizes)
{
    v.GetDimensions(sizes[0], sizes[1]);
    m.GetDimensions(sizes[2], sizes[3]);
    w.GetDimensions(sizes[4], sizes[5]);
}
""",
)
def _dimensions(f: Any) -> None:
    sizes = np.zeros(6, "uint32")
    f(_floats(5, 3), _floats(7, 2, 2), _floats(9, 4), sizes, threads=1)
    assert sizes.tolist() == [5, 12, 7, 16, 9, 16]


@_kernel(
    "threes",
    """
[shader("compute")] [numthreads(8, 1, 1)]
void threes(uint3 id : SV_DispatchThreadID, uniform StructuredBuffer<half3> x, uniform RWStructuredBuffer<float> y)
{
    y[id.x] = x[id.x].y;
}
""",
)
def _threes(f: Any) -> None:
    (param, _) = f.info.interface.params
    is_padded = param.type == "float16x3"  # else the numbers follow each other
    x, y = _floats(8, 4 if is_padded else 3).astype("float16"), np.zeros(8, "float32")
    f(x, y, threads=8)
    np.testing.assert_array_equal(y, x[:, 1])


@_kernel(
    "constants",
    """
struct Both { float2x3 each[2]; half3x3 small; half2 pair; };
ConstantBuffer<float3x2> m;
ConstantBuffer<int2x3> k;
ConstantBuffer<float3> v;
ConstantBuffer<Both> both;
ConstantBuffer<float> a;
[shader("compute")] [numthreads(1, 1, 1)]
void constants(uniform RWStructuredBuffer<float4> y)
{
    float3x2 left = m;
    int2x3 right = k;
    float3 factors = v;
    half3x3 small = both.small;
    [ForceUnroll] for (int r = 0; r < 3; r++)
        [ForceUnroll] for (int c = 0; c < 2; c++)
            y[2 * r + c] = float4(left[r][c] * factors[r], a * right[c][r], both.each[1][c][r], small[r][c] + both.pair[c]);
}
""",
)
def _constants(f: Any) -> None:
    m, k, v, each = (
        _floats(3, 2),
        _rng.integers(-9, 9, (2, 3), "int32"),
        _floats(3),
        _floats(2, 2, 3),
    )
    small, y = (_floats(3, 3) * 8).astype("int32").astype("float16"), np.zeros((6, 4), "float32")
    f(m, k, v, {"each": each, "small": small, "pair": [0.5, 2]}, 1.5, y, grid=1)
    expected = np.stack(
        [
            m * v[:, None],
            k.T * np.float32(1.5),
            each[1].T,
            small[:, :2] + np.array([0.5, 2], "float16"),
        ],
        -1,
    )
    np.testing.assert_allclose(y, expected.reshape(6, 4), rtol=1e-6)


@_kernel(
    "logic",
    """
static const float2x3 rows[2] = { float2x3(0, 1, 2, 3, 4, 5), float2x3(float3(6, 7, 8), float3(9, 10, 11)) };
[shader("compute")] [numthreads(8, 1, 1)]
void logic(uint3 id : SV_DispatchThreadID, uniform RWStructuredBuffer<int> bits, uniform RWStructuredBuffer<float> y)
{
    int3 a = int3(id.x & 1, id.x & 2, id.x & 4), b = int3(0, 2, id.x & 1);
    int3 either = int3(or(bool3(a), bool3(b)));
    bits[id.x] = int(all(int3(a || b))) | int(any(a && b)) << 1 | either.x << 2 | int(all(bool2(id.x > 3, id.x > 5) && bool2(true))) << 3;
    y[id.x] = rows[id.x & 1][id.x / 2 % 2][id.x % 3] + (float2x3(1, 2, 3, 4, 5, 6) + rows[id.x / 4])[1][1];
}
""",
)
def _logic(f: Any) -> None:
    bits, y = np.zeros(8, "int32"), np.zeros(8, "float32")
    f(bits, y, grid=1)
    expected, values = [], []
    for i in range(8):
        a, b = (i & 1, i & 2, i & 4), (0, 2, i & 1)
        either = [bool(x or z) for x, z in zip(a, b, strict=True)]
        both = [bool(x and z) for x, z in zip(a, b, strict=True)]
        expected.append(all(either) | any(both) << 1 | either[0] << 2 | (i > 5) << 3)
        values.append(6 * (i & 1) + 3 * (i // 2 % 2) + i % 3 + 9 + 6 * (i // 4))
    assert bits.tolist() == expected
    assert y.tolist() == values
