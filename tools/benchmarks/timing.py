"""Times of calls and of new Python processes, and the figures for the tables: those with a bound,
and others.

The start of Python is the measure of a machine, for bounds that have no peer beside them. The
processes write and read bytecode, as an installed package has it: importing this module removes
PYTHONDONTWRITEBYTECODE from the environment.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
#: The file to which `check`, `record` and `note` append a line of JSON for each figure.
#: `tools/benchmarks/all.py` sets it, and writes the tables.
FIGURES = "DEVMOD_BENCH_FIGURES"


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the milliseconds that `work` takes."""
    began = clock()
    work()
    return (clock() - began) * 1e3


def process_time(program: str = "", *, python: str = sys.executable) -> float:
    """Return the milliseconds of a new process with that program, from start to end; by default, of
    one that does nothing.
    """
    return timed(
        lambda: subprocess.run([python, "-c", program], check=True, stdout=subprocess.DEVNULL)
    )


def start_of_python() -> float:
    """Return the milliseconds in which Python starts, the median of nine processes."""
    return statistics.median(process_time() for _ in range(9))


def in_new_process(script: str, *arguments: object, processes: int = 1) -> list[float]:
    """Return the numbers that a script prints, each the median of several processes."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    rows = []
    for _ in range(processes):
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append([float(word) for word in process.stdout.split()])
    return [statistics.median(numbers) for numbers in zip(*rows, strict=True)]


def medians_of(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of each contender's times."""
    return {name: statistics.median(each) for name, each in times.items()}


def each_kind(kinds: str, compare: Callable[[str, Path], bool]) -> bool:
    """Call `compare` with each kind that runs here and a temporary folder. Return whether one
    result is True.

    Parameters
    ----------
    kinds
        The kinds, with commas between them.
    compare
        Measures a kind, and returns whether a figure exceeds its bound.
    """
    import devmod  # not above: some processes that are measured import this file

    failed = False
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # Mesa prints a warning without it
        for kind in kinds.split(","):
            try:
                devmod.device(kind)
                failed |= compare(kind, Path(folder))
            except (devmod.DeviceNotFoundError, devmod.ToolchainNotFoundError) as error:
                print(f"{kind}: not measured: {error}")
    return failed


def check(what: str, ratio: float, most: float, *, of: str) -> bool:
    """Record a figure for the table at the end of `make bench`. Return whether it exceeds its
    bound.

    Parameters
    ----------
    what, of
        What was measured, and the unit of the ratio: ``"OpenCL, general call with 8 arguments"``
        and ``"pyopencl, declared types"``.
    ratio, most
        The figure and its bound.
    """
    _append({"what": what, "ratio": ratio, "most": most, "of": of})
    return ratio > most


def record(table: str, row: str, value: float, unit: str, *, column: int | str = "") -> None:
    """Record a figure without a bound, for a table or a picture of docs/performance.md.

    Parameters
    ----------
    table, row
        The title of the table, and what was measured: ``"A call of axpy with NumPy arrays"`` and
        ``"devmod, OpenCL"``.
    value, unit
        The figure: 96.5 and ``"µs"``. A table has one unit.
    column
        The column, if the table has several: the bytes of each array, or a name.
    """
    _append({"table": table, "row": row, "value": value, "unit": unit, "column": column})


def note(text: str) -> None:
    """Record a sentence about the benchmark's figures, such as the versions of the peers."""
    _append({"note": text})


def _append(figure: dict[str, object]) -> None:
    path = os.environ.get(FIGURES)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(figure) + "\n")
