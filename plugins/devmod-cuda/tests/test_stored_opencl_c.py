"""Kernels in OpenCL C that devmod once compiled for CUDA, from a file."""

from __future__ import annotations

from typing import Any

import pytest
from stored_opencl_c import check_stored


@pytest.mark.row("R34")
def test_a_stored_payload(device: Any) -> None:
    check_stored(device)
