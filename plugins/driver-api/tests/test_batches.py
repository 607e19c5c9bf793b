"""Graphs of the driver, for each vendor: batches of a stream, graphs of prepared launches, launches
on a stream that is being captured.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from each_case import refusal
from vendor import Vendor

import devmod
from devmod_simulators import StandinDriver


def run(step: Any, x: Any, *values: int, stream: Any = None) -> None:
    for value in values:
        step(x, value, grid=1, block=4, stream=stream)


@pytest.mark.each_driver
@pytest.mark.row("R37")
def test_a_batch_is_one_graph_launch_in_the_order_of_its_body(
    device: Any, stream: Any, step: Any, standin: StandinDriver, vendor: Vendor
) -> None:
    x = device.zeros(4, "int32")
    run(step, x, 1, stream=stream)
    launch = step.bind(x, 4, grid=1, block=4, stream=stream)
    graphs, launches = vendor.calls("launch_graph"), standin.launches
    with stream.batch():
        run(step, x, 2, 3, stream=stream)
        launch()
        launch()
        assert vendor.calls("launch_graph") == graphs
    assert vendor.calls("launch_graph") == graphs + 1
    stream.synchronize()
    assert x.numpy().tolist() == [(((((1 * 2) + 2) * 2 + 3) * 2 + 4) * 2 + 4)] * 4
    assert standin.launches >= launches
    run(step, x, 0, stream=stream)  # after the batch launches are queued at once
    assert vendor.calls("launch_graph") == graphs + 1


@pytest.mark.each_driver
def test_what_a_batch_has_used_is_freed_at_its_end(
    device: Any, stream: Any, step: Any, standin: StandinDriver
) -> None:
    gc.collect()
    device.synchronize()
    free = device.free_memory()
    x, unused = device.zeros(4, "int32"), device.zeros(1 << 20, "uint8")
    run(step, x, 1, stream=stream)
    with stream.batch():
        run(step, x, 2, stream=stream)
        del unused
        gc.collect()
        assert device.free_memory() < free - (1 << 20)  # a capture delays it
    assert device.free_memory() > free - (1 << 20)
    stream.synchronize()
    assert x.numpy().tolist() == [4] * 4


@pytest.mark.row("R37")
def test_batches_may_be_nested_and_empty(
    device: Any, stream: Any, step: Any, vendor: Vendor, standin: StandinDriver
) -> None:
    x = device.zeros(4, "int32")
    launch = step.bind(x, 4, grid=1, block=4, stream=stream)
    with stream.batch():
        pass
    graphs = vendor.calls("launch_graph")
    with stream.batch():
        run(step, x, 1, stream=stream)
        with stream.batch():
            run(step, x, 2, stream=stream)
            launch()
        run(step, x, 3, stream=stream)
        assert vendor.calls("launch_graph") == graphs
    assert vendor.calls("launch_graph") == graphs + 1
    stream.synchronize()
    assert x.numpy().tolist() == [((1 * 2 + 2) * 2 + 4) * 2 + 3] * 4


def test_a_timed_launch_in_a_batch_is_no_graph(
    device: Any, stream: Any, step: Any, vendor: Vendor
) -> None:
    """The host creates a graph between the events, while the device waits."""
    x = device.zeros(4, "int32")
    launch = step.bind(x, 4, grid=1, block=4, stream=stream)
    with stream.batch():
        run(step, x, 1, stream=stream)
        graphs = vendor.calls("launch_graph")
        assert launch.time() >= 0
        assert vendor.calls("launch_graph") == graphs + 1  # the launch before it
        run(step, x, 2, stream=stream)
        assert vendor.calls("launch_graph") == graphs + 1
    stream.synchronize()
    assert x.numpy().tolist() == [(1 * 2 + 4) * 2 + 2] * 4


@pytest.mark.row("R37")
def test_the_launches_before_an_exception_run(device: Any, stream: Any, step: Any) -> None:
    x = device.zeros(4, "int32")

    def fail() -> None:
        with stream.batch():
            run(step, x, 1, 2, stream=stream)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    stream.synchronize()
    assert x.numpy().tolist() == [4] * 4
    run(step, x, 1, stream=stream)
    assert x.numpy().tolist() == [9] * 4


WAITS: dict[str, Callable[[Any, Any, Any], object]] = {
    "synchronize": lambda device, stream, x: stream.synchronize(),
    "record": lambda device, stream, x: stream.record().synchronize(),
    "wait": lambda device, stream, x: stream.wait(device.default_stream.record()),
    "device": lambda device, stream, x: device.synchronize(),
    "numpy": lambda device, stream, x: x.numpy(),
    "copy": lambda device, stream, x: x.copy_to(np.zeros(4, "int32"), stream=stream),
    "new array": lambda device, stream, x: device.from_numpy(np.ones(4, "int32")),
}


@pytest.mark.row("R37")
@pytest.mark.parametrize("name", WAITS)
@pytest.mark.usefixtures("standin")
def test_an_operation_that_waits_submits_the_launches_so_far(
    name: str, device: Any, stream: Any, step: Any, vendor: Vendor
) -> None:
    x = device.zeros(4, "int32")
    with stream, stream.batch():
        run(step, x, 1)
        WAITS[name](device, stream, x)
        if name not in ("wait", "new array"):
            assert x.numpy().tolist() == [1] * 4
        run(step, x, 2)
        y = np.zeros(4, "int32")
        run(step, y, 5)  # a host array: copied in and back
        assert y.tolist() == [5] * 4
        run(step, x, 3)
        graphs = vendor.calls("launch_graph")
    # The launches after the operation are one graph again.
    assert vendor.calls("launch_graph") == graphs + 1
    stream.synchronize()
    assert x.numpy().tolist() == [11] * 4


@pytest.mark.usefixtures("standin")
def test_memory_that_the_body_frees_stays_valid_until_the_batch_has_run(
    device: Any, stream: Any, step: Any, vendor: Vendor
) -> None:
    result = device.zeros(4, "int32")
    gc.collect()  # what tests with the other driver left: a process of a user has one driver
    with stream.batch():
        x = device.zeros(4, "int32")
        run(step, x, 1, 2, stream=stream)
        freed = vendor.calls("free")
        del x
        gc.collect()
        assert vendor.calls("free") == freed
        run(step, result, 7, stream=stream)
    device.synchronize()
    assert vendor.calls("free") > freed
    assert result.numpy().tolist() == [7] * 4


@pytest.mark.usefixtures("standin")
def test_a_batch_of_the_default_stream_queues_launches_one_by_one(
    device: Any, step: Any, vendor: Vendor
) -> None:
    x = device.zeros(4, "int32")
    graphs = vendor.calls("launch_graph")
    with device.default_stream.batch():
        run(step, x, 1, 2)
    assert x.numpy().tolist() == [4] * 4
    assert vendor.calls("launch_graph") == graphs


def test_a_launch_with_a_wrong_argument_leaves_the_batch_valid(
    device: Any, stream: Any, step: Any
) -> None:
    x = device.zeros(4, "int32")
    with stream.batch():
        run(step, x, 1, stream=stream)
        with pytest.raises(devmod.LaunchError):
            step(x, 1, grid=1, block=4096, stream=stream)
        run(step, x, 2, stream=stream)
    stream.synchronize()
    assert x.numpy().tolist() == [4] * 4


def test_a_batch_that_the_driver_refuses(
    device: Any, stream: Any, step: Any, standin: StandinDriver, vendor: Vendor
) -> None:
    x = device.zeros(4, "int32")
    for operation, text in (
        ("begin_capture", "cannot begin a batch"),
        ("instantiate_graph", "refused the launches of a batch"),
        ("launch_graph", "refused the launches of a batch"),
    ):
        vendor.fail(operation, 801)
        with pytest.raises(devmod.LaunchError) as caught, stream.batch():
            run(step, x, 1, stream=stream)
        assert str(caught.value) == f"{device} {text}: {vendor.error('not supported')}"
        vendor.succeed()
        begun = vendor.calls("begin_capture")
        stream.synchronize()
        assert vendor.calls("begin_capture") == begun, (
            "a batch is active while its exception is referenced"
        )
    with stream.batch():
        run(step, x, 3, stream=stream)
    stream.synchronize()
    assert x.numpy().tolist() == [3] * 4


@pytest.mark.row("R37")
@pytest.mark.usefixtures("standin")
def test_a_launch_of_another_thread_does_not_overtake_its_launch_in_a_batch(
    device: Any, stream: Any, step: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a batch the driver has ended the capture, and the graph is not queued yet."""
    x = device.zeros(4, "int32")
    threads: list[threading.Thread] = []

    def launch(value: int) -> None:
        threads.append(
            threading.Thread(target=run, args=(step, x, value), kwargs={"stream": stream})
        )
        threads[-1].start()
        threads[-1].join(0.2)  # the second launch waits for the graph

    graphs = device.context.graphs
    create = graphs.create
    monkeypatch.setattr(graphs, "create", lambda *arguments: launch(2) or create(*arguments))
    with stream.batch():
        launch(1)
        threads[0].join()
    threads[1].join()
    stream.synchronize()
    assert x.numpy().tolist() == [1 * 2 + 2] * 4


@pytest.mark.row("R37")
@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize(
    ("call", "ask"),
    [
        ("synchronize_context", lambda device, stream: device.synchronize()),
        ("synchronize_stream", lambda device, stream: stream.synchronize()),
        ("record_event", lambda device, stream: stream.record().synchronize()),
    ],
    ids=["device", "stream", "event"],
)
def test_another_thread_may_begin_a_batch_during_an_operation_that_a_capture_forbids(
    call: str,
    ask: Callable[[Any, Any], None],
    device: Any,
    stream: Any,
    step: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = device.zeros(4, "int32")
    begun, resume = threading.Event(), threading.Event()

    def launch() -> None:
        with stream.batch():
            begun.set()
            run(step, x, 1, stream=stream)
            resume.wait()

    def begin(driver: Any, operation: str, *arguments: Any) -> Any:
        if operation == call:
            monkeypatch.undo()
            thread.start()
            begun.wait(0.2)  # the batch waits for the operation, or queues its launches one by one
        return real(driver, operation, *arguments)

    thread = threading.Thread(target=launch)
    driver_type = type(device.context.driver)
    real = driver_type.call
    monkeypatch.setattr(driver_type, "call", begin)
    try:
        ask(device, stream)
    finally:
        resume.set()
        thread.join()
    stream.synchronize()
    assert x.numpy().tolist() == [1] * 4


# -- graphs of prepared launches


@pytest.mark.each_driver
@pytest.mark.row("R37")
@pytest.mark.usefixtures("standin")
def test_a_graph_queues_its_launches_at_each_call(
    device: Any, stream: Any, step: Any, vendor: Vendor
) -> None:
    x = device.zeros(4, "int32")
    first, second = (step.bind(x, a, grid=1, block=4, stream=stream) for a in (1, 2))
    destroyed = vendor.calls("destroy_graph")
    graph = stream.graph([first, second])
    assert vendor.calls("destroy_graph") == destroyed + 1  # its executable is enough
    assert repr(graph) == f"<Graph of 2 launches on {device}>"
    assert x.numpy().tolist() == [0] * 4
    del first, second
    gc.collect()
    calls = vendor.calls("launch")
    graph()
    graph()
    stream.synchronize()
    assert x.numpy().tolist() == [4 * 4 + 4] * 4
    assert vendor.calls("launch") == calls
    with stream.batch():  # a graph within a batch
        run(step, x, 0, stream=stream)
        graph()
    stream.synchronize()
    assert x.numpy().tolist() == [40 * 4 + 4] * 4
    destroyed = vendor.calls("destroy_executable")
    del graph
    gc.collect()
    assert vendor.calls("destroy_executable") == destroyed + 1


def test_a_graph_that_is_made_within_a_batch(device: Any, stream: Any, step: Any) -> None:
    x = device.zeros(4, "int32")
    with stream.batch():
        run(step, x, 1, stream=stream)
        graph = stream.graph([step.bind(x, 2, grid=1, block=4, stream=stream)])
        graph()
        run(step, x, 3, stream=stream)
    stream.synchronize()
    assert x.numpy().tolist() == [11] * 4


def test_a_graph_takes_launches_of_its_stream(
    device: Any, stream: Any, step: Any, vendor: Vendor
) -> None:
    x = device.zeros(4, "int32")
    other = step.bind(x, 1, grid=1, block=4)
    assert refusal(devmod.ArgumentError, stream.graph, [other]) == (
        f"a graph of <Stream of {device}> takes launches that were bound with stream= this stream; launch 1 is one for <Stream of {device}>"
    )
    assert refusal(
        devmod.ArgumentError, stream.graph, [step.bind(x, 1, grid=1, block=4, stream=stream), step]
    ) == (
        f"a graph of <Stream of {device}> takes launches that were bound with stream= this stream; launch 2 is {step!r}"
    )
    assert refusal(devmod.ArgumentError, device.default_stream.graph, [other]) == (
        f"the default stream of a {vendor.kind} device has no graphs: {vendor.api} does not capture it. Create a stream with device.stream(), and bind the "
        "launches with stream= it"
    )


def test_a_graph_of_no_launches(device: Any, stream: Any, step: Any) -> None:
    graph = stream.graph([step.bind(device.zeros(4, "int32"), 1, grid=0, block=4, stream=stream)])
    graph()
    stream.synchronize()


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize("first", ["capture", "wait"])
def test_the_capture_of_a_graph_and_a_wait_of_another_thread_do_not_overlap(
    first: str, device: Any, stream: Any, step: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, unused = device.zeros(4, "int32"), [device.zeros(4, "int32"), device.stream()]
    launch = step.bind(x, 1, grid=1, block=4, stream=stream)
    graphs: list[Any] = []
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            unused.clear()
            device.synchronize()
        except BaseException as error:
            failures.append(error)

    def call(driver: Any, operation: str, *arguments: Any) -> Any:
        if (
            operation == ("end_capture" if first == "capture" else "synchronize_context")
            and thread.ident is None
        ):
            thread.start()
            thread.join(0.2)
        if operation == "end_capture":
            waited.wait(0.3)
        result = real(driver, operation, *arguments)
        if operation == "synchronize_context":
            waited.set()
        return result

    waited = threading.Event()
    thread = threading.Thread(
        target=wait if first == "capture" else lambda: graphs.append(stream.graph([launch, launch]))
    )
    driver_type = type(device.context.driver)
    real = driver_type.call
    monkeypatch.setattr(driver_type, "call", call)
    if first == "capture":
        graphs.append(stream.graph([launch, launch]))
    else:
        wait()
    thread.join()
    assert not failures
    graphs[0]()
    stream.synchronize()
    assert x.numpy().tolist() == [1 * 2 + 1] * 4


# -- streams that others capture

#: The operations that wait.
WAITING = ("synchronize_stream", "synchronize_context", "synchronize_event")


@pytest.mark.each_driver
@pytest.mark.row("R37")
@pytest.mark.usefixtures("standin")
def test_launches_on_a_stream_that_another_library_captures(
    device: Any, stream: Any, step: Any, vendor: Vendor
) -> None:
    driver, context = device.driver, device.context
    x = device.zeros(4, "int32")
    launch = step.bind(x, 2, grid=1, block=4, stream=stream)
    with context:
        driver.call("begin_capture", stream.handle, 2)
    waits = sum(map(vendor.calls, WAITING))
    run(step, x, 1, stream=stream)
    launch()
    with stream.batch():  # its launches are in the capture of the other library
        run(step, x, 3, stream=stream)
    with context:
        graph = driver.call("end_capture", stream.handle)
        executable = driver.call("instantiate_graph", graph, 0)
    assert sum(map(vendor.calls, WAITING)) == waits
    assert x.numpy().tolist() == [0] * 4
    with context:
        driver.call("launch_graph", executable, stream.handle)
        driver.call("launch_graph", executable, stream.handle)
    stream.synchronize()
    assert x.numpy().tolist() == [11 * 8 + 11] * 4
    with context:
        driver.call("destroy_executable", executable)
        driver.call("destroy_graph", graph)


@pytest.mark.row("R37")
@pytest.mark.usefixtures("standin")
def test_memory_that_is_freed_does_not_invalidate_the_capture_of_another_library(
    device: Any, stream: Any, step: Any, vendor: Vendor
) -> None:
    driver, context = device.driver, device.context
    x, y, other = device.zeros(4, "int32"), device.zeros(4, "int32"), device.stream()
    gc.collect()
    with context:
        driver.call("begin_capture", stream.handle, 0)  # the global mode, the default of PyTorch
    run(step, x, 1, stream=stream)
    freed = vendor.calls("free")
    del y, other
    gc.collect()
    assert vendor.calls("free") == freed  # a free waits for this stream
    with context:
        graph = driver.call("end_capture", stream.handle)
        driver.call("destroy_graph", graph)
    device.synchronize()
    assert vendor.calls("free") == freed + 1
