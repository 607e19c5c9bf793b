"""The stand-in CUDA runtimes in processes of their own: devices, threads, forks, exits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devmod_simulators import StandinLibrary, libcuda

pytestmark = pytest.mark.row("R55")

_START = """
import ctypes, os, sys, threading
from ctypes import byref, c_int, c_void_p
from runtime_calls import Program
runtime = ctypes.CDLL(sys.argv[1])
program = Program(runtime, 0)
def show(*numbers):
    print(*(runtime.cudaGetErrorName(each).decode() for each in numbers))
"""


def run(library: StandinLibrary, script: str, **settings: object) -> str:
    """Run a script with a program that uses the runtime, and return its output."""
    folder = str(Path(__file__).resolve().parents[1])
    process = subprocess.run(
        [sys.executable, "-c", _START + script, str(library.build())],
        env=os.environ | libcuda.environment(**settings) | {"PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


@pytest.mark.volume_but("cuda13")
def test_a_managed_variable_is_one_for_all_devices(library: StandinLibrary) -> None:
    script = """
for device in (0, 1, 0):
    show(runtime.cudaSetDevice(device), runtime.cudaGetLastError())
    print(program.count(), runtime.cudaDeviceSynchronize())
print(program.value())
"""
    assert (
        run(library, script, devices=2) == 3 * "cudaSuccess cudaSuccess\ncudaSuccess 0\n" + "14\n"
    )


@pytest.mark.volume_but("cuda13")
def test_the_first_device_with_the_wanted_properties_is_chosen(library: StandinLibrary) -> None:
    """The first of all if none has them. The devices differ in their capability."""
    is_12 = library.soname.endswith("12")
    wanted = [
        # The capability, the multiprocessors, and the memory.
        ((0, 0), 0, 0, 0),
        ((7, 5), 16, 1 << 20, 0),
        ((7, 6), 0, 0, 1),
        ((8, 6), 16, 1 << 20, 1),
        ((8, 7), 0, 0, 2),
        ((9, 0), 16, 1 << 20, 2),
        ((9, 1), 0, 0, 0),
        ((8, 6), 17, 0, 0),
        ((8, 6), 0, 1 << 60, 0),
    ]
    script = f"""
import struct
for capability, multiprocessors, memory, _ in {wanted}:
    properties = bytearray(2048)
    struct.pack_into("Q", properties, 288, memory)
    struct.pack_into("2i", properties, 360, *capability)
    struct.pack_into("i", properties, {388 if is_12 else 384}, multiprocessors)
    print(program.make("cudaChooseDevice", bytes(properties)))
"""
    numbers = run(library, script, devices=3, arch="75,86,90", multiprocessors=16)
    assert [*map(int, numbers.split())] == [device for *_, device in wanted]


@pytest.mark.volume_but("cuda13")
def test_each_thread_has_its_device_and_its_error(library: StandinLibrary) -> None:
    script = """
device = c_int(-1)
show(runtime.cudaSetDevice(1), runtime.cudaSetDevice(9))
def other():
    show(runtime.cudaGetLastError(), runtime.cudaGetDevice(byref(device)))
    print(device.value, program.count())
thread = threading.Thread(target=other)
thread.start()
thread.join()
show(runtime.cudaGetLastError(), runtime.cudaGetDevice(byref(device)))
print(device.value)
"""
    assert run(library, script, devices=2).splitlines() == [
        "cudaSuccess cudaErrorInvalidDevice",
        "cudaSuccess cudaSuccess",
        "0 cudaSuccess",
        "cudaErrorInvalidDevice cudaSuccess",
        "1",
    ]


def test_threads_launch_at_once(library: StandinLibrary) -> None:
    script = """
def many():
    for _ in range(20):
        program.count()
threads = [threading.Thread(target=many) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
show(runtime.cudaDeviceSynchronize())
print(program.value())
"""
    assert run(library, script) == "cudaSuccess\n245\n"


def test_a_peers_access_is_enabled_once(library: StandinLibrary) -> None:
    script = """
can, value = c_int(), c_int()
show(runtime.cudaDeviceCanAccessPeer(byref(can), 0, 1))
show(runtime.cudaDeviceGetP2PAttribute(byref(value), 2, 0, 1))
print(can.value, value.value)
show(*[runtime.cudaDeviceEnablePeerAccess(1, 0) for _ in range(2)])
show(*[runtime.cudaDeviceDisablePeerAccess(1) for _ in range(2)])
show(runtime.cudaDeviceEnablePeerAccess(0, 0))
"""
    assert run(library, script, devices=2).splitlines() == [
        "cudaSuccess",
        "cudaSuccess",
        "1 1",
        "cudaSuccess cudaErrorPeerAccessAlreadyEnabled",
        "cudaSuccess cudaErrorPeerAccessNotEnabled",
        "cudaErrorInvalidDevice",
    ]


def test_a_process_without_devices(library: StandinLibrary) -> None:
    script = """
count = c_int(5)
show(runtime.cudaGetDeviceCount(byref(count)), runtime.cudaDeviceSynchronize())
print(count.value, program.count())
"""
    assert run(library, script, devices=0) == (
        "cudaErrorNoDevice cudaErrorNoDevice\n0 cudaErrorNoDevice\n"
    )


@pytest.mark.volume_but("cuda13")
def test_an_older_driver_is_insufficient(library: StandinLibrary) -> None:
    script = "show(runtime.cudaDeviceSynchronize(), runtime.cudaGetLastError())"
    version = 1000 * int(library.soname[-2:])
    results = [run(library, script, driver_version=each) for each in (version, version - 10)]
    assert results == [
        "cudaSuccess cudaSuccess\n",
        "cudaErrorInsufficientDriver cudaErrorInsufficientDriver\n",
    ]


def test_a_fork_uses_the_runtime_if_its_parent_has_not(library: StandinLibrary) -> None:
    script = """
def fork():
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        print(program.count(), program.error("cudaDeviceSynchronize"))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
fork()
show(runtime.cudaDeviceSynchronize())
fork()
"""
    assert run(library, script).splitlines() == [
        "cudaSuccess cudaSuccess",
        "cudaSuccess",
        "cudaErrorInitializationError cudaErrorInitializationError",
    ]


@pytest.mark.parametrize("work", ["", "program.count(); runtime.cudaDeviceSynchronize()"])
def test_a_program_unregisters_at_exit(library: StandinLibrary, work: str) -> None:
    script = f"""
{work}
libc = ctypes.CDLL(None)
libc["__cxa_atexit"](runtime["__cudaUnregisterFatBinary"], c_void_p(program.handle), None)
print("end", flush=True)
libc.exit(0)
"""
    assert run(library, script) == "end\n"
