"""Arrays on OpenCL devices: copies, views, and too little memory."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import check_new_arrays, run_python
from each_case import refusal
from opencl_kernels import kernel

import devmod
from devmod import Param

SLOW = """
__kernel void slow(__global uint *x, uint n) {
    uint value = x[0];
    for (uint i = 0; i < n; i++) value = value * 1664525u + 1013904223u ^ (value >> 7);
    x[0] = value;
}
"""


def test_new_arrays_are_complete_for_every_stream(device: Any) -> None:
    slow = kernel(
        SLOW, "slow", [Param("x", "buffer", "uint32", "rw"), Param("n", "scalar", "uint32")]
    )
    x = device.zeros(1, "uint32")
    check_new_arrays(device, lambda: slow(x, 30_000_000, grid=1, block=1))


def test_a_started_copy_does_not_wait_and_keeps_the_host_array(device: Any) -> None:
    import pyopencl as cl

    stream, gate = device.stream(), cl.UserEvent(device.context)
    target, back = device.zeros(1 << 20, "float32"), np.zeros(1 << 20, "float32")
    device.synchronize()
    cl.enqueue_barrier(stream.queue, wait_for=[gate])
    copied: list[Any] = []

    def start() -> None:
        host = np.ones(1 << 20, "float32")
        copied.append(target.copy_from(host, stream=stream, wait=False))
        copied.append(target.copy_to(back, stream=stream, wait=False))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(60)  # a copy that waits never ends before the gate opens
    started = len(copied)
    gc.collect()
    others = [
        np.full(1 << 20, 7, "float32") for _ in range(4)
    ]  # may have the memory of a freed array
    gate.set_status(cl.command_execution_status.COMPLETE)
    thread.join()
    assert started == 2
    copied[1].synchronize()
    assert (back == 1).all()
    assert others[0][0] == 7


def test_a_view_in_bind_and_as_read_only_argument(device: Any, add: Any) -> None:
    # OpenCL allows slices of one buffer as read-only and as writable arguments.
    root = device.from_numpy(np.arange(192, dtype="float32"))
    launch = add.bind(root[:64], root[64:128], root[128:], 64, grid=1, block=64)
    launch()
    np.testing.assert_array_equal(root.numpy()[128:], np.arange(64) * 2 + 64)


TWO_DEVICES = """
import numpy as np
import devmod
first, second = (devmod.device("opencl", number) for number in (0, 1))
source = first.from_numpy(np.arange(64, dtype="float32"))
target = second.zeros(64, "float32")
target[:32].copy_from(source[16:48], wait=False).synchronize()
assert target.numpy().tolist() == [*range(16, 48), *[0] * 32]
try:
    target.copy_from(source, stream=first.default_stream)
except devmod.ArgumentError as error:
    assert str(error) == f"copy_from: stream= is a stream of {first}, expected a stream of {second}", error
else:
    raise AssertionError
"""


@pytest.mark.usefixtures("pocl")
def test_a_copy_between_two_devices() -> None:
    """Only PoCL can show several devices of one processor."""
    run_python(TWO_DEVICES, POCL_DEVICES="pthread pthread")


# -- memory


#: A process with 90 MiB of memory more than it has after its first launch.
LITTLE_MEMORY = """
import resource
import numpy as np
import devmod
from opencl_kernels import adder, kernel
device, add = devmod.device("opencl"), adder()["add"]
host = np.arange(8 << 20, dtype="float32")
c = np.zeros(64, "float32")
add(host[:64], host[:64], c, 64, grid=1, block=64)
kept = device.from_numpy(host[:64])
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (90 << 20), -1))

def arrays():
    many = []
    while True:
        many.append(device.empty(host.shape, "float32"))

def launches():
    many = []
    while True:
        many.append(device.empty(host.shape, "float32"))
        add(many[-1], many[-1], many[-1], 64, grid=1, block=64)

def copies():
    many = []
    while True:
        many.append(device.zeros(host.shape, "float32"))
        many[0].copy_from(many[-1])

for work in (arrays, launches, copies, lambda: add(host, host[1:], host[2:].copy(), 64, grid=1, block=64)):
    try:
        work()
    except devmod.DeviceMemoryError as error:
        assert error.requested >= (32 << 20) - 8, error.requested
        assert str(error).startswith(f"{device} cannot allocate {error.requested} bytes: "), error
    c[:] = 0
    add(host[:64], kept, c, 64, grid=1, block=64)
    assert c[63] == 126
print("done")
"""


@pytest.mark.usefixtures("pocl")
def test_a_full_device_loses_nothing() -> None:
    """The memory of other devices than PoCL's is not that of the process."""
    assert run_python(LITTLE_MEMORY, PYTHONPATH=str(Path(__file__).parent)) == "done\n"


@pytest.mark.row("R34")
def test_memory_that_is_missing_in_a_repeated_call(
    device: Any, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function of a repeated call is the driver's own."""
    import pyopencl as cl

    class Buffer(cl.Buffer):  # type: ignore[misc]
        is_refused = False

        def __init__(self, *args: Any) -> None:
            if Buffer.is_refused:
                raise cl.MemoryError(cl._cl._ErrorRecord(msg="", code=-4, routine="clCreateBuffer"))
            super().__init__(*args)

    monkeypatch.setattr(cl, "Buffer", Buffer)
    a, b, c = (np.ones(64, "float32") for _ in range(3))
    for _ in range(3):
        add(a, b, c, 64, grid=1, block=64)
    Buffer.is_refused = True
    assert (
        refusal(devmod.DeviceMemoryError, add, a, b, c, 64, grid=1, block=64)
        == f"{device} cannot allocate 256 bytes: MEM_OBJECT_ALLOCATION_FAILURE"
    )
    Buffer.is_refused = False
    add(a, b, c, 64, grid=1, block=64)
    assert c.tolist() == [2] * 64


def test_memory_that_is_missing_at_the_first_use(
    device: Any, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyopencl as cl

    from devmod_opencl import _device, _launch

    def refuse(*_: object, **__: object) -> None:
        raise cl.MemoryError(cl._cl._ErrorRecord(msg="", code=-4, routine="clEnqueue"))

    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    name = "MEM_OBJECT_ALLOCATION_FAILURE"
    refused = f"{device} cannot allocate 256 bytes: {name}"
    launch_refused = (
        f"{device} has too little free memory: {name} in a launch of the opencl function 'add'"
    )
    enqueue = _launch._enqueue
    # A launch caches the function of the driver.
    monkeypatch.setattr(
        _launch,
        "_enqueue",
        lambda *args: refuse() if _device.cl.enqueue_copy is refuse else enqueue(*args),
    )
    with monkeypatch.context() as patch:
        for owner, function in (
            (cl, "enqueue_copy"),
            (cl, "enqueue_fill_buffer"),
            (cl._cl, "_enqueue_read_buffer"),
            (cl._cl, "_enqueue_write_buffer"),
        ):
            patch.setattr(owner, function, refuse)
        for work, text in (
            (lambda: add(a, b, c, 64, grid=1, block=64), launch_refused),
            (lambda: add(np.zeros(64, "float32"), b, c, 64, grid=1, block=64), launch_refused),
            (lambda: a.copy_from(b), refused),
            (lambda: a.copy_from(np.zeros(64, "float32"), wait=False), refused),
            (a.numpy, refused),
            (lambda: device.zeros(64, "float32"), refused),
        ):
            message = refusal(devmod.DeviceMemoryError, work)
            assert message == text
    a.copy_from(np.ones(64, "float32"))
    add(a, b, c, 64, grid=1, block=64)
    assert c.numpy().tolist() == [1] * 64
