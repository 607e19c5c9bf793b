"""Fixtures of the WebGPU tests. The tests use the first adapter. Without an adapter they skip."""

from __future__ import annotations

from typing import Any

import pytest
from backend_checks import first_device
from webgpu_shaders import adder


@pytest.fixture
def device() -> Any:
    """The first WebGPU device."""
    return first_device("webgpu")


@pytest.fixture
def add(device: Any) -> Any:
    """The function that adds two arrays."""
    return adder()["add"]
