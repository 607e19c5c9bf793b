"""Fixtures of the CUDA tests: the stand-in driver (or the hardware), each of the two drivers of Python, the first device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from standin_cuda import CUDA, Standin

from devmod_conformance.checks import first_device


@pytest.fixture(name="standin")
def standin_fixture() -> Iterator[Standin]:
    """The stand-in driver of this process, with its devices. A test fails if it has noticed a violation."""
    yield from CUDA.shown_standin()


@pytest.fixture
def cuda_environment() -> dict[str, str]:
    """The environment variables by which a child process finds the driver of the tests."""
    return CUDA.environment()


@pytest.fixture(params=CUDA.drivers)
def cuda_driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a driver of Python: each test that uses it runs with both."""
    return CUDA.use_driver(request.param, request, monkeypatch)


@pytest.fixture
def device(cuda_driver: str) -> Any:
    """The first CUDA device, with each driver."""
    return first_device("cuda")
