"""Kernels in Slang: each computes what NumPy computes."""

from __future__ import annotations

from typing import Any

import pytest
from slang_computations import PLAIN, check


@pytest.mark.parametrize("name", PLAIN)
def test_results(device: Any, name: str) -> None:
    check(name, "hexagon -arch=v66")
