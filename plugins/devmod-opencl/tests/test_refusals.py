"""What a driver never builds."""

from __future__ import annotations

from typing import Any

import pytest

import devmod
from devmod_opencl import _driver


class NoCompilerError(_driver.Error):  # type: ignore[misc]
    code = _driver.cl.status_code.COMPILER_NOT_AVAILABLE


@pytest.mark.row("R40")
def test_a_driver_without_a_compiler_runs_no_source(
    device: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))

    def refuse(*args: object) -> None:
        raise NoCompilerError("clBuildProgram")

    monkeypatch.setattr(_driver, "_build", refuse)
    module = devmod.compile("__kernel void k(__global float *y) { y[0] = 41; }", "opencl")
    with pytest.raises(
        devmod.DeviceNotFoundError, match="cannot build the opencl source: COMPILER_NOT_AVAILABLE"
    ):
        module["k"]
