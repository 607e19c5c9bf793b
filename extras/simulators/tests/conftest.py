"""The fixture of the stand-in CUDA driver in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devmod_simulators import StandinDriver, libcuda


@pytest.fixture
def standin() -> Iterator[StandinDriver]:
    """The stand-in driver of this process, with its devices. A test fails if it has noticed a
    violation.
    """
    if os.environ.get("DEVMOD_TEST_CUDA") == "hardware":
        pytest.skip("the stand-in driver would take the name of the real one in this process")
    with libcuda.load().shown() as driver:
        driver.set("idle_ms", 0)  # a slow machine would run what a test expects to wait
        yield driver
