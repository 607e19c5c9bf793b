"""An operation of PyTorch beside the call of its program, and beside the glue that one writes by
hand.

    python tools/benchmarks/bench_frameworks.py [--rounds 2001]

The program adds 1 to 64 floats on an OpenCL device. Each round runs all contenders in an order of
its own; figures are medians over the rounds, and the cost of an operation is the median of its
times without those of the program's own call in the same round. The bound is a multiple of
`torch.empty_like`, which is measured in the same rounds, after a launch as the others are. By hand,
`torch.library.custom_op` calls the program with NumPy's views. An extension in C++ adds on the CPU:
it is measured after a launch, and shows what PyTorch takes for an operation of C++. PyTorch's CPU
build has no CUDA tensors: extras/frameworks/tests counts the driver's calls for these.
The exit code is 1 if a ratio is over its bound.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import check, each_kind, medians_of, note, record

import devmod

N = 64
MOST = 5
WARM_UP = 200
SOURCE = "kernel void add_one(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = x[i] + 1; }"
TABLE = "A call of a program with CPU tensors of PyTorch"
PROGRAM = "the program with NumPy arrays"
EMPTY = "torch.empty_like"
EXTENSION = "an extension in C++, without a launch"
#: They launch nothing, and are measured after a launch.
ALONE = (EMPTY, EXTENSION)
CPP = """
#include <torch/library.h>
#include <ATen/ATen.h>
at::Tensor inc(const at::Tensor &x) {
    at::Tensor y = at::empty_like(x);
    const float *from = x.const_data_ptr<float>();
    float *to = y.mutable_data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); i++) to[i] = from[i] + 1;
    return y;
}
TORCH_LIBRARY(in_cpp, m) { m.def("inc(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(in_cpp, CPU, m) { m.impl("inc", inc); }
"""
OPERATION = "devmod_frameworks.torch"
BY_HAND = "torch.library.custom_op by hand"
AS_THEY_ARE = "the program with the tensors as they are"


def contenders(kind: str, folder: Path) -> dict[str, Callable[[], object]]:
    """Return the calls by name."""
    import torch

    import devmod_frameworks.torch

    arrays: dict[str, Any] = {"inputs": ["x: float32[n]"], "outputs": ["y: float32[n]"]}
    module = devmod.program(
        "inc", devmod.compile(SOURCE, kind, block=N), steps="add_one(x=x, y=y, threads=n)", **arrays
    )
    devmod.save(module, folder / "inc.devmod")
    module = devmod.load(folder / "inc.devmod")
    program = module["inc"]
    operation = devmod_frameworks.torch.register(module, "bench").inc

    @torch.library.custom_op("by_hand::inc", mutates_args=(), schema="(Tensor x) -> Tensor")  # type: ignore[untyped-decorator]
    def by_hand(x: Any) -> Any:
        y = torch.empty_like(x)
        program(x.numpy(), y=y.numpy())
        return y

    extension = build_extension(folder)
    array = np.ones(N, np.float32)
    tensor = torch.ones(N)
    out = torch.empty(N)
    for call in (operation, by_hand, extension):
        np.testing.assert_array_equal(call(tensor).numpy(), program(array))
    return {
        PROGRAM: lambda: program(array),
        OPERATION: lambda: operation(tensor),
        BY_HAND: lambda: by_hand(tensor),
        AS_THEY_ARE: lambda: program(tensor, y=out),
        EXTENSION: lambda: (
            program(array),
            time.perf_counter(),
            extension(tensor),
            time.perf_counter(),
        ),
        EMPTY: lambda: (
            program(array),
            time.perf_counter(),
            torch.empty_like(tensor),
            time.perf_counter(),
        ),
    }


def build_extension(folder: Path) -> Any:
    """Return an operation that is written in C++."""
    import torch
    from torch.utils.cpp_extension import include_paths, library_paths

    source = folder / "inc.cpp"
    library = folder / "inc.so"
    source.write_text(CPP)
    paths = [*(f"-I{each}" for each in include_paths()), *(f"-L{each}" for each in library_paths())]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    libraries = ("-ltorch", "-ltorch_cpu", "-lc10")
    command = [
        "g++",
        "-O2",
        "-shared",
        "-fPIC",
        "-std=c++20",
        abi,
        *paths,
        str(source),
        "-o",
        str(library),
        *libraries,
    ]
    subprocess.run(command, check=True)
    torch.ops.load_library(library)
    return torch.ops.in_cpp.inc


def measure(kind: str, folder: Path, rounds: int) -> bool:
    """Print the times, and return whether the cost of the operation is over its bound."""
    calls = contenders(kind, folder)
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = [*calls]
    numbers = random.Random(0)
    for number in range(rounds + WARM_UP):
        numbers.shuffle(order)
        for name in order:
            began = time.perf_counter()
            result = calls[name]()
            ended = time.perf_counter()
            if name in ALONE:
                _, began, _, ended = result  # type: ignore[misc]
            if number >= WARM_UP:
                times[name].append((ended - began) * 1e6)
    medians = medians_of(times)
    costs = {}
    for name in (OPERATION, BY_HAND, AS_THEY_ARE):
        pairs = zip(times[name], times[PROGRAM], strict=True)
        costs[name] = statistics.median(one - other for one, other in pairs)
    for name, median in medians.items():
        cost = ""
        if name in costs:
            cost = f", {costs[name]:.1f} above the program, {costs[name] / medians[EMPTY]:.2f} of empty_like"
        print(f"{kind}: {name:42} {median:7.1f} µs{cost}")
        record(TABLE, name, median, "µs")
    return check(
        f"{kind}, operation of PyTorch above its program",
        costs[OPERATION] / medians[EMPTY],
        MOST,
        of="torch.empty_like",
    )


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2001)
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("not measured: PyTorch is not installed")
        return 0
    note(f"PyTorch {torch.__version__}, tensors of {N} floats on the CPU.")
    return int(each_kind("opencl", lambda kind, folder: measure(kind, folder, options.rounds)))


if __name__ == "__main__":
    sys.exit(main())
