"""The host's time of an OpenCL launch: devmod's prepared launch, general call and call by keywords beside pyopencl's own.

    python benchmarks/bench_launch_opencl.py [--rounds 201] [--launches 100]

The kernel adds 64 floats and takes three buffers and an int. The scalar types of pyopencl's ``kernel(queue, …)`` are declared, which is
its fastest way. Each round runs every contender once. While one is measured, a user event holds its queue. The launches then wait in the
queue, and the device's work is not in the time: PoCL's threads are on the same cores. The figures are medians over the rounds. The exit
code is 1 if a ratio is over its bound. The bound of the call by keywords is a ratio to the general call.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import pyopencl as cl

import devmod

SOURCE = """
__kernel void add(__global const float *a, __global const float *b, __global float *c, int n)
{
    int i = get_global_id(0);
    if (i < n) c[i] = a[i] + b[i];
}
"""
N = 64
PYOPENCL = "pyopencl, kernel(queue, …)"
GENERAL = "devmod, general call"
KEYWORDS = "devmod, call by keywords"
#: The most that the ratio of a contender's time to another's may be, and that other contender.
MOST = {"devmod, prepared": (0.6, PYOPENCL), GENERAL: (1.5, PYOPENCL), KEYWORDS: (1.3, GENERAL)}


def contenders() -> dict[str, tuple[cl.CommandQueue, Callable[[int], None]]]:
    """Return the queues and the loops of launches by name."""
    params = [devmod.Param(name, "buffer", "float32", access) for name, access in (("a", "r"), ("b", "r"), ("c", "w"))]
    interface = devmod.Interface([*params, devmod.Param("n", "scalar", "int32")])
    info = devmod.FunctionInfo("add", ["handle", "handle", "handle", "int32"], interface=interface)
    function = devmod.create("opencl", SOURCE.encode(), "cl", {"add": info})["add"]
    device = devmod.device("opencl")
    a, b, c = (device.from_numpy(np.ones(N, "float32")) for _ in range(3))
    prepared = function.bind(a, b, c, N, grid=1, block=N)

    context = cl.Context([device.handle])
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "add")
    kernel.set_scalar_arg_dtypes([None, None, None, np.int32])
    x, y, z = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * N) for _ in range(3))
    bare = cl.Kernel(cl.Program(context, SOURCE).build(), "add")
    bare.set_args(x, y, z, np.int32(N))
    enqueue = cl.enqueue_nd_range_kernel
    size, block = (N,), (N,)
    ours = device.default_stream.queue

    # A loop of its own for each, as a program would write it.
    def call_pyopencl(launches: int) -> None:
        for _ in range(launches):
            kernel(queue, size, block, x, y, z, N)

    def enqueue_alone(launches: int) -> None:
        for _ in range(launches):
            enqueue(queue, bare, size, block)

    def call_prepared(launches: int) -> None:
        for _ in range(launches):
            prepared()

    def call_devmod(launches: int) -> None:
        for _ in range(launches):
            function(a, b, c, N, grid=1, block=N)

    def call_by_keywords(launches: int) -> None:
        for _ in range(launches):
            function(a=a, b=b, c=c, n=N, grid=1, block=N)

    return {
        PYOPENCL: (queue, call_pyopencl),
        "pyopencl, enqueue alone": (queue, enqueue_alone),
        "devmod, prepared": (ours, call_prepared),
        GENERAL: (ours, call_devmod),
        KEYWORDS: (ours, call_by_keywords),
    }


def launch_time(queue: cl.CommandQueue, loop: Callable[[int], None], launches: int) -> float:
    """Return the microseconds of one launch, the mean of so many."""
    hold = cl.UserEvent(queue.context)
    cl.enqueue_barrier(queue, wait_for=[hold])
    start = time.perf_counter()
    loop(launches)
    took = time.perf_counter() - start
    hold.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()
    return took / launches * 1e6


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--launches", type=int, default=100)
    options = parser.parse_args()
    loops = contenders()
    durations: dict[str, list[float]] = {name: [] for name in loops}
    for round_ in range(options.rounds + 2):
        for name, (queue, loop) in loops.items():
            took = launch_time(queue, loop, options.launches)
            if round_ >= 2:  # the first two warm up
                durations[name].append(took)
    medians = {name: statistics.median(times) for name, times in durations.items()}
    missed = False
    print(f"{'launch':<28} {'µs':>7} {'ratio':>6} {'most':>5}")
    for name, median in medians.items():
        most, unit = MOST.get(name, (None, PYOPENCL))
        ratio = median / medians[unit]
        over = most is not None and ratio > most
        missed |= over
        of = f"  of {unit}" if unit != PYOPENCL else ""
        print(f"{name:<28} {median:7.2f} {ratio:6.2f} {most if most is not None else '':>5}{of}{'  over' if over else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
