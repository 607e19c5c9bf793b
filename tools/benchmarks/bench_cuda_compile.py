"""The time of compiling CUDA C++: devmod beside NVRTC alone and beside nvcc alone, and the
receiver's compiler with a warm cache.

    python tools/benchmarks/bench_cuda_compile.py [--rounds 15]

Each source is compiled to a cubin and PTX for sm_90, by NVRTC alone through cuda.bindings, and by
devmod.compile. The reading of the signature (libclang and the PTX) is measured apart. Each round
runs both; the figures are medians, and the ratios are medians of the rounds' ratios. A program with
host code is compiled to a cubin by nvcc alone and by devmod with ``-compiler=nvcc``, with its
signatures, which libclang reads while nvcc compiles: that needs a second idle core. The figures are
minima. The receiver's rows are the processor time from `devmod.create` to the kernel on the
stand-in driver. One is with CUDA C++ whose module is cached on disk, the other with the same
module's PTX. The driver loads that PTX in both. The exit code is 1 if a figure is over its bound.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from timing import check, process_time, timed
from vendor_driver import ADD, VendorDriver

DRIVER = VendorDriver("cuda")
#: The most time of devmod.compile without the signature, of NVRTC alone; with it, of nvcc alone; of
#: the cached compiler, of Python's start.
MOST_RATIO = 1.1
MOST_NVCC = 1.2
MOST_CACHED = 0.22
MATMUL = """
#define TILE 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int tile = 0; tile < (n + TILE - 1) / TILE; tile++) {
        int x = tile * TILE + threadIdx.x, y = tile * TILE + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < n && x < n ? a[row * n + x] : 0;
        right[threadIdx.y][threadIdx.x] = y < n && column < n ? b[y * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
"""
MANY = "".join(ADD.replace(" add(", f" add{number}(") for number in range(20))
SOURCES = {"add": ADD, "matmul": MATMUL, "20 kernels": MANY}
OPTIONS = ("-arch=sm_90", "--no-cache")
HOST = """
#include <cstdio>
#include <vector>
#include <cooperative_groups.h>
#include <cuda_fp16.h>
template <class T> __global__ void scale(T *x, T by, size_t n) {
    size_t i = cooperative_groups::this_grid().thread_rank();
    if (i < n) x[i] *= by;
}
extern "C" __global__ void halfs(const __half *x, __half *y) { int i = threadIdx.x; y[i] = __hadd(x[i], y[i]); }
int main() { scale<float><<<1, 32>>>(nullptr, 2.f, 3); }
"""


def compile_bare(text: str) -> None:
    """Compile to a cubin and PTX with NVRTC alone."""
    from cuda.bindings import nvrtc

    def check(status: Any, *values: Any) -> Any:
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(str(status))
        return values[0] if values else None

    program = check(*nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    check(
        *nvrtc.nvrtcCompileProgram(program, len(OPTIONS), [option.encode() for option in OPTIONS])
    )
    for size, get in (
        (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN),
        (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX),
    ):
        check(*get(program, bytearray(check(*size(program)))))
    check(*nvrtc.nvrtcDestroyProgram(program))


def measure_compile(text: str, rounds: int) -> tuple[float, float, float, float]:
    """Return the milliseconds of NVRTC, of devmod.compile without the signature and of the
    signature, and the ratio of the first two.
    """
    import devmod
    from devmod_targets.cuda import compile as compiler
    from devmod_targets.cuda.signatures.reader import read_functions

    reading = 0.0
    rows = []

    def read_timed(*arguments: Any) -> Any:
        nonlocal reading
        began = time.perf_counter()
        try:
            return read_functions(*arguments)
        finally:
            reading = (time.perf_counter() - began) * 1e3

    with patch.object(compiler, "read_functions", read_timed):
        for _ in range(rounds + 1):
            bare = timed(lambda: compile_bare(text))
            whole = timed(lambda: devmod.compile(text, "cuda -arch=sm_90"))
            rows.append((bare, whole - reading, reading, (whole - reading) / bare))
    # The first warms up.
    bare, rest, signature, ratio = map(statistics.median, zip(*rows[1:], strict=True))
    return bare, rest, signature, ratio


def measure_nvcc(rounds: int) -> tuple[float, float]:
    """Return the milliseconds of nvcc alone and of devmod with nvcc."""
    import devmod
    from devmod_targets.cuda import nvcc

    program = Path(nvcc.include_folders()[0]).parent / "bin" / "nvcc"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "program.cu")
        source.write_text(HOST)
        command = [
            str(program),
            "-cubin",
            "-arch=sm_90",
            "-o",
            str(Path(folder, "program.cubin")),
            str(source),
        ]
        rows = []
        for _ in range(rounds + 1):
            bare = timed(lambda: subprocess.run(command, check=True))
            own = timed(lambda: devmod.compile(source, "cuda -arch=sm_90 -compiler=nvcc"))
            rows.append((bare, own))
    bare, own = map(min, zip(*rows[1:], strict=True))  # the first warms up
    return bare, own


def measure_receiver(rounds: int) -> tuple[float, float, float, float]:
    """Return the milliseconds from the source to the kernel, compiled and with its module cached,
    from PTX, and of Python's start.
    """
    import devmod

    DRIVER.launch_nothing()
    source = devmod.compile(ADD, "cuda -arch=sm_80 -format=cuda")
    ptx = DRIVER.add_kernel()
    devmod.device("cuda")

    def load(module: Any) -> None:
        devmod.create("cuda", module.code, module.format, module.functions)["add"]

    load(ptx)
    first = timed(lambda: load(source))
    # Processor time of this thread: the stand-in driver's interpreter and other processes do not
    # count.
    rows = []
    for _ in range(rounds):
        cached = timed(partial(load, source), time.thread_time)
        alone = timed(partial(load, ptx), time.thread_time)
        rows.append((cached, alone, process_time()))
    cached, alone, start = map(statistics.median, zip(*rows, strict=True))
    return first, cached, alone, start


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    import devmod

    over = False
    print(
        f"{'source':<12} {'NVRTC, ms':>10} {'devmod, ms':>11} {'ratio':>6} {'most':>5} {'signature, ms':>14}"
    )
    for name, text in SOURCES.items():
        bare, rest, signature, ratio = measure_compile(text, options.rounds)
        is_over = check(
            f"compiling CUDA C++ without the signature: {name}", ratio, MOST_RATIO, of="NVRTC alone"
        )
        over |= is_over
        print(
            f"{name:<12} {bare:10.1f} {rest:11.1f} {ratio:6.2f} {MOST_RATIO:>5} {signature:14.1f}{'  over' * is_over}"
        )
    try:
        bare, own = measure_nvcc(options.rounds)
    except devmod.ToolchainNotFoundError as error:
        print(f"not measured: {error}")
    else:
        over |= check("compiling CUDA C++ with host code", own / bare, MOST_NVCC, of="nvcc alone")
        print(
            f"nvcc, a program with host code: alone {bare:.0f} ms, devmod {own:.0f} ms, {own / bare:.2f} (most {MOST_NVCC})"
        )
    if reason := DRIVER.missing():
        print(f"not measured: {reason}")
        return int(over)
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= DRIVER.environment() | {"DEVMOD_CACHE_DIR": cache}
        first, cached, ptx, start = measure_receiver(5 * options.rounds)
    ratio = (cached - ptx) / start
    over |= check(
        "CUDA, the receiver's cached compiler", ratio, MOST_CACHED, of="the start of Python"
    )
    print(
        f"the receiver, {DRIVER.place()}: compiled {first:.1f} ms, cached {cached:.2f} ms, of which PTX alone takes {ptx:.2f} ms"
    )
    print(
        f"what the cached compiler costs: {cached - ptx:.2f} ms, {ratio:.2f} of the start of Python (most {MOST_CACHED})"
    )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
