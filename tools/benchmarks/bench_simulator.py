"""Compiled kernels beside interpreted ones, and the interpreter of PTX: five kernels with and
without checks, a small launch, and loops of few and of many threads.

    python tools/benchmarks/bench_simulator.py [--rounds 5] [--before FOLDER] [NAME …]

NVRTC compiles the kernels for compute_90. The figures are the processor time of a launch in
milliseconds, the minimum of the rounds. `--before` names another source tree: its interpreter takes
turns with this one, and the last column is the ratio to it. Compiled code is compared with it too.
The ratio of checks is a geometric mean over the five kernels, those of threads one over the loops.
Those of compiled code are one over the five kernels and the loops of many threads, one over the
others, and one over the five kernels with checks of bounds, whose column is "both". NAME selects
the cases whose names contain it. The exit code is 1 if a figure is over its bound.
"""

from __future__ import annotations

import argparse
import math
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import check

from devmod_simulators.ptx import Launch, Machine, Sanitizer, launch_with_checks
from devmod_targets.cuda.nvrtc import compile_program

#: The most time with all checks, of that without.
MOST_CHECKED = 6.0
#: The most time of any width, of that of the tree before.
MOST_BEFORE = 1.1
#: The most time of compiled code, of that of the interpreter: of few threads, and of many.
MOST_NARROW = 1 / 15
MOST_WIDE = 1 / 5
#: Threads of the loops: of one block, and of blocks of 256.
WIDTHS = (32, 64, 256, 1024, 65_536)
BLOCK = 1024
NO_CHECKS = "none"
BOUNDS = "bounds,align,free"
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
extern "C" __global__ void arithmetic(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i], b = 0;
    unsigned k = i;
    for (int step = 0; step < n; step++) { a = a * 0.75f + b; k = k * 1664525u + 1013904223u; b += (k >> 8) * 1e-7f; }
    out[i] = a + b;
}
extern "C" __global__ void memory(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    float a = 0;
    for (int step = 0; step < n; step++) { int j = (i + step) & (all - 1); a += x[j]; out[j] = a; }
}
extern "C" __global__ void barriers(const float *x, float *out, int n) {
    __shared__ float part[1024];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    part[t] = x[i];
    __syncthreads();
    for (int step = 0; step < n; step++) {
        float a = part[(t + 1) & (blockDim.x - 1)];
        __syncthreads();
        part[t] = a * 0.5f + 1;
        __syncthreads();
    }
    out[i] = part[t];
}
extern "C" __global__ void divergence(const float *x, unsigned *out, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, k = i * 2654435761u;
    for (int step = 0; step < n; step++) {
        if (k % 3 == 0) for (int j = k & 3; j >= 0; j--) k = k * 5 + 1;
        else k = k / 3 ^ i;
    }
    out[i] = k;
}
extern "C" __global__ void atomics(const float *x, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int step = 0; step < n; step++) atomicAdd(out + ((i * 7 + step) & 15), step);
}
extern "C" __global__ void shuffles(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = x[i];
    for (int step = 0; step < n; step++) {
        for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, offset);
        sum *= 0.03125f;
    }
    out[i] = sum;
}
"""
#: Each kernel with its grid, block and arguments.
Case = tuple[Any, Any, list[Any]]
KERNELS: dict[str, Case] = {
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
#: The kernels of the mean.
FIVE = set(KERNELS) - {"small"}
#: The steps of a thread in one block; many threads make fewer.
LOOPS = {
    "arithmetic": 400,
    "memory": 300,
    "barriers": 200,
    "divergence": 40,
    "atomics": 150,
    "shuffles": 80,
}


def loop_case(name: str, threads: int) -> Case:
    """Return the case of a loop: one block, or blocks of 256 threads."""
    block = threads
    steps = LOOPS[name]
    if threads > BLOCK:
        block = 256
        steps //= 10
    arrays = [np.ones(threads, np.float32), np.zeros(threads, np.float32)]
    return (threads // block, 1, 1), (block, 1, 1), [*arrays, steps]


def all_cases() -> dict[str, Case]:
    """Return the cases by name: the kernels, one tile of the product, the loops by threads."""
    cases = dict(KERNELS)
    matrices = KERNELS["matmul"][2]
    cases["tile 256"] = (1, 1, 1), (16, 16, 1), matrices
    for name in LOOPS:
        for threads in WIDTHS:
            cases[f"{name} {threads}"] = loop_case(name, threads)
    return cases


def is_wide(case: str) -> bool:
    """Return whether a case has many threads."""
    return case in FIVE or case.endswith(f" {WIDTHS[-1]}")


def kernel_of(case: str) -> str:
    """Return the kernel of a case."""
    name = case.split()[0]
    return {"small": "saxpy", "tile": "matmul"}.get(name, name)


def launch_of(machine: Machine, case: Case) -> Launch:
    """Copy the arguments of a case to a device, and return the launch."""
    grid, block, arguments = case
    values = b""
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            address = machine.allocate(argument.nbytes)
            machine.write(address, argument)
            values += bytes(-len(values) % 8) + struct.pack("<Q", address)
        else:
            values += struct.pack("<f" if isinstance(argument, float) else "<I", argument)
    return Launch(grid, block, values)


def serve(ptx: Path) -> None:
    """Print the milliseconds of a launch for each line of standard input: checks and a case."""
    cases = all_cases()
    machine = Machine()
    sanitizer = Sanitizer(machine.arena)
    module = machine.load(ptx.read_text())
    launches: dict[str, Launch] = {}
    for line in sys.stdin:
        checks, _, case = line.strip().partition(" ")
        if case not in launches:
            launches[case] = launch_of(machine, cases[case])
        launch = launches[case]
        kernel = kernel_of(case)
        began = time.process_time()
        if checks == NO_CHECKS:
            machine.launch(module, kernel, launch)
        else:
            names = frozenset(checks.split(","))
            ranges = sorted(machine.ranges)
            assert not launch_with_checks(sanitizer, module, kernel, launch, names, ranges)
        print((time.process_time() - began) * 1e3, flush=True)


class Interpreter:
    """A process with the interpreter of a source tree, by default of this environment's; or with
    another engine.
    """

    def __init__(self, ptx: Path, tree: Path | None = None, engine: str = "interpreter") -> None:
        environment = os.environ | {"DEVMOD_STANDIN_ENGINE": engine}
        if tree is not None:
            environment["PYTHONPATH"] = str(tree / "extras" / "simulators" / "src")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(ptx)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def milliseconds(self, case: str, checks: str) -> float:
        """Return the time of a launch."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(checks, case, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


#: What a column measures: an interpreter, and checks.
Column = tuple[Interpreter, str]


def measure(case: str, columns: dict[str, Column], rounds: int) -> dict[str, float]:
    """Return the least time of a case in each column, which take turns."""
    if case == "small":
        rounds *= 100
    times: dict[str, float] = dict.fromkeys(columns, math.inf)
    for _ in range(rounds + 1):
        for name, (interpreter, checks) in columns.items():
            times[name] = min(times[name], interpreter.milliseconds(case, checks))
    return times


def compare(names: list[str], columns: dict[str, Column], rounds: int) -> dict[str, Any]:
    """Measure cases, and print a row for each. Loops have no columns of checks."""
    plain = {name: column for name, column in columns.items() if column[1] == NO_CHECKS}
    times = {}
    print(f"{'':18}" + "".join(f"{column:>12}" for column in columns))
    for case in names:
        chosen = plain
        if case in KERNELS:
            chosen = columns
        times[case] = measure(case, chosen, rounds)
        row = "".join(f"{times[case][name]:12.3f}" for name in chosen)
        if "before" in columns:
            row += f"{times[case]['ms'] / times[case]['before']:8.2f}"
        print(f"{case:18}{row}", flush=True)
    return times


def check_mean(what: str, of: str, ratios: list[float], most: float) -> bool:
    """Print and record a geometric mean. Return whether it exceeds its bound."""
    if not ratios:
        return False
    mean = math.prod(ratios) ** (1 / len(ratios))
    print(f"{what}: {mean:.2f} of {of}")
    return check(f"the interpreter of PTX, {what}", mean, most, of=of)


def main() -> int:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", default=[""])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0

    names = [case for case in all_cases() if any(each in case for each in options.names)]
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder, "kernels.ptx")
        program = compile_program(SOURCE, "k.cu", ["--gpu-architecture=compute_90", "-lineinfo"])
        ptx.write_bytes(program.ptx.rstrip(b"\0"))
        interpreter = Interpreter(ptx)
        columns = {"ms": (interpreter, NO_CHECKS)}
        if options.before:
            columns["before"] = Interpreter(ptx, options.before), NO_CHECKS
        compiled_code = Interpreter(ptx, engine="compiled")
        columns["compiled"] = compiled_code, NO_CHECKS
        columns["bounds"] = interpreter, BOUNDS
        columns["both"] = compiled_code, BOUNDS
        columns["all checks"] = interpreter, ALL
        times = compare(names, columns, options.rounds)

    ratios = [row["all checks"] / row["ms"] for case, row in times.items() if case in FIVE]
    failed = check_mean("all checks", "without checks", ratios, MOST_CHECKED)
    interpreted = "before" if options.before else "ms"
    of = "interpreted by the tree before" if options.before else "interpreted"
    compiled = {case: row["compiled"] / row[interpreted] for case, row in times.items()}
    ratios = [compiled[case] for case in times if is_wide(case)]
    failed |= check_mean("compiled, many threads", of, ratios, MOST_WIDE)
    ratios = [compiled[case] for case in times if not is_wide(case) and case != "small"]
    failed |= check_mean("compiled, few threads", of, ratios, MOST_NARROW)
    ratios = [row["both"] / row["bounds"] for case, row in times.items() if case in FIVE]
    failed |= check_mean("compiled, with bounds", "interpreted with them", ratios, MOST_WIDE)
    if not options.before:
        return int(failed)
    for threads in WIDTHS:
        loops = [row for case, row in times.items() if case.endswith(f" {threads}")]
        ratios = [row["ms"] / row["before"] for row in loops]
        failed |= check_mean(f"{threads} threads", "the tree before", ratios, MOST_BEFORE)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
