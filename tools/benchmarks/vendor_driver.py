"""The driver of CUDA's and ROCm's benchmarks: the real one with DEVMOD_TEST_<KIND>=hardware, else
the stand-in driver of the tests.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Adds n floats, in CUDA C++ and HIP; NVRTC's output for it is a few lines of PTX.
ADD = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
#: The language of `ADD`, and what the stand-in driver runs: PTX, and code objects of the processor
#: that it reports.
_KINDS = {"cuda": ("CUDA C++", "compute_80"), "rocm": ("HIP", "gfx1100")}


class VendorDriver:
    """The driver of one vendor.

    Parameters
    ----------
    kind
        "cuda" or "rocm".
    """

    def __init__(self, kind: str) -> None:
        sys.path[:0] = [
            str(ROOT / folder)
            for folder in (
                f"plugins/devmod-{kind}/tests",
                "tests/vendors",
                "extras/simulators/standins",
            )
        ]
        # As in a wheel. The driver of a source tree is not optimized, and a launch calls it.
        os.environ.setdefault("DEVMOD_STANDIN_CFLAGS", "-O1")
        self._kind = kind
        self._vendor = getattr(import_module(f"standin_{kind}"), kind.upper())
        self.on_hardware = self._vendor.on_hardware
        self.missing_driver = self._vendor.missing_driver
        self.functions = self._vendor.functions
        self.calls = self._vendor.calls

    def environment(self, driver: str = "ctypes") -> dict[str, str]:
        """Return the environment of a process that opens the driver with ctypes, or with pycuda."""
        result: dict[str, str] = (
            os.environ | self._vendor.environment() | self._vendor.driver_variables(driver)
        )
        return result

    def show(self) -> None:
        """Let the stand-in driver, which has no devices at first, have them."""
        if not self.on_hardware():
            self._vendor.standin().show()

    def launch_nothing(self) -> None:
        """Let the stand-in driver's launches return at once. With the real driver the kernel is
        launched.
        """
        if not self.on_hardware():
            self.show()
            self._vendor.standin().skip_launches()

    def missing(self) -> str:
        """Return why there is no driver, not even the stand-in driver; "" if there is one."""
        try:
            self._vendor.environment()
        except pytest.skip.Exception as error:
            return str(error)
        return ""

    def place(self) -> str:
        """Return the driver that the figures are from, for the head of a table."""
        return (
            f"with the driver of {self._vendor.maker}"
            if self.on_hardware()
            else "on the stand-in driver"
        )

    def add_kernel(self) -> Any:
        """Return the module of `ADD`. A card's driver may be older than NVRTC's PTX, so a module
        for hardware is compiled for the card.
        """
        import devmod

        language, arch = _KINDS[self._kind]
        if self.on_hardware():
            arch = devmod.device(self._kind).arch.partition(":")[0]
        return devmod.compile(ADD, f"{self._kind} -arch={arch}", language=language)
