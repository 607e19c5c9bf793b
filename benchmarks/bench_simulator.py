"""The interpreter of PTX, with and without checks: five kernels, and a small launch.

    python benchmarks/bench_simulator.py [--rounds 5] [--before FILE] [--save FILE]

NVRTC compiles the kernels for compute_90. The figures are the processor time of a launch in this
process, the minimum of the rounds. Those of --before are what --save has written, with another
version of the interpreter on the same machine. The ratios are geometric means over the five
kernels. The exit code is 1 if a figure is over its bound.
"""

from __future__ import annotations

import argparse
import json
import math
import struct
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import check

from devmod_simulators.ptx import Launch, Machine, Sanitizer, launch_with_checks
from devmod_targets.cuda.nvrtc import compile_program

#: The most time with all checks, of that without.
MOST_CHECKED = 6.0
ALL = "bounds,align,free,leak,race,sync,init"
SOURCE = """
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float left[16][16], right[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int tile = 0; tile < n; tile += 16) {
        left[y][x] = a[row * n + tile + x];
        right[y][x] = b[(tile + y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
extern "C" __global__ void reduce(const float *x, float *out, int n) {
    __shared__ float part[256];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half >>= 1) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (!threadIdx.x) atomicAdd(out, part[0]);
}
extern "C" __global__ void bodies(const float4 *place, float3 *force, int n) {
    __shared__ float4 tile[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 own = place[i];
    float3 sum = {0, 0, 0};
    for (int start = 0; start < n; start += 128) {
        tile[threadIdx.x] = place[start + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; j++) {
            float x = tile[j].x - own.x, y = tile[j].y - own.y, z = tile[j].z - own.z;
            float inverse = rsqrtf(x * x + y * y + z * z + 0.01f), factor = tile[j].w * inverse * inverse * inverse;
            sum.x += x * factor; sum.y += y * factor; sum.z += z * factor;
        }
        __syncthreads();
    }
    force[i] = sum;
}
extern "C" __global__ void mandelbrot(int *out, int size) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, step = 0;
    float re = 3.0f * x / size - 2.2f, im = 3.0f * y / size - 1.5f, a = 0, b = 0;
    for (; step < 64 && a * a + b * b < 4; step++) { float next = a * a - b * b + re; b = 2 * a * b + im; a = next; }
    out[y * size + x] = step;
}
"""
#: Each kernel with its grid, block and arguments.
CASES: dict[str, tuple[Any, Any, list[Any]]] = {
    "saxpy": (
        (3907, 1, 1),
        (256, 1, 1),
        [2.0, np.ones(10**6, np.float32), np.ones(10**6, np.float32), 10**6],
    ),
    "matmul": (
        (16, 16, 1),
        (16, 16, 1),
        [*np.ones((2, 256, 256), np.float32), np.zeros((256, 256), np.float32), 256],
    ),
    "reduce": (
        (128, 1, 1),
        (256, 1, 1),
        [np.ones(10**6, np.float32), np.zeros(1, np.float32), 10**6],
    ),
    "bodies": (
        (8, 1, 1),
        (128, 1, 1),
        [
            np.random.default_rng(0).random((1024, 4), np.float32),
            np.zeros((1024, 3), np.float32),
            1024,
        ],
    ),
    "mandelbrot": ((32, 32, 1), (16, 16, 1), [np.zeros((512, 512), np.int32), 512]),
    "small": ((1, 1, 1), (32, 1, 1), [2.0, np.ones(32, np.float32), np.ones(32, np.float32), 32]),
}


def measure(rounds: int, checks: str = "") -> dict[str, float]:
    """Return the milliseconds of a launch of each kernel, with the checks that are named."""
    machine = Machine()
    result = {}
    sanitizer = Sanitizer(machine.arena)
    module = machine.load(
        compile_program(SOURCE, "k.cu", ["--gpu-architecture=compute_90", "-lineinfo"])
        .ptx.rstrip(b"\0")
        .decode()
    )
    for name, (grid, block, arguments) in CASES.items():
        block_of_values = b""
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                address = machine.allocate(argument.nbytes)
                machine.write(address, argument)
                block_of_values += bytes(-len(block_of_values) % 8) + struct.pack("<Q", address)
            else:
                block_of_values += struct.pack(
                    "<f" if isinstance(argument, float) else "<I", argument
                )
        kernel = "saxpy" if name == "small" else name
        launch = Launch(grid, block, block_of_values)
        times = []
        for _ in range(rounds * (100 if name == "small" else 1) + 1):
            began = time.thread_time()
            if checks:
                assert not launch_with_checks(
                    sanitizer,
                    module,
                    kernel,
                    launch,
                    frozenset(checks.split(",")),
                    sorted(machine.ranges),
                )
            else:
                machine.launch(module, kernel, launch)
            times.append(time.thread_time() - began)
        result[name] = min(times) * 1e3
    return result


def mean(first: dict[str, float], second: dict[str, float]) -> float:
    """Return the geometric mean of the ratios of the five kernels."""
    return math.prod(first[name] / second[name] for name in CASES if name != "small") ** (
        1 / (len(CASES) - 1)
    )


def main() -> int:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    plain = measure(options.rounds)
    columns = {
        "ms": plain,
        "bounds": measure(options.rounds, "bounds,align,free"),
        "all checks": measure(options.rounds, ALL),
    }
    check(
        "the interpreter of PTX, all checks",
        mean(columns["all checks"], plain),
        MOST_CHECKED,
        of="without checks",
    )
    if options.save:
        options.save.write_text(json.dumps(plain))
    if options.before:
        columns["before"] = json.loads(options.before.read_text())
        check(
            "the interpreter of PTX", mean(plain, columns["before"]), 0.8, of="the version before"
        )
    print(f"{'':12}" + "".join(f"{name:>12}" for name in columns))
    for name in CASES:
        print(f"{name:12}" + "".join(f"{column[name]:12.3f}" for column in columns.values()))
    for name, column in columns.items():
        print(f"{name}: {mean(column, plain):.2f} of ms")
    return int(mean(columns["all checks"], plain) > MOST_CHECKED)


if __name__ == "__main__":
    sys.exit(main())
