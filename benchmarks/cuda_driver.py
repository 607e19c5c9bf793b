"""The CUDA driver of the benchmarks: the real one with DEVMOD_TEST_CUDA=hardware, else the stand-in driver of the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("plugins/devmod-cuda/tests", "tests/standin")]

import pytest  # noqa: E402 - standin_cuda skips with the reason
from standin_cuda import child_environment, missing_driver, on_hardware, standin  # noqa: E402 - the line above finds it

__all__ = ["add_kernel", "environment", "launch_nothing", "missing", "missing_driver", "on_hardware", "place", "show"]

#: Adds n floats; NVRTC's output for it is a few lines of PTX.
SOURCE = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


def environment(driver: str) -> dict[str, str]:
    """Return the environment of a process that uses the driver through one of devmod-cuda's two packages."""
    own = {} if on_hardware() else child_environment()
    return os.environ | own | {"DEVMOD_CUDA_DRIVER": driver}


def show() -> None:
    """Let the stand-in driver, which has no devices at first, have them."""
    if not on_hardware():
        standin().show()


def launch_nothing() -> None:
    """Let the stand-in driver's launches return at once. With the real driver the kernel is launched."""
    if not on_hardware():
        show()
        standin().skip_launches()


def missing() -> str:
    """Return why there is no CUDA driver, not even the stand-in driver; "" if there is one."""
    if not on_hardware():
        try:
            child_environment()
        except pytest.skip.Exception as error:
            return str(error)
    return ""


def place() -> str:
    """Return the driver that the figures are from, for the head of a table."""
    return "with the driver of NVIDIA" if on_hardware() else "on the stand-in driver"


def add_kernel() -> Any:
    """Return the module of `SOURCE`: PTX for the stand-in driver, and a cubin for a card, whose driver may be older than NVRTC's PTX."""
    import devmod

    return devmod.compile(SOURCE, f"cuda -arch={devmod.device('cuda').arch.partition(':')[0] if on_hardware() else 'compute_80'}")
