"""Fixtures of the Metal tests. On a Mac those that take `device` run on its GPU; elsewhere on the double of Metal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from metal_double import Double

import devmod


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """The double in Metal's place, with two devices."""
    yield from _in_place(monkeypatch)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The first Metal device: a Mac's own where there is one, else the double's."""
    if sys.platform == "darwin":
        try:
            yield devmod.device("metal")
        except devmod.DeviceNotFoundError as error:
            pytest.skip(str(error))
        return
    for _ in _in_place(monkeypatch):
        yield devmod.device("metal")


def _in_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    from devmod.backend import Once
    from devmod_metal import _device, _interface

    made = Double()
    monkeypatch.setattr(_interface, "_chosen", [made])
    monkeypatch.setattr(_device, "_once", Once())
    yield made
