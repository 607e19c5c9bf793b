"""Signals: a program's handlers are as before when a driver has loaded its compiler."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from backend_checks import first_device
from interruptible import HANGS, interruptible_python

#: The signal or "all" is the argument.
USE = """
import os, signal, sys
import numpy as np, devmod
NAMES = "SIGHUP SIGINT SIGQUIT SIGTERM SIGUSR1 SIGUSR2 SIGXCPU SIGXFSZ".split()
seen = []
if sys.argv[1] == "all":
    for each in NAMES:
        signal.signal(getattr(signal, each), lambda number, _: seen.append(signal.Signals(number).name))
source = "kernel void one(global int *y) { y[0] = 1; }"
for device in devmod.devices("opencl"):
    y = np.zeros(4, "int32")
    devmod.compile(source, "opencl", block=1)["one"].on(device)(y, threads=1)
    assert y[0] == 1
for each in NAMES if sys.argv[1] == "all" else [sys.argv[1]]:
    os.kill(os.getpid(), getattr(signal, each))
print(seen == NAMES)
"""


@pytest.mark.skipif(os.name != "posix", reason="the signals are POSIX's")
@pytest.mark.parametrize("name", ["all", "SIGQUIT", "SIGUSR1"])
def test_the_use_of_all_devices_keeps_the_handlers_of_signals(name: str) -> None:
    """Python's own, and the defaults of the system, by which a process ends."""
    first_device("opencl")
    command = interruptible_python("-W", "ignore", "-c", USE, name)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS)
    if name == "all":
        assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    else:
        assert done.returncode == -signal.Signals[name], done.stderr
