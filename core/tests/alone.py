"""Fixtures of the tests that see core alone: the installed runtimes are hidden, and registrations
are removed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest

import devmod
from devmod._plugins import discovery as _discovery
from devmod._plugins import registry

FOUND = _discovery._scan_all
#: The distributions with commands and without a backend. The tests see them.
LIBRARIES = ("devmod-conformance", "devmod-models", "devmod-runtime", "devmod-targets")


@functools.cache
def installed() -> frozenset[str]:
    """Return the locations of the installed distributions with devmod entries other than core."""
    return frozenset(each.location for each in FOUND() if each.name not in LIBRARIES)


def see_core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide all runtimes until the test ends."""
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", ",".join(["devmod-core", *LIBRARIES]))
    monkeypatch.setattr(registry, "_cache", {})  # other tests of this process have filled it
    beside = installed()
    monkeypatch.setattr(
        _discovery, "_scan_all", lambda: (each for each in FOUND() if each.location not in beside)
    )


def hide(*names: str) -> None:
    """Hide these installed distributions in this process."""
    _discovery._scan_all = lambda: (each for each in FOUND() if each.name not in names)  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def no_installed_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide all installed runtimes."""
    see_core_alone(monkeypatch)


@pytest.fixture
def register() -> Iterator[Callable[[str, str, object], None]]:
    """Return `devmod.register`. The end of the test removes its registrations."""
    result: list[tuple[str, str]] = []

    def add(group: str, name: str, obj: object) -> None:
        devmod.register(group, name, obj)
        result.append((group, name))

    yield add
    for group, name in result:
        devmod.register(group, name, None, replace=True)


@pytest.fixture(autouse=True)
def core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each module be a fallback. A file of tests imports it for itself."""
    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
