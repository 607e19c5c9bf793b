"""Fixtures of the WebGPU tests. The tests use the first adapter. Without an adapter they skip."""

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
