"""The conversions and the functions of integers of OpenCL C on CUDA."""

from __future__ import annotations

from typing import Any

import pytest
from opencl_conversions import TYPES, wrong_conversions
from opencl_integers import ROWS
from test_il_integers import CASES, wrong_on_target


@pytest.mark.row("R58")
@pytest.mark.volume_but("long", "float", "double")
@pytest.mark.parametrize("source", TYPES)
def test_conversions(source: str, device: Any) -> None:
    assert wrong_conversions(source, "cuda -arch=compute_75", device) == []


@pytest.mark.row("R58")
@pytest.mark.filterwarnings("ignore:clang has warnings")
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(("type_", "lanes"), CASES)
def test_functions_of_integers(type_: str, lanes: tuple[int, ...]) -> None:
    assert wrong_on_target(type_, lanes, "CUDA", ROWS) == []
