"""Fixtures of the Metal tests. `device` is the GPU of a Mac; on other machines it is the double of Metal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from backend_checks import first_device
from metal_double import Double

import devmod


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """Replace Metal by the double, with two devices."""
    yield from _replace_metal(monkeypatch)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the first Metal device: that of a Mac, or the double's."""
    if sys.platform == "darwin":
        yield first_device("metal")
        return
    for _ in _replace_metal(monkeypatch):
        yield devmod.device("metal")


def _replace_metal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    from devmod.backend import Once
    from devmod_metal import _device

    metal_double = Double()
    monkeypatch.setattr(_device, "_opened", [metal_double])
    monkeypatch.setattr(_device, "_once", Once())
    yield metal_double
