"""Kernels in OpenCL C with two bodies each, of which the second is wrong, or innocent and looks so.

`i` is the number of the thread, `l` that in its block of 64, and `w` the number of the block. `t`
is an array of 64 floats in local memory, and `row` a pointer to row i of `x`.
"""

from __future__ import annotations

from typing import NamedTuple

FLOATS = "global const float *x, global float *y, uint n"
INTS = "global const int *x, global int *y, uint n"
COUNTS = "global const uint *x, global uint *y, uint n"
ROWS = "global const float *x, global float *y, uint rows, uint columns"
SUM = "if (i < rows) { float s = 0; for (uint c = 0; c < columns; c++) s += row[c]; y[i] = s; }"
PARTS = (
    "float s = 0, u = 0; for (uint c = 0; c < columns; c++) { if (c % 2) u += row[c]; else s += row[c]; }"
    " y[i] = s + u;"
)
MAX = "float m = -INFINITY; for (uint c = 0; c < columns; c++) m = fmax(m, row[c]);"
SHARE = "for (uint c = 0; c < columns; c++) y[i * columns + c] = exp(row[c] - m) / s;"
EXPS = "float s = 0; for (uint c = 0; c < columns; c++) s += exp(row[c] - m);"
REVERSED = "uint j = w * 64 + 63 - l; if (i < n) y[i] = j < n ? x[j] : 0;"
IDENTITY = "y[i] = x[i];"
#: What these have in common: each thread writes one element.
HALF = "uint h[1]; vstore_half(%s, 0, (half *)h); y[i] = vload_half(0, (half *)h);"


class Pair(NamedTuple):
    """Two bodies of a kernel. Those of `FLOATS`, `INTS` and `COUNTS` run where i < n."""

    parameters: str
    sound: str
    other: str
    is_bounded: bool = False


def of_rows(sound: str, other: str) -> Pair:
    return Pair(ROWS, f"if (i < rows) {{ {sound} }}", f"if (i < rows) {{ {other} }}", True)


WRONG = {
    "the last column lost": Pair(ROWS, SUM, SUM.replace("c <", "c + 1 <"), True),
    "no barrier": Pair(FLOATS, REVERSED, "t[l] = i < n ? x[i] : 0; y[i] = t[63 - l];", True),
    "no bounds check": Pair(FLOATS, "if (i < n) y[i] = x[i] * 3;", "y[i] = x[i] * 3;", True),
    "a maximum from 0": of_rows(f"{MAX} y[i] = m;", f"{MAX} y[i] = m;".replace("-INFINITY", "0")),
    "float16 overflows": Pair(FLOATS, "y[i] = x[i] * x[i] * x[i];", HALF % "x[i] * x[i] * x[i]"),
    "transposed": Pair(
        ROWS,
        "if (i < rows * columns) y[(i % columns) * rows + i / columns] = x[i];",
        "if (i < rows * columns) y[(i % rows) * columns + i / rows] = x[i];",
        True,
    ),
    "stale scratch": Pair(
        FLOATS,
        "float s = 0; for (uint j = w * 64; j < w * 64 + 64 && j < n; j++) s += x[j]; if (i < n) y[i] = s;",
        "if (i == 0) t[0] = 0; barrier(CLK_LOCAL_MEM_FENCE); if (l == 0) for (uint j = w * 64;"
        " j < w * 64 + 64 && j < n; j++) t[0] += x[j]; barrier(CLK_LOCAL_MEM_FENCE); if (i < n) y[i] = t[0];",
        True,
    ),
    "an alias in place": Pair(
        "global float *y, uint n",
        "if (i == 0) { float p = y[0]; for (uint j = 1; j < n; j++) { float c = y[j]; y[j] = c + p; p = c; } }",
        "if (i == 0) for (uint j = 1; j < n; j++) y[j] = y[j] + y[j - 1];",
        True,
    ),
    "a read past the end": Pair(
        FLOATS, "y[i] = x[i] + (i + 1 < n ? x[i + 1] : 0);", "y[i] = x[i] + x[i + 1];"
    ),
    "a write past the end": Pair(
        FLOATS, "if (i < n) y[i] = x[i];", "if (i <= n) y[i] = x[min(i, n - 1)];", True
    ),
    "an uninitialized local": of_rows(PARTS, PARTS.replace("s = 0, u", "s, u")),
    "rounding half up": Pair(FLOATS, "y[i] = rint(x[i]);", "y[i] = floor(x[i] + 0.5f);"),
    "a signed division": Pair(INTS, "y[i] = x[i] / 2;", "y[i] = x[i] >> 1;"),
    "a NaN lost": Pair(
        FLOATS, "y[i] = isnan(x[i]) ? x[i] : fmax(x[i], 0.0f);", "y[i] = fmax(x[i], 0.0f);"
    ),
    "an int through a float": Pair(
        INTS, "y[i] = x[i] / 2 + 1;", "y[i] = (int)(float)(x[i] / 2) + 1;"
    ),
    "the fifth block": Pair(FLOATS, IDENTITY, "y[i] = i < 256 ? x[i] : x[i - 256];"),
    "a scalar as int": Pair(
        FLOATS + ", float a", "y[i] = x[i] * a;", "y[i] = x[i] * (float)(int)a;"
    ),
    "a negative scalar": Pair(FLOATS + ", int a", "y[i] = x[i] * a;", "y[i] = x[i] * abs(a);"),
    "relu": Pair(FLOATS, "y[i] = fmax(x[i], 0.0f);", IDENTITY),
    "abs": Pair(FLOATS, "y[i] = fabs(x[i]);", IDENTITY),
    "softmax": of_rows(f"{MAX} {EXPS} {SHARE}", f"float m = 0; {EXPS} {SHARE}"),
    "an integer maximum": Pair(INTS, "y[i] = max(x[i], -5);", "y[i] = max(x[i], 0);"),
    "an int16": Pair(INTS, "y[i] = x[i] ^ 3;", "y[i] = (short)(x[i] ^ 3);"),
    "an unsigned compare": Pair(
        INTS, "y[i] = x[i] < 3 ? x[i] : 3;", "y[i] = (uint)x[i] < 3u ? x[i] : 3;"
    ),
    "four blocks": Pair(FLOATS, IDENTITY, "if (w < 4) y[i] = x[i];"),
    "float16 at 70000": Pair(FLOATS, "y[i] = x[i] * 300;", "y[i] = fmin(x[i] * 300, 65504.0f);"),
    "hypot": Pair(FLOATS, "y[i] = hypot(x[i], 1.0f);", "y[i] = sqrt(x[i] * x[i] + 1);"),
    "no atomics": Pair(COUNTS, "atomic_add(&y[x[i] % 16], 1u);", "y[x[i] % 16] += 1;"),
}
#: Those of the wrong ones that may agree, and those that a device may run rightly by luck.
MAY_AGREE = ("an uninitialized local", "a NaN lost", "hypot")
BY_LUCK = ("no barrier", "stale scratch", "no atomics")

INNOCENT = {
    "the order of atomics": Pair(
        COUNTS, "atomic_add(&y[x[i] % 16], 1u);", "atomic_inc(&y[x[i] & 15]);"
    ),
    "a fused multiply-add": Pair(
        FLOATS, "y[i] = fma(x[i], 1.7f, -0.3f);", "float p = x[i] * 1.7f; y[i] = p - 0.3f;"
    ),
    "another NaN": Pair(
        FLOATS,
        "y[i] = sqrt(x[i] - 1e6f);",
        "y[i] = x[i] < 1e6f ? as_float(0x7fc00123u) : sqrt(x[i] - 1e6f);",
    ),
    "a sum in another order": of_rows(SUM.partition("{")[2].rpartition("}")[0], PARTS),
    "exp by exp2": Pair(
        FLOATS, "y[i] = exp(-fabs(x[i]));", "y[i] = exp2(-fabs(x[i]) * 1.44269504f);"
    ),
    "the sign of zero": Pair(FLOATS, "y[i] = fmax(x[i], 0.0f);", "y[i] = x[i] > 0 ? x[i] : -0.0f;"),
    "a clamped index": Pair(
        FLOATS,
        "y[i] = x[i] + (i + 1 < n ? x[i + 1] : x[n - 1]);",
        "y[i] = x[i] + x[min(i + 1, n - 1)];",
    ),
    "a reciprocal": Pair(FLOATS, "y[i] = x[i] / 3.0f;", "y[i] = x[i] * (1.0f / 3.0f);"),
    "a barrier": Pair(
        FLOATS,
        REVERSED,
        "t[l] = i < n ? x[i] : 0; barrier(CLK_LOCAL_MEM_FENCE); if (i < n) y[i] = t[63 - l];",
        True,
    ),
    "an atomic counter": Pair(
        "global uint *y, uint n",
        "if (i < n) atomic_add(&y[0], i);",
        "if (i == 0) for (uint j = 0; j < n; j++) y[0] += j;",
        True,
    ),
    "softmax of a row in place": of_rows(
        f"{MAX} {EXPS} {SHARE}",
        f"{MAX} float s = 0; for (uint c = 0; c < columns; c++) {{ float e = exp(row[c] - m); s += e;"
        " y[i * columns + c] = e; } for (uint c = 0; c < columns; c++) y[i * columns + c] /= s;",
    ),
    "a softmax in one pass": of_rows(
        f"{MAX} {EXPS} y[i] = m + log(s);",
        "float m = row[0], s = 1; for (uint c = 1; c < columns; c++) { float k = fmax(m, row[c]);"
        " s = s * exp(m - k) + exp(row[c] - k); m = k; } y[i] = m + log(s);",
    ),
    "a sum from the other end": of_rows(
        SUM.partition("{")[2].rpartition("}")[0],
        "float s = 0; for (uint c = columns; c-- > 0;) s += row[c]; y[i] = s;",
    ),
    "a dot product": of_rows(
        "float s = 0; for (uint c = 0; c < columns; c++) s = fma(row[c], row[c], s); y[i] = s;",
        "float s = 0; for (uint c = 0; c < columns; c++) { float p = row[c] * row[c]; s += p; } y[i] = s;",
    ),
    "a variance": of_rows(
        f"{SUM.partition('{')[2].partition('y[i]')[0]} float m = s / columns, v = 0;"
        " for (uint c = 0; c < columns; c++) v += (row[c] - m) * (row[c] - m); y[i] = v / columns;",
        "float m = 0, v = 0; for (uint c = 0; c < columns; c++) { float d = row[c] - m;"
        " m += d / (c + 1); v += d * (row[c] - m); } y[i] = v / columns;",
    ),
    "a polynomial": Pair(
        FLOATS,
        "y[i] = ((x[i] - 2) * x[i] + 3) * x[i] - 1;",
        "y[i] = x[i] * x[i] * x[i] - 2 * x[i] * x[i] + 3 * x[i] - 1;",
    ),
    "tanh by exp": Pair(
        FLOATS, "y[i] = tanh(x[i]);", "y[i] = copysign(1 - 2 / (exp(2 * fabs(x[i])) + 1), x[i]);"
    ),
    "sin by cos": Pair(FLOATS, "y[i] = sin(x[i]);", "y[i] = cos(x[i] - 1.57079633f);"),
    "log1p": Pair(FLOATS, "y[i] = log1p(x[i]);", "y[i] = log(1 + x[i]);"),
    "rsqrt": Pair(FLOATS, "y[i] = rsqrt(fabs(x[i]) + 1);", "y[i] = 1 / sqrt(fabs(x[i]) + 1);"),
    "a signed product that wraps": Pair(INTS, "y[i] = x[i] * 3;", "y[i] = (x[i] << 1) + x[i];"),
    "an average without overflow": Pair(
        INTS, "y[i] = hadd(x[i], y[i]);", "y[i] = (x[i] & y[i]) + ((x[i] ^ y[i]) >> 1);"
    ),
    "a count of bits": Pair(
        COUNTS,
        "y[i] = popcount(x[i]);",
        "uint b = x[i], s = 0; while (b) { b &= b - 1; s++; } y[i] = s;",
    ),
    "an absolute value": Pair(FLOATS, "y[i] = fabs(x[i]);", "y[i] = x[i] < 0 ? -x[i] : x[i];"),
    "an index in range": Pair(
        "global const float *x, global float *y, global const int *index, uint n",
        "if (i < n) y[i] = x[index[i]];",
        "if (i < n) { int j = index[i]; y[i] = *(x + j); }",
        True,
    ),
    "an index with another name": Pair(
        "global const float *x, global float *y, global const int *chosen, uint n",
        "if (i < n) y[i] = x[chosen[i]];",
        "if (i < n) { uint j = chosen[i]; y[i] = x[j]; }",
        True,
    ),
    "a code of a table": Pair(
        "global const float *values, global float *y, global const uchar *code, uint n",
        "if (i < n) y[i] = values[code[i]] * 2;",
        "if (i < n) { y[i] = 2 * *(values + code[i]); }",
        True,
    ),
    "a tree of sums": Pair(
        FLOATS,
        "float s = 0; for (uint j = w * 64; j < w * 64 + 64; j++) s += x[j]; y[i] = s;",
        "t[l] = x[i]; for (uint h = 32; h > 0; h /= 2) { barrier(CLK_LOCAL_MEM_FENCE); if (l < h) t[l] += t[l + h]; }"
        " barrier(CLK_LOCAL_MEM_FENCE); y[i] = t[0];",
        True,
    ),
    "a loop over the grid": Pair(
        FLOATS,
        "if (i < n) y[i] = 2 * x[i];",
        "for (uint j = i; j < n; j += get_global_size(0)) y[j] = 2 * x[j];",
        True,
    ),
}


def source(pairs: dict[str, Pair], body: str) -> str:
    """Return a source with a kernel for each pair, k0, k1 and so on, which has the given body."""
    kernels = []
    for number, pair in enumerate(pairs.values()):
        text = getattr(pair, body)
        if not pair.is_bounded:
            text = f"if (i < n) {{ {text} }}"
        if "columns" in pair.parameters:
            text = f"global const float *row = x + i * columns; {text}"
        kernels.append(
            f"kernel __attribute__((reqd_work_group_size(64, 1, 1))) void k{number}({pair.parameters}) {{"
            " local float t[64]; uint i = get_global_id(0), l = get_local_id(0), w = get_group_id(0);"
            f" {text} }}\n"
        )
    return "".join(kernels)
