"""ROCm devices: what they report, several of them, forks, the end of a process, and a device that a kernel has lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rocm_kernels import VARIABLE, module, payload
from standin_rocm import Standin, missing_driver, needs_emulator, on_hardware

import devmod
from devmod_conformance.checks import check_two_devices, run_python

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
TESTS = str(Path(__file__).parent)


@pytest.fixture(params=["ctypes", "hip-python"])
def environment(request: pytest.FixtureRequest, rocm_environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of a process with each driver."""
    reason = missing_driver(request.param)
    if reason:
        pytest.skip(reason)
    if on_hardware():
        pytest.skip("reads the stand-in runtime")
    paths = [TESTS, str(Path(TESTS).parents[2] / "tests" / "standin")]
    kernels = tmp_path / "kernels.devmod"
    kernels.write_bytes(payload())
    return {**rocm_environment, "DEVMOD_ROCM_DRIVER": request.param, "PYTHONPATH": os.pathsep.join(paths), VARIABLE: str(kernels)}


def test_the_device(device: Any, standin: Standin) -> None:
    assert device is devmod.device("rocm") is devmod.device("rocm:0")
    assert (device.kind, device.index, device.vendor, device.dlpack_type) == ("rocm", 0, "AMD", 10)
    assert repr(device) == f"rocm device 0 ({device.name})"
    assert device.memory == 4 << 30
    assert (device.arch, device.driver_version) == ("gfx1100", "HIP 7.2")
    limits = device.limits
    assert limits is device.limits
    assert limits == {
        "max_threads_per_block": 1024,
        "max_block_dim_x": 1024,
        "max_block_dim_y": 1024,
        "max_block_dim_z": 1024,
        "max_grid_dim_x": 2147483647,
        "max_grid_dim_y": 65536,
        "max_grid_dim_z": 65536,
        "max_shared_memory_per_block": 65536,
        "warp_size": 32,
        "max_registers_per_block": 65536,
        "multiprocessor_count": 16,
        "max_threads_per_multiprocessor": 2048,
        "cooperative_launch": 1,
        "view_alignment": 1,
    }
    free = device.free_memory()
    array = device.empty(1 << 20, "uint8")
    assert device.free_memory() == free - (1 << 20)
    del array
    assert device.free_memory() == free


#: The version of the runtime, the processor, and what the device has of them.
VERSIONS = [
    ("50221153", "gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack- HIP 5.2"),
    ("60342134", "gfx1030", "gfx1030 HIP 6.3"),
    ("70200000", "gfx942:sramecc+:xnack+", "gfx942:sramecc+:xnack+ HIP 7.2"),
]


@pytest.mark.row("R40")
@pytest.mark.parametrize(("version", "arch", "text"), VERSIONS)
def test_the_processor_and_its_features_in_each_version(rocm_environment: dict[str, str], version: str, arch: str, text: str) -> None:
    """The structure of the properties differs between HIP 5 and 6."""
    if on_hardware():
        pytest.skip("reads the settings of the stand-in runtime")
    program = """
import numpy as np
import devmod
device = devmod.device("rocm")
stream, host, back = device.stream(), np.arange(1 << 18), np.zeros(1 << 18, int)
start = stream.record()
array = device.empty(host.shape, "int64")
array.copy_from(host, stream=stream, wait=False)
assert array.copy_to(back, stream=stream, wait=False).elapsed(start) >= 0
assert (back == host).all()
print(device.arch, device.driver_version)
"""
    settings = {"DEVMOD_STANDIN_DRIVER_VERSION": version, "DEVMOD_STANDIN_ARCH": arch}
    assert run_python(program, **rocm_environment, **settings) == f"{text}\n"


@pytest.mark.row("R23", "R39")
def test_listing_devices_allocates_nothing(environment: dict[str, str]) -> None:
    program = """
import ctypes, devmod
device = devmod.device("rocm")
print(device.name, device.arch, dict(device.limits)["warp_size"], device.synchronize())
library = ctypes.CDLL("libamdhip64.so")
library.standin_calls.restype = ctypes.c_uint64
for name in (b"hipSetDevice", b"hipMalloc", b"hipStreamCreateWithFlags", b"hipDeviceSynchronize"):
    assert library.standin_calls(name) == 0, name
device.empty(1, "uint8")
assert library.standin_calls(b"hipMalloc") == 1
"""
    assert run_python(program, **environment) == "stand-in runtime (no GPU) gfx1100 32 None\n"


# -- several devices

TWO_DEVICES = """
import numpy as np
import devmod
from devmod_conformance.checks import check_two_devices
from rocm_kernels import module
first, second = (devmod.device("rocm", number) for number in (0, 1))
driver = first.driver
refused, error = set(), driver.error
driver.error = lambda call, status: refused.add(call) or error(call, status)
add = module()["add"]
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
for current in (0, 1):  # the device that the user's code has set stays the current one
    driver.set_context(current)
    for device, (launch, c) in zip((first, second), launches):
        launch()
        stream = device.stream()
        stream.record().synchronize()
        with stream.batch():
            add(c, c, c, 64, grid=1, block=64, stream=stream)
        stream.synchronize()
        device.zeros(4, "float32").numpy()
        del stream
        assert driver.current_context() == current
target = second.zeros(64, "float32")
target.copy_from(launches[0][1])
assert target.numpy().tolist() == launches[0][1].numpy().tolist()
assert [each.index for each in devmod.devices() if each.kind == "rocm"] == [0, 1]
class Tensor:
    def __dlpack_device__(self): return 10, 1
    def __dlpack__(self, **options): return target.__dlpack__(**options)
try:
    add(launches[0][1], Tensor(), launches[0][1], 64, grid=1, block=64)
except devmod.ArgumentError as error:
    assert str(error) == (
        f"the rocm function 'add': argument 2 'b' is on {second}, and argument 1 'a' is on {first}; a launch runs on one device: copy the "
        "array through the host"), error
assert "hipModuleLaunchKernel" not in refused  # a launch on another device than the current one
# A stream of another library on the second device.
from devmod_rocm._adopt import adopt_stream
own = second.stream()
class Stream:
    __module__ = "torch.cuda"
    cuda_stream = own.handle
assert adopt_stream(Stream()).device is second
class Null:
    __module__ = "torch.cuda"
    cuda_stream, device_index = 0, 1
Null.__name__ = "Stream"
assert adopt_stream(Null()) is second.default_stream
print("done")
"""


def test_two_devices(environment: dict[str, str]) -> None:
    needs_emulator()
    assert run_python(TWO_DEVICES, **environment, DEVMOD_STANDIN_DEVICES="2") == "done\n"


def test_two_devices_of_the_hardware(device: Any) -> None:
    devices = [each for each in devmod.devices() if each.kind == "rocm"]
    if len(devices) < 2:
        pytest.skip("there is one device")
    check_two_devices(module()["add"], devices[0], devices[1], grid=1, block=64)


# -- the end of a process, and forks

AT_EXIT = """
import sys, threading
import numpy as np
import devmod
from rocm_kernels import module
device = devmod.device("rocm")
module = module(executes=False)
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
        env={**os.environ, **environment, "DEVMOD_STANDIN_REPORT": str(report), "DEVMOD_STANDIN_SKIP_LAUNCHES": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "violation" not in report.read_text()


FORKED = """
import gc, os, sys, warnings
warnings.simplefilter("ignore")
import ctypes
import numpy as np
import devmod
from rocm_kernels import module
device, host = devmod.device("rocm"), np.ones(64, "float32")
add = module(executes=False)["add"]
arrays = [device.from_numpy(host) for _ in range(3)]
stream, event = device.stream(), device.default_stream.record()
launch = add.bind(*arrays, 64, grid=1, block=64)
launch()
capsule = arrays[0].__dlpack__()
device.synchronize()
library = ctypes.CDLL("libamdhip64.so")
NAMES = b"hipFree", b"hipStreamDestroy", b"hipEventDestroy", b"hipSetDevice"
refused = (
    launch, lambda: add(*arrays, 64, grid=1, block=64), lambda: device.empty(4, "uint8"), lambda: device.zeros(4, "uint8"),
    arrays[0].numpy, lambda: arrays[0].copy_from(host), lambda: arrays[0].copy_to(host, wait=False), device.stream, device.synchronize,
    stream.record, stream.synchronize, lambda: stream.wait(event), event.synchronize, lambda: event.elapsed(event),
    lambda: arrays[0].__dlpack__(), lambda: arrays[0][3:5].numpy(), device.free_memory,
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
    counts = [library.standin_calls(name) for name in NAMES]
    del arrays, stream, event, launch, capsule, refused, call
    gc.collect()
    after = [library.standin_calls(name) for name in NAMES]
    assert counts == after, (counts, after)
    print(*texts, sep="|", flush=True)
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
launch()
assert arrays[2].numpy().tolist() == [1] * 64
print("parent")
"""


@posix
def test_a_forked_process_cannot_use_the_device(environment: dict[str, str]) -> None:
    assert run_python(FORKED, **environment, DEVMOD_STANDIN_SKIP_LAUNCHES="1") == (
        "rocm devices cannot be used in this process: it was forked after their driver was opened, and a driver works only in the process "
        "that opened it. Start processes that use devices with multiprocessing's 'spawn' or 'forkserver'\nparent\n"
    )


@posix
def test_a_process_forked_before_the_driver_was_opened(environment: dict[str, str]) -> None:
    program = (
        "import os, sys, devmod, devmod_rocm\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    print(devmod.device('rocm').zeros(4, 'int32').numpy().tolist(), flush=True)\n"
        "    sys.exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert run_python(program, **environment) == "[0, 0, 0, 0]\n0\n"


# -- a device that a kernel has lost

LOST = """
import gc
import numpy as np
import devmod
from rocm_kernels import module
device, module = devmod.device("rocm"), module()
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
        texts.add(str(error).partition(": hipErrorIllegalAddress ")[2])
    else:
        texts.add(f"{call} raised nothing")
print(*texts, sep="|")
del x, launch, stream, event, module, add
gc.collect()
"""


def test_an_illegal_address_loses_the_device(environment: dict[str, str]) -> None:
    needs_emulator()
    if environment["DEVMOD_ROCM_DRIVER"] != "ctypes":
        pytest.skip("the errors after a fault do not depend on the driver of Python, and the test is slow")
    first, later, end = run_python(LOST, "-W", "error", **environment).split("\n")
    device = first.partition(" reports")[0]
    why, _, text = later.partition(")")
    assert text == (
        f". A kernel has failed on {device}: HIP refuses every later call of this process on it, also of other libraries. Its arrays are "
        "lost. Start a new process"
    )
    assert first == f"{device} reports a fault of a launch: hipErrorIllegalAddress {why}){text}"
    assert end == ""
