"""Fixtures for the compilers' tests. They hide the installed runtimes, so `devmod.compile` returns
fallbacks.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from alone import no_installed_runtimes as no_installed_runtimes
from alone import register as register


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds compile in this process: each worker would import its compilers anew.

    The tests of workers have them.
    """
    monkeypatch.setattr("devmod_targets.build.pool.can_start_python", lambda: False)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give builds an empty cache."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DEVMOD_BUILD_CACHE", raising=False)
    return tmp_path / "cache"
