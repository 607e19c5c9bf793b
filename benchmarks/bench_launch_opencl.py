"""What a launch costs the host: devmod's prepared launch and its general call beside pyopencl's own.

    python benchmarks/bench_launch_opencl.py [--rounds 201] [--launches 100]

The kernel adds 64 floats and takes three buffers and an int. pyopencl's ``kernel(queue, …)`` has its scalar types declared, which
is its fastest way. The contenders take turns in each round, the queue is emptied between turns, and the figures are medians over the
rounds. Exits with 1 when a ratio to pyopencl's call is over what devmod promises.
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
#: The most that a contender may cost, in units of pyopencl's call.
MOST = {"devmod, prepared": 0.6, "devmod, general call": 1.5}


def contenders() -> tuple[dict[str, Callable[[], object]], list[Callable[[], object]]]:
    """What is launched by name, and what waits for all of it."""
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
    made: dict[str, Callable[[], object]] = {
        "pyopencl, kernel(queue, …)": lambda: kernel(queue, size, block, x, y, z, N),
        "pyopencl, enqueue alone": lambda: enqueue(queue, bare, size, block),
        "devmod, prepared": lambda: prepared(),
        "devmod, general call": lambda: function(a, b, c, N, grid=1, block=N),
    }
    return made, [queue.finish, device.synchronize]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--launches", type=int, default=100)
    given = parser.parse_args()
    made, waits = contenders()
    taken: dict[str, list[float]] = {name: [] for name in made}
    for round_ in range(given.rounds + 2):
        for name, launch in made.items():
            began = time.perf_counter()
            for _ in range(given.launches):
                launch()
            took = (time.perf_counter() - began) / given.launches
            for wait in waits:
                wait()
            if round_ >= 2:  # the first two warm up
                taken[name].append(took * 1e6)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    base = medians["pyopencl, kernel(queue, …)"]
    missed = False
    print(f"{'launch':<28} {'µs':>7} {'ratio':>6} {'most':>5}")
    for name, median in medians.items():
        most = MOST.get(name)
        over = most is not None and median / base > most
        missed |= over
        print(f"{name:<28} {median:7.2f} {median / base:6.2f} {most if most is not None else '':>5}{'  over' if over else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
