"""The calls of a first program of cuda.core: a template becomes a cubin, a kernel adds vectors, a
stream copies. Two sources are linked.
"""

import numpy as np
from cuda.core import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Linker,
    LinkerOptions,
    Program,
    ProgramOptions,
    launch,
)

ADD = """
template <typename T> __global__ void add(const T *a, const T *b, T *c, size_t n)
{
    for (size_t i = threadIdx.x + (size_t)blockIdx.x * blockDim.x; i < n; i += gridDim.x * blockDim.x)
        c[i] = a[i] + b[i];
}
"""
CALLER = 'extern __device__ int twice(int); extern "C" __global__ void k(int *o) { o[threadIdx.x] = twice(threadIdx.x) + 1; }'
CALLED = "__device__ int twice(int x) { return 2 * x; }"

device = Device()
device.set_current()
stream = device.create_stream()
arch = f"sm_{device.arch}"
print(device.name, arch)
count = 5000
pinned = LegacyPinnedMemoryResource()
host = [pinned.allocate(4 * count) for _ in range(3)]
a, b, c = (np.from_dlpack(each).view(np.float32) for each in host)
a[:], b[:] = 1, np.arange(count)
for code in ("ptx", "cubin"):
    program = Program(ADD, code_type="c++", options=ProgramOptions(std="c++17", arch=arch))
    kernel = program.compile(code, name_expressions=("add<float>",)).get_kernel("add<float>")
    memory = [device.allocate(4 * count, stream=stream) for _ in range(3)]
    host[0].copy_to(memory[0], stream=stream)
    host[1].copy_to(memory[1], stream=stream)
    launch(stream, LaunchConfig(grid=8, block=128), kernel, *memory, np.uint64(count))
    memory[2].copy_to(host[2], stream=stream)
    device.sync()  # by the CUDA runtime, and not by the driver
    print(code, (c == a + b).all())
    c[:] = 0
for codes in (("ptx", "ptx"), ("ltoir", "ltoir"), ("ltoir", "ptx"), ("ptx", "ltoir")):
    objects = []
    for code, text in zip(codes, (CALLER, CALLED), strict=True):
        options = ProgramOptions(
            relocatable_device_code=True, link_time_optimization=code == "ltoir", arch=arch
        )
        objects.append(Program(text, code_type="c++", options=options).compile(code))
    kernel = (
        Linker(
            *objects,
            options=LinkerOptions(
                arch=arch, link_time_optimization="ltoir" in codes, max_register_count=9
            ),
        )
        .link("cubin")
        .get_kernel("k")
    )
    launch(stream, LaunchConfig(grid=1, block=8), kernel, host[2])
    stream.sync()
    print(*codes, c[:8].view(np.int32).tolist(), kernel.attributes.num_regs)
