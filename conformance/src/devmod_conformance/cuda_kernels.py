"""Kernels in CUDA C++, which HIP compiles too: the conformance cases of both kinds have payloads of
them.
"""

from __future__ import annotations

from typing import Any

from devmod import FunctionInfo, Interface, Member, Param
from devmod.backend import GRID_TAGS
from devmod_conformance._case import (
    Call,
    Sample,
    axpy_call,
    count_call,
    linear_functions,
    transpose_call,
)

#: The kernels of the stored payloads. `shift` has a struct, a vector of three and a bool by value,
#: and a global variable.
SOURCE = """
extern "C" __global__ void axpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

extern "C" __global__ void count(const int *values, unsigned *counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[values[i] & 7], 1u);
}

extern "C" __global__ void transpose(const float *from, float *to, int width, int height)
{
    __shared__ float tile[4][4];
    int x = threadIdx.x, y = threadIdx.y, left = blockIdx.x * 4, top = blockIdx.y * 4;
    if (left + x < width && top + y < height) tile[y][x] = from[(top + y) * width + left + x];
    __syncthreads();
    if (top + x < height && left + y < width) to[(left + y) * height + top + x] = tile[x][y];
}

struct How { int amount; int count; };
__device__ unsigned char table[4] = {1, 2, 3, 4};

extern "C" __global__ void shift(int *x, How how, float3 add, bool twice)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int step = i < how.count ? how.amount + (int)(add.x + add.y + add.z) : 0;
    x[i] += step * (twice ? 2 : 1) + table[i & 3];
}
"""


def samples(code: bytes, fmt: str, language: str) -> list[Sample]:
    """Return the samples of a payload of `SOURCE`: with an interface, without one, and with a
    struct and a global variable.
    """
    transpose = FunctionInfo("transpose", ["handle", "handle", "int32", "int32"], GRID_TAGS)
    shift = Call(
        "shift",
        lambda rng: [rng.integers(0, 99, 64, "int32"), (5, 40), (1.0, 2.5, 0.5), True],
        _shift,
        grid=2,
        block=32,
    )
    return [
        Sample(
            code,
            fmt,
            linear_functions(GRID_TAGS),
            source={language: SOURCE},
            calls=[axpy_call(), count_call()],
        ),
        Sample(code, fmt, {"transpose": transpose}, calls=[transpose_call()]),
        Sample(
            code,
            fmt,
            {"shift": _shift_info()},
            calls=[shift],
            global_arrays={"table": _shift_table},
        ),
    ]


def _shift_info() -> FunctionInfo:
    """Return the kernel `shift`: a struct, a vector of three and a bool by value, and a table of
    constants.
    """
    members = [Member("amount", "int32", 0), Member("count", "int32", 4)]
    params = [
        Param("x", "buffer", "int32", "rw"),
        Param("how", "scalar", "uint8x8", align=4, members=members),
        Param("add", "scalar", "float32x3"),
        Param("twice", "scalar", "bool"),
    ]
    return FunctionInfo(
        "shift", ["handle", "uint8x8", "float32x3", "bool"], GRID_TAGS, (), Interface(params)
    )


def _shift(x: Any, how: tuple[int, int], add: tuple[float, ...], twice: bool) -> None:
    """Compute with NumPy what the kernel `shift` computes."""
    x[: how[1]] += (how[0] + int(sum(add))) * (2 if twice else 1)
    for place in range(4):
        x[place::4] += place + 1


def _shift_table() -> Any:
    """Return the bytes of the table of constants that `shift` reads."""
    import numpy as np

    return np.array([1, 2, 3, 4], "uint8")
