"""Fixtures of the compilers' tests: what they make is a fallback, for no runtime is seen."""

from __future__ import annotations

import pytest
from alone import see_core_alone


@pytest.fixture(autouse=True)
def no_installed_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Core alone is seen, whatever else is installed."""
    see_core_alone(monkeypatch)
