"""Kernels in OpenCL C, compiled for ROCm: machine code of gfx1100 computes what NumPy does, with
the calls of the kind opencl.
"""

from __future__ import annotations

from typing import Any

import pytest
import test_il_kernels
from one_source import OPENCL_C, check_one_source

pytestmark = [pytest.mark.row("R58"), pytest.mark.usefixtures("emulator")]
TARGET = test_il_kernels.TARGETS["ROCm"]


@pytest.fixture
def target(device: Any) -> str:
    """The target of the tests of OpenCL's SPIR-V, which run here too."""
    return "ROCm"


for _name, _test in vars(test_il_kernels).copy().items():
    if _name.startswith("test_") and _name not in (
        "test_print",
        "test_conversions_with_a_rounding",
    ):
        globals()[_name] = _test


@pytest.mark.row("R37")
def test_the_examples(device: Any) -> None:
    check_one_source(device, "OpenCL C", TARGET, OPENCL_C)
