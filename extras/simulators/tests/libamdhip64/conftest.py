"""Fixtures: the stand-in HIP runtime in this process, and what executes kernels."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from devmod_simulators import StandinDriver, UnavailableError
from devmod_standins import libamdhip64, rdna3


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    """Skip the tests, with the reason, where the runtime cannot be built."""
    try:
        libamdhip64.build()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", autouse=True)
def _no_garbage() -> None:
    """Collect what other files have left: a module is unloaded after a wait for the device, which
    runs the queued work of a test.
    """
    gc.collect()


@pytest.fixture
def standin() -> Iterator[StandinDriver]:
    """The stand-in runtime of this process, with its devices. A test fails if it has noticed a
    violation.
    """
    if os.environ.get("DEVMOD_TEST_ROCM") == "hardware":
        pytest.skip("the stand-in runtime would take the name of the real one in this process")
    with libamdhip64.load().shown() as driver:
        driver.set("idle_ms", 0)  # a slow machine would run what a test expects to wait
        yield driver


@pytest.fixture
def emulator() -> None:
    """The emulator that executes kernels, or a skip with the reason."""
    if rdna3.missing():
        pytest.skip(rdna3.missing())
