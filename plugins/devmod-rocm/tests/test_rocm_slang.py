"""Kernels in Slang: each computes what NumPy computes."""

from __future__ import annotations

import pytest
from slang_computations import KERNELS, check


@pytest.mark.volume_but("matmul", "wave", "halves")
@pytest.mark.usefixtures("emulator", "device")
@pytest.mark.parametrize("name", KERNELS)
def test_results(name: str) -> None:
    check(name, "rocm -arch=gfx1100")
