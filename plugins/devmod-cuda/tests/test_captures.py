"""What devmod waits for before it frees and unloads, and what it leaves alone while another library
captures a stream.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from backend_checks import release_copies
from cuda_kernels import adder
from profiled import SPINS
from ptx_sources import ptx_of
from standin_cuda import Standin

import devmod
from devmod import FunctionInfo

#: x = 2 x + a.
STEP = 'extern "C" __global__ void step(int *x, int a) { x[threadIdx.x] = 2 * x[threadIdx.x] + a; }'
INFO = FunctionInfo("step", ["handle", "int32"], ["blockIdx.x", "threadIdx.x"])


@pytest.fixture
def step(device: Any) -> Any:
    return devmod.create("cuda", ptx_of(STEP).encode(), "ptx", {"step": INFO})["step"]


class Foreign:
    """A stream of another library."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


# -- waits


def test_a_module_is_unloaded_after_its_launches_in_a_stream_of_another_library(
    device: Any, standin: Standin
) -> None:
    driver = device.driver
    with device.context:
        handle = driver.call("create_stream", 1)
    twice, x = adder()["twice"], device.from_numpy(np.ones(64, "float32"))
    twice(x, grid=1, block=64, stream=Foreign(handle))
    gc.collect()  # the modules of earlier tests
    unloads = standin.calls("cuModuleUnload")
    del twice
    gc.collect()
    assert standin.calls("cuModuleUnload") == unloads + 1
    assert x.numpy().tolist() == [2] * 64
    with device.context:
        driver.call("destroy_stream", handle)


def test_memory_is_freed_after_the_work_of_a_stream_whose_end_a_capture_has_delayed(
    device: Any, add: Any, standin: Standin
) -> None:
    driver = device.driver
    a, b, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0))
    stream = device.stream()
    launch = add.bind(
        a, b, c, 64, grid=1, block=64, stream=stream
    )  # unlike a call, it leaves no reference to the stream in the function
    launch()
    gc.collect()
    with device.context:
        captured = driver.call("create_stream", 0)
        driver.call("begin_capture", captured, 0)
    destroyed, frees = standin.calls("cuStreamDestroy"), standin.calls("cuMemFree")
    del launch, stream
    gc.collect()
    with device.context:
        driver.call("destroy_graph", driver.call("end_capture", captured))
    assert standin.calls("cuStreamDestroy") == destroyed
    del a, b
    gc.collect()
    assert standin.calls("cuMemFree") == frees + 2
    assert c.numpy().tolist() == [3] * 64
    device.synchronize()
    assert standin.calls("cuStreamDestroy") == destroyed + 1
    with device.context:
        driver.call("destroy_stream", captured)


@pytest.mark.parametrize("where", ["default", "own", "deleted", "foreign"])
def test_memory_is_freed_after_the_launches_that_use_it(
    where: str, device: Any, add: Any, standin: Standin
) -> None:
    # "cuMemFree may perform implicit synchronization" (cuda.h), or not.
    driver, handle = device.driver, 0
    a, b, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0))
    if where == "foreign":
        with device.context:
            handle = driver.call("create_stream", 0)
    stream: Any = (
        Foreign(handle)
        if handle
        else device.default_stream
        if where == "default"
        else device.stream()
    )
    launch = add.bind(a, b, c, 64, grid=1, block=64, stream=stream)
    launch()
    del launch
    if where == "deleted":
        del stream
    frees = standin.calls("cuMemFree")
    del a, b
    gc.collect()
    assert standin.calls("cuMemFree") == frees + 2
    device.synchronize()
    assert c.numpy().tolist() == [3] * 64
    if handle:
        with device.context:
            driver.call("destroy_stream", handle)


def test_a_free_waits_for_the_context_once_for_a_closed_stream(
    device: Any, add: Any, standin: Standin
) -> None:
    """A wait for the context ends the capture of any stream in it."""
    core = pytest.importorskip("cuda.core")
    owner = core.Device(0)
    with device.context:
        owner.set_current()
        stream = owner.create_stream()
    a, b, c, *others = (device.zeros(64, "float32") for _ in range(6))
    add(a, b, c, 64, grid=1, block=64, stream=stream)
    gc.collect()
    waits = standin.calls("cuCtxSynchronize")
    del a
    assert standin.calls("cuCtxSynchronize") == waits  # an open stream can be asked
    add(b, b, c, 64, grid=1, block=64, stream=stream)
    stream.close()
    del b, c
    others.clear()
    assert standin.calls("cuCtxSynchronize") == waits + 1
    device.synchronize()


def test_a_started_copy_of_a_driver_that_reads_pageable_memory_late(
    device: Any, add: Any, standin: Standin
) -> None:
    standin.set(
        "stages_pageable", 0
    )  # "the function might be synchronous with respect to host" (CUDA's documentation)
    stream, host, out = device.stream(), np.ones(64, "float32"), np.zeros(64, "float32")
    x = device.zeros(64, "float32")
    x.copy_from(host, wait=False, stream=stream)
    host[:] = 7
    x.copy_to(out, wait=False, stream=stream)
    stream.synchronize()
    assert out.tolist() == [1] * 64
    add(host, host, out, 64, grid=1, block=64)
    assert (out.tolist(), x.numpy().tolist()) == ([14] * 64, [1] * 64)


# -- captures


def module_and_array(device: Any) -> tuple[Any, Any]:
    """Return a function of a module that nothing else references, and an array, after their first
    launch.
    """
    f, x = (
        devmod.create("cuda", ptx_of(STEP).encode(), "ptx", {"step": INFO})["step"],
        device.zeros(4, "int32"),
    )
    f(x, 1, grid=1, block=4)
    return f, x


@pytest.mark.row("R37")
@pytest.mark.parametrize("is_blocking", [False, True])
def test_nothing_that_is_collected_invalidates_the_capture_of_another_library(
    is_blocking: bool, device: Any, step: Any, standin: Any
) -> None:
    driver, context, x = device.driver, device.context, device.zeros(4, "int32")
    step(x, 0, grid=1, block=4)
    with context:
        captured = driver.call(
            "create_stream", 0 if is_blocking else 1
        )  # CuPy's streams block the default stream, and PyTorch's do not
    objects = [*module_and_array(device), device.stream(), device.default_stream.record()]
    calls = ("cuMemFree", "cuModuleUnload", "cuStreamDestroy")
    gc.collect()
    before = [standin.calls(name) for name in calls]
    with context:
        driver.call(
            "begin_capture", captured, 0
        )  # CU_STREAM_CAPTURE_MODE_GLOBAL, the default of PyTorch and CuPy
    stream = Foreign(captured)
    step(x, 1, grid=1, block=4, stream=stream)
    objects.clear()
    gc.collect()
    # The default stream, which must be waited for, is unusable until the capture of a blocking
    # stream ends.
    assert [standin.calls(name) for name in calls] == [
        count + (not is_blocking) for count in before
    ]
    with context:
        driver.call(
            "destroy_graph", driver.call("end_capture", captured)
        )  # an error if the capture is invalid
    del stream
    gc.collect()
    others = device.zeros(4, "int32"), device.stream(), module_and_array(device)
    assert [standin.calls(name) for name in calls] == [count + 1 for count in before]
    with context:
        driver.call("destroy_stream", captured)
    del others


@pytest.mark.row("R37")
def test_other_threads_and_streams_work_while_another_library_captures(
    device: Any, step: Any, standin: Any
) -> None:
    driver, context, x = device.driver, device.context, device.zeros(4, "int32")
    with context:
        captured = driver.call("create_stream", 1)
        driver.call("begin_capture", captured, 0)

    def work(_: object) -> list[int]:
        f, y = module_and_array(device)
        stream, host = device.stream(), np.arange(4, dtype="int32")
        y.copy_from(host, wait=False, stream=stream)
        f(y, 1, grid=1, block=4, stream=stream)
        f(host, 0, grid=1, block=4)
        event = stream.record()
        event.synchronize()
        assert event.elapsed(event) == 0
        stream.synchronize()
        out = np.zeros(4, "int32")
        y.copy_to(out, wait=False)
        device.default_stream.synchronize()
        assert f.bind(y, 0, grid=1, block=4).time() >= 0
        assert host.tolist() == [0, 2, 4, 6]
        return out.tolist()

    thread_results: list[Any] = []
    thread = threading.Thread(target=lambda: thread_results.append(work(0)))
    thread.start()
    thread.join()
    assert (work(0), thread_results) == ([1, 3, 5, 7], [[1, 3, 5, 7]])
    with context:
        driver.call("destroy_graph", driver.call("end_capture", captured))
        driver.call("destroy_stream", captured)
    assert x.numpy().tolist() == [0] * 4


@pytest.mark.parametrize("has_locked_memory", [False, True])
def test_started_copies_work_while_another_library_captures(
    has_locked_memory: bool, device: Any, standin: Any
) -> None:
    driver, context, x = device.driver, device.context, device.zeros(4, "int32")
    stream, hosts = device.stream(), [np.full(4, number, "int32") for number in range(40)]
    device.synchronize()
    release_copies(device)
    with context:
        captured = driver.call("create_stream", 1)
        driver.call("begin_capture", captured, 0)
    if not has_locked_memory:
        standin.set("fail", "cuMemHostAlloc=2")
    outs = []
    for host in hosts:  # more than may be in flight, so that some wait
        x.copy_from(host, wait=False, stream=stream)
        outs.append(np.zeros(4, "int32"))
        x.copy_to(outs[-1], wait=False, stream=stream)
    stream.synchronize()
    with context:
        driver.call(
            "destroy_graph", driver.call("end_capture", captured)
        )  # an error if the capture is invalid
        driver.call("destroy_stream", captured)
    assert [out.tolist() for out in outs] == [host.tolist() for host in hosts]


def test_an_export_waits_for_a_stream_whose_end_a_capture_has_delayed(
    device: Any, add: Any, standin: Standin
) -> None:
    driver = device.driver
    a, b, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0))
    stream, consumer = device.stream(), device.stream()
    launch = add.bind(a, b, c, 64, grid=1, block=64, stream=stream)
    launch()
    gc.collect()
    with device.context:
        captured = driver.call("create_stream", 0)
        driver.call("begin_capture", captured, 0)
    destroyed = standin.calls("cuStreamDestroy")
    del launch, stream
    gc.collect()
    with device.context:
        driver.call("destroy_graph", driver.call("end_capture", captured))
    assert standin.calls("cuStreamDestroy") == destroyed
    c.__dlpack__(stream=consumer.handle)
    back = np.zeros(64, "float32")
    with device.context:  # the consumer's own copy, in its stream
        driver.call("copy_to_host", back.ctypes.data, int(c.memory), 256, consumer.handle)
        driver.call("synchronize_stream", consumer.handle)
        driver.call("destroy_stream", captured)
    assert back.tolist() == [3] * 64


def test_threads_queue_one_graph(device: Any, step: Any) -> None:
    stream = device.stream()
    x = device.zeros(4, "int32")
    graph = stream.graph([step.bind(x, 0, grid=1, block=4, stream=stream)])
    step(x, 1, grid=1, block=4, stream=stream)
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(7):
            graph()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.synchronize()
    # The fixture fails for two launches at once, which CUDA forbids.
    assert x.numpy().tolist() == [1 << 28] * 4


def test_a_graph_is_created_in_a_profile_and_under_a_guard(device: Any) -> None:
    """The launches are only captured then: a profile records no times of them, and a guard compares
    nothing.
    """
    spin = devmod.compile(SPINS["cuda"], "cuda -arch=compute_75")["spin"].on(device)
    stream = device.stream()

    def graph_of_a_launch() -> Any:
        return stream.graph(
            [spin.bind(device.zeros(8, "float32"), 4, grid=1, block=1, stream=stream)]
        )

    with devmod.profile() as profile:
        graph_of_a_launch()()
        spin(device.zeros(8, "float32"), 4, grid=1, block=1, stream=stream)
        stream.synchronize()
    (launch,) = [each for each in profile.records if each.action == "launch"]
    assert launch.on_device is not None
    with devmod.guard():
        graph_of_a_launch()()
        stream.synchronize()
