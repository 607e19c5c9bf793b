"""Fixtures of the ROCm tests: the stand-in runtime (or the hardware), the first device."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from backend_checks import first_device
from standin_rocm import ROCM, Standin, needs_emulator, on_hardware

from devmod.backend import Once
from devmod_standins import libhiprtc


@pytest.fixture(scope="module", autouse=True)
def _no_garbage() -> None:
    """Collect what other files have left: a module is unloaded after a wait for the device, which
    runs the queued work of a test.
    """
    gc.collect()


@pytest.fixture(name="standin")
def standin_fixture() -> Iterator[Standin]:
    """The stand-in runtime of this process, with its devices. A test fails if it has noticed a
    violation.
    """
    yield from ROCM.shown_standin()


@pytest.fixture
def rocm_environment() -> dict[str, str]:
    """The environment variables by which a child process finds the runtime of the tests."""
    return ROCM.environment()


@pytest.fixture
def rocm_driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What opens the runtime in this process: ctypes."""
    return ROCM.use_driver(ROCM.drivers[0], request, monkeypatch)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment variables of a child process, which may import modules of these tests. It
    reads settings of the stand-in runtime.
    """
    if on_hardware():
        pytest.skip("reads the settings of the stand-in runtime")
    return ROCM.driver_environment(ROCM.drivers[0], tmp_path)


@pytest.fixture
def emulator() -> None:
    """The emulator that executes kernels, or a skip with the reason."""
    needs_emulator()


@pytest.fixture
def hiprtc(rocm_driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in for hiprtc, which the processes find that devmod-rocm starts."""
    if on_hardware():
        return
    for variable, value in libhiprtc.environment().items():
        monkeypatch.setenv(variable, value)


@pytest.fixture
def device(rocm_driver: str) -> Any:
    """The first ROCm device."""
    return first_device("rocm")


@pytest.fixture
def card_of(
    rocm_driver: str, standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Return a function that makes the stand-in runtime have another card, and returns the first
    device.
    """
    from devmod_rocm import _device

    def change(arch: str, **settings: object) -> Any:
        for name, value in {"arch": arch, **settings}.items():
            standin.set(name, value)
        monkeypatch.setattr(_device, "_once", Once())
        return first_device("rocm")

    return change
