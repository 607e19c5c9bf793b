"""Launch kernels of Triton on a simulated GPU. Print a digest of the results, and the number of
compiles.
"""

import sys
from hashlib import sha256

import numpy as np
import triton
import triton.language as tl
from cuda.bindings import driver
from triton.backends.nvidia.compiler import CUDABackend
from triton_arrays import DeviceArray
from triton_packaged import add, measured, total, tuned

compiles = []
add_stages = CUDABackend.add_stages


def count_stages(self, stages, *arguments):
    compiles.append(1)
    return add_stages(self, stages, *arguments)


CUDABackend.add_stages = count_stages
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
random = np.random.default_rng(0)


def launch_add(dtype, number):
    x, y = (DeviceArray(random.random(1000).astype(dtype), number) for _ in range(2))
    out = DeviceArray(np.zeros(1000, dtype), number)
    add[(4,)](x, y, out, 1000, BLOCK=256, num_warps=2)
    return out.get()


def launch_tuned():
    out = DeviceArray(np.zeros(300, np.float32))
    tuned[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](out, 300)
    return out.get()


first = [launch_tuned()] if "first" in sys.argv else []
results = [launch_add(np.float32, "fp32")]
if "small" not in sys.argv:
    results.append(launch_add(np.float16, "fp16"))
    out = DeviceArray(np.zeros(1, np.float32))
    x = DeviceArray(random.random(100, np.float32))
    total[(1,)](x, out, 100, (2.0, 1), BLOCK=128, dtype=tl.float32)
    results.append(out.get())
if "tuned" in sys.argv:
    results += first or [launch_tuned()]
print(sha256(b"".join(each.tobytes() for each in results)).hexdigest())
print("compiles", len(compiles))
if "tuned" in sys.argv:
    print("measured", len(measured))
if "inner" in sys.argv:

    @triton.jit
    def inner(out, N: tl.constexpr):
        tl.store(out, N)

    out = DeviceArray(np.zeros(1, np.float32))
    inner[(1,)](out, N=7)
    print("inner", out.get()[0], len(compiles))
