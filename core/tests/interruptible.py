"""Processes that a test interrupts: with SIGINT, or at random points. pytest's `pythonpath` has
this folder.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

#: A shell starts jobs in the background with SIGINT ignored, nohup ignores SIGHUP, and children
#: inherit that. This restores the defaults.
_RESTORE = """import os, signal, sys
for each in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM"):
    if hasattr(signal, each):  # Windows has no SIGHUP
        signal.signal(getattr(signal, each), signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"""


def interruptible_python(*arguments: str) -> list[str]:
    """Return the command of a Python process that SIGINT interrupts, wherever the tests run."""
    return [sys.executable, "-c", _RESTORE, *arguments]


#: Seconds after which a process or a thread hangs.
HANGS = 600

#: Code that raises KeyboardInterrupt at random points: `storm` sends this process signals while
#: `body` runs repeatedly. Each one lands.
STORM = """
import random, signal, sys, threading

def storm(body, seed, interrupts, shortest=2e-6, longest=3e-4):
    chosen = random.Random(seed)
    landed = [0]
    armed = [False]
    def interrupt(*_):
        if armed[0]:
            armed[0] = False
            landed[0] += 1
            raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    sys.unraisablehook = lambda _: None  # an interrupt in a finalizer is lost
    def repeat():  # a function: Python 3.13 has the end of a loop outside of the try around it
        while armed[0]:
            body()
    while landed[0] < interrupts:
        try:
            armed[0] = True
            signal.setitimer(signal.ITIMER_REAL, chosen.uniform(shortest, longest))
            repeat()
        except KeyboardInterrupt:
            pass
"""


def run_storm(program: str, *arguments: object) -> str:
    """Return the output of a program that may call `storm`. It runs in another process, which must
    succeed in time.
    """
    if sys.version_info >= (3, 14) and "storm(" in program:
        pytest.skip(
            "Python 3.14 raises KeyboardInterrupt also between the acquisition of a lock and its block"
        )
    command = [sys.executable, "-c", STORM + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
