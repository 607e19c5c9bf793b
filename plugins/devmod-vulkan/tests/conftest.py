"""Fixtures of the Vulkan tests. The tests use the first device, or that of DEVMOD_VULKAN_DEVICE.
Without a device they skip.

DEVMOD_VULKAN_VALIDATE=1 enables the validation layers: a test with any of their messages fails.
With TEST_VULKAN_STAGING=1 the host does not share the device's memory, so that all copies go
through staging memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from backend_checks import first_device
from vulkan_kernels import adder


@pytest.fixture
def device() -> Any:
    """The first Vulkan device."""
    first: Any = first_device("vulkan")
    if os.environ.get("TEST_VULKAN_STAGING") and "logical" not in first._once:
        first.physical.shares_memory = False
    return first


@pytest.fixture(autouse=True)
def no_validation_messages() -> Iterator[None]:
    """Fail a test that leaves messages of the validation layers."""
    yield
    if os.environ.get("DEVMOD_VULKAN_VALIDATE", "") not in ("", "0"):
        import gc

        from devmod_vulkan import _driver

        gc.collect()
        assert _driver.drain_messages() == []


@pytest.fixture
def add(device: Any) -> Any:
    """The function that adds two arrays."""
    return adder()["add"]
