"""The tests see core and devmod-remote alone, with a server and a cache of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alone import no_installed_runtimes, register
from http_server import Server, http_server

__all__ = ["no_installed_runtimes", "register"]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the cache folder of the test."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DEVMOD_OFFLINE", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a running server."""
    with http_server() as server:
        yield server
