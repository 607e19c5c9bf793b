"""The tests of sasmodels' models on OpenCL, as `python -m sasmodels.model_test opencl all` has
them, for pytest.
"""

from __future__ import annotations

from typing import Any

import pytest
from sasmodels.model_test import make_suite

CASES = list(make_suite(["opencl"], ["all"]))


@pytest.mark.parametrize("case", CASES, ids=[case.id().split(".")[-1] for case in CASES])
def test_model(case: Any) -> None:
    """Run one of its tests."""
    case.debug()
