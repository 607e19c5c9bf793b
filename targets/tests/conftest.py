"""Fixtures for the compilers' tests. They hide the installed runtimes, so `devmod.compile` returns fallbacks."""

from __future__ import annotations

import pytest
from alone import register as register
from alone import see_core_alone


@pytest.fixture(autouse=True)
def no_installed_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide all installed distributions except core."""
    see_core_alone(monkeypatch)
