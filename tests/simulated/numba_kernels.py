"""Ten kernels of numba-cuda: its syntax, shared memory, atomics, libdevice, shuffles, random
numbers, a barrier of the grid, reductions.
"""

import math

import numpy as np
from numba import cuda, float32
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

x = np.arange(256, dtype=np.float32)


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] + b[i]


@cuda.jit
def block_sum(a, out):
    scratch = cuda.shared.array(128, float32)
    i = cuda.threadIdx.x
    scratch[i] = a[cuda.grid(1)]
    cuda.syncthreads()
    half = 64
    while half:
        if i < half:
            scratch[i] += scratch[i + half]
        cuda.syncthreads()
        half //= 2
    if i == 0:
        cuda.atomic.add(out, 0, scratch[0])


@cuda.jit
def product(a, b, out):
    left, right = cuda.shared.array((8, 8), float32), cuda.shared.array((8, 8), float32)
    column, row = cuda.grid(2)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], 8):
        left[j, i], right[j, i] = a[row, start + i], b[start + j, column]
        cuda.syncthreads()
        for k in range(8):
            total += left[j, k] * right[k, i]
        cuda.syncthreads()
    out[row, column] = total


@cuda.jit
def functions(a, out):
    i = cuda.grid(1)
    out[i] = math.exp(a[i]) * math.erf(a[i])


@cuda.jit
def warp_sum(a, out):
    value, distance = a[cuda.grid(1)], 16
    while distance:
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, distance)
        distance //= 2
    out[cuda.grid(1)] = value


@cuda.jit
def uniform(states, out):
    out[cuda.grid(1)] = xoroshiro128p_uniform_float32(states, cuda.grid(1))


@cuda.jit
def shifted(a):
    grid, i = cuda.cg.this_grid(), cuda.grid(1)
    for _ in range(3):
        value = a[(i + 1) % a.size]
        grid.sync()
        a[i] = value + 1
        grid.sync()


square = cuda.jit(device=True)(lambda value: value * value)


@cuda.jit
def squares(a, out):
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        out[i] = square(a[i])


@cuda.vectorize(["float32(float32, float32)"])
def multiply_add(a, b):
    return a * b + 1


def run(kernel, grid, block, *arguments, shape=x.shape):
    out = np.zeros(shape, np.float32)
    kernel[grid, block](*arguments, out)
    return out


m, narrow = x.reshape(16, 16) / 256, np.linspace(0, 3, 128, dtype=np.float32)
print("add", (run(add, 2, 128, x, x) == 2 * x).all())
print("block sum", run(block_sum, 2, 128, x, shape=1)[0] == x.sum())
print("product", np.allclose(run(product, (2, 2), (8, 8), m, m, shape=m.shape), m @ m, rtol=1e-4))
print(
    "functions",
    np.allclose(
        run(functions, 1, 128, narrow, shape=128),
        [math.exp(i) * math.erf(i) for i in narrow],
        rtol=1e-4,
    ),
)
print(
    "warp sum", (run(warp_sum, 8, 32, x).reshape(8, 32) == x.reshape(8, 32).sum(1)[:, None]).all()
)
numbers = run(uniform, 2, 128, create_xoroshiro128p_states(256, seed=1))
print("uniform", len(set(numbers)) > 250 and numbers.min() >= 0 and numbers.max() < 1)
print("grid barrier", (run(shifted, 2, 32, shape=64) == 3).all())
print("squares", (run(squares, 2, 64, x) == x * x).all())
print("vectorize", (multiply_add(x, x) == x * x + 1).all())
print("reduce", cuda.reduce(lambda a, b: a + b)(cuda.to_device(x)) == x.sum())
