"""Fixtures of the OpenCL tests. They use the first device, and skip a test if there is none."""

from __future__ import annotations

from typing import Any

import pytest

from devmod_conformance.checks import first_device


@pytest.fixture
def device() -> Any:
    """The first OpenCL device."""
    return first_device("opencl")
