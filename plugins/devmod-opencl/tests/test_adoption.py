"""Devices over contexts, queues and devices of pyopencl that the caller has (`devmod.device`)."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import run_python
from each_case import refusal
from opencl_kernels import adder

import devmod
from devmod_opencl._device import OpenCLDevice
from devmod_runtime._launch.call import KernelCall

pytestmark = pytest.mark.row("R57")


class Caller:
    """What a library with kernels of its own has: a context, queues, buffers."""

    def __init__(self, device: Any) -> None:
        import pyopencl as cl

        self.cl = cl
        self.device = device.handle
        self.context = cl.Context([device.handle])

    def queue(self, **properties: Any) -> Any:
        return self.cl.CommandQueue(self.context, self.device, **properties)

    def unordered_queue(self) -> Any:
        mode = self.cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        if not self.device.queue_properties & mode:
            pytest.skip("the driver has no out-of-order queues")
        return self.queue(properties=mode)

    def buffer(self, values: Any) -> Any:
        flags = self.cl.mem_flags
        return self.cl.Buffer(
            self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=np.float32(values)
        )

    def read(self, queue: Any, buffer: Any) -> list[float]:
        result = np.empty(buffer.size // 4, np.float32)
        self.cl.enqueue_copy(queue, result, buffer)
        return result.tolist()  # type: ignore[no-any-return]


@pytest.fixture
def caller(device: Any) -> Caller:
    return Caller(device)


@pytest.fixture
def twice() -> Any:
    return adder()["twice"]


# -- which device


def test_one_handle_has_one_device(caller: Caller, device: Any) -> None:
    cl = caller.cl
    queue, other = caller.queue(), caller.queue()
    adopted = devmod.device(queue)
    assert devmod.device(queue) is adopted
    assert devmod.device(cl.CommandQueue.from_int_ptr(queue.int_ptr, retain=True)) is adopted
    assert devmod.device(other) is not adopted
    assert adopted.default_stream.queue is queue
    assert (adopted.kind, adopted.index, adopted.name) == ("opencl", device.index, device.name)
    assert repr(adopted) == f"{device} over the pyopencl CommandQueue 0x{queue.int_ptr:x}"
    of_context = devmod.device(caller.context)
    assert devmod.device(caller.context) is of_context
    assert repr(of_context) == f"{device} over the pyopencl Context 0x{caller.context.int_ptr:x}"
    assert of_context.context == adopted.context == caller.context
    # What devmod has already.
    assert devmod.device(caller.device) is device
    assert devmod.device(device.context) is device


def test_a_sub_device_has_a_context_of_its_own(caller: Caller, device: Any, twice: Any) -> None:
    if caller.device.max_compute_units < 2:
        pytest.skip("one compute unit cannot be divided")
    partition = caller.cl.device_partition_property
    try:
        sub, other = caller.device.create_sub_devices([partition.EQUALLY, 1])[:2]
    except caller.cl.Error as error:
        pytest.skip(f"the driver makes no sub-devices: {error}")
    adopted = devmod.device(sub)
    assert devmod.device(sub) is adopted
    assert devmod.device(other) is not adopted
    assert adopted.limits["max_compute_units"] == 1
    x = adopted.from_numpy(np.ones(64, np.float32))
    twice(x, grid=1, block=64)
    assert x.numpy().tolist() == [2] * 64
    assert len(adopted.context.devices) == 1


SEVERAL = """
import devmod, numpy as np, pyopencl as cl
from each_case import refusal
from opencl_kernels import adder
both = [each.handle for each in devmod.devices("opencl") if each.platform == "Portable Computing Language"]
context = cl.Context(both)
text = refusal(devmod.ArgumentError, devmod.device, context)
assert text == (
    f"device: the pyopencl Context 0x{context.int_ptr:x} has 2 devices; pass one of its queues, as in "
    "devmod.device(pyopencl.CommandQueue(context, device)), or one of its devices"
), text
twice, add = adder()["twice"], adder()["add"]
queues = [cl.CommandQueue(context, each) for each in both]
devices = [devmod.device(each) for each in queues]
arrays = [each.from_numpy(np.ones(64, np.float32)) for each in devices]
for each in arrays:
    twice(each, grid=1, block=64)
    assert each.numpy().tolist() == [2] * 64
assert [each.index for each in devices] == [each.index for each in devmod.devices("opencl") if each.handle in both]
text = refusal(devmod.ArgumentError, add, *arrays, arrays[0], 64, grid=1, block=64)
assert text.endswith("a launch runs on one device: copy the array through the host"), text
"""


@pytest.mark.usefixtures("pocl")
def test_a_context_with_several_devices_asks_for_a_queue() -> None:
    """Only PoCL can show several devices of one processor."""
    run_python(
        SEVERAL,
        POCL_DEVICES="pthread pthread",
        DEVMOD_PLUGINS_ALLOW="devmod-opencl",
        PYTHONPATH=os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    )


def test_what_cannot_be_adopted(caller: Caller) -> None:
    queue = caller.queue()
    with queue:
        pass
    with pytest.warns(caller.cl.CommandQueueUsedAfterExit):
        address = queue.int_ptr
    assert refusal(devmod.ArgumentError, devmod.device, queue) == (
        f"device: the pyopencl CommandQueue 0x{address:x} was finalized at the end of its `with` statement; pass a queue that is in use"
    )
    text = refusal(devmod.ArgumentError, devmod.device, caller.buffer([1]))
    assert text.startswith(
        "device: expected a kind such as 'opencl', or an object that a backend adopts, got a Buffer of pyopencl. The backends"
    )


def test_a_queue_that_is_finalized_while_it_is_in_use(caller: Caller, twice: Any) -> None:
    """pyopencl allows its use and warns, in every call."""
    queue = caller.queue()
    device: Any = devmod.device(queue)
    function = twice.on(device)
    x = device.from_numpy(np.ones(64, np.float32))
    for _ in range(3):
        function(x, grid=1, block=64)
    with queue:
        pass
    for _ in range(2):
        with pytest.warns(caller.cl.CommandQueueUsedAfterExit):
            function(x, grid=1, block=64)
    with pytest.warns(caller.cl.CommandQueueUsedAfterExit):
        assert x.numpy().tolist() == [32] * 64


# -- order: what the caller queues before and after a launch


@pytest.mark.parametrize("is_ordered", [True, False], ids=["in-order", "out-of-order"])
def test_launches_are_in_the_order_of_the_callers_commands(
    caller: Caller, twice: Any, is_ordered: bool
) -> None:
    """Nothing waits: a gate of the caller holds the queue until all is queued."""
    cl = caller.cl
    queue = caller.queue() if is_ordered else caller.unordered_queue()
    device = devmod.device(queue)
    function = twice.on(device)
    x = caller.buffer(np.zeros(64))
    seen = [np.empty(64, np.float32) for _ in range(3)]
    ours = device.zeros(64, "float32")
    gate = cl.UserEvent(caller.context)

    cl.enqueue_barrier(queue, wait_for=[gate])
    # A call that waits would hang: the check of the event below fails then.
    end = threading.Timer(120, gate.set_status, [cl.command_execution_status.COMPLETE])
    end.start()
    three = np.full(64, 3, np.float32)
    # pyopencl's event of a copy waits for it when it is deleted.
    copies = [cl.enqueue_copy(queue, x, three, is_blocking=False)]
    function(x, grid=1, block=64)
    copies.append(cl.enqueue_copy(queue, seen[0], x, is_blocking=False))
    function(x, grid=1, block=64)
    twice(x, grid=1, block=64, stream=queue)
    copies.append(cl.enqueue_copy(queue, seen[1], x, is_blocking=False))
    ours.copy_from(three, wait=False)
    twice(ours, grid=1, block=64)
    twice(ours, grid=1, block=64)  # the cached call
    ours.copy_to(seen[2], wait=False)
    event = device.current_stream.record()
    queue.flush()
    assert event.handle.command_execution_status > cl.command_execution_status.COMPLETE
    end.cancel()
    gate.set_status(cl.command_execution_status.COMPLETE)
    cl.wait_for_events([event.handle])  # pyopencl's own wait
    assert [each.tolist() for each in seen] == [[6] * 64, [24] * 64, [12] * 64]
    queue.finish()


def test_a_launch_of_an_adopted_queue_waits_for_nothing(caller: Caller, twice: Any) -> None:
    """A prepared launch and an event that another queue of the caller waits for."""
    cl = caller.cl
    queue, other = caller.queue(), caller.queue()
    device = devmod.device(queue)
    x: Any = device.from_numpy(np.ones(64, np.float32))
    gate = cl.UserEvent(caller.context)
    cl.enqueue_barrier(queue, wait_for=[gate])
    launch = twice.bind(x, grid=1, block=64)
    launch()
    launch()
    event = launch.stream.record()
    seen = np.empty(64, np.float32)
    copy = cl.enqueue_copy(other, seen, x.memory, is_blocking=False, wait_for=[event.handle])
    other.flush()
    gate.set_status(cl.command_execution_status.COMPLETE)
    copy.wait()
    assert seen.tolist() == [4] * 64


@pytest.mark.parametrize("has_device", [False, True])
def test_memory_is_freed_after_the_work_in_a_queue_that_is_gone(
    caller: Caller, twice: Any, has_device: bool
) -> None:
    """OpenCL keeps a queue and buffers until their commands are complete."""
    cl = caller.cl
    queue, other = caller.queue(), caller.queue()
    device: Any = devmod.device(queue if has_device else caller.context)
    x = device.from_numpy(np.ones(64, np.float32))
    out = caller.buffer(np.zeros(64))
    gate = cl.UserEvent(caller.context)
    cl.enqueue_barrier(queue, wait_for=[gate])
    twice(x, grid=1, block=64, stream=queue)
    copied = cl.enqueue_copy(queue, out, x.memory)
    queue.flush()
    del x, device, queue
    gc.collect()
    # What is allocated now must not be the memory of the pending launch.
    taken = [caller.buffer(np.full(64, 9)) for _ in range(8)]
    gate.set_status(cl.command_execution_status.COMPLETE)
    copied.wait()
    assert caller.read(other, out) == [2] * 64
    assert [caller.read(other, each) for each in taken] == [[9] * 64] * 8


def test_a_queue_with_timestamps_measures(caller: Caller, twice: Any) -> None:
    profiling = caller.cl.command_queue_properties.PROFILING_ENABLE
    device = devmod.device(caller.queue(properties=profiling))
    launch = twice.bind(device.zeros(64, "float32"), grid=1, block=64)
    assert launch.time() > 0
    plain = devmod.device(caller.queue())
    launch = twice.bind(plain.zeros(64, "float32"), grid=1, block=64)
    text = refusal(devmod.LaunchError, launch.time)
    assert text.startswith(f"{plain} gives no time of a launch: its queue has no timestamps")


# -- memory


def test_buffers_of_the_context_are_used_without_a_copy(
    caller: Caller, twice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyopencl.array as cl_array

    cl = caller.cl
    queue = caller.queue()
    device = devmod.device(queue)
    buffer = caller.buffer(np.ones(64))
    array = cl_array.to_device(queue, np.ones(64, np.float32))
    twice(buffer, grid=1, block=64)  # builds
    monkeypatch.setattr(OpenCLDevice, "_create_buffer", lambda *_: pytest.fail("a new buffer"))
    for name in ("enqueue_copy", "enqueue_fill_buffer"):
        monkeypatch.setattr(cl, name, lambda *_, **__: pytest.fail("a copy"))
    for name in ("_enqueue_read_buffer", "_enqueue_write_buffer"):
        monkeypatch.setattr(cl._cl, name, lambda *_: pytest.fail("a copy"))
    twice(buffer, grid=1, block=64)
    twice.on(device)(buffer, grid=1, block=64)
    twice(array, grid=1, block=64)
    monkeypatch.undo()
    assert caller.read(queue, buffer) == [8] * 64
    assert array.get().tolist() == [2] * 64


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that calls another one, which makes no `KernelCall`."""

    def call(function: Any, *args: Any, **launch: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(KernelCall, "__init__", lambda *_, **__: pytest.fail("a checked call"))
            function(*args, **launch)

    return call


@pytest.mark.parametrize("way", ["queue", "context", "arrays"])
def test_repeated_calls_with_buffers_are_plain_calls(
    caller: Caller, unchecked: Any, way: str
) -> None:
    queue = caller.queue()
    device = devmod.device(queue)
    add = adder()["add"]
    launch: dict[str, Any] = {"grid": 1, "block": 64}
    if way == "queue":
        add = add.on(device)
    elif way == "context":
        del device
        device = devmod.device(caller.context)
        launch["stream"] = device.stream()
        queue = launch["stream"].queue
    one, two, out = (caller.buffer(np.full(64, each)) for each in range(1, 4))
    ours: Any = device.from_numpy(np.full(64, 5, np.float32))
    for _ in range(2):
        add(one, two, out, 64, **launch)
    for args, value in (
        ((one, two, out, 64), 3),
        ((one, ours, out, 64), 6),
        ((ours, one, out, 64), 6),
        ((out, one, out, 64), 7),
        ((caller.buffer(np.full(64, 7)), two, out, 64), 9),
    ):
        unchecked(add, *args, **launch)
        assert caller.read(queue, out) == [value] * 64
    unchecked(add, ours, ours, ours, 64, **launch)
    queue.finish()
    assert ours.numpy().tolist() == [10] * 64


def test_a_plain_call_checks_each_buffer(caller: Caller, device: Any) -> None:
    """A buffer may have the address of one that was checked: pyopencl's have no weak references."""
    cl = caller.cl
    flags = cl.mem_flags
    add = adder()["add"].on(devmod.device(caller.queue()))
    launch = {"grid": 1, "block": 64}
    values = [caller.buffer(np.ones(64)) for _ in range(3)]
    for _ in range(3):
        add(*values, 64, **launch)
    other = Caller(device)
    kept = [devmod.device(other.queue())]
    for _ in range(20):
        del values[1]
        values.insert(1, other.buffer(np.ones(64)))
        text = refusal(devmod.ArgumentError, add, *values, 64, **launch)
        assert f"argument 2 'b' is on {kept[0]}" in text
        del values[1]
        values.insert(1, caller.buffer(np.ones(64)))
        add(*values, 64, **launch)
    stranger = Caller(device)
    text = refusal(
        devmod.ArgumentError, add, values[0], stranger.buffer([1] * 64), values[2], 64, **launch
    )
    assert "which no device of devmod is over" in text
    constant = cl.Buffer(caller.context, flags.READ_ONLY, 256)
    add(constant, values[1], values[2], 64, **launch)
    text = refusal(devmod.ArgumentError, add, values[0], values[1], constant, 64, **launch)
    assert "argument 3 'c' is a Buffer that is read-only" in text
    add(*values, 64, **launch)


def test_buffers_of_a_pool_of_memory(caller: Caller, unchecked: Any) -> None:
    import pyopencl.array as cl_array
    from pyopencl.tools import ImmediateAllocator, MemoryPool

    queue = caller.queue()
    twice = adder()["twice"].on(devmod.device(queue))
    pool = MemoryPool(ImmediateAllocator(queue))
    array = cl_array.to_device(queue, np.ones(2048, np.float32), allocator=pool)
    launch = {"grid": 1, "block": 64}
    for _ in range(2):
        twice(array, **launch)
        twice(array.data, **launch)
        twice(array[1024:], **launch)
    unchecked(twice, array.data, **launch)
    values = array.get()
    assert values[:64].tolist() == [32] * 64
    assert values[1024:1088].tolist() == [4] * 64
    del array
    assert pool.active_blocks == 0


def test_buffers_of_two_queues_are_waited_for(caller: Caller, twice: Any) -> None:
    """The device over the context takes them: a call without `stream=` waits, also a plain one."""
    cl = caller.cl
    devices = [devmod.device(caller.queue()), devmod.device(caller.queue())]
    buffer = caller.buffer(np.ones(64))
    for _ in range(3):
        twice(buffer, grid=1, block=64)
    space = devices[0].memory_space
    gate = cl.UserEvent(caller.context)
    cl.enqueue_barrier(space.default_stream.queue, wait_for=[gate])
    timer = threading.Timer(0.2, gate.set_status, [cl.command_execution_status.COMPLETE])
    timer.start()
    twice(buffer, grid=1, block=64)
    assert gate.command_execution_status == cl.command_execution_status.COMPLETE
    timer.join()
    assert caller.read(caller.queue(), buffer) == [16] * 64


def test_the_devices_of_two_queues_of_a_context_share_arrays(caller: Caller, twice: Any) -> None:
    cl = caller.cl
    add = adder()["add"]
    queue, other = caller.queue(), caller.queue()
    one, two = devmod.device(queue), devmod.device(other)
    x = one.from_numpy(np.ones(64, np.float32))
    y = two.from_numpy(np.ones(64, np.float32))
    z = one.zeros(64, "float32")
    add(x, y, z, 64, grid=1, block=64)
    assert z.numpy().tolist() == [2] * 64
    gate = cl.UserEvent(caller.context)
    cl.enqueue_barrier(other, wait_for=[gate])
    twice.on(two)(x, grid=1, block=64)
    threading.Timer(0.05, gate.set_status, [cl.command_execution_status.COMPLETE]).start()
    assert x.numpy().tolist() == [2] * 64  # waits for both queues
    y.copy_from(x)
    assert y.numpy().tolist() == [2] * 64
    # A buffer has no queue: the device over the context takes it, and the call waits.
    buffer = caller.buffer(np.ones(64))
    twice(buffer, grid=1, block=64)
    twice.on(two)(buffer, grid=1, block=64)
    other.finish()
    assert caller.read(queue, buffer) == [4] * 64


def test_two_contexts_share_nothing(caller: Caller, device: Any, twice: Any) -> None:
    """A program is built for each context, and an array of another one is refused."""
    add = adder()["add"]
    second = Caller(device)
    devices = [devmod.device(each.queue()) for each in (caller, second)]
    arrays = [each.from_numpy(np.ones(64, np.float32)) for each in (*devices, device)]
    for each in arrays:
        twice(each, grid=1, block=64)
        assert each.numpy().tolist() == [2] * 64
    assert refusal(
        devmod.ArgumentError, add, arrays[0], arrays[1], arrays[0], 64, grid=1, block=64
    ) == (
        f"the opencl function 'add': argument 2 'b' is on {devices[1]}, and argument 1 'a' is on {devices[0]}; "
        "a launch runs on one device: copy the array through the host"
    )
    arrays[1].copy_from(arrays[0])
    assert arrays[1].numpy().tolist() == [2] * 64


# -- lifetimes


def test_programs_and_tuned_functions_keep_no_device(caller: Caller) -> None:
    """Their modules live on."""
    source = "kernel void scale(global float *x, const int n) { int i = get_global_id(0); if (i < n) x[i] *= 2; }"
    module = devmod.compile(source, "opencl")
    program = devmod.program(
        "p",
        module,
        updates=["x: float32[n]"],
        steps=["scale(x=x, n=n, threads=n, block=16)"],
    )["p"]
    tuned = devmod.compile(
        "#ifndef BLOCK\n#define BLOCK 16\n#endif\n" + source,
        "opencl",
        tune={"BLOCK": [16, 32]},
        sizes=["n"],
        block="BLOCK",
        grid="ceildiv(n, BLOCK)",
    )["scale"]

    def use_both() -> Any:
        device = devmod.device(caller.queue())
        x = device.from_numpy(np.ones(64, np.float32))
        for _ in range(2):
            program(x=x)
            program.on(device)(x=x)
            tuned(x, 64)
            tuned.on(device)(x, 64)
        assert x.numpy().tolist() == [256] * 64
        return weakref.ref(device)

    reference = use_both()
    gc.collect()
    assert reference() is None


def use(queue: Any, function: Any) -> Callable[[], object]:
    """Use a device over a queue in each way that caches something. Return a weak reference."""
    device = devmod.device(queue)
    x = device.from_numpy(np.ones(64, np.float32))
    host = np.ones(64, np.float32)
    for _ in range(3):
        function(x, grid=1, block=64)
        function(host, grid=1, block=64, stream=queue)
    function.bind(x, grid=1, block=64)()
    bound = function.on(device)
    for _ in range(3):
        bound(x, grid=1, block=64)
        bound(host, grid=1, block=64)
    with device.stream():
        function(x, grid=1, block=64)
    device.synchronize()
    return weakref.ref(device)


def test_nothing_is_kept_when_the_device_is_gone(caller: Caller, twice: Any) -> None:
    """The function lives on, and has no queue, context or device of the caller."""
    queue = caller.queue()
    context = caller.context
    counts = (queue.reference_count, sys.getrefcount(queue), sys.getrefcount(context))
    for _ in range(2):
        reference = use(queue, twice)
        gc.collect()
        assert reference() is None
        assert (
            queue.reference_count,
            sys.getrefcount(queue),
            sys.getrefcount(context),
        ) == counts
    assert queue.finish() is None  # devmod has released nothing of it


def test_a_device_keeps_its_queue_and_context(caller: Caller, twice: Any) -> None:
    device = devmod.device(caller.queue())
    del caller.context
    gc.collect()
    x = device.from_numpy(np.ones(64, np.float32))
    twice(x, grid=1, block=64)
    assert x.numpy().tolist() == [2] * 64


def test_an_address_that_is_used_again_is_another_queue(caller: Caller, twice: Any) -> None:
    for _ in range(20):
        queue = caller.queue()
        device = devmod.device(queue)
        assert device.default_stream.queue is queue
        x = device.from_numpy(np.ones(64, np.float32))
        twice(x, grid=1, block=64)
        assert x.numpy().tolist() == [2] * 64
        del device, queue, x
        gc.collect()


# -- threads and forks


def test_threads_adopt_one_device_and_launch(caller: Caller, twice: Any) -> None:
    queue = caller.queue()
    found = []
    start = threading.Barrier(4, timeout=120)

    def run() -> None:
        start.wait()
        device = devmod.device(queue)
        x = device.from_numpy(np.ones(64, np.float32))
        for _ in range(50):
            twice(x, grid=1, block=64)
            x.copy_from(np.ones(64, np.float32))
        twice(x, grid=1, block=64)
        found.append((device, x.numpy().tolist()))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({device for device, _ in found}) == 1
    assert [values for _, values in found] == [[2] * 64] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_cannot_use_the_device(caller: Caller, twice: Any) -> None:
    queue = caller.queue()
    device = devmod.device(queue)
    x = device.zeros(64, "float32")
    twice(x, grid=1, block=64)
    launch = twice.bind(x, grid=1, block=64)
    child = os.fork()
    if not child:
        status = 1
        try:
            uses = (
                lambda: twice(x, grid=1, block=64),
                lambda: twice.on(device)(x, grid=1, block=64),
                launch,
                x.numpy,
                device.synchronize,
                device.default_stream.record,
                lambda: devmod.device(queue),
            )
            for each in uses:
                text = refusal(devmod.LaunchError, each)
                assert text.startswith("opencl devices cannot be used in this process"), text
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    launch()
    assert x.numpy().tolist() == [0] * 64
