"""What only an NVIDIA GPU can answer, ranked, each in a process of its own: `cuda_machine.py
questions` runs them.

    python tools/cuda_questions.py NAME

prints the answer of one, a line. A question whose library is not installed says so.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import devmod
from cuda_machine import QUESTIONS

ROOT = Path(__file__).resolve().parent.parent
#: y = a x + y, three launches as one program, with an array between them.
SOURCE = """
extern "C" __global__ void scale(const float *x, float *y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
"""
COUNT = 1000


def target() -> str:
    """Return the target of the first device: PTX, which its driver compiles."""
    return f"cuda -arch={devmod.device('cuda').arch.partition(':')[0].replace('sm_', 'compute_')}"


def scale() -> devmod.Module:
    """Return the module with `scale`."""
    return devmod.compile(SOURCE, target(), block=128)


def program() -> devmod.Module:
    """Return the program y = 24 x, of three launches."""
    step = "scale(x={}, y={}, a={}, n=n, threads=n)".format
    return devmod.program(
        "twentyfour",
        scale(),
        inputs=["x: float32[n]"],
        outputs=["y: float32[n]"],
        temporaries=["s: float32[n]", "t: float32[n]"],
        steps=[step("x", "s", 2.0), step("s", "t", 3.0), step("t", "y", 4.0)],
    )


def variables() -> str:
    """Which variables of a module the driver finds by name: those that are static are not
    `.visible` in the PTX.
    """
    source = 'static __device__ int hidden; __device__ int shown; extern "C" __global__ void k(int *x) { *x = hidden + shown; }'
    module = devmod.compile(source, target())
    answers = []
    for name in ("shown", "hidden"):
        try:
            module.get_global(name).copy_from(np.array(7, "int32"))
            answers.append(f"{name}: found")
        except devmod.DevmodError as error:
            answers.append(f"{name}: {error}")
    return "; ".join(answers)


def context() -> str:
    """What the driver does with a launch while a context of another owner is current, before devmod
    answers it.
    """
    kernel = scale()["scale"]
    x = devmod.device("cuda").from_numpy(np.ones(COUNT, "float32"))
    y = devmod.device("cuda").empty(COUNT, "float32")
    launch = kernel.bind(x, y, 2.0, COUNT, threads=COUNT)
    cuda = ctypes.CDLL("libcuda.so.1")
    other = ctypes.c_void_p()
    flags = ctypes.c_uint(0)
    code = cuda.cuCtxCreate_v2(ctypes.byref(other), flags, 0)
    if code:
        return f"cuCtxCreate returns {code}"
    launch()
    current = ctypes.c_void_p()
    cuda.cuCtxGetCurrent(ctypes.byref(current))
    right = bool((y.numpy() == 2).all())
    kept = "still" if current.value == other.value else "no longer"
    return f"the result is {'right' if right else 'wrong'}, and the current context is {kept} the other"


def arrays() -> str:
    """Calls with arrays of PyTorch, CuPy and JAX on the device, without a copy."""
    kernel = scale()["scale"]
    answers = []
    makers: dict[str, Callable[[], tuple[object, Callable[[Any], Any]]]] = {
        "torch": _of_torch,
        "cupy": _of_cupy,
        "jax": _of_jax,
    }
    for name, make in makers.items():
        try:
            x, host = make()
        except ImportError:
            answers.append(f"{name} is not installed")
            continue
        y = devmod.device("cuda").empty(COUNT, "float32")
        kernel(x, y, 3.0, COUNT, threads=COUNT)
        answers.append(
            f"{name} is {'right' if np.array_equal(y.numpy(), 3 * host(x)) else 'WRONG'}"
        )
    return ", ".join(answers)


def _of_torch() -> tuple[object, Callable[[Any], Any]]:
    import torch

    return torch.arange(COUNT, dtype=torch.float32, device="cuda"), lambda x: x.cpu().numpy()


def _of_cupy() -> tuple[object, Callable[[Any], Any]]:
    import cupy

    return cupy.arange(COUNT, dtype="float32"), cupy.asnumpy


def _of_jax() -> tuple[object, Callable[[Any], Any]]:
    import jax.numpy as jnp

    return jnp.arange(COUNT, dtype="float32"), np.asarray


def one_graph() -> str:
    """A program of three launches as one graph: its prepared launch beside its call, in
    microseconds.
    """
    from time import perf_counter

    function = program()["twentyfour"]
    x = np.arange(COUNT, dtype="float32")
    device = devmod.device("cuda")
    on_device = device.from_numpy(x)
    out = device.empty(COUNT, "float32")
    launch = function.bind(on_device, y=out)
    times = []
    for call in (lambda: function(on_device, y=out), launch):
        call()
        device.synchronize()
        start = perf_counter()
        for _ in range(200):
            call()
        device.synchronize()
        times.append((perf_counter() - start) / 200 * 1e6)
    right = np.array_equal(out.numpy(), 24 * x)
    return f"{'right' if right else 'WRONG'}; a call takes {times[0]:.1f} µs, a prepared launch {times[1]:.1f}"


def torch_operation() -> str:
    """A program as an operation of PyTorch on CUDA tensors: eager, under torch.compile, in a CUDA
    graph.
    """
    import torch

    import devmod_frameworks.torch as frameworks

    x = torch.arange(COUNT, dtype=torch.float32, device="cuda")
    call = frameworks.register(program(), "devmod_questions").twentyfour
    answers = {"eager": call(x)}
    answers["compiled"] = torch.compile(lambda value: call(value + 1) - 24, fullgraph=True)(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(x)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            captured = call(x)
        graph.replay()
        torch.cuda.synchronize()
        answers["in a graph"] = captured
    except Exception as error:  # noqa: BLE001 - the answer is what PyTorch or devmod says
        return f"eager and compiled ran; a capture ends with {type(error).__name__}: {str(error)[:300]}"
    return ", ".join(
        f"{name}: {'right' if torch.equal(value, 24 * x) else 'WRONG'}"
        for name, value in answers.items()
    )


def verify() -> str:
    """`devmod verify` of the kernels of examples/one_source for cuda, vulkan, opencl and webgpu, on
    this one card.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "one.devmod")
        words = ["-t", target(), "-t", "vulkan", "-t", "opencl", "-t", "webgpu"]
        devmod_command = [sys.executable, "-m", "devmod"]
        sources = [
            str(ROOT / "examples" / place)
            for place in ("one_source/softmax.slang", "opencl/softmax.cl")
        ]
        done = subprocess.run(
            [*devmod_command, "compile", *sources, *words, "-o", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"the compile fails: {done.stderr.strip().splitlines()[-1]}"
        done = subprocess.run(
            [*devmod_command, "verify", str(path)], capture_output=True, text=True, check=False
        )
        return f"exit status {done.returncode}\n{done.stdout}{done.stderr}"


if __name__ == "__main__":
    try:
        (name,) = (name for name in QUESTIONS if name == sys.argv[1])
        print(globals()[name]())
    except ImportError as error:
        print(f"not asked: {error}")
