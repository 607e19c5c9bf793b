"""Kernels in Slang: each computes what NumPy computes."""

from __future__ import annotations

from typing import Any

import pytest
import random_programs
from slang_computations import KERNELS, check


@pytest.mark.volume_but("matmul", "wave", "halves")
@pytest.mark.usefixtures("emulator", "device")
@pytest.mark.parametrize("name", KERNELS)
def test_results(name: str) -> None:
    check(name, "rocm -arch=gfx1100")


@pytest.mark.volume_but("few")
@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize("seeds", ["few", "to 100"])  # the emulator takes a second for each program
def test_random_programs(device: Any, seeds: str) -> None:
    random_programs.check(device, seeds)
