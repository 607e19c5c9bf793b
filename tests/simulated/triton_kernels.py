"""Kernels of Triton, with arrays of cuda.bindings: softmax and dot."""

import numpy as np
import triton
import triton.language as tl
from cuda.bindings import driver
from triton_arrays import DeviceArray


@triton.jit
def softmax(x, out, n, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def dot(a, b, out, n, B: tl.constexpr):
    i, j, k = (
        tl.program_id(0) * B + tl.arange(0, B),
        tl.program_id(1) * B + tl.arange(0, B),
        tl.arange(0, B),
    )
    total = tl.zeros((B, B), tl.float32)
    for q in range(0, n, B):
        total += tl.dot(
            tl.load(a + i[:, None] * n + (q + k)[None, :]),
            tl.load(b + (q + k)[:, None] * n + j[None, :]),
        )
    tl.store(out + i[:, None] * n + j[None, :], total)


driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
random = np.random.default_rng(0)
host = random.random((8, 100), np.float32)
out = DeviceArray(np.zeros_like(host))
softmax[(8,)](DeviceArray(host), out, 100, B=128)
e = np.exp(host - host.max(1, keepdims=True))
print("softmax", np.allclose(out.get(), e / e.sum(1, keepdims=True), rtol=1e-4))
for name, dtype in (("fp32", np.float32), ("fp16", np.float16)):
    a, b = (random.random((64, 64)).astype(dtype) for _ in range(2))
    out = DeviceArray(np.zeros((64, 64), np.float32))
    dot[(2, 2)](DeviceArray(a, name), DeviceArray(b, name), out, 64, B=32)
    print(
        "dot", name, np.allclose(out.get(), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2)
    )
