"""Fixtures that the tests of core share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from alone import see_core_alone

import devmod


@pytest.fixture(autouse=True)
def no_installed_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Core's own tests see core alone."""
    see_core_alone(monkeypatch)


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
