"""pycuda's classes: GPUArray, SourceModule, ElementwiseKernel, ReductionKernel.

nvcc compiles them.
"""

import numpy as np
import pycuda.autoinit  # noqa: F401 - a context
import pycuda.driver as cuda
from pycuda import gpuarray
from pycuda.compiler import SourceModule
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel

host = np.arange(400, dtype=np.float32)
x = gpuarray.to_gpu(host)
print("GPUArray", (x.get() == host).all())
multiply = SourceModule(
    "__global__ void f(float *o, const float *a) { o[threadIdx.x] = a[threadIdx.x] * a[threadIdx.x]; }"
).get_function("f")
out = np.zeros_like(host)
multiply(cuda.Out(out), cuda.In(host), block=(400, 1, 1), grid=(1, 1))
print("SourceModule", (out == host * host).all())
z = gpuarray.empty_like(x)
ElementwiseKernel("float a, float *x, float *z", "z[i] = a * x[i]")(3, x, z)
print("ElementwiseKernel", (z.get() == 3 * host).all())
squares = ReductionKernel(
    np.float32, neutral="0", reduce_expr="a + b", map_expr="x[i] * x[i]", arguments="float *x"
)
print("ReductionKernel", np.allclose(squares(x).get(), (host * host).sum()))
