"""Every row of the contract, with the conformance kit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from standin_cuda import on_hardware

from devmod_cuda._conformance import CudaConformance

pytest_plugins = ["devmod_conformance.plugin"]


class TestConformance(CudaConformance):
    @pytest.fixture(autouse=True)
    def _driver(self, cuda_driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The devices of the stand-in are this process's own, and the locks on devices are in this
        folder.
        """
        if not on_hardware():
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    @property
    def several_devices(self) -> dict[str, str]:  # type: ignore[override]
        return {} if on_hardware() else {"DEVMOD_STANDIN_DEVICES": "2"}
