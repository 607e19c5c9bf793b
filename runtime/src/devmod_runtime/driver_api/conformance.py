"""What the conformance cases of the kinds share."""

from __future__ import annotations

from devmod import FunctionInfo, Interface, Member, Param
from devmod.backend import GRID_TAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The kernels of the stored payloads. `shift` has a struct, a vector of three and a bool by value, and a global variable.
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


def shift_info() -> FunctionInfo:
    """Return the kernel `shift`: a struct, a vector of three and a bool by value, and a table of constants."""
    members = [Member("amount", "int32", 0), Member("count", "int32", 4)]
    params = [
        Param("x", "buffer", "int32", "rw"),
        Param("how", "scalar", "uint8x8", align=4, members=members),
        Param("add", "scalar", "float32x3"),
        Param("twice", "scalar", "bool"),
    ]
    return FunctionInfo("shift", ["handle", "uint8x8", "float32x3", "bool"], GRID_TAGS, (), Interface(params))


def shift(x: Any, how: tuple[int, int], add: tuple[float, ...], twice: bool) -> None:
    """Compute with NumPy what the kernel `shift` computes."""
    x[: how[1]] += (how[0] + int(sum(add))) * (2 if twice else 1)
    for place in range(4):
        x[place::4] += place + 1


def shift_table() -> Any:
    """Return the bytes of the table of constants that `shift` reads."""
    import numpy as np

    return np.array([1, 2, 3, 4], "uint8")
