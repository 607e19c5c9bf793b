"""Devices, for each vendor: what they report, several of them, forks, the end of a process, and a
device that a kernel has lost.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from backend_checks import check_two_devices, run_python
from vendor import Vendor

import devmod
from devmod.backend import fits, requirements
from devmod_simulators import StandinDriver

posix = pytest.mark.skipif(
    sys.platform == "win32", reason="fork and libcuda.so.1 exist on POSIX alone"
)


def run(vendor: Vendor, program: str, *options: str, **environment: str) -> str:
    """Run a program in a new process, with `vendor`, `kind` and `devmod`, and return its output."""
    output: str = run_python(program_of(vendor, program), *options, **environment)
    return output


def program_of(vendor: Vendor, program: str) -> str:
    """Return a program that has `vendor`, `kind` and `devmod`."""
    return f"import devmod\nfrom standin_{vendor.kind} import {vendor.kind.upper()} as vendor\nkind = vendor.kind\n{program}"


@pytest.mark.each_driver
def test_the_device(device: Any, vendor: Vendor, standin: StandinDriver) -> None:
    assert device is devmod.device(vendor.kind) is devmod.device(f"{vendor.kind}:0")
    assert (device.kind, device.index, device.vendor, device.dlpack_type) == (
        vendor.kind,
        0,
        vendor.maker,
        vendor.dlpack_type,
    )
    assert repr(device) == f"{vendor.kind} device 0 ({device.name})" == vendor.device
    assert device.memory == 4 << 30
    assert device.limits is device.limits
    assert device.limits["view_alignment"] == 1
    free = device.free_memory()
    array = device.empty(1 << 20, "uint8")
    assert device.free_memory() == free - (1 << 20)
    del array
    assert device.free_memory() == free


def test_no_class_has_a_partial_as_an_attribute(device: Any) -> None:
    """Python 3.13 warns of one at each access, and Python 3.14 makes a method of it."""
    device.zeros(8, "uint8").numpy()
    found = [
        f"{each.__module__}.{each.__qualname__}.{name}"
        for each in gc.get_objects()
        if isinstance(each, type) and str(each.__module__).startswith("devmod")
        for name, value in vars(each).items()
        if isinstance(value, functools.partial)
    ]
    assert found == []


@pytest.mark.volume_but("cuda-ctypes", "rocm")
@pytest.mark.each_driver
@pytest.mark.row("R23", "R39")
def test_listing_devices_opens_no_context(
    vendor: Vendor, environment: dict[str, str], standin: StandinDriver
) -> None:
    program = """
import ctypes
device = devmod.device(kind)
print(device.name, bool(device.arch), dict(device.limits)["warp_size"], device.synchronize())
library = ctypes.CDLL(vendor.library)
library.standin_calls.restype = ctypes.c_uint64
def calls(operation): return library.standin_calls(vendor.functions[operation].encode())
for operation in vendor.first_use:
    assert calls(operation) == 0, operation
device.empty(1, "uint8")
assert calls("allocate") == 1
if "retain_primary_context" in vendor.first_use:
    assert calls("retain_primary_context") == 1
"""
    assert run(vendor, program, **environment) == f"{vendor.device_name} True 32 None\n"


#: For each vendor: the version of the driver, the architecture of the device, and both as devmod
#: reports them.
VERSIONS = {
    "cuda": [
        ("12000", "90", "sm_90:ptx8.0 CUDA 12.0"),
        ("13000", "90", "sm_90:ptx9.0 CUDA 13.0"),
    ],
    "rocm": [  # the structure of the properties differs between HIP 5 and 6
        ("50221153", "gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack- HIP 5.2"),
        ("70200000", "gfx942:sramecc+:xnack+", "gfx942:sramecc+:xnack+ HIP 7.2"),
    ],
}
VERSION = """
import numpy as np
device = devmod.device(kind)
stream, host, back = device.stream(), np.arange(1 << 18), np.zeros(1 << 18, int)
start = stream.record()
array = device.empty(host.shape, "int64")
array.copy_from(host, stream=stream, wait=False)
assert array.copy_to(back, stream=stream, wait=False).elapsed(start) >= 0
assert (back == host).all()
print(device.arch, device.driver_version)
"""


@pytest.mark.row("R40")
@pytest.mark.parametrize("number", [0, 1])
def test_the_architecture_and_copies_with_each_version(
    number: int,
    vendor: Vendor,
    environment: dict[str, str],
    driver_name: str,
    standin: StandinDriver,
) -> None:
    version, arch, text = VERSIONS[vendor.kind][number]
    settings = {"DEVMOD_STANDIN_DRIVER_VERSION": version, "DEVMOD_STANDIN_ARCH": arch}
    assert run(vendor, VERSION, **environment, **settings) == f"{text}\n"


# -- several devices

TWO_DEVICES = """
from foreign_arrays import Tensor
from backend_checks import check_two_devices
import numpy as np
first, second = (devmod.device(kind, number) for number in (0, 1))
add = vendor.kernels()["add"]
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
target = second.zeros(64, "float32")
target.copy_from(launches[0][1])
assert target.numpy().tolist() == [5] * 64
assert [each.index for each in devmod.devices(kind)] == [0, 1]
try:
    add(launches[0][1], Tensor(target), launches[0][1], 64, grid=1, block=64)
except devmod.ArgumentError as error:
    assert str(error) == (
        f"the {kind} function 'add': argument 2 'b' is on {second}, and argument 1 'a' is on {first}; a launch runs on one device: copy the "
        "array through the host"), error
else:
    raise AssertionError("arrays of two devices in one launch")
add(Tensor(target), Tensor(target), target, 64, grid=1, block=64)
assert target.numpy().tolist() == [10] * 64
print("done")
"""


@pytest.mark.volume_but(
    "cuda-ctypes"
)  # the plugins have tests of two devices with pycuda and with ROCm
@pytest.mark.each_driver
def test_two_devices(
    vendor: Vendor, environment: dict[str, str], executes: None, standin: StandinDriver
) -> None:
    assert run(vendor, TWO_DEVICES, **environment, DEVMOD_STANDIN_DEVICES="2") == "done\n"


REPLACED_COMPILER = """
from threading import Thread
source, format = (b"source", "cuda") if kind == "cuda" else (b"source", "hip")
def payload(arch):
    if kind == "cuda":
        from cuda_kernels import ADD
        return vendor.payload(ADD)
    from hip_modules import ADD, code_object
    return code_object(ADD, arch)
seen = []
def compiler(code):
    target = devmod.Target.current()
    seen.append((code, str(target)))
    return payload(target.arch)
devmod.set_compiler(kind, compiler)
info = devmod.FunctionInfo("add", ["handle", "handle", "handle", "int32"])
module = devmod.create(kind, source, format, {"add": info})
devices = [devmod.device(kind, number) for number in range(3)]
assert len({each.arch for each in devices}) == 2
def load(device):
    for _ in range(2):
        module["add"].on(device)
for device in devices:
    threads = [Thread(target=load, args=(device,)) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
assert devmod.Target.current() is None
print(*(f"{code.decode()} {target}" for code, target in seen), sep=", ")
"""


@pytest.mark.row("R31")
@pytest.mark.volume_but("cuda-ctypes")
def test_a_replaced_compiler_is_called_once_for_each_architecture(
    vendor: Vendor, environment: dict[str, str], standin: StandinDriver
) -> None:
    if vendor.kind == "cuda":
        archs, targets = "90,80,90", ("sm_90", "sm_80")
        environment = {**environment, "CUDA_FORCE_PTX_JIT": ""}
    else:
        archs, targets = (
            "gfx1100,gfx90a:sramecc+:xnack-,gfx1100",
            ("gfx1100", "gfx90a:sramecc+:xnack-"),
        )
    output = run(
        vendor,
        REPLACED_COMPILER,
        **environment,
        DEVMOD_STANDIN_DEVICES="3",
        DEVMOD_STANDIN_ARCH=archs,
    )
    assert output == ", ".join(f"source {vendor.kind} -arch={each}" for each in targets) + "\n"


@pytest.mark.each_driver
def test_two_devices_of_the_hardware(vendor: Vendor, device: Any) -> None:
    devices = devmod.devices(vendor.kind)
    if len(devices) < 2:
        pytest.skip("there is one device")
    check_two_devices(vendor.kernels()["add"], devices[0], devices[1], grid=1, block=64)


# -- the end of a process, and forks

AT_EXIT = """
import sys, threading
import numpy as np
device = devmod.device(kind)
module = vendor.kernels(executes=False)
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


@pytest.fixture
def skips_launches(vendor: Vendor) -> dict[str, str]:
    """The environment variables of a child process whose launches do nothing if they would take
    seconds.
    """
    return {"DEVMOD_STANDIN_SKIP_LAUNCHES": "1"} if vendor.executes_slowly else {}


@pytest.mark.volume_but("cuda-ctypes", "cuda-pycuda")
@pytest.mark.each_driver
def test_the_end_of_a_process_is_silent(
    vendor: Vendor, environment: dict[str, str], skips_launches: dict[str, str], tmp_path: Path
) -> None:
    report = tmp_path / "report"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", program_of(vendor, AT_EXIT)],
        env={**os.environ, **environment, **skips_launches, "DEVMOD_STANDIN_REPORT": str(report)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    if not vendor.on_hardware():
        assert "violation" not in report.read_text()


FORKED = """
import gc, os, sys, warnings
warnings.simplefilter("ignore")
import ctypes
import numpy as np
device, host = devmod.device(kind), np.ones(64, "float32")
add = vendor.kernels(executes=False)["add"]
arrays = [device.from_numpy(host) for _ in range(3)]
stream, event = device.stream(), device.default_stream.record()
launch = add.bind(*arrays, 64, grid=1, block=64)
launch()
capsule = arrays[0].__dlpack__()
device.synchronize()
library = ctypes.CDLL(vendor.library)
NAMES = [vendor.functions[operation].encode() for operation in ("free", "destroy_stream", "destroy_event", "enter_context")]
def calls(): return [] if vendor.on_hardware() else [library.standin_calls(name) for name in NAMES]
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
    counts = calls()
    del arrays, stream, event, launch, capsule, refused, call
    gc.collect()
    assert counts == calls(), (counts, calls())
    print(*texts, sep="|", flush=True)
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
launch()
assert arrays[2].numpy().tolist() == [1 if "DEVMOD_STANDIN_SKIP_LAUNCHES" in os.environ else 2] * 64
print("parent")
"""


@pytest.mark.volume_but("cuda-ctypes", "cuda-pycuda")
@pytest.mark.each_driver
@posix
def test_a_forked_process_cannot_use_the_device(
    vendor: Vendor, environment: dict[str, str], skips_launches: dict[str, str]
) -> None:
    assert run(vendor, FORKED, **environment, **skips_launches) == (
        f"{vendor.kind} devices cannot be used in this process: it was forked after their driver was opened, and a driver works only in the "
        "process that opened it. Start processes that use devices with multiprocessing's 'spawn' or 'forkserver'\nparent\n"
    )


@pytest.mark.volume_but("cuda-ctypes")
@pytest.mark.each_driver
@posix
def test_a_process_forked_before_the_driver_was_opened(
    vendor: Vendor, environment: dict[str, str]
) -> None:
    program = (
        f"import os, sys, devmod, devmod_{vendor.kind}\n"
        "child = os.fork()\n"
        "if not child:\n"
        f"    print(devmod.device('{vendor.kind}').zeros(4, 'int32').numpy().tolist(), flush=True)\n"
        "    sys.exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert run_python(program, **environment) == "[0, 0, 0, 0]\n0\n"


# -- a device that a kernel has lost

LOST = """
import gc
import numpy as np
device, module = devmod.device(kind), vendor.kernels()
x, add, host = device.zeros(64, "float32"), module["add"], np.ones(64, "float32")
launch, stream, event = add.bind(x, x, x, 64, grid=1, block=64), device.stream(), device.default_stream.record()
device.synchronize()
module["fault"](x, grid=1, block=1)
name = vendor.error("illegal address").partition(" ")[0]
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
        texts.add(str(error).partition(f": {name} ")[2])
    else:
        texts.add(f"{call} raised nothing")
print(*texts, sep="|")
for call in (lambda: add(x, x, x, 64, grid=1, block=64), x.numpy, launch.time, lambda: device.zeros(4, "int32")):
    try:
        call()
    except devmod.LaunchError as error:
        print(error)
del x, launch, stream, event, module, add, call
gc.collect()
"""


@pytest.mark.volume_but("cuda-ctypes", "rocm")
@pytest.mark.each_driver
def test_an_illegal_address_loses_the_device(
    vendor: Vendor, environment: dict[str, str], executes: None
) -> None:
    first, later, *calls, end = run(vendor, LOST, "-W", "error", **environment).split("\n")
    device, name = first.partition(" reports")[0], vendor.error("illegal address").partition(" ")[0]
    if not vendor.on_hardware():
        assert device == vendor.device
    why, lead, text = later.partition(". A kernel")
    reason = f"{name} {later}"
    assert lead + text == (
        f". A kernel has failed on {device}: {vendor.api} refuses every later call of this process on it, also of other libraries. Its arrays "
        "are lost. Start a new process"
    )
    assert first == f"{device} reports a fault of a launch: {reason}"
    if not vendor.on_hardware():
        # The simulated GPU gives the reason in the place of the driver's words.
        expected = vendor.error("illegal address")
        assert f"{name} {why}" == expected or re.search(r"thread \(0, 0, 0\), PTX line \d+", why)
    assert calls == [
        f"{device} refused a launch of the {vendor.kind} function 'add': {reason}",
        f"{device} reports a fault of a launch: {reason}",
        f"{device} cannot record an event: {reason}",
        f"{device} cannot allocate 16 bytes: {reason}",
    ]
    assert end == ""


@pytest.mark.row("R40")
def test_a_block_over_the_limits_is_no_candidate(device: Any) -> None:
    most, along_z = device.limits["max_threads_per_block"], device.limits["max_block_dim_z"]
    start = f"cannot run on {device}: its "

    def problem(interface: devmod.Interface | None) -> str:
        return fits(requirements(interface), device.capabilities)

    assert problem(devmod.Interface(block=(2, most, 1))) == (
        f"{start}max_threads_per_block is {most}, but the kernel is built for blocks of {2 * most} threads"
    )
    assert problem(devmod.Interface(block=(1, 1, along_z + 1))) == (
        f"{start}max_block_dim_z is {along_z}, but the kernel is built for blocks of {along_z + 1} threads in z"
    )
    assert (
        problem(devmod.Interface(block=(most, 1, 1)))
        == problem(devmod.Interface())
        == problem(None)
        == ""
    )
