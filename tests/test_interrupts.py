"""Interrupts by the thousand (docs/reliability.md): each process raises KeyboardInterrupt at random
places while arrays come and go.

``DEVMOD_TEST_INTERRUPTS=20000`` sets the interrupts of each process, and
``DEVMOD_TEST_INTERRUPTS_SEEDS=10`` the processes of each kind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import standin_cuda
import standin_rocm

import devmod

INTERRUPTS = int(os.environ.get("DEVMOD_TEST_INTERRUPTS", "400"))
SEEDS = range(1, 1 + int(os.environ.get("DEVMOD_TEST_INTERRUPTS_SEEDS", "2")))
#: Seconds after which a process hangs.
HANGS = 600 + INTERRUPTS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals that come at a set time are POSIX's")
@pytest.mark.volume_but("opencl-1", "webgpu-1", "cuda with ctypes-1")
@pytest.mark.row("R32", "R34")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "kind",
    [
        "opencl",
        "vulkan",
        "webgpu",
        "metal",
        "hexagon",
        "host",
        "cuda with ctypes",
        "cuda with pycuda",
        "rocm",
    ],
)
def test_interrupts_leave_arrays_streams_and_locks_whole(
    kind: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, _, driver = kind.partition(" with ")
    environment = dict(os.environ)
    if kind == "rocm":
        standin_rocm.needs_emulator()
        if "DEVMOD_TEST_INTERRUPTS" not in os.environ:
            pytest.skip(
                "make interrupts runs it: the emulator is slow, and the handles are those of CUDA"
            )
        environment |= standin_rocm.ROCM.environment()
    elif driver:
        reason = standin_cuda.missing_driver(driver)
        if reason:
            pytest.skip(reason)
        environment |= {
            **standin_cuda.CUDA.environment(),
            **standin_cuda.CUDA.driver_variables(driver),
        }
    if kind in ("opencl", "vulkan", "webgpu", "hexagon"):
        try:
            devmod.device(kind)
        except devmod.DeviceNotFoundError as error:
            pytest.skip(str(error))
    command = [
        sys.executable,
        str(Path(__file__).with_name("interrupts.py")),
        kind,
        str(seed),
        str(INTERRUPTS),
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=HANGS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with capsys.disabled():
        if "DEVMOD_TEST_INTERRUPTS" in os.environ:
            print(f"\n{done.stdout.strip()}")
