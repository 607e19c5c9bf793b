"""Kernels of numba-cuda: shared memory and atomics, libdevice, random numbers, a barrier of the
grid, ufuncs.
"""

import math

import numpy as np
from numba import cuda, float32
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

x = np.arange(256, dtype=np.float32)


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
def functions(a, out):
    i = cuda.grid(1)
    out[i] = math.exp(a[i]) * math.erf(a[i])


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


@cuda.vectorize(["float32(float32, float32)"])
def multiply_add(a, b):
    return a * b + 1


def run(kernel, grid, block, *arguments, shape=x.shape):
    out = np.zeros(shape, np.float32)
    kernel[grid, block](*arguments, out)
    return out


narrow = np.linspace(0, 3, 128, dtype=np.float32)
print("block sum", run(block_sum, 2, 128, x, shape=1)[0] == x.sum())
print(
    "functions",
    np.allclose(
        run(functions, 1, 128, narrow, shape=128),
        [math.exp(i) * math.erf(i) for i in narrow],
        rtol=1e-4,
    ),
)
numbers = run(uniform, 2, 128, create_xoroshiro128p_states(256, seed=1))
print("uniform", len(set(numbers)) > 250 and numbers.min() >= 0 and numbers.max() < 1)
print("grid barrier", (run(shifted, 2, 32, shape=64) == 3).all())
print("vectorize", (multiply_add(x, x) == x * x + 1).all())
