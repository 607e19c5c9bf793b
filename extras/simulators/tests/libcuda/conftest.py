"""Fixtures: the stand-in CUDA driver in this process, and a context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devmod_simulators import StandinDriver, UnavailableError, libcuda


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    """Skip the tests, with the reason, where the driver cannot be built."""
    try:
        libcuda.build()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def context(standin: StandinDriver) -> Iterator[Any]:
    """The primary context of the first device, current."""
    from cuda_calls import cuda, driver

    driver.cuInit(0)
    device = driver.cuDeviceGet(0)
    handle = driver.cuDevicePrimaryCtxRetain(device)
    driver.cuCtxSetCurrent(handle)
    yield handle
    standin.forget_failures()
    driver.cuCtxSetCurrent(cuda.CUcontext(0))
    driver.cuDevicePrimaryCtxRelease(device)
