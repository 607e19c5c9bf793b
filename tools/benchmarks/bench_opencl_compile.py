"""The time of compiling the kernels of examples/ that are in OpenCL C for CUDA and ROCm, each file
by a call of its own.

    python tools/benchmarks/bench_opencl_compile.py [--rounds 5]

The first compile of a process, which compiles devmod's built-in functions of OpenCL C, is not in
the figure. `devmod.compile` runs on two threads, because most of its time is clang's, and then on
one. The figure is the time for 20 kernels: that of all files, in the ratio of their kernels. The
processor time is that of this process and of clang, and the bound is one for it: the wall time on
idle cores is less, and that of a busy machine is not devmod's. The last row of a kind has the wall
time of each of clang's runs, by what it writes; the rest is libclang and Python. The exit code is 1
if the fastest round exceeds its bound.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

from timing import check

import devmod
from devmod_targets.authoring import _process, zig

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS = ("cuda -arch=compute_80", "rocm -arch=gfx1100")
#: The kernels of the figure, and the milliseconds that they may take.
COUNT = 20
MOST = 2000


def processor_time() -> float:
    """Return the seconds of processor of this process and of those that it has waited for."""
    times = os.times()
    return sum(times[:4])


class Phases:
    """The wall time of clang's runs.

    Attributes
    ----------
    seconds
        The time of each run's output, such as "program.ptx".
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._run = _process.run_program

    def run_program(self, arguments: list[str], *rest: object, **named: object) -> object:
        """Run a program, and add its time."""
        began = time.perf_counter()
        try:
            return self._run(arguments, *rest, **named)  # type: ignore[arg-type]
        finally:
            name = str(arguments[-1])
            spent = self.seconds.get(name, 0) + time.perf_counter() - began
            self.seconds[name] = spent


def compiled(file: Path, target: str) -> int:
    """Compile a file, and return the number of its kernels."""
    return len(devmod.compile(file, target).functions)


def measure(target: str, threads: int, files: list[Path], rounds: int) -> tuple[float, float, int]:
    """Return the least wall time and the least processor time of a round in milliseconds, and the
    number of kernels.
    """
    walls, processor = [], []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(rounds):
            began, used = time.perf_counter(), processor_time()
            kernels = sum(pool.map(compiled, files, [target] * len(files)))
            walls.append(1e3 * (time.perf_counter() - began))
            processor.append(1e3 * (processor_time() - used))
    return min(walls), min(processor), kernels


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    # Those of examples/tuned have no constants without their manifest.
    files = [each for each in EXAMPLES.rglob("*.cl") if each.parent.name != "tuned"]
    files.sort(key=lambda each: -each.stat().st_size)
    exceeded = []
    for target in TARGETS:
        kind = target.split()[0]
        of_kind = files
        if kind == "rocm":  # which has no images
            of_kind = [each for each in files if "image2d_t" not in each.read_text()]
        for file in of_kind:
            compiled(file, target)
        for threads in (2, 1):
            wall, processor, kernels = measure(target, threads, of_kind, rounds)
            share = COUNT / kernels
            print(
                f"{target}, {threads} threads: {len(of_kind)} files with {kernels} kernels {wall:.0f} ms, processor {processor:.0f} ms; "
                f"{COUNT} kernels {share * wall:.0f} ms, processor {share * processor:.0f} ms; load {os.getloadavg()[0]:.1f}"
            )
            if threads == 2:
                what = f"{COUNT} kernels of examples in OpenCL C for {kind}, processor time"
                exceeded.append(check(what, share * processor / MOST, 1, of="2 s"))
        phases = Phases()
        with patch.object(zig, "run_program", phases.run_program):
            wall, _, _ = measure(target, 1, of_kind, 1)
        parts = ", ".join(f"{name} {1e3 * spent:.0f} ms" for name, spent in phases.seconds.items())
        print(f"{target}, one round of {wall:.0f} ms, of which clang writes: {parts}")
    return int(any(exceeded))


if __name__ == "__main__":
    raise SystemExit(main())
