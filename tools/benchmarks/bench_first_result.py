"""The time of a new process that computes its first softmax: devmod beside the bare packages
pyopencl, wgpu and vulkan.

    python tools/benchmarks/bench_first_result.py [--rounds 15] [--rows 64] [--kinds
    opencl,webgpu,vulkan]

The kernel is the softmax of examples/. devmod loads a .devmod file, and the bare package the source
or the SPIR-V in it. The time is that of the whole process, from its start to its end. "Caches
empty" is with an empty folder for the caches of devmod, pyopencl, PoCL and Mesa; "caches warm" is a
process after others with the same folder. Each contender has folders of its own. Each round runs
every contender once, in an order of its own. The figures are lower quartiles, as other programs on
the machine only add time. The processor time is that of the process and of the processes that it
starts. `devmod devices` is compared with the kind whose list takes the longest alone. It has a
process for each processor, so it needs two that are idle. The exit code is 1 if a ratio is over its
bound.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bare
from timing import check, each_kind

import devmod

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCES = {
    "opencl": "opencl/softmax.cl",
    "webgpu": "webgpu/softmax.wgsl",
    "vulkan": "vulkan/softmax.comp",
}
#: The most that the ratio to the bare package may be: with the caches empty, and warm; None without
#: a bound.
MOST = {"opencl": (1.15, 1.25), "webgpu": (1.0, 1.0), "vulkan": (None, 1.35)}
#: The most that `devmod devices` takes, of its slowest kind alone.
MOST_DEVICES = 1.3
#: The folders of caches by their variables.
CACHES = {
    "DEVMOD_CACHE_DIR": "devmod",
    "XDG_CACHE_HOME": "xdg",
    "MESA_SHADER_CACHE_DIR": "mesa",
    "POCL_CACHE_DIR": "pocl",
}
ARRAYS = """
import numpy as np
x, y = np.ones(({rows}, 1000), np.float32), np.zeros(({rows}, 1000), np.float32)
"""
OURS = (
    ARRAYS
    + """
import devmod
devmod.load({path!r})["softmax"](x, y, 1000, grid={rows})
assert abs(y.sum() - {rows}) < 0.1
"""
)
THEIRS = (
    ARRAYS
    + """
import sys
sys.path.insert(0, {folder!r})
import bare
with open({path!r}, "rb") as file:
    bare.{peer}(file.read(), {entry!r})(x, y, 1000, {rows})
assert abs(y.sum() - {rows}) < 0.1
"""
)

COMMAND = "import os, sys; sys.stdout = open(os.devnull, 'w'); sys.argv[1:] = ['devices']; from devmod.__main__ import main; main()"
LISTING = "from devmod_workbench._tools.devices import listing; listing({kind!r})"


def programs(kind: str, folder: Path, rows: int) -> tuple[str, str]:
    """Return the programs with devmod and with the bare package."""
    module = devmod.compile(EXAMPLES / SOURCES[kind], kind)
    path = folder / f"{kind}.devmod"
    source = folder / f"{kind}.source"
    devmod.save(module, path)
    code: Any = module.code  # type: ignore[attr-defined]
    if kind != "opencl":
        code = code["softmax"]
    code = bytes(code)
    # devmod's payload has a flag and a length before the SPIR-V.
    if kind == "vulkan":
        code = code[12:]
    source.write_bytes(code)
    peer = bare.PEERS[kind][0].__name__
    entry = module.functions["softmax"].name
    theirs = THEIRS.format(
        rows=rows, folder=str(Path(__file__).parent), path=str(source), peer=peer, entry=entry
    )
    return OURS.format(rows=rows, path=str(path)), theirs


def measure(program: str, caches: Path) -> tuple[float, float]:
    """Return the seconds of a new process on the clock, and those of the processor."""
    folders = {variable: str(caches / name) for variable, name in CACHES.items()}
    for folder in folders.values():
        os.makedirs(folder, mode=0o700, exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", program], env=os.environ | folders, cwd=caches, check=True
    )
    took = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(kind: str, folder: Path, rounds: int, rows: int) -> bool:
    """Measure one kind and print its lines. Return whether a bound is exceeded."""
    if kind == "opencl":
        bare.share_device(folder)
    own_program, bare_program = programs(kind, folder, rows)
    package = bare.PEERS[kind][1]
    contenders = [("devmod", own_program), (package, bare_program)]
    times: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    for round_ in range(rounds + 1):
        turns = []
        for name, program in contenders:
            turns += [(name, program, False), (name, program, True)]
        random.Random(round_).shuffle(turns)
        for name, program, is_warm in turns:
            caches = folder / f"{kind}-{name}-{'warm' if is_warm else 'empty'}"
            figures = measure(program, caches)
            if not is_warm:
                shutil.rmtree(caches)
            if round_:  # the first fills the caches, and compiles the bytecode
                times.setdefault((name, is_warm), []).append(figures)
    failed = False
    for is_warm, most in zip((False, True), MOST[kind], strict=True):
        ours, our_work = map(lower_quartile, zip(*times["devmod", is_warm], strict=True))
        theirs, their_work = map(lower_quartile, zip(*times[package, is_warm], strict=True))
        what = f"{kind}, new process to its first softmax, caches {'warm' if is_warm else 'empty'}"
        over = most is not None and check(what, ours / theirs, most, of=f"{package} alone")
        failed |= over
        print(
            f"{what:<62} {ours * 1e3:6.0f} ms  {package:>8} {theirs * 1e3:6.0f} ms  ratio {ours / theirs:5.2f}"
            f"{'' if most is None else f' (at most {most:g})'}{'  over' if over else ''}   processor: {our_work * 1e3:.0f} of"
            f" {their_work * 1e3:.0f} ms, {our_work / their_work:.2f}",
            flush=True,
        )
    return failed


def lower_quartile(times: Sequence[float]) -> float:
    """Return the lower quartile of some times."""
    return statistics.quantiles(times, n=4)[0]


def compare_devices(folder: Path, rounds: int) -> bool:
    """Measure `devmod devices` and each kind alone, and print a line. Return whether the bound is
    exceeded.
    """
    contenders = {
        "": COMMAND,
        **{kind: LISTING.format(kind=kind) for kind in devmod.registered("devmod.device")},
    }
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds + 1):
        for name, program in contenders.items():
            times[name].append(measure(program, folder)[0])
    # The first fills the caches.
    command, *alone = (lower_quartile(each[1:]) for each in times.values())
    ratio = command / max(alone)
    print(
        f"devmod devices {command * 1e3:.0f} ms, its slowest kind alone {max(alone) * 1e3:.0f} ms, {ratio:.2f} (at most {MOST_DEVICES})"
    )
    return check("devmod devices", ratio, MOST_DEVICES, of="its slowest kind alone")


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--kinds", default=",".join(SOURCES))
    options = parser.parse_args()
    failed = each_kind(
        options.kinds, lambda kind, folder: compare(kind, folder, options.rounds, options.rows)
    )
    with tempfile.TemporaryDirectory() as folder:
        return int(compare_devices(Path(folder), options.rounds) or failed)


if __name__ == "__main__":
    sys.exit(main())
