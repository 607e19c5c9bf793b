"""The contenders of bench_peers.py, each in a process of its own: `python peers.py DO NAME FOLDER`.

DO=compile writes the files that a contender ships into the folder, if it compiles before. DO=calls
reads lines `JOB BYTES` and prints for each the median microseconds of a call. DO=first makes one
call, and prints a line after it.

Each contender has two functions of NumPy arrays of float32. `axpy(x, y)` adds x / 2 to y, and
`softmax(x, y)` writes the softmax of each row of the matrix x into y. Both return the array with
the result. Each is written as the project's own documentation writes it. A kernel of Taichi, Warp
or Numba has a loop over a row in each thread; devmod's and pyopencl's are those of examples/, with
64 threads a row.
"""

# Taichi and Warp read the annotations of kernels as objects, so this file has no `from __future__
# import annotations`.

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
Functions = dict[str, Callable[[Any, Any], Any]]
#: A turn makes calls for so many seconds, and at least so many calls.
SECONDS = 0.03
CALLS = 3
#: The bytes of each array.
SIZES = (64, 4 << 10, 64 << 10, 1 << 20, 16 << 20)
#: The longest row of softmax's matrix.
COLUMNS = 1024

OPENCL = """
__kernel void axpy(__global const float *x, __global float *y, float alpha, uint n)
{
    uint i = get_global_id(0);
    if (i < n) y[i] += alpha * x[i];
}
"""
VULKAN = """#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Numbers { float alpha; uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] += alpha * x[i]; }
"""
WEBGPU = """
struct Numbers { alpha: f32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> numbers: Numbers;
@compute @workgroup_size(256)
fn axpy(@builtin(global_invocation_id) at: vec3u) { if (at.x < numbers.n) { y[at.x] += numbers.alpha * x[at.x]; } }
"""
SOURCES: dict[str, dict[str, Any]] = {
    "opencl": {"axpy": OPENCL, "softmax": ROOT / "examples/opencl/softmax.cl"},
    "vulkan": {"axpy": VULKAN, "softmax": ROOT / "examples/vulkan/softmax.comp"},
    "webgpu": {"axpy": WEBGPU, "softmax": ROOT / "examples/webgpu/softmax.wgsl"},
}
LINALG = """
func.func @axpy_{size}(%alpha: f32, %x: tensor<{count}xf32>, %y: tensor<{count}xf32>) -> tensor<{count}xf32> {{
  %0 = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%x : tensor<{count}xf32>) outs(%y : tensor<{count}xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %1 = arith.mulf %alpha, %a : f32
    %2 = arith.addf %1, %b : f32
    linalg.yield %2 : f32
  }} -> tensor<{count}xf32>
  return %0 : tensor<{count}xf32>
}}
func.func @softmax_{size}(%x: tensor<{matrix}xf32>) -> tensor<{matrix}xf32> {{
  %0 = tensor.empty() : tensor<{matrix}xf32>
  %1 = linalg.softmax dimension(1) ins(%x : tensor<{matrix}xf32>) outs(%0 : tensor<{matrix}xf32>) -> tensor<{matrix}xf32>
  return %1 : tensor<{matrix}xf32>
}}
"""

IREE = {
    "llvm-cpu": ("local-task", ["--iree-llvmcpu-target-cpu=host"]),
    "vulkan-spirv": ("vulkan", []),
}


def compile_devmod(kind: str, folder: Path) -> None:
    """Write a file for each kernel."""
    import devmod

    for job, source in SOURCES[kind].items():
        language = {"opencl": "OpenCL C", "vulkan": "GLSL", "webgpu": "WGSL"}[kind]
        module = devmod.compile(source, kind, name=job, language=language)
        devmod.save(module, folder / f"{kind}-{job}.devmod")


def devmod(kind: str, folder: Path) -> Functions:
    """Return the kernels of the files. Each call copies the arrays to the device and back."""
    import devmod

    kernels: dict[str, Any] = {}

    def kernel(job: str) -> Any:
        if job not in kernels:
            kernels[job] = devmod.load(folder / f"{kind}-{job}.devmod")[job]
        return kernels[job]

    def axpy(x: Any, y: Any) -> Any:
        kernel("axpy")(x=x, y=y, alpha=0.5, n=x.size, threads=x.size)
        return y

    def softmax(x: Any, y: Any) -> Any:
        kernel("softmax")(x=x, y=y, columns=x.shape[1], grid=x.shape[0])
        return y

    return {"axpy": axpy, "softmax": softmax}


def numpy(_: str, __: Path) -> Functions:
    """Return the same in NumPy alone."""

    def axpy(x: Any, y: Any) -> Any:
        y += np.float32(0.5) * x
        return y

    def softmax(x: Any, y: Any) -> Any:
        np.exp(x - x.max(axis=1, keepdims=True), out=y)
        y /= y.sum(axis=1, keepdims=True)
        return y

    return {"axpy": axpy, "softmax": softmax}


def pyopencl(_: str, __: Path) -> Functions:
    """Return calls by hand, with buffers that are kept by size: copies in, the kernel, a copy
    back.
    """
    import pyopencl as cl
    from bare import opencl_device

    context = cl.Context([opencl_device(cl)])
    queue = cl.CommandQueue(context)
    kernels: dict[str, Any] = {}
    buffers: dict[tuple[int, int], Any] = {}

    def kernel(job: str, scalars: list[Any]) -> Any:
        if job not in kernels:
            source = SOURCES["opencl"][job]
            program = cl.Program(
                context, source if isinstance(source, str) else source.read_text()
            ).build()
            kernels[job] = cl.Kernel(program, job)
            kernels[job].set_scalar_arg_dtypes(scalars)
        return kernels[job]

    def buffer(place: int, size: int) -> Any:
        if (place, size) not in buffers:
            buffers[place, size] = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
        return buffers[place, size]

    def axpy(x: Any, y: Any) -> Any:
        a = buffer(0, x.nbytes)
        b = buffer(1, y.nbytes)
        cl.enqueue_copy(queue, a, x, is_blocking=False)
        cl.enqueue_copy(queue, b, y, is_blocking=False)
        kernel("axpy", [None, None, np.float32, np.uint32])(
            queue, (x.size,), None, a, b, 0.5, x.size
        )
        cl.enqueue_copy(queue, y, b)
        return y

    def softmax(x: Any, y: Any) -> Any:
        a = buffer(0, x.nbytes)
        b = buffer(1, y.nbytes)
        cl.enqueue_copy(queue, a, x, is_blocking=False)
        kernel("softmax", [None, None, np.int32])(
            queue, (64 * x.shape[0],), (64,), a, b, x.shape[1]
        )
        cl.enqueue_copy(queue, y, b)
        return y

    return {"axpy": axpy, "softmax": softmax}


def numba(parallel: str, _: Path) -> Functions:
    """Return compiled loops on the arrays themselves: on one thread, or with parallel=True."""
    import numba

    # Two definitions: with one, the cache on the disk gives the compiled loops of one thread to
    # both.
    if parallel:

        @numba.njit(parallel=True, cache=True)
        def axpy(x: Any, y: Any) -> Any:
            for i in numba.prange(x.size):
                y[i] += np.float32(0.5) * x[i]
            return y

        @numba.njit(parallel=True, cache=True)
        def softmax(x: Any, y: Any) -> Any:
            for row in numba.prange(x.shape[0]):
                highest = x[row].max()
                total = np.float32(0)
                for i in range(x.shape[1]):
                    y[row, i] = np.exp(x[row, i] - highest)
                    total += y[row, i]
                for i in range(x.shape[1]):
                    y[row, i] /= total
            return y

    else:

        @numba.njit(cache=True)
        def axpy(x: Any, y: Any) -> Any:
            for i in range(x.size):
                y[i] += np.float32(0.5) * x[i]
            return y

        @numba.njit(cache=True)
        def softmax(x: Any, y: Any) -> Any:
            for row in range(x.shape[0]):
                highest = x[row].max()
                total = np.float32(0)
                for i in range(x.shape[1]):
                    y[row, i] = np.exp(x[row, i] - highest)
                    total += y[row, i]
                for i in range(x.shape[1]):
                    y[row, i] /= total
            return y

    return {"axpy": axpy, "softmax": softmax}


def taichi(arch: str, _: Path) -> Functions:
    """Return kernels that take the arrays: on the CPU without copies, on Vulkan with copies to the
    device and back.
    """
    import taichi as ti

    ti.init(arch=getattr(ti, arch), log_level=ti.ERROR, offline_cache=True)
    if ti.lang.impl.current_cfg().arch != {"cpu": ti.x64, "vulkan": ti.vulkan}[arch]:
        raise RuntimeError(f"Taichi has no {arch} here")

    @ti.kernel
    def axpy(
        x: ti.types.ndarray(dtype=ti.f32, ndim=1),  # type: ignore[valid-type]
        y: ti.types.ndarray(dtype=ti.f32, ndim=1),  # type: ignore[valid-type]
        alpha: ti.f32,
    ):
        for i in x:
            y[i] += alpha * x[i]

    @ti.kernel
    def softmax(
        x: ti.types.ndarray(dtype=ti.f32, ndim=2),  # type: ignore[valid-type]
        y: ti.types.ndarray(dtype=ti.f32, ndim=2),  # type: ignore[valid-type]
    ):
        for row in range(x.shape[0]):
            highest = x[row, 0]
            for i in range(x.shape[1]):
                highest = ti.max(highest, x[row, i])
            total = 0.0
            for i in range(x.shape[1]):
                value = ti.exp(x[row, i] - highest)
                y[row, i] = value
                total += value
            for i in range(x.shape[1]):
                y[row, i] /= total

    def call_axpy(x: Any, y: Any) -> Any:
        axpy(x, y, 0.5)
        return y

    def call_softmax(x: Any, y: Any) -> Any:
        softmax(x, y)
        return y

    return {"axpy": call_axpy, "softmax": call_softmax}


def warp(_: str, __: Path) -> Functions:
    """Return launches on the CPU, which take the arrays without copies and run on one thread."""
    import warp as wp

    wp.config.quiet = True

    @wp.kernel
    def axpy(x: wp.array(dtype=float), y: wp.array(dtype=float), alpha: float):  # type: ignore[valid-type]
        i = wp.tid()
        y[i] = y[i] + alpha * x[i]

    @wp.kernel
    def softmax(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):  # type: ignore[valid-type]
        row = wp.tid()
        highest = x[row, 0]
        for i in range(x.shape[1]):
            highest = wp.max(highest, x[row, i])
        total = float(0.0)  # noqa: UP018 - a variable of Warp; a literal is a constant
        for i in range(x.shape[1]):
            value = wp.exp(x[row, i] - highest)
            y[row, i] = value
            total += value
        for i in range(x.shape[1]):
            y[row, i] = y[row, i] / total

    def call_axpy(x: Any, y: Any) -> Any:
        wp.launch(axpy, dim=x.size, inputs=[x, y, 0.5], device="cpu")
        return y

    def call_softmax(x: Any, y: Any) -> Any:
        wp.launch(softmax, dim=x.shape[0], inputs=[x, y], device="cpu")
        return y

    return {"axpy": call_axpy, "softmax": call_softmax}


def compile_iree(backend: str, folder: Path) -> None:
    """Write the VMFB of both functions for each size: with shapes that vary, IREE's softmax is 30
    times slower.
    """
    import iree.compiler

    texts = []
    for size in SIZES:
        columns = min(COLUMNS, size // 4)
        texts.append(
            LINALG.format(size=size, count=size // 4, matrix=f"{size // 4 // columns}x{columns}")
        )
    code = iree.compiler.compile_str(
        "".join(texts),
        target_backends=[backend],
        extra_args=["--iree-opt-level=O3", *IREE[backend][1]],
    )
    (folder / f"{backend}.vmfb").write_bytes(code)


def iree(backend: str, folder: Path) -> Functions:
    """Return the functions of the file. A result is a new array of the device: mapped on the CPU,
    and copied from Vulkan.
    """
    import iree.runtime

    config = iree.runtime.Config(IREE[backend][0])
    context = iree.runtime.SystemContext(config=config)
    context.add_vm_module(
        iree.runtime.VmModule.mmap(context.instance, str(folder / f"{backend}.vmfb"))
    )
    module = context.modules.module
    to_host = iree.runtime.DeviceArray.to_host if backend == "llvm-cpu" else copy_to_host
    functions: dict[str, Any] = {}

    def function(job: str, size: int) -> Any:
        name = f"{job}_{size}"
        if name not in functions:
            functions[name] = module[name]
        return functions[name]

    return {
        "axpy": lambda x, y: to_host(function("axpy", x.nbytes)(0.5, x, y)),
        "softmax": lambda x, y: to_host(function("softmax", x.nbytes)(x)),
    }


def copy_to_host(array: Any) -> Any:
    """Return a device array in NumPy. IREE's `to_host` imports NumPy's memory, which lavapipe
    refuses; this is its other way.
    """
    from iree.runtime import BufferUsage, HalFence, MemoryType

    device = array._device
    view = array._buffer_view
    source = view.get_buffer()
    staging = device.allocator.allocate_buffer(
        memory_type=int(MemoryType.HOST_LOCAL | MemoryType.DEVICE_VISIBLE),
        allowed_usage=int(BufferUsage.TRANSFER_TARGET | BufferUsage.MAPPING_SCOPED),
        allocation_size=source.byte_length(),
    )
    semaphore = device.create_semaphore(0)
    end = HalFence.create_at(semaphore, 1)
    device.queue_copy(
        source, staging, wait_semaphores=HalFence.create_at(semaphore, 0), signal_semaphores=end
    )
    end.wait()
    return staging.map().asarray(view.shape, np.dtype("float32"))


class Contender(NamedTuple):
    """One project in one setting."""

    functions: Callable[[str, Path], Functions]
    setting: str = ""
    #: Writes what the project compiles before.
    compile: Callable[[str, Path], None] | None = None


CONTENDERS = {
    "devmod, OpenCL": Contender(devmod, "opencl", compile_devmod),
    "devmod, Vulkan": Contender(devmod, "vulkan", compile_devmod),
    "devmod, WebGPU": Contender(devmod, "webgpu", compile_devmod),
    "pyopencl": Contender(pyopencl),
    "Taichi, CPU": Contender(taichi, "cpu"),
    "Taichi, Vulkan": Contender(taichi, "vulkan"),
    "IREE, CPU": Contender(iree, "llvm-cpu", compile_iree),
    "IREE, Vulkan": Contender(iree, "vulkan-spirv", compile_iree),
    "Warp, CPU": Contender(warp),
    "Numba, parallel": Contender(numba, "parallel"),
    "Numba, 1 thread": Contender(numba),
    "NumPy": Contender(numpy),
}


def arrays(job: str, size: int) -> tuple[Any, Any, Any]:
    """Return both arguments of a job, of so many bytes each, and the expected result."""
    random = np.random.default_rng(1)
    x = random.random(size // 4, np.float32)
    y = random.random(size // 4, np.float32)
    if job == "axpy":
        return x, y, y + np.float32(0.5) * x
    x = x.reshape(-1, min(COLUMNS, x.size))
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return x, y.reshape(x.shape), powers / powers.sum(axis=1, keepdims=True)


def turn(call: Callable[[Any, Any], Any], job: str, size: int) -> float:
    """Return the median microseconds of calls. The first call is checked and not counted."""
    x, y, expected = arrays(job, size)
    if not np.allclose(call(x, y), expected, rtol=1e-4, atol=1e-7):
        raise ValueError(f"the result of {job} is wrong")
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(times) < CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        call(x, y)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main() -> None:
    """Do what the command line names."""
    do = sys.argv[1]
    name = sys.argv[2]
    folder = Path(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some projects print lines of their own
    contender = CONTENDERS[name]
    if do == "compile":
        if contender.compile is not None:
            contender.compile(contender.setting, folder)
    elif do == "first":
        x, y, expected = arrays("axpy", 4096)
        print(
            np.allclose(contender.functions(contender.setting, folder)["axpy"](x, y), expected),
            file=answers,
            flush=True,
        )
    elif do == "calls":
        functions = contender.functions(contender.setting, folder)
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            job, size = line.split()
            print(turn(functions[job], job, int(size)), file=answers, flush=True)


if __name__ == "__main__":
    main()
