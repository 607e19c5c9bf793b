"""Fixtures of the Hexagon tests. Without qemu-hexagon they skip."""

from __future__ import annotations

from typing import Any

import pytest
from backend_checks import first_device


@pytest.fixture
def device() -> Any:
    """The first Hexagon device."""
    return first_device("hexagon")
