"""The stand-in HIP runtime in processes of its own: what a test of this process cannot change, and
what other tests must not see.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import devmod
from devmod_simulators import StandinDriver
from devmod_standins import libamdhip64

BEGIN = """
import ctypes, os
from ctypes import byref, c_int, c_size_t, c_void_p
hip = ctypes.CDLL("libamdhip64.so")
def check(code):
    assert code == 0, code
def allocate(size=16):
    pointer = c_void_p()
    check(hip.hipMalloc(byref(pointer), c_size_t(size)))
    return pointer
def number(function, *arguments):
    result = c_int()
    check(function(byref(result), *arguments))
    return result.value
"""


def process(code: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run a program with the stand-in runtime."""
    environment = {
        "PATH": "/usr/bin:/bin",
        **libamdhip64.environment(
            **{key: value for key, value in settings.items() if key.islower()}
        ),
    }
    environment |= {key: str(value) for key, value in settings.items() if key.isupper()}
    return subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


def run(code: str, **settings: object) -> str:
    """Run a program with the stand-in runtime and return its output."""
    result = process(code, **settings)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_other_tests_of_this_process_see_no_device(standin: StandinDriver) -> None:
    standin.hide()
    with pytest.raises(devmod.DeviceNotFoundError, match=r"hipGetDeviceCount: hipErrorNoDevice"):
        devmod.device("rocm")


DEVICES = """
for device in range(number(hip.hipGetDeviceCount)):
    old, new = ctypes.create_string_buffer(792 + 8), ctypes.create_string_buffer(1472 + 8)
    old.raw, new.raw = b"x" * 800, b"x" * 1480
    check(hip.hipGetDeviceProperties(old, device))
    check(hip.hipGetDevicePropertiesR0600(new, device))
    lanes = number(hip.hipDeviceGetAttribute, 87, device)
    assert lanes == int.from_bytes(old.raw[276:280], "little") == int.from_bytes(new.raw[308:312], "little")
    assert old.raw[792:] + new.raw[1472:] == b"x" * 16
    major, minor = (number(hip.hipDeviceGetAttribute, each, device) for each in (23, 61))
    print(old.raw[396:652].rstrip(b"\\0").decode(), new.raw[1160:1416].rstrip(b"\\0").decode(), lanes, major, minor)
"""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "gfx1100 gfx1100 32 11 0\n"),
        (
            {"devices": 2, "arch": "gfx1100,gfx90a:sramecc+:xnack-"},
            "gfx1100 gfx1100 32 11 0\ngfx90a:sramecc+:xnack- gfx90a:sramecc+:xnack- 64 9 0\n",
        ),
        (
            {"devices": 3, "arch": "gfx1100,gfx1030,gfx942", "HIP_VISIBLE_DEVICES": "2,0,7,1"},
            "gfx942 gfx942 64 9 4\ngfx1100 gfx1100 32 11 0\n",
        ),
    ],
)
def test_devices_and_their_targets_in_both_structures(
    settings: dict[str, Any], expected: str
) -> None:
    assert run(DEVICES, **settings) == expected


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ({"devices": 0}, "101 100"),
        ({"HIP_VISIBLE_DEVICES": ""}, "101 100"),
        ({"fail": "hipInit=3,hipGetDeviceCount=1053"}, "3 1053"),
    ],
)
def test_a_runtime_without_devices(settings: dict[str, Any], codes: str) -> None:
    assert (
        run("print(hip.hipInit(0), hip.hipGetDeviceCount(byref(c_int())))", **settings)
        == f"{codes}\n"
    )


def test_the_version_is_a_setting() -> None:
    assert (
        run(
            "print(number(hip.hipRuntimeGetVersion), number(hip.hipDriverGetVersion))",
            driver_version=60342133,
        )
        == "60342133 60342133\n"
    )


def test_each_thread_has_its_device_and_each_device_its_memory() -> None:
    code = """
import threading
def free():
    result = c_size_t()
    check(hip.hipMemGetInfo(byref(result), byref(c_size_t())))
    return result.value
check(hip.hipSetDevice(1))
pointer = allocate(1 << 20)
print(number(hip.hipGetDevice), free())
thread = threading.Thread(target=lambda: print(number(hip.hipGetDevice), free()))
thread.start(); thread.join()
base, handle = c_void_p(), c_void_p()
check(hip.hipCtxGetCurrent(byref(handle)))
check(hip.hipDevicePrimaryCtxRetain(byref(base), 1))
print(handle.value == base.value, hip.hipSetDevice(2), hip.hipDeviceEnablePeerAccess(0, 0), hip.hipDeviceEnablePeerAccess(0, 0))
"""
    assert run(code, devices=2, memory=1 << 21) == "1 1048576\n0 2097152\nTrue 101 0 704\n"


LOAD = """
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
image = open({image!r}, "rb").read()
def load():
    print(hip.hipModuleLoadData(byref(c_void_p()), image))
load()
"""


def test_a_worker_that_ends_is_an_error_and_no_signal(tmp_path: Path) -> None:
    from hip_kernels import code_object

    (tmp_path / "k.hsaco").write_bytes(code_object())
    code = LOAD.format(image=str(tmp_path / "k.hsaco"))
    missing = process(code, worker="/missing/program")
    assert (missing.stdout, missing.stderr) == (
        "999\n",
        "stand-in runtime: the worker did not start: No such file or directory\n",
    )
    ended = process(code + "load()", worker="/bin/true")
    assert (ended.stdout, ended.stderr) == (
        "999\n999\n",
        "stand-in runtime: the worker has ended; its standard error has the reason\n" * 2,
    )


@pytest.mark.skipif(find_spec("hip") is None, reason="hip-python is not installed")
def test_hip_python_has_the_same_runtime() -> None:
    code = """
from hip import hip as python
error, pointer = python.hipMalloc(16)
base, size = c_void_p(), c_size_t()
check(hip.hipMemGetAddressRange(byref(base), byref(size), c_void_p(int(pointer))))
target = python.hipGetDeviceProperties(0)[1].gcnArchName
print(error.name, size.value, target if isinstance(target, str) else target.decode())
"""
    assert run(code) == "hipSuccess 16 gfx1100\n"


#: Queued work that no call waits for: a copy to pinned memory, and functions of the host.
IDLE = """
import sys, threading, time
check(hip.hipInit(0))
check(hip.hipSetDevice(0))
@ctypes.CFUNCTYPE(None, c_void_p)
def note(number):
    notes.append(number or 0)
    if number == 7:
        done.set()
notes, done = [], threading.Event()
def stream_made():
    stream = c_void_p()
    check(hip.hipStreamCreateWithFlags(byref(stream), 1))
    return stream
def call(stream, number):
    check(hip.hipLaunchHostFunc(stream, note, c_void_p(number)))
def pinned(size=16):
    memory = c_void_p()
    check(hip.hipHostMalloc(byref(memory), c_size_t(size), 0))
    return memory, (ctypes.c_uint32 * (size // 4)).from_address(memory.value)
def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
"""


def test_queued_work_runs_without_a_call() -> None:
    code = """
first, second = stream_made(), stream_made()
memory, numbers = pinned()
numbers[:] = 1, 2, 3, 4
source = allocate()
check(hip.hipMemcpyHtoD(source, (ctypes.c_uint32 * 4)(5, 6, 8, 9), c_size_t(16)))
check(hip.hipDeviceSynchronize())
check(hip.hipMemcpyDtoHAsync(memory, source, c_size_t(12), first))
event = c_void_p()
check(hip.hipEventCreateWithFlags(byref(event), 2))
check(hip.hipEventRecord(event, first))
check(hip.hipStreamWaitEvent(second, event, 0))
call(second, 7)
print(*numbers, done.wait(60), *numbers, notes)
until(lambda: len(os.listdir("/proc/self/task")) == 1)
"""
    assert run(IDLE + code, idle_ms=90) == "1 2 3 4 True 5 6 8 4 [7]\n"


def test_queued_work_waits_for_a_call_where_the_setting_says_so() -> None:
    code = """
call(None, 7)
print(done.wait(1))
check(hip.hipDeviceSynchronize())
print(done.is_set())
"""
    assert run(IDLE + code, idle_ms=0) == "False\nTrue\n"


def test_threads_make_calls_while_queued_work_runs_without_one() -> None:
    """Each stream keeps the order of its own work, whoever runs it."""
    code = """
def work(first):
    check(hip.hipSetDevice(0))
    stream = stream_made()
    for step in range(40):
        call(stream, first + step + 100)
        if step % 9 == 0:
            time.sleep(0.01)
        if step % 13 == 0:
            hip.hipStreamQuery(stream)
threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(6)]
for each in threads:
    each.start()
for each in threads:
    each.join()
until(lambda: len(notes) == 240)
for number in range(6):
    own = [note for note in notes if 1000 * number <= note < 1000 * number + 1000]
    assert own == [1000 * number + step + 100 for step in range(40)], own
print(len(notes))
"""
    assert run(IDLE + code, idle_ms=6) == "240\n"


def test_a_process_forks_and_ends_with_queued_work() -> None:
    code = """
import warnings
warnings.simplefilter("ignore")
call(stream_made(), 7)
child = os.fork()
if not child:
    time.sleep(0.3)
    print(len(notes), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], done.wait(60))
call(None, 8)
"""
    assert run(IDLE + code, idle_ms=90) == "0\n0 True\n"
