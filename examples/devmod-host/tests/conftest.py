"""Fixtures of all tests: they do not use the user's cache and settings."""

from __future__ import annotations

import pytest

pytest_plugins = ["devmod_conformance.plugin"]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv(
        "DEVMOD_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "devmod-host-cache")
    )
    monkeypatch.delenv("DEVMOD_COMPILE_FORCE_FALLBACK", raising=False)
