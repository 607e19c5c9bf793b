"""Kernels in OpenCL C, compiled for CUDA: they compute what NumPy does, as those of the kind
opencl.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_il_functions
import test_il_kernels
from backend_checks import run_python
from one_source import OPENCL_C, check_one_source
from standin_cuda import on_hardware

pytestmark = pytest.mark.row("R58")
TARGET = test_il_kernels.TARGETS["CUDA"]


@pytest.fixture
def target(device: Any) -> str:
    """The target of the tests of OpenCL's SPIR-V, which run here too."""
    return "CUDA"


for _module in (test_il_kernels, test_il_functions):
    for _name, _test in vars(_module).copy().items():
        if _name.startswith("test_") and _name not in (
            "test_print",
            "test_conversions_with_a_rounding",
        ):
            globals()[_name] = _test


def test_print(cuda_environment: dict[str, str]) -> None:
    """The simulated GPU prints in a process of its own, which has the output of its first use."""
    if on_hardware():
        pytest.skip("reads the output of the stand-in driver")
    folder = str(Path(test_il_kernels.__file__).parent)
    program = (
        f"import sys\nsys.path.append({folder!r})\nimport test_il_kernels\n"
        "print(test_il_kernels.print_values('CUDA'), end='', file=sys.stderr)\nprint('end')"
    )
    v = np.array([1, -2.5], "float32")
    words = ",".join(str(each) for each in v.view("uint32"))
    assert sorted(run_python(program, **cuda_environment).splitlines()) == sorted(
        [
            "start   a%b|abc   |%\\41",
            "300 -2.50 12c0000000000 q 44",
            f"1.0,-2.5,3.0,4.0 {words} 0xffff,0xffff,0xffff -1,2 0.5",
            "end",
        ]
    )


def test_conversions_with_a_rounding(target: str) -> None:
    test_il_kernels.check_rounded(target)


@pytest.mark.row("R37")
def test_the_examples(device: Any) -> None:
    check_one_source(device, "OpenCL C", TARGET, [*OPENCL_C, "resize"])
