"""The HIP runtime of the benchmarks: the real one with DEVMOD_TEST_ROCM=hardware, else the stand-in runtime of the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("plugins/devmod-rocm/tests", "tests/standin")]

import pytest  # noqa: E402 - standin_rocm skips with the reason
from standin_rocm import child_environment, missing_driver, on_hardware, standin  # noqa: E402 - the line above finds it

__all__ = ["environment", "launch_nothing", "missing", "missing_driver", "on_hardware", "place"]


def environment(driver: str) -> dict[str, str]:
    """Return the environment of a process that uses the runtime through one of devmod-rocm's two drivers."""
    own = {} if on_hardware() else child_environment()
    return os.environ | own | {"DEVMOD_ROCM_DRIVER": driver}


def launch_nothing() -> None:
    """Let the stand-in runtime's launches return at once."""
    if not on_hardware():
        standin().show()
        standin().skip_launches()


def missing() -> str:
    """Return why there is no HIP runtime, not even the stand-in; "" if there is one."""
    if not on_hardware():
        try:
            child_environment()
        except pytest.skip.Exception as error:
            return str(error)
    return ""


def place() -> str:
    """Return the runtime that the figures are from, for the head of a table."""
    return "with AMD's runtime" if on_hardware() else "on the stand-in runtime"
