"""Kernels in OpenCL C, compiled for CUDA: their results are those of the kind opencl, with the same
call.
"""

from __future__ import annotations

from typing import Any

import pytest
from one_source import OPENCL_C, check_one_source

TARGET = "cuda -arch=compute_75"


@pytest.mark.row("R37", "R58")
def test_the_examples(device: Any) -> None:
    check_one_source(device, "OpenCL C", TARGET, [*OPENCL_C, "resize"])
