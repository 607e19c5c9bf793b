"""The driver of a process, for each vendor: opening it, and its calls."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from backend_checks import run_python
from each_case import raised
from vendor import Vendor

from devmod_driver_api.api import DriverError


@pytest.mark.row("R6", "R39")
def test_an_import_opens_nothing(vendor: Vendor) -> None:
    run_python(
        f"import sys, devmod_{vendor.kind}\n"
        f"names = {{'ctypes', 'numpy', 'devmod_{vendor.kind}._driver', 'cuda', 'pycuda', 'hip', 'rocm'}}\n"
        "assert not names & set(sys.modules), names & set(sys.modules)\n"
        f"assert '{vendor.library.partition('.')[0]}' not in open('/proc/self/maps').read()",
        **vendor.environment(),
    )


# -- opening it


@pytest.mark.each_driver
def test_another_call_opens_the_driver_again_after_a_failure(
    vendor: Vendor, environment: dict[str, str]
) -> None:
    if vendor.on_hardware():
        pytest.skip("reads the settings of the stand-in driver")
    program = (
        "import ctypes, devmod\n"
        f"library = ctypes.CDLL('{vendor.library}')\n"
        "library.standin_set(b'hidden', b'1')\n"
        "try:\n"
        f"    devmod.device('{vendor.kind}')\n"
        "except devmod.DeviceNotFoundError:\n"
        "    library.standin_set(b'hidden', None)\n"
        f"    print(devmod.device('{vendor.kind}').index)\n"
    )
    assert run_python(program, **environment) == "0\n"


# -- its calls


@pytest.fixture
def driver(device: Any) -> Any:
    """The driver's object; the device's context is current."""
    with device.context:
        yield device.driver


@pytest.mark.each_driver
def test_handles_are_ints(driver: Any, vendor: Vendor) -> None:
    stream, event, pointer = (
        driver.call("create_stream", 1),
        driver.call("create_event", 0),
        driver.call("allocate", 64),
    )
    assert [type(each) for each in (stream, event, pointer)] == [int, int, int]
    host = (ctypes.c_int * 16)(*range(16))
    driver.call("copy_to_device", pointer, ctypes.addressof(host), 64, stream)
    driver.call("fill", pointer, 1, 4, stream)
    driver.call("copy_on_device", pointer + 32, pointer, 4, stream)
    driver.call("record_event", event, stream)
    driver.call("copy_to_host", ctypes.addressof(host), pointer, 64, stream)
    driver.call("wait_event", vendor.legacy_stream, event, 0)
    driver.call("synchronize_stream", stream)
    assert list(host) == [0x01010101, *range(1, 8), 0x01010101, *range(9, 16)]
    assert driver.is_done("is_event_done", event)
    assert driver.call("stream_context", stream) == driver.call("current_context")
    assert driver.call("memory_range", pointer + 5) == (pointer, 64)
    free, total = driver.call("memory_info")
    assert 0 < free < total
    driver.call("free", pointer)
    driver.call("destroy_event", event)
    driver.call("destroy_stream", stream)


@pytest.mark.each_driver
def test_errors_have_the_vendors_name_and_text(driver: Any, vendor: Vendor) -> None:
    refused = raised(DriverError, driver.call, "allocate", 1 << 60)
    error, name = refused, vendor.error("out of memory").partition(" ")[0]
    assert (error.name, error.call) == (name, vendor.functions["allocate"])
    assert str(error) == f"{vendor.functions['allocate']}: {name} ({error.text})"
    module = driver.load_module(vendor.payload('extern "C" __global__ void k() {}'))
    refused = raised(DriverError, driver.call, "get_function", module, b"nothing")
    assert refused.name == vendor.error("not found").partition(" ")[0]
    driver.unload_module(module)
