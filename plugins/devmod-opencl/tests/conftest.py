"""Fixtures of the OpenCL tests. They run on whatever device there is; with none they skip, and say so."""

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
