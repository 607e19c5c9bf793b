"""The fixture of the OpenCL tests: each runs on the first two devices, which with PoCL and Intel's runtime are both."""

from __future__ import annotations

from typing import Any

import pytest
from backend_checks import first_device

from devmod_opencl._pocl import name_processor


@pytest.fixture(params=[0, 1], ids=["first", "second"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The default device: the first, then the second. Skip the test if there is none."""
    if request.param:
        monkeypatch.setenv("DEVMOD_DEVICE", f"opencl:{request.param}")
    found = first_device("opencl")
    name_processor(found.handle)  # some tests build with pyopencl alone
    return found
