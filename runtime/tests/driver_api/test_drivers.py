"""The driver of a process, for each vendor: its choice, opening it, and its interface with each driver of Python."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest
from vendor import Vendor

from devmod_conformance.checks import run_python
from devmod_runtime.driver_api.errors import DriverError


@pytest.mark.row("R6", "R39")
def test_an_import_opens_nothing(vendor: Vendor) -> None:
    packages = [module.partition(".")[0] for modules in vendor.driver_modules.values() for module in modules]
    run_python(
        f"import sys, devmod_{vendor.kind}\n"
        f"names = {{'ctypes', 'numpy', 'devmod_{vendor.kind}._driver', *{packages}}}\n"
        "assert not names & set(sys.modules), names & set(sys.modules)\n"
        f"assert '{vendor.library.partition('.')[0]}' not in open('/proc/self/maps').read()",
        **vendor.environment(),
    )


# -- the choice


def test_the_driver_that_the_variable_names(vendor: Vendor, python_driver: str, device: Any) -> None:
    assert device.driver.name == python_driver
    assert not vendor.driver_modules[python_driver] or any(module in sys.modules for module in vendor.driver_modules[python_driver])


def test_an_unknown_driver(vendor: Vendor) -> None:
    first, second = vendor.drivers
    assert vendor.error_of_opening(**{vendor.variable: "cupy"}) == (
        f"no {vendor.title} device can be used: {vendor.variable}='cupy' names no driver; set it to '{first}' or '{second}', or unset it"
    )


MISSING = """
import sys
import devmod
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in {modules!r}:
            {error}
sys.meta_path.insert(0, Finder())
try:
    devmod.device({kind!r})
except devmod.DeviceNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("raise ModuleNotFoundError(f'No module named {name}', name=name)", "{name} is not installed. To add it: {install}"),
        ("raise ImportError('undefined symbol')", "{name} cannot be imported: undefined symbol. To repair it: {repair}"),
    ],
    ids=["missing", "broken"],
)
def test_a_missing_package(vendor: Vendor, driver_name: str, error: str, text: str) -> None:
    if driver_name not in vendor.packages:
        pytest.skip(f"{driver_name} is no package")
    if "ModuleNotFoundError" not in error and vendor.missing_driver(driver_name):
        pytest.skip(vendor.missing_driver(driver_name))
    modules, install, repair = vendor.packages[driver_name]
    program = MISSING.format(modules=modules, error=error, kind=vendor.kind)
    output = run_python(program, **vendor.environment(), **{vendor.variable: driver_name})
    assert output == f"no {vendor.title} device can be used: {text.format(name=driver_name, install=install, repair=repair)}\n"


# -- opening it


def test_another_call_opens_the_driver_again_after_a_failure(vendor: Vendor, environment: dict[str, str]) -> None:
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


# -- the interface, with each driver of Python


@pytest.fixture
def driver(device: Any) -> Any:
    """The driver's object; the device's context is current."""
    with device.context:
        yield device.driver


def test_handles_are_ints(driver: Any, vendor: Vendor) -> None:
    stream, event, pointer = driver.call("create_stream", 1), driver.call("create_event", 0), driver.call("allocate", 64)
    assert [type(each) for each in (stream, event, pointer)] == [int, int, int]
    host = (ctypes.c_int * 16)(*range(16))
    driver.copy_to_device(pointer, ctypes.addressof(host), 64, stream)
    driver.fill(pointer, 1, 4, stream)
    driver.copy_on_device(pointer + 32, pointer, 4, stream)
    driver.record_event(event, stream)
    driver.copy_to_host(ctypes.addressof(host), pointer, 64, stream)
    driver.wait_event(vendor.legacy_stream, event)
    driver.synchronize_stream(stream)
    assert list(host) == [0x01010101, *range(1, 8), 0x01010101, *range(9, 16)]
    assert driver.is_event_done(event)
    assert driver.stream_context(stream) == driver.current_context()
    assert driver.memory_range(pointer + 5) == (pointer, 64)
    free, total = driver.memory_info()
    assert 0 < free < total
    driver.call("free", pointer)
    driver.call("destroy_event", event)
    driver.call("destroy_stream", stream)


def test_errors_have_the_vendors_name_and_text(driver: Any, vendor: Vendor) -> None:
    with pytest.raises(DriverError) as caught:
        driver.call("allocate", 1 << 60)
    error, name = caught.value, vendor.error("out of memory").partition(" ")[0]
    assert (error.name, error.call) == (name, vendor.functions["allocate"])
    assert str(error) == f"{vendor.functions['allocate']}: {name} ({error.text})"
    module, _ = driver.load_module(vendor.payload('extern "C" __global__ void k() {}'))
    with pytest.raises(DriverError) as caught:
        driver.get_function(module, "nothing")
    assert caught.value.name == vendor.error("not found").partition(" ")[0]
    driver.unload_module(module)
