"""Every row of the contract, with the conformance kit and each driver."""

from __future__ import annotations

from typing import Any

import pytest
from standin_rocm import on_hardware

from devmod_rocm._conformance import RocmConformance

pytest_plugins = ["devmod_conformance.plugin"]


class TestConformance(RocmConformance):
    @pytest.fixture(autouse=True)
    def _driver(self, emulator: Any, rocm_driver: Any, hiprtc: Any) -> None:
        """Run each row with both drivers."""

    @property
    def several_devices(self) -> dict[str, str]:  # type: ignore[override]
        return {} if on_hardware() else {"DEVMOD_STANDIN_DEVICES": "2"}
