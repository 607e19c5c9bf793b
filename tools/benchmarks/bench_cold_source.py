"""The time in which a new process gets a result of one kernel of an OpenCL source with many
kernels: devmod beside pyopencl alone.

    python tools/benchmarks/bench_cold_source.py [--kernels 1 20 200] [--rounds 5]

The time is that of the whole process. The kernels differ in their names, bodies and constants.
"Empty" is with empty folders for the caches of devmod, pyopencl and PoCL; "warm" is a process after
another one with the same folders. The contenders alternate, and the figures are medians. The exit
code is 1 if a ratio exceeds its bound.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bare import share_device
from timing import check, timed

import devmod

#: The most that a process with devmod takes, of one with pyopencl alone: with empty caches, and
#: with warm ones.
MOST = (1.2, 1.45)
KERNEL = """kernel void k{n}(global const float *x, global float *y, int n) {{
    int i = get_global_id(0);
    float v = x[i];
    for (int j = 0; j < {rounds}; j++) v = v * {n}.5f + x[(i + j) % n];
    if (i < n) y[i] = v;
}}
"""
OURS = """
import sys
import numpy as np
import devmod
x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
devmod.load(sys.argv[1])["k0"](x, y, 64, grid=1, block=64)
assert y[0] == 1.75
"""
THEIRS = """
import sys
sys.path.insert(0, {folder!r})
from bare import opencl_device
import numpy as np
import pyopencl as cl
x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
context = cl.Context([opencl_device(cl)])
queue = cl.CommandQueue(context)
with open(sys.argv[1]) as file:
    kernel = cl.Kernel(cl.Program(context, file.read()).build(), "k0")
kernel.set_scalar_arg_dtypes([None, None, np.int32])
flags = cl.mem_flags
source = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
result = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=y)
kernel(queue, (64,), (64,), source, result, 64)
cl.enqueue_copy(queue, y, result)
assert y[0] == 1.75
"""


def process(program: str, file: Path, caches: Path) -> float:
    """Return the milliseconds of a new process."""
    folders = {
        variable: str(caches / variable)
        for variable in ("DEVMOD_CACHE_DIR", "XDG_CACHE_HOME", "POCL_CACHE_DIR")
    }
    for folder in folders.values():
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return timed(
        lambda: subprocess.run(
            [sys.executable, "-c", program, file], env=os.environ | folders, check=True
        )
    )


def compare(kernels: int, rounds: int, folder: Path) -> bool:
    """Measure a file with so many kernels and print its lines.

    Return whether a bound is exceeded.
    """
    source = folder / f"{kernels}.cl"
    packed = folder / f"{kernels}.devmod"
    source.write_text(
        "".join(KERNEL.format(n=number, rounds=number % 29 + 2) for number in range(kernels))
    )
    devmod.save(devmod.compile(source, "opencl"), packed)
    their_program = THEIRS.format(folder=str(Path(__file__).parent))
    times: dict[tuple[str, str], list[float]] = {}
    for round_ in range(rounds + 1):
        for name, program, file in (("pyopencl", their_program, source), ("devmod", OURS, packed)):
            with tempfile.TemporaryDirectory(dir=folder) as caches:
                for state in ("empty", "warm"):
                    took = process(program, file, Path(caches))
                    if round_:  # the first writes the bytecode
                        times.setdefault((name, state), []).append(took)
    missed = False
    for state, most in zip(("empty", "warm"), MOST, strict=True):
        their, our = (statistics.median(times[name, state]) for name in ("pyopencl", "devmod"))
        over = check(
            f"OpenCL, new process to a result, 1 of {kernels} kernels, caches {state}",
            our / their,
            most,
            of="pyopencl alone",
        )
        missed |= over
        ratio = f"{our / their:5.2f} (at most {most}){'  over' if over else ''}"
        print(
            f"{kernels:>5} kernels, caches {state:<6} {our:7.0f} ms   pyopencl {their:7.0f} ms   {ratio}"
        )
    return missed


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, nargs="+", default=[1, 20, 200])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        share_device(Path(folder))
        missed = [compare(kernels, options.rounds, Path(folder)) for kernels in options.kernels]
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
