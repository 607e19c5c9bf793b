"""Kernels that tests/simulated/triton_launches.py launches, and tests record, build and serve."""

import triton
import triton.language as tl

SCALE = tl.constexpr(3)


@triton.jit
def scaled(x):
    return x * SCALE


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(x + i, mask=inside) + scaled(tl.load(y + i, mask=inside))
    tl.store(out + i, total, mask=inside)


@triton.jit
def total(x, out, n, pair, BLOCK: tl.constexpr, dtype: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n, other=0.0).to(dtype)
    tl.store(out, tl.sum(values, 0) * pair[0] + pair[1])


measured = []


def measure(launch, quantiles):
    """Launch a configuration, and return times without a measurement. A launch may raise."""
    launch()
    measured.append(1)
    return [0.5] * len(quantiles)


@triton.autotune(
    [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256}, num_warps=8)],
    key=["n"],
    do_bench=measure,
)
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, i.to(tl.float32), mask=i < n)
