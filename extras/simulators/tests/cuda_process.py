"""Programs in processes of their own, with the stand-in CUDA driver."""

from __future__ import annotations

import subprocess
import sys

from devmod_simulators import libcuda

BEGIN = """
import os
from cuda.bindings import driver as cuda
def check(result):
    assert result[0] == 0, result
    return result[1] if len(result) == 2 else result[1:]
def open_device():
    check(cuda.cuInit(0))
    check(cuda.cuCtxSetCurrent(check(cuda.cuDevicePrimaryCtxRetain(check(cuda.cuDeviceGet(0))))))
"""


def run(code: str, errors: str = "", *, ends: int = 0, **settings: object) -> str:
    """Run a program with the stand-in driver to its exit code, and return its output."""
    environment = {
        "PATH": "/usr/bin:/bin",
        **libcuda.environment(**{key: value for key, value in settings.items() if key.islower()}),
    }
    environment |= {key: str(value) for key, value in settings.items() if key.isupper()}
    process = subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert process.returncode == ends, process.stderr
    assert process.stderr == errors
    return process.stdout
