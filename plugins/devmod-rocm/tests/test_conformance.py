"""Every row of the contract, with the conformance kit and each driver."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from standin_rocm import on_hardware

from devmod_rocm._conformance import RocmConformance

pytest_plugins = ["devmod_conformance.plugin"]


class TestConformance(RocmConformance):
    @pytest.fixture(autouse=True)
    def _driver(self, emulator: Any, rocm_driver: Any, hiprtc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run each row with both drivers. The devices of the stand-in are this process's own, and the locks on devices are in this folder."""
        if not on_hardware():
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    @property
    def several_devices(self) -> dict[str, str]:  # type: ignore[override]
        return {} if on_hardware() else {"DEVMOD_STANDIN_DEVICES": "2"}
