"""The time that ``import devmod`` adds to bare Python, beside importing importlib.metadata, pluggy
and NumPy.

    python tools/benchmarks/bench_import.py [--processes 31]

Each figure is the lower quartile of the times of whole processes, less bare Python's. Each round
runs every contender once. It is the lower quartile because other processes on the machine only add
time. The exit code is 1 if ``import devmod`` takes more than its bound, or imports a module of
`UNWANTED`.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections import defaultdict

from timing import check, process_time

#: The most over bare Python, of its start.
MOST = 0.5
#: Modules that ``import devmod`` may not import.
UNWANTED = (
    "numpy",
    "pluggy",
    "importlib.metadata",
    "importlib_metadata",
    "msgpack",
    "click",
    "typing",
    "dataclasses",
    "pathlib",
    "json",
    "logging",
)


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=31)
    options = parser.parse_args()
    named = ["devmod", "importlib.metadata", "pluggy", "numpy", "stevedore"]
    programs = {"bare Python": "pass"} | {
        name: f"import {name}" for name in named if importlib.util.find_spec(name) is not None
    }
    durations: dict[str, list[float]] = defaultdict(list)
    for round_ in range(options.processes + 2):
        for name, program in programs.items():
            took = process_time(program)
            if round_ >= 2:  # the first two warm the caches
                durations[name].append(took)
    quartile = {name: sorted(took)[options.processes // 4] for name, took in durations.items()}
    bare = quartile["bare Python"]
    over = {name: took - bare for name, took in quartile.items()}
    print(
        f"import in a new process; lower quartiles of {options.processes}; bare Python {bare:.1f} ms"
    )
    print(f"  {'':22}{'ms over bare':>14}{'of importlib.metadata':>24}{'at most':>10}")
    for name in programs:
        most = f"{MOST * bare:.2f}" if name == "devmod" else ""
        if name != "bare Python":
            print(
                f"  {name:22}{over[name]:14.2f}{over[name] / over['importlib.metadata']:24.3f}{most:>10}"
            )
    program = "import sys; before = set(sys.modules); import devmod; print(' '.join(sorted(set(sys.modules) - before)))"
    imported = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()
    print(f"  import devmod imports: {', '.join(imported)}")
    unwanted = [name for name in imported if name in UNWANTED]
    if unwanted:
        print(f"  forbidden modules: {', '.join(unwanted)}")
    return int(
        check("import devmod, over bare Python", over["devmod"] / bare, MOST, of="starts of Python")
        or bool(unwanted)
    )


if __name__ == "__main__":
    sys.exit(main())
