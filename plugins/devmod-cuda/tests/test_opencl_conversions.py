"""The conversions of OpenCL C on CUDA."""

from __future__ import annotations

from typing import Any

import pytest
from opencl_conversions import TYPES, wrong_conversions


@pytest.mark.row("R58")
@pytest.mark.volume_but("long", "float", "double")
@pytest.mark.parametrize("source", TYPES)
def test_conversions(source: str, device: Any) -> None:
    assert wrong_conversions(source, "cuda -arch=compute_75", device) == []
