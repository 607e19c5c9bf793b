"""Fixtures of the CUDA tests: the stand-in driver (or the hardware), the first device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backend_checks import first_device
from cuda_kernels import adder
from standin_cuda import CUDA, Standin, on_hardware


@pytest.fixture(name="standin")
def standin_fixture() -> Iterator[Standin]:
    """The stand-in driver of this process, with its devices. A test fails if it has noticed a
    violation.
    """
    yield from CUDA.shown_standin()


@pytest.fixture
def cuda_environment() -> dict[str, str]:
    """The environment variables by which a child process finds the driver of the tests."""
    return CUDA.environment()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests that are marked `each_driver` with pycuda as well."""
    if "driver_name" in metafunc.fixturenames and metafunc.definition.get_closest_marker(
        "each_driver"
    ):
        metafunc.parametrize("driver_name", CUDA.drivers)


@pytest.fixture
def driver_name() -> str:
    """What opens the driver: ctypes or pycuda."""
    return CUDA.drivers[0]


@pytest.fixture
def cuda_driver(
    driver_name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> str:
    """What opens the driver in this process."""
    return CUDA.use_driver(driver_name, request, monkeypatch)


@pytest.fixture
def environment(driver_name: str, tmp_path: Path) -> dict[str, str]:
    """The environment variables of a child process, which may import modules of these tests. It
    reads settings of the stand-in driver.
    """
    if on_hardware():
        pytest.skip("reads the settings of the stand-in driver")
    return CUDA.driver_environment(driver_name, tmp_path)


@pytest.fixture
def device(cuda_driver: str) -> Any:
    """The first CUDA device."""
    return first_device("cuda")


@pytest.fixture
def add(device: Any) -> Any:
    """The function that adds two arrays."""
    return adder()["add"]
