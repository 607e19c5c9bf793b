"""Fixtures of the WebGPU tests. They run on whatever adapter there is; with none they skip, and say so."""

from __future__ import annotations

from typing import Any

import pytest

import devmod


@pytest.fixture
def device() -> Any:
    """The first WebGPU device."""
    try:
        return devmod.device("webgpu")
    except devmod.DeviceNotFoundError as error:
        pytest.skip(str(error))
