"""The time that Python takes to start: the measure of a machine, for bounds that have no peer beside them."""

from __future__ import annotations

import subprocess
import sys
import time


def start_of_python() -> float:
    """Return the milliseconds of a new process that does nothing. Measure it in the rounds of what it is compared with."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return (time.perf_counter() - began) * 1e3
