"""Fixtures of the tests that run for each vendor: the stand-in driver (or the hardware), the first
device.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import first_device
from vendor import Vendor

import devmod
from devmod_simulators import StandinDriver


def vendors() -> list[Vendor]:
    """Return the vendors of the tests: with the hardware of one, that one. A machine with a GPU may
    have its vendor's wheel alone.
    """
    installed = [kind for kind in ("cuda", "rocm") if find_spec(f"devmod_{kind}") is not None]
    every: list[Vendor] = [
        getattr(import_module(f"standin_{kind}"), kind.upper()) for kind in installed
    ]
    return [vendor for vendor in every if vendor.on_hardware()] or every


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each vendor, and with each of its `drivers` if it is marked so. Tests with the
    same driver run together.
    """
    if "driver_name" in metafunc.fixturenames:
        count = None if metafunc.definition.get_closest_marker("each_driver") else 1
        pairs = [(vendor, name) for vendor in vendors() for name in vendor.drivers[:count]]
        ids = [f"{vendor}-{name}" if vendor.variable else vendor.kind for vendor, name in pairs]
        metafunc.parametrize(("vendor", "driver_name"), pairs, ids=ids, scope="module")
    elif "vendor" in metafunc.fixturenames:
        metafunc.parametrize("vendor", vendors(), ids=repr, scope="module")


@pytest.fixture(scope="module", autouse=True)
def _no_garbage() -> None:
    """Collect what other files have left: a module is unloaded after a wait for the device, which
    runs the queued work of a test.
    """
    gc.collect()


@pytest.fixture(name="standin")
def standin_fixture(vendor: Vendor) -> Iterator[StandinDriver]:
    """The stand-in driver of this process, with its devices. A test fails if it has noticed a
    violation.
    """
    yield from vendor.shown_standin()


@pytest.fixture
def python_driver(
    vendor: Vendor,
    driver_name: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """What opens the driver in this process."""
    return vendor.use_driver(driver_name, request, monkeypatch)


@pytest.fixture
def environment(vendor: Vendor, driver_name: str, tmp_path: Path) -> dict[str, str]:
    """The environment variables of a child process, which may import modules of the vendor's
    tests.
    """
    return vendor.driver_environment(driver_name, tmp_path)


@pytest.fixture
def executes(vendor: Vendor) -> None:
    """Skip the test if nothing executes kernels here."""
    vendor.needs_execution()


@pytest.fixture
def device(vendor: Vendor, python_driver: str) -> devmod.Device:
    """The first device."""
    return first_device(vendor.kind)


@pytest.fixture
def stream(device: Any) -> devmod.Stream:
    """A new stream."""
    # A module of the tests with pycuda is unloaded when it is collected, after a wait for the
    # context, which ends a capture. A process of a user opens the driver once, and unloads nothing
    # within a batch.
    gc.collect()
    return device.stream()


@pytest.fixture
def add(vendor: Vendor, device: Any) -> devmod.Function:
    """The kernel that adds two arrays."""
    return vendor.kernels()["add"]


@pytest.fixture
def step(vendor: Vendor, device: Any) -> devmod.Function:
    """x = 2 x + a: the result depends on the order of the launches."""
    return vendor.kernels()["step"]


@pytest.fixture
def b(device: Any) -> devmod.Array:
    """64 ones."""
    return device.from_numpy(np.ones(64, "float32"))


@pytest.fixture
def c(device: Any) -> devmod.Array:
    """64 zeros, for results."""
    return device.zeros(64, "float32")
