"""NVIDIA's own libcuda on a machine without a GPU: Debian's libcuda1 of three versions, which `make
test-setup` fetches.

Each test runs in a process of its own. tools/vendor_runtimes.py has the list of the versions.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from each_case import some
from real_drivers import DRIVERS, OLD, WITHOUT_A_CARD, present, symbols, version_of
from standin_cuda import CUDA, missing_driver
from vendor_runtime import VendorRuntime

from devmod_cuda._calls import FUNCTIONS

pytestmark = WITHOUT_A_CARD
NO_DEVICE = "no CUDA device was found: cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected); nvidia-smi lists the devices of the driver"
TOO_OLD = (
    "no CUDA device can be used: the driver supports CUDA 11.4, and devmod-cuda needs a driver for CUDA 12.0 or newer (525.60 on Linux). "
    "Update NVIDIA's driver"
)


@pytest.fixture(params=DRIVERS, ids=lambda runtime: runtime.name)
def each_version(request: pytest.FixtureRequest) -> VendorRuntime:
    """NVIDIA's driver of each supported version."""
    return present(request.param)


@pytest.fixture(
    params=[*(pytest.param(each, marks=pytest.mark.volume) for each in DRIVERS[:-1]), DRIVERS[-1]],
    ids=lambda runtime: runtime.name,
)
def driver(request: pytest.FixtureRequest) -> VendorRuntime:
    """NVIDIA's newest driver. The older versions are volume."""
    return present(request.param)


@pytest.fixture
def cuda_driver(driver_name: str) -> str:
    """What opens the driver: ctypes or pycuda. Each test runs in processes of its own."""
    if missing_driver(driver_name):
        pytest.skip(missing_driver(driver_name))
    return driver_name


# -- the driver is there, and no device

BEGIN = r"""
import os, sys
import devmod
PTX = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"
def make():
    return devmod.create("cuda", PTX.encode(), "ptx", {"k": devmod.FunctionInfo("k", ["handle"])})
def is_open():
    return "libcuda.so" in open("/proc/self/maps").read()
def show(operation):
    try:
        print(operation())
    except devmod.DevmodError as error:
        print(type(error).__name__, error)
"""
DEVICES = """
show(lambda: devmod.device("cuda"))
show(lambda: devmod.device("cuda"))
show(lambda: devmod.load_from_bytes("cuda", make().save_to_bytes())["k"])
show(lambda: devmod.loads(devmod.dumps(make()))["k"])
show(lambda: devmod.bundle(make())["k"])
show(lambda: [device.kind for device in devmod.devices()])
"""


def messages(error: str) -> str:
    """Return the output of DEVICES for an error."""
    candidate = f"no candidate of the bundle can run 'k' here:\n  1. cuda/ptx for compute_80:ptx7.0: {error}"
    return (
        "".join(f"DeviceNotFoundError {each}\n" for each in (error, error, error, error, candidate))
        + "[]\n"
    )


def run(runtime: VendorRuntime, program: str, **environment: str) -> str:
    """Run a program in which CUDA is the only runtime."""
    allowed = {"DEVMOD_PLUGINS_ALLOW": "devmod-core,devmod-readers,devmod-runtime,devmod-cuda"}
    return runtime.run(BEGIN + program, **allowed, **environment)


@pytest.mark.each_driver
@pytest.mark.row("R4", "R23")
def test_the_driver_is_there_and_a_device_is_not(
    driver: VendorRuntime, cuda_driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert run(driver, DEVICES, DEVMOD_CUDA_DRIVER=cuda_driver) == messages(NO_DEVICE)
    hidden = f"{NO_DEVICE.partition(';')[0]}; CUDA_VISIBLE_DEVICES is '0'"
    assert run(
        driver, DEVICES, DEVMOD_CUDA_DRIVER=cuda_driver, CUDA_VISIBLE_DEVICES="0"
    ) == messages(hidden)


@pytest.mark.each_driver
def test_a_driver_that_is_too_old(cuda_driver: str) -> None:
    assert run(present(OLD), DEVICES, DEVMOD_CUDA_DRIVER=cuda_driver) == messages(TOO_OLD)


@pytest.mark.row("R18", "R23", "R39")
def test_modules_are_made_loaded_saved_and_inspected_without_the_driver(
    driver: VendorRuntime, cuda_driver: str, tmp_path: Path
) -> None:
    program = """
module = make()
data = module.save_to_bytes()
loaded = devmod.load_from_bytes("cuda", data)
assert loaded.save_to_bytes() == data
assert loaded.inspect_source() == PTX
assert list(loaded.functions) == ["k"]
devmod.save(loaded, "k.devmod")
assert devmod.load("k.devmod").save_to_bytes() == data
loaded.write_to_file("k.ptx")
assert devmod.load_from_file("k.ptx").save_to_bytes() == data
assert not is_open()
show(lambda: loaded["k"])
print(is_open())
"""
    output = run(driver, f"os.chdir({str(tmp_path)!r})\n{program}", DEVMOD_CUDA_DRIVER=cuda_driver)
    assert output == f"DeviceNotFoundError {NO_DEVICE}\nTrue\n"


def test_the_command_that_lists_devices(driver: VendorRuntime, cuda_driver: str) -> None:
    program = """
from devmod.__main__ import main
os.environ["COLUMNS"] = "400"
sys.argv = ["devmod", "devices"]
main()
"""
    lines = run(driver, program, DEVMOD_CUDA_DRIVER=cuda_driver).splitlines()
    assert [line for line in lines if line.startswith("! cuda")] == [f"! cuda: {NO_DEVICE}"]


@pytest.mark.row("R39")
def test_a_failure_leaves_no_thread_no_file_and_no_output(
    driver: VendorRuntime, cuda_driver: str, tmp_path: Path
) -> None:
    """From CUDA 12.4 on the library itself has a thread, which does not delay the end of the
    process.
    """
    program = """
import threading, numpy
threads = len(os.listdir("/proc/self/task"))
show(lambda: devmod.device("cuda"))
print(len(os.listdir("/proc/self/task")) - threads, threading.active_count())
"""
    folders = {
        name: str(tmp_path)
        for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "CUDA_CACHE_PATH")
    }
    environment = {**folders, "DEVMOD_CUDA_DRIVER": cuda_driver, "PYTHONDONTWRITEBYTECODE": "1"}
    assert run(driver, f"os.chdir({str(tmp_path)!r})\n{program}", **environment) == (
        f"DeviceNotFoundError {NO_DEVICE}\n{int(version_of(driver) >= 12040)} 1\n"
    )
    assert list(tmp_path.iterdir()) == []


FORK = """
import warnings
warnings.simplefilter("error", RuntimeWarning)
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside the thread of NVIDIA's library, since Python 3.12
show(lambda: devmod.device("cuda"))
sys.stdout.flush()
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    print(status)
show(lambda: devmod.device("cuda"))
show(devmod.devices)
"""


@pytest.mark.each_driver
def test_a_forked_child_has_the_failure_of_its_parent(
    driver: VendorRuntime, cuda_driver: str
) -> None:
    """Without the warning of a driver that was open when the process was forked, and without a
    second cuInit, which has another error there.
    """
    parent = f"DeviceNotFoundError {NO_DEVICE}"
    child = (
        f"{parent}. That was in the parent of this process, and cuInit cannot be repeated in a forked child. Start processes that use "
        "devices with multiprocessing's 'spawn' or 'forkserver'"
    )
    assert (
        run(driver, FORK, DEVMOD_CUDA_DRIVER=cuda_driver)
        == f"{parent}\n{child}\n[]\n0\n{parent}\n[]\n"
    )


# -- the functions of libcuda that devmod and pycuda use

#: What devmod calls by a condition on the driver's version, with the version.
NEWER = {"cuFuncGetParamInfo": 12040}


def test_a_driver_has_the_functions_that_devmod_calls(each_version: VendorRuntime) -> None:
    """Each symbol in the sources, of the shared table and of single calls."""
    import devmod_cuda
    import devmod_driver_api

    names = {function.symbol or function.name for function in FUNCTIONS.values()}
    for package in (devmod_cuda, devmod_driver_api):
        for file in some(Path(str(package.__file__)).parent.glob("*.py")):
            text = file.read_text()
            names |= set(re.findall(r'symbol\(\s*"(cu\w+)"', text))
    assert len(names) > 55
    real, version = symbols(each_version.path / CUDA.library), version_of(each_version)
    assert names - real == {name for name, first in NEWER.items() if first > version}


def test_a_driver_has_the_functions_that_pycuda_links_with(each_version: VendorRuntime) -> None:
    """It is built with the headers of CUDA 12.0 (tools/build_pycuda.py)."""
    if missing_driver("pycuda"):
        pytest.skip(missing_driver("pycuda"))
    spec = importlib.util.find_spec("pycuda")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (file,) = Path(spec.submodule_search_locations[0]).glob("_driver*.so")
    names = symbols(file, "--undefined-only")
    assert len(names) > 100
    assert names <= symbols(each_version.path / CUDA.library)


CALLS = """
import ctypes
from devmod_cuda._calls import FUNCTIONS
from devmod_cuda._calls import CudaDriver
from devmod_driver_api.api import DriverError
from devmod_driver_api.driver import DriverLaunchConfig
driver = CudaDriver(ctypes.CDLL("libcuda.so.1"))
config = driver.launch_config(DriverLaunchConfig((1, 1, 1), (1, 1, 1), 0), 0)
def call(name):
    values = [b"k" if each is ctypes.c_char_p else int(name == "device_attribute") for each in FUNCTIONS[name].parameters]
    return lambda: driver.call(name, *values)
calls = {name: call(name) for name in FUNCTIONS if name not in ("initialize", "version")}
calls |= {
    "exchange_capture_mode": lambda: driver.relaxed().__enter__(),
    "device_name": lambda: driver.device_name(0),
    "locate": lambda: driver.locate(4096),
    "load_module": lambda: driver.load_module(b"none"),
    "max_active_clusters": lambda: driver.call("max_active_clusters", 0, ctypes.byref(config)),
    "encode_tensor_map": lambda: driver.encode_tensor_map(7, 0, (32, 32), (128,), (16, 8), (1, 1)),
    "context_functions": lambda: driver.context_functions(0)[0](),
}
for name, function in calls.items():
    try:
        result = function()
    except DriverError as error:
        result = error.name
    print(name, result)
print("param_places", driver.param_places(0))
"""


def test_each_call_of_devmod_has_an_answer_of_the_driver(each_version: VendorRuntime) -> None:
    """A function that the driver lacks is an error of ours; no call ends the process."""
    lines = dict(line.split(" ", 1) for line in each_version.run(CALLS).splitlines())
    version = version_of(each_version)
    assert lines.pop("param_places") == ("None" if version < NEWER["cuFuncGetParamInfo"] else "[]")
    assert (
        lines.pop("param_info")
        == f"CUDA_ERROR_{'NOT_SUPPORTED' if version < NEWER['cuFuncGetParamInfo'] else 'INVALID_VALUE'}"
    )
    assert lines.pop("max_active_clusters") == "CUDA_ERROR_INVALID_VALUE"
    null = (
        "destroy_stream",
        "destroy_event",
        "synchronize_event",
        "is_event_done",
        "elapsed_time",
        "array_form",
    )
    assert {lines.pop(name) for name in null} == {"CUDA_ERROR_INVALID_HANDLE"}
    assert lines.pop("function_attribute") == (
        "CUDA_ERROR_NOT_INITIALIZED" if version < 12040 else "CUDA_ERROR_INVALID_HANDLE"
    )
    assert len(lines) > 45
    assert {
        name for name, answer in lines.items() if answer != "CUDA_ERROR_NOT_INITIALIZED"
    } == set()
