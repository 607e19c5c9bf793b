"""Times of calls and of new Python processes.

The start of Python is the measure of a machine, for bounds that have no peer beside them. The processes write and read bytecode, as an
installed package has it: importing this module removes PYTHONDONTWRITEBYTECODE from the environment.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the milliseconds that `work` takes."""
    began = clock()
    work()
    return (clock() - began) * 1e3


def process_time(program: str = "") -> float:
    """Return the milliseconds of a new process with that program, from start to end; by default, of one that does nothing."""
    return timed(lambda: subprocess.run([sys.executable, "-c", program], check=True))


def start_of_python() -> float:
    """Return the milliseconds in which Python starts, the median of nine processes."""
    return statistics.median(process_time() for _ in range(9))


def in_new_process(script: str, *arguments: object, processes: int = 1) -> list[float]:
    """Return the numbers that a script prints, each the median of several processes."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    printed = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(processes)]
    return [statistics.median(numbers) for numbers in zip(*([float(word) for word in each.split()] for each in printed), strict=True)]
