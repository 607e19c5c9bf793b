"""Saving and opening a large bundle, beside a raw write of the same bytes and one SHA-256 pass over
them.

    python tools/benchmarks/bench_save.py [--megabytes 200] [--rounds 7] [--folder .]

The three alternate in one process, and each figure is the median of the rounds. The files are in
one folder and new each time. Saving hashes what it writes, so the slower of a raw write and a hash
pass is its lower bound. Peak memory is VmHWM (Linux) of new processes, above the value when the
payload was in memory. Exits with 1 if devmod exceeds a bound.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from timing import check, in_new_process, medians_of, start_of_python, timed

import devmod

MAX_RATIO = 1.5
#: The first open of a process, with its imports, and a later one, as parts of the start of Python.
#: The imports read bytecode, and the start is half C, so the part varies by the machine: it was
#: 0.302 on one.
MAX_FIRST_OPEN = 0.35
MAX_OPEN = 0.02
MAX_EXTRA_MIB = 16

PEAK = """
import sys, time
import devmod
def memory(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) / 1024
"""
PEAK_SAVE = (
    PEAK
    + """
code = bytes(int(sys.argv[2]))
code = memoryview(bytearray(code)).toreadonly()
module = devmod.create_with_fallback("cuda", code, "cubin", {"f": devmod.FunctionInfo("f", ["handle"])})
devmod.save(devmod.create_with_fallback("cuda", b"", "cubin", {}), sys.argv[1] + ".small")
before = memory("VmHWM")
devmod.save(module, sys.argv[1])
print(memory("VmHWM") - before, 0, 0)
"""
)
PEAK_OPEN = """
import time
import devmod
import sys
began = time.perf_counter()
devmod.load(sys.argv[1])
first = (time.perf_counter() - began) * 1e3
def memory(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) / 1024
before = memory("VmHWM")
times = []
for _ in range(51):
    began = time.perf_counter()
    module = devmod.load(sys.argv[1])
    times.append((time.perf_counter() - began) * 1e3)
print(memory("VmHWM") - before, first, sorted(times)[25])
"""


def write_raw(path: Path, code: bytes) -> None:
    """Write the payload without devmod."""
    with open(path, "wb", buffering=0) as file:
        view = memoryview(code)
        while view:
            view = view[file.write(view) :]


def main() -> int:
    """Print the table. Return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--folder",
        default=None,
        help="where the files are written (default: the system's folder for such)",
    )
    options = parser.parse_args()
    code = os.urandom(1 << 20) * options.megabytes
    module = devmod.create_with_fallback(
        "cuda", code, "cubin", {"f": devmod.FunctionInfo("f", ["handle"])}
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        raw = Path(folder, "raw")
        bundle = Path(folder, "k.devmod")

        def write_and_hash() -> None:
            write_raw(raw, code)
            hashlib.sha256(code).digest()

        work: dict[str, Callable[[], object]] = {
            "raw write": lambda: write_raw(raw, code),
            "SHA-256 pass": lambda: hashlib.sha256(code).digest(),
            "devmod.save": lambda: devmod.save(module, bundle),
            "write, then hash": write_and_hash,
        }
        times: dict[str, list[float]] = defaultdict(list)
        for _ in range(options.rounds):
            for name, each in work.items():
                raw.unlink(missing_ok=True)
                bundle.unlink(missing_ok=True)
                times[name].append(timed(each))
        medians = medians_of(times)
        bound = max(medians["raw write"], medians["SHA-256 pass"])
        print(f"{options.megabytes} MB, median of {options.rounds} rounds in turns\n")
        print(f"{'':24}{'ms':>10}{'ratio':>10}")
        for name, took in medians.items():
            print(f"{name:24}{took:10.1f}{took / bound:10.2f}")
        ratio = medians["devmod.save"] / bound
        devmod.save(module, bundle)
        extra_save, _, _ = in_new_process(PEAK_SAVE, Path(folder, "peak"), len(code))
        in_new_process(PEAK_OPEN, bundle)  # it writes the bytecode cache
        extra_open, first, again = in_new_process(PEAK_OPEN, bundle, processes=9)
        start = start_of_python()
    print(f"\n{'start of Python':36}{start:8.2f} ms")
    print(
        f"{'open, first in a process':36}{first:8.2f} ms  {first / start:.2f} of it, at most {MAX_FIRST_OPEN}  (with what it imports)"
    )
    print(f"{'open, again':36}{again:8.2f} ms  {again / start:.3f} of it, at most {MAX_OPEN}")
    print(f"{'peak memory of saving, above payload':36}{extra_save:8.1f} MiB")
    print(f"{'peak memory of opening':36}{extra_open:8.1f} MiB")
    failed = []
    peer = "the slower of a raw write and a SHA-256 pass"
    if check("save of a large bundle", ratio, MAX_RATIO, of=peer):
        failed.append(f"saving took {ratio:.2f} of the slower part; {MAX_RATIO} is the bound")
    what = "first open in a process, with its imports"
    if check(what, first / start, MAX_FIRST_OPEN, of="starts of Python"):
        failed.append(
            f"opening took {first:.2f} ms the first time; {MAX_FIRST_OPEN * start:.2f} is the bound"
        )
    if check("a later open", again / start, MAX_OPEN, of="starts of Python"):
        failed.append(f"opening took {again:.2f} ms; {MAX_OPEN * start:.2f} is the bound")
    if check("memory of a save, above the payload", extra_save, MAX_EXTRA_MIB, of="MiB"):
        failed.append(f"saving took {extra_save:.0f} MiB; {MAX_EXTRA_MIB} is the bound")
    if check("memory of an open", extra_open, MAX_EXTRA_MIB, of="MiB"):
        failed.append(f"opening took {extra_open:.0f} MiB; {MAX_EXTRA_MIB} is the bound")
    print("\n" + ("\n".join(failed) or "All within the bounds."))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
