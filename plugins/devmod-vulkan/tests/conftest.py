"""Fixtures of the Vulkan tests. They run on whatever device comes first, or on the one that DEVMOD_VULKAN_DEVICE names; with none they
skip, and say so.

With DEVMOD_VULKAN_VALIDATE=1 the validation layers watch all of them, and a test in which they say anything fails. With
TEST_VULKAN_STAGING=1 no device's memory is taken for the host's, so that all copies go through staging memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import devmod


@pytest.fixture
def device() -> Any:
    """The first Vulkan device."""
    try:
        found: Any = devmod.device("vulkan")
    except devmod.DeviceNotFoundError as error:
        pytest.skip(str(error))
    if os.environ.get("TEST_VULKAN_STAGING") and "logical" not in found._made:
        found.physical.shares_memory = False
    return found


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    """Under the validation layers, a test may leave nothing that they object to."""
    yield
    if os.environ.get("DEVMOD_VULKAN_VALIDATE", "") not in ("", "0"):
        import gc

        from devmod_vulkan import _driver

        gc.collect()
        assert _driver._taken() == []
