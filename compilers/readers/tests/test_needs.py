"""The names of needs are a closed table."""

from __future__ import annotations

import pytest
from each_case import refusal

from devmod.backend import FEATURES
from devmod.errors import FormatError
from devmod_readers.reflection import ReflectedFunction


@pytest.mark.row("R40")
def test_a_compiler_gives_no_other_need() -> None:
    assert ReflectedFunction("k", [], [], needs=FEATURES).needs == tuple(FEATURES)
    assert refusal(FormatError, ReflectedFunction, "k", [], [], needs=["fp16", "half"]) == (
        "the function 'k' needs 'half'; expected names of features: 'fp16', 'fp64', 'image_writes_3d', 'images', 'int64_atomics', "
        "'launch_constants', 'processor', 'subgroup_size', 'subgroups'"
    )
