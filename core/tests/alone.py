"""A process that sees core alone, whatever else is installed beside it."""

from __future__ import annotations

import functools

import pytest

from devmod import _discovery, _registry

FOUND = _discovery._found


@functools.cache
def installed() -> frozenset[str]:
    """Where the distributions with devmod entries are that happen to be installed beside core."""
    return frozenset(each.location for each in FOUND())


def see_core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test ends, no runtime is installed."""
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-core")
    monkeypatch.setattr(_registry, "_hits", {})  # a hit is kept for the process, and other tests are in it too
    beside = installed()
    monkeypatch.setattr(_discovery, "_found", lambda: (each for each in FOUND() if each.location not in beside))
