"""Kernels in Slang: each computes what NumPy computes."""

from __future__ import annotations

from typing import Any

import pytest
from slang_computations import KERNELS, check


@pytest.mark.each_driver
@pytest.mark.parametrize("name", KERNELS)
def test_results(device: Any, name: str) -> None:
    check(name, "cuda -arch=compute_80")
