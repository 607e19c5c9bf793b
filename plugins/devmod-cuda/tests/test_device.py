"""CUDA devices: what they report, several of them, threads, forks, the end of a process, and a device that a kernel has lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cuda_kernels import adder
from standin_cuda import Standin, missing_driver, on_hardware

import devmod
from devmod_conformance.checks import check_two_devices, run_python

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
TESTS = str(Path(__file__).parent)


@pytest.fixture(params=["cuda-bindings", "pycuda"])
def environment(request: pytest.FixtureRequest, cuda_environment: dict[str, str]) -> dict[str, str]:
    """The environment of a process with each driver."""
    reason = missing_driver(request.param)
    if reason:
        pytest.skip(reason)
    paths = [TESTS, str(Path(TESTS).parents[2] / "tests" / "standin")]
    return {**cuda_environment, "DEVMOD_CUDA_DRIVER": request.param, "PYTHONPATH": os.pathsep.join(paths)}


def test_the_device(device: Any, standin: Standin) -> None:
    assert device is devmod.device("cuda") is devmod.device("cuda:0")
    assert (device.kind, device.index, device.vendor, device.dlpack_type) == ("cuda", 0, "NVIDIA", 2)
    assert repr(device) == f"cuda device 0 ({device.name})"
    assert device.memory == 4 << 30
    assert (device.arch, device.driver_version) == ("sm_90:ptx9.5", "CUDA 13.5")
    limits = device.limits
    assert limits is device.limits
    expected = {
        "max_threads_per_block": 1024,
        "max_block_dim_z": 64,
        "max_grid_dim_x": 2147483647,
        "max_grid_dim_y": 65535,
        "warp_size": 32,
    }
    assert expected.items() <= limits.items()
    assert (limits["max_shared_memory_per_block"], limits["max_shared_memory_per_block_optin"]) == (48 << 10, 227 << 10)
    assert limits["view_alignment"] == 1
    free = device.free_memory()
    array = device.empty(1 << 20, "uint8")
    assert device.free_memory() == free - (1 << 20)
    del array
    assert device.free_memory() == free


@pytest.mark.row("R23", "R39")
def test_listing_devices_opens_no_context(environment: dict[str, str]) -> None:
    if on_hardware():
        pytest.skip("reads the calls of the stand-in driver")
    program = """
import ctypes, devmod
device = devmod.device("cuda")
print(device.name, device.arch, dict(device.limits)["warp_size"], device.synchronize())
library = ctypes.CDLL("libcuda.so.1")
library.standin_calls.restype = ctypes.c_uint64
for name in (b"cuDevicePrimaryCtxRetain", b"cuMemAlloc", b"cuStreamCreate"):
    assert library.standin_calls(name) == 0, name
device.empty(1, "uint8")
assert library.standin_calls(b"cuDevicePrimaryCtxRetain") == 1
"""
    assert run_python(program, **environment) == "stand-in driver (no GPU) sm_90:ptx9.5 32 None\n"


OLDER = """
import numpy as np
import devmod
device = devmod.device("cuda")
stream, host, back = device.stream(), np.arange(1 << 18), np.zeros(1 << 18, int)
start = stream.record()
array = device.empty(host.shape, "int64")
array.copy_from(host, stream=stream, wait=False)
end = array.copy_to(back, stream=stream, wait=False)
assert end.elapsed(start) >= 0
assert (back == host).all()
print(device.arch, device.driver_version)
"""


@pytest.mark.parametrize(
    ("version", "arch"), [("12000", "sm_90:ptx8.0 CUDA 12.0"), ("12060", "sm_90:ptx8.5 CUDA 12.6"), ("13000", "sm_90:ptx9.0 CUDA 13.0")]
)
def test_an_older_driver(environment: dict[str, str], version: str, arch: str) -> None:
    if on_hardware():
        pytest.skip("reads the settings of the stand-in driver")
    assert run_python(OLDER, **environment, DEVMOD_STANDIN_DRIVER_VERSION=version) == f"{arch}\n"


# -- several devices

TWO_DEVICES = """
import numpy as np
import devmod
from cuda_kernels import adder
from devmod_conformance.checks import check_two_devices
first, second = (devmod.device("cuda", number) for number in (0, 1))
assert (first.arch, second.arch) == ("sm_90:ptx9.5", "sm_100:ptx9.5"), second.arch
add = adder()["add"]
check_two_devices(add, first, second, grid=1, block=64)
# Both default streams, and prepared launches of both devices by turns in one thread.
launches = []
for device in (first, second):
    arrays = [device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0)]
    launches.append((add.bind(arrays[0], arrays[2], arrays[2], 64, grid=1, block=64), arrays[2]))
for _ in range(5):
    for launch, _ in launches:
        launch()
for _, c in launches:
    assert c.numpy().tolist() == [5] * 64
driver = first.driver
driver.set_context(0)
assert driver.current_context() == 0
second.zeros(4, "float32").numpy()
assert driver.current_context() == 0
driver.set_context(first.context.handle)
launches[1][0]()
second.stream().record().synchronize()
assert driver.current_context() == first.context.handle
target = second.zeros(64, "float32")
target.copy_from(launches[0][1])
assert target.numpy().tolist() == [5] * 64
assert [each.index for each in devmod.devices() if each.kind == "cuda"] == [0, 1]
class Described:
    __cuda_array_interface__ = target.__cuda_array_interface__
try:
    add(launches[0][1], Described(), launches[0][1], 64, grid=1, block=64)
except devmod.ArgumentError as error:
    assert str(error) == (
        f"the cuda function 'add': argument 2 'b' is on {second}, and argument 1 'a' is on {first}; a launch runs on one device: copy the "
        "array through the host"), error
add(Described(), Described(), target, 64, grid=1, block=64)
assert target.numpy().tolist() == [10] * 64
print("done")
"""


def test_two_devices(environment: dict[str, str]) -> None:
    if on_hardware():
        pytest.skip("the hardware may have one device; the stand-in driver has two here")
    assert run_python(TWO_DEVICES, **environment, DEVMOD_STANDIN_DEVICES="2", DEVMOD_STANDIN_ARCH="90,100") == "done\n"


def test_two_devices_of_the_hardware(device: Any) -> None:
    devices = [each for each in devmod.devices() if each.kind == "cuda"]
    if len(devices) < 2:
        pytest.skip("there is one device")
    check_two_devices(adder()["add"], devices[0], devices[1], grid=1, block=64)


# -- the end of a process, and forks

AT_EXIT = """
import sys, threading
import numpy as np
import devmod
from cuda_kernels import adder
device = devmod.device("cuda")
module = adder()
add, host = module["add"], np.ones(1 << 18, "float32")
arrays = [device.from_numpy(host) for _ in range(3)]
stream, event = device.stream(), device.default_stream.record()
launch = add.bind(*arrays, 64, grid=1, block=64)
launch()
add(*arrays, 64, grid=1, block=64, stream=stream)
started = arrays[0].copy_from(host, stream=stream, wait=False)
threading.Thread(target=lambda: add(*arrays, 64, grid=1, block=64)).start()
cycle = [device.zeros(8, "float32"), stream]
cycle.append(cycle)
sys.modules["kept"] = arrays, launch, event, module
class Late:
    def __init__(self): self.array = device.zeros(8, "uint8")
    def __del__(self): self.array = None
late = Late()
capsule = arrays[0].__dlpack__()
"""


def test_the_end_of_a_process_is_silent(environment: dict[str, str], tmp_path: Path) -> None:
    report = tmp_path / "report"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", AT_EXIT],
        env={**os.environ, **environment, "DEVMOD_STANDIN_REPORT": str(report)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    if not on_hardware():
        assert "violation" not in report.read_text()


FORKED = """
import gc, os, sys, warnings
warnings.simplefilter("ignore")
import ctypes
import numpy as np
import devmod
from cuda_kernels import adder
device, host = devmod.device("cuda"), np.ones(64, "float32")
add = adder()["add"]
arrays = [device.from_numpy(host) for _ in range(3)]
stream, event = device.stream(), device.default_stream.record()
launch = add.bind(*arrays, 64, grid=1, block=64)
launch()
capsule = arrays[0].__dlpack__()
device.synchronize()
library = ctypes.CDLL("libcuda.so.1")
refused = (
    launch, lambda: add(*arrays, 64, grid=1, block=64), lambda: device.empty(4, "uint8"), lambda: device.zeros(4, "uint8"),
    arrays[0].numpy, lambda: arrays[0].copy_from(host), lambda: arrays[0].copy_to(host, wait=False), device.stream, device.synchronize,
    stream.record, stream.synchronize, lambda: stream.wait(event), event.synchronize, lambda: event.elapsed(event),
    lambda: arrays[0].__dlpack__(), lambda: arrays[0].__cuda_array_interface__, lambda: arrays[0][3:5].numpy(), device.free_memory,
)
child = os.fork()
if not child:
    texts = set()
    for call in refused:
        try:
            call()
        except devmod.LaunchError as error:
            texts.add(str(error))
        else:
            texts.add(f"{call} was not refused")
    counts = [library.standin_calls(name) for name in (b"cuMemFree", b"cuStreamDestroy", b"cuEventDestroy", b"cuCtxPushCurrent")] if FAKE else 0
    del arrays, stream, event, launch, capsule, refused, call
    gc.collect()
    after = [library.standin_calls(name) for name in (b"cuMemFree", b"cuStreamDestroy", b"cuEventDestroy", b"cuCtxPushCurrent")] if FAKE else 0
    assert counts == after, (counts, after)
    print(*texts, sep="|", flush=True)
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
launch()
assert arrays[2].numpy().tolist() == [2] * 64
print("parent")
"""


@posix
def test_a_forked_process_cannot_use_the_device(environment: dict[str, str]) -> None:
    assert run_python(f"FAKE = {not on_hardware()}\n{FORKED}", **environment) == (
        "cuda devices cannot be used in this process: it was forked after their driver was opened, and a driver works only in the process "
        "that opened it. Start processes that use devices with multiprocessing's 'spawn' or 'forkserver'\nparent\n"
    )


@posix
def test_a_process_forked_before_the_driver_was_opened(environment: dict[str, str]) -> None:
    program = (
        "import os, sys, devmod, devmod_cuda\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    print(devmod.device('cuda').zeros(4, 'int32').numpy().tolist(), flush=True)\n"
        "    sys.exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert run_python(program, **environment) == "[0, 0, 0, 0]\n0\n"


# -- a device that a kernel has lost

LOST = """
import gc
import numpy as np
import devmod
from cuda_kernels import adder
device, module = devmod.device("cuda"), adder()
x, add, host = device.zeros(64, "float32"), module["add"], np.ones(64, "float32")
launch, stream, event = add.bind(x, x, x, 64, grid=1, block=64), device.stream(), device.default_stream.record()
device.synchronize()
module["fault"](x, grid=1, block=1)
try:
    device.synchronize()
except devmod.LaunchError as error:
    print(error)
texts = set()
for call in (
    device.synchronize, x.numpy, lambda: device.empty(4, "uint8"), lambda: x.copy_from(host), lambda: device.zeros(4, "uint8"), device.stream,
    stream.record, lambda: add(x, x, x, 64, grid=1, block=64), lambda: add(host, host, host, 64, grid=1, block=64), stream.synchronize,
    lambda: x.copy_to(host, wait=False), event.synchronize,
):
    try:
        call()
    except devmod.LaunchError as error:
        assert type(error) is devmod.LaunchError, error
        texts.add(str(error).partition(": CUDA_ERROR_ILLEGAL_ADDRESS ")[2])
    else:
        texts.add(f"{call} raised nothing")
print(*texts, sep="|")
del x, launch, stream, event, module, add
gc.collect()
"""


def test_an_illegal_address_loses_the_device(environment: dict[str, str]) -> None:
    first, later, end = run_python(LOST, "-W", "error", **environment).split("\n")
    lost = (
        ". A kernel has failed on {device}: CUDA refuses every later call of this process on it, also of other libraries. Its arrays are "
    )
    device = first.partition(" reports")[0]
    why, _, text = later.partition(")")
    assert text == f"{lost.format(device=device)}lost. Start a new process"
    assert first == f"{device} reports a fault of a launch: CUDA_ERROR_ILLEGAL_ADDRESS {why}){text}"
    assert end == ""
