"""Fixtures that the tests of core share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest

import devmod
from devmod import _discovery, _registry

FOUND = _discovery._found


@functools.cache
def installed() -> frozenset[str]:
    """Where the distributions with devmod entries are that happen to be installed beside core."""
    return frozenset(each.location for each in FOUND())


@pytest.fixture(autouse=True)
def no_installed_runtimes(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Core's own tests see core alone, whatever else is installed beside it, and leave the user's cache in peace."""
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-core")
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "devmod-cache"))
    for name in ("DEVMOD_COMPILE_FORCE_FALLBACK", "DEVMOD_PLUGINS_DENY", "DEVMOD_PLUGINS_CHOOSE", "DEVMOD_PREFER", "DEVMOD_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_registry, "_hits", {})  # a hit is kept for the process, and other tests are in it too
    beside = installed()
    monkeypatch.setattr(_discovery, "_found", lambda: (each for each in FOUND() if each.location not in beside))


@pytest.fixture
def register() -> Iterator[Callable[[str, str, object], None]]:
    """`devmod.register`, taken back when the test ends."""
    done: list[tuple[str, str]] = []

    def add(group: str, name: str, obj: object) -> None:
        devmod.register(group, name, obj)
        done.append((group, name))

    yield add
    for group, name in done:
        devmod.register(group, name, None, replace=True)
