"""NVIDIA's own driver library of several versions, without a GPU. tools/vendor_runtimes.py fetches
Debian's packages.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest
from standin_cuda import CUDA, on_hardware
from vendor_runtime import VendorRuntime

#: The driver of CUDA 11.4, which is too old, and those of 12.2 and 12.4.
OLD = VendorRuntime("libcuda-470")
DRIVERS = (VendorRuntime("libcuda-535"), VendorRuntime("libcuda-550"))
#: These libraries are without the kernel module of their version: with a card they would fail in
#: another way. The device file /dev/nvidiactl is no sign of a card: cuInit of a process of root
#: creates it.
WITHOUT_A_CARD = pytest.mark.skipif(
    on_hardware() or Path("/proc/driver/nvidia").exists(),
    reason="there is NVIDIA's kernel module, with which make gpu KIND=cuda runs",
)


def present(runtime: VendorRuntime) -> VendorRuntime:
    """Return a runtime, or skip the test with the reason why it is missing."""
    if runtime.reason:
        pytest.skip(runtime.reason)
    return runtime


@cache
def version_of(runtime: VendorRuntime) -> int:
    """Return the version of CUDA that a driver supports, such as 12020."""
    program = f"import ctypes; version = ctypes.c_int(); ctypes.CDLL({CUDA.library!r}).cuDriverGetVersion(ctypes.byref(version)); print(version.value)"
    return int(runtime.run(program))


def symbols(path: Path, option: str = "--defined-only") -> set[str]:
    """Return the functions of CUDA's driver API that a library exports, or those that it needs
    (``--undefined-only``).
    """
    lines = subprocess.run(
        ["nm", "-D", option, str(path)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {
        name
        for line in lines
        if (name := line.split()[-1]).startswith("cu") and name[2:3].isupper()
    }
