"""Fixtures of the OpenCL tests. They use the first device, and skip a test if there is none."""

from __future__ import annotations

from typing import Any

import pytest

import devmod


@pytest.fixture
def device() -> Any:
    """The first OpenCL device."""
    try:
        return devmod.device("opencl")
    except devmod.DeviceNotFoundError as error:
        pytest.skip(str(error))
