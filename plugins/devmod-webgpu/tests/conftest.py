"""Fixtures of the WebGPU tests. They run on whatever adapter there is; with none they skip, and say so."""

from __future__ import annotations

from typing import Any

import pytest

import devmod


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The user's cache and settings are left in peace."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "devmod-webgpu-cache"))
    for name in (
        "DEVMOD_COMPILE_FORCE_FALLBACK",
        "DEVMOD_PLUGINS_ALLOW",
        "DEVMOD_PLUGINS_DENY",
        "DEVMOD_PLUGINS_CHOOSE",
        "DEVMOD_PREFER",
        "DEVMOD_LOG",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def device() -> Any:
    """The first WebGPU device."""
    try:
        return devmod.device("webgpu")
    except devmod.DeviceNotFoundError as error:
        pytest.skip(str(error))
