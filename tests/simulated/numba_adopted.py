"""devmod's launches between those of numba-cuda, in its context and its stream."""

import numpy as np
from numba import cuda

import devmod

SOURCE = 'extern "C" __global__ void add(float *x, float y) { x[threadIdx.x] += y; }'


@cuda.jit
def double(x):
    x[cuda.grid(1)] *= 2


stream = cuda.stream()
device = devmod.device(stream)
add = devmod.compile(SOURCE, "cuda -arch=compute_80")["add"].on(device)
for title, given in (("a stream", stream), ("no stream", 0)):
    x = cuda.to_device(np.ones(64, np.float32), stream=given)
    stream.synchronize()
    double[1, 64, stream](x)
    add(x, 3, grid=1, block=64)
    double[1, 64, stream](x)
    result = x.copy_to_host(stream=stream)
    stream.synchronize()
    print("an array with", title, (result == 10).all())
print("one device", devmod.device(stream) is device)
print("the context", devmod.device(cuda.current_context()) is devmod.device("cuda"))
