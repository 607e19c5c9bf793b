"""Every row of the contract, with the conformance kit and each driver."""

from __future__ import annotations

import os
from typing import Any

import pytest

from devmod_cuda._conformance import CudaConformance

pytest_plugins = ["devmod_conformance.plugin"]


class TestConformance(CudaConformance):
    @pytest.fixture(autouse=True)
    def _driver(self, cuda_driver: Any) -> None:
        """Run each row with both drivers."""

    @property
    def several_devices(self) -> dict[str, str]:  # type: ignore[override]
        return {} if os.environ.get("DEVMOD_TEST_CUDA") == "hardware" else {"DEVMOD_STANDIN_DEVICES": "2"}
