"""Every row of the contract, with the conformance kit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from standin_rocm import on_hardware

from devmod_conformance import run
from devmod_rocm import _hiprtc
from devmod_rocm._conformance import RocmConformance

pytest_plugins = ["devmod_conformance.plugin"]


def test_without_hiprtc_the_rows_run_the_code_objects(
    emulator: Any, device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hiprtc, "_candidates", lambda library: [str(tmp_path / "libhiprtc.so.6")])
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = (
        "R19-used",
        "R20-unknown",
        "R30-build",
        "R31-once",
        "R31-used",
        "R33-functions",
        "R34-invalid",
        "R37-host",
    )
    for sample in RocmConformance.samples:
        monkeypatch.setattr(sample, "missing_compiler", None)
    found = {
        result.row.id: (result.outcome, result.reason) for result in run(RocmConformance(), names)
    }
    text = "no sample has a payload in a source format that this machine can compile: the rocm source cannot be compiled: "
    for name, (outcome, reason) in found.items():
        assert outcome == ("skipped" if name.startswith("R31") else "passed"), reason
        assert reason.startswith(text if name.startswith("R31") else "")


class TestConformance(RocmConformance):
    @pytest.fixture(autouse=True)
    def _driver(
        self,
        emulator: Any,
        rocm_driver: Any,
        hiprtc: Any,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The devices of the stand-in are this process's own, and the locks on devices are in this
        folder.
        """
        if not on_hardware():
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    @property
    def several_devices(self) -> dict[str, str]:  # type: ignore[override]
        return {} if on_hardware() else {"DEVMOD_STANDIN_DEVICES": "2"}
