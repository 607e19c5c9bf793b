"""Fixtures of the OpenCL tests. In `make test` they run on the first device: Intel's, where its
runtime is installed. PoCL has tests of its own.
"""

from __future__ import annotations

from typing import Any

import pytest
from backend_checks import first_device
from opencl_kernels import adder

from devmod_opencl import devices
from devmod_opencl._driver import POCL
from devmod_opencl._pocl import name_processor


@pytest.fixture(
    params=[pytest.param(0, id="first"), pytest.param(1, id="second", marks=pytest.mark.volume)]
)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The default device: the first, then the second. Skip the test if there is none."""
    if request.param:
        monkeypatch.setenv("DEVMOD_DEVICE", f"opencl:{request.param}")
    return default_device()


@pytest.fixture
def pocl(monkeypatch: pytest.MonkeyPatch) -> Any:
    """PoCL's device, as the default device. Skip the test if there is none."""
    first_device("opencl")
    index = next((each.index for each in devices() if each.platform == POCL), None)
    if index is None:
        pytest.skip("there is no device of PoCL")
    monkeypatch.setenv("DEVMOD_DEVICE", f"opencl:{index}")
    return default_device()


def default_device() -> Any:
    found = first_device("opencl")
    name_processor(found.handle)  # some tests build with pyopencl alone
    return found


@pytest.fixture
def add(device: Any) -> Any:
    """The function that adds two arrays."""
    return adder()["add"]
