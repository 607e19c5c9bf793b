"""Fixtures of the Metal tests. `device` is the GPU of a Mac; on other machines it is the double of
Metal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from backend_checks import first_device
from metal_double import Double, replace_metal

import devmod


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Double:
    """Replace Metal by the double, with two devices."""
    return replace_metal(monkeypatch)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the first Metal device: that of a Mac, or the double's."""
    if sys.platform == "darwin":
        yield first_device("metal")
        return
    replace_metal(monkeypatch)
    yield devmod.device("metal")
