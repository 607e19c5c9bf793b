"""Signals: a program's handlers are as before when a driver has loaded its compiler."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from backend_checks import first_device
from interruptible import HANGS, interruptible_python

from devmod_opencl import devices

#: The signal that ends the process is the argument; the others have a handler.
USE = """
import os, signal, sys
import numpy as np, devmod
NAMES = "SIGHUP SIGINT SIGQUIT SIGTERM SIGUSR1 SIGUSR2 SIGXCPU SIGXFSZ".split()
NAMES.remove(sys.argv[1])
seen = []
for each in NAMES:
    signal.signal(getattr(signal, each), lambda number, _: seen.append(signal.Signals(number).name))
source = "kernel void one(global int *y) { y[0] = 1; }"
for device in devmod.devices("opencl"):
    y = np.zeros(4, "int32")
    devmod.compile(source, "opencl", block=1)["one"].on(device)(y, threads=1)
    assert y[0] == 1
    seen.clear()
    for each in NAMES:
        os.kill(os.getpid(), getattr(signal, each))
    print(device.index, seen == NAMES, flush=True)
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


@pytest.mark.skipif(os.name != "posix", reason="the signals are POSIX's")
@pytest.mark.parametrize("name", ["SIGQUIT", "SIGUSR1"])
def test_the_use_of_a_device_keeps_the_handlers_of_signals(name: str) -> None:
    """Python's own, and the defaults of the system, by which a process ends."""
    first_device("opencl")
    command = interruptible_python("-W", "ignore", "-c", USE, name)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS)
    expected = "".join(f"{each.index} True\n" for each in devices())
    assert (done.returncode, done.stdout) == (-signal.Signals[name], expected), done.stderr
