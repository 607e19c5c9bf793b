"""The time that Python takes to start: the measure of a machine, for bounds that have no peer beside them."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def start_of_python(rounds: int = 15) -> float:
    """Return the milliseconds of a new process that does nothing: the lower quartile, since other processes only add time."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", ""], check=True)
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.quantiles(times, n=4)[0]
