"""Streams and events of ROCm devices, batches, graphs, and streams of other libraries."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from rocm_kernels import module
from standin_rocm import Standin

import devmod
from devmod_conformance.checks import check_deleted_streams, check_foreign_events, check_streams
from devmod_driver_api.errors import DriverError


@pytest.fixture
def add(device: Any) -> Any:
    return module()["add"]


@pytest.fixture
def stream(device: Any) -> Any:
    # A module of the other driver's tests is unloaded when it is collected, after a wait for the device, which ends a capture. A process of
    # a user has one driver, and that one unloads nothing within a batch.
    gc.collect()
    return device.stream()


def test_streams(device: Any, add: Any) -> None:
    check_streams(device, add, grid=1, block=64)


def test_deleted_streams(device: Any, add: Any) -> None:
    check_deleted_streams(device, add, grid=1, block=64)


def test_foreign_events(device: Any) -> None:
    check_foreign_events(device)


def test_the_default_stream_is_hips_null_stream(device: Any) -> None:
    assert device.default_stream is device.default_stream
    assert device.default_stream.handle == 0
    assert not hasattr(device.default_stream, "__cuda_stream__")
    assert repr(device.default_stream) == f"<Stream of {device}>"
    assert repr(device.default_stream.record()) == f"<Event of {device}>"


def test_streams_and_events_are_destroyed_with_their_objects(device: Any, standin: Standin) -> None:
    device.stream().record().synchronize()
    gc.collect()
    before = standin.report
    streams = [device.stream() for _ in range(4)]
    events = [stream.record() for stream in streams]
    assert standin.report["streams"] == before["streams"] + 4
    del streams, events
    gc.collect()
    assert (standin.report["streams"], standin.report["events"]) == (before["streams"], before["events"])


def test_an_event_of_another_thread(device: Any) -> None:
    start = device.default_stream.record()
    seconds: list[float] = []

    def work() -> None:
        stream = device.stream()
        stream.wait(start)
        end = stream.record()
        end.synchronize()
        seconds.append(end.elapsed(start))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(seconds) == 1


ERRORS = [
    ("hipStreamCreateWithFlags", lambda device: device.stream(), "cannot create a stream"),
    ("hipEventCreateWithFlags", lambda device: device.default_stream.record(), "cannot record an event"),
    ("hipStreamSynchronize", lambda device: device.default_stream.synchronize(), "reports a fault of a launch"),
    ("hipDeviceSynchronize", lambda device: device.synchronize(), "reports a fault of a launch"),
    ("hipEventSynchronize", lambda device: device.default_stream.record().synchronize(), "reports a fault of a launch"),
    ("hipStreamWaitEvent", lambda device: device.stream().wait(device.default_stream.record()), "cannot wait for an event"),
    (
        "hipEventElapsedTime",
        lambda device: device.default_stream.record().elapsed(device.default_stream.record()),
        "cannot return the time of an event",
    ),
]


@pytest.mark.parametrize(("call", "work", "what"), ERRORS, ids=[call for call, _, _ in ERRORS])
def test_an_error_of_the_driver(device: Any, standin: Standin, call: str, work: Any, what: str) -> None:
    device.default_stream.synchronize()
    standin.set("fail", f"{call}=1")
    with pytest.raises(devmod.LaunchError) as caught:
        work(device)
    standin.set("fail", None)
    assert str(caught.value) == f"{device} {what}: hipErrorInvalidValue (invalid value)"
    work(device)


# -- batches and graphs


def run(x: Any, *values: int, stream: Any = None) -> None:
    step = module()["step"]
    for value in values:
        step(x, value, grid=1, block=4, stream=stream)


@pytest.mark.row("R37")
def test_a_batch_is_one_graph_launch_in_the_order_of_its_body(device: Any, stream: Any, standin: Standin) -> None:
    step, x = module()["step"], device.zeros(4, "int32")
    launch = step.bind(x, 4, grid=1, block=4, stream=stream)
    graphs = standin.calls("hipGraphLaunch")
    with stream.batch():
        step(x, 1, grid=1, block=4, stream=stream)
        with stream.batch():
            launch()
            launch()
        assert standin.calls("hipGraphLaunch") == graphs
    assert standin.calls("hipGraphLaunch") == graphs + 1
    stream.synchronize()
    assert x.numpy().tolist() == [(((1 * 2) + 4) * 2 + 4)] * 4


@pytest.mark.row("R37")
def test_an_operation_that_waits_submits_the_launches_so_far(device: Any, stream: Any, standin: Standin) -> None:
    x = device.zeros(4, "int32")
    with stream, stream.batch():
        run(x, 1)
        assert x.numpy().tolist() == [1] * 4
        run(x, 2)
        device.synchronize()
        graphs = standin.calls("hipGraphLaunch")
        run(x, 3)
    assert standin.calls("hipGraphLaunch") == graphs + 1
    stream.synchronize()
    assert x.numpy().tolist() == [11] * 4


@pytest.mark.row("R37")
def test_memory_that_the_body_frees_stays_valid_until_the_batch_has_run(device: Any, stream: Any, standin: Standin) -> None:
    step, result = module()["step"], device.zeros(4, "int32")
    with stream.batch():
        x = device.zeros(4, "int32")
        step(x, 1, grid=1, block=4, stream=stream)
        freed = standin.calls("hipFree")
        del x
        gc.collect()
        assert standin.calls("hipFree") == freed
        step(result, 7, grid=1, block=4, stream=stream)
    device.synchronize()
    assert standin.calls("hipFree") > freed
    assert result.numpy().tolist() == [7] * 4


def test_a_batch_that_the_driver_refuses(device: Any, stream: Any, standin: Standin) -> None:
    x = device.zeros(4, "int32")
    for call, text in (
        ("hipStreamBeginCapture", "cannot begin a batch"),
        ("hipGraphInstantiateWithFlags", "refused the launches of a batch"),
        ("hipGraphLaunch", "refused the launches of a batch"),
    ):
        standin.set("fail", f"{call}=801")
        with pytest.raises(devmod.LaunchError) as caught, stream.batch():
            run(x, 1, stream=stream)
        assert str(caught.value) == f"{device} {text}: hipErrorNotSupported (not supported)"
        standin.set("fail", None)
    with stream.batch():
        run(x, 3, stream=stream)
    stream.synchronize()
    assert x.numpy().tolist() == [3] * 4


@pytest.mark.row("R37")
def test_a_graph_queues_its_launches_at_each_call(device: Any, stream: Any, standin: Standin) -> None:
    step, x = module()["step"], device.zeros(4, "int32")
    graph = stream.graph([step.bind(x, a, grid=1, block=4, stream=stream) for a in (1, 2)])
    assert repr(graph) == f"<Graph of 2 launches on {device}>"
    calls = standin.calls("hipModuleLaunchKernel")
    graph()
    graph()
    stream.synchronize()
    assert x.numpy().tolist() == [4 * 4 + 4] * 4
    assert standin.calls("hipModuleLaunchKernel") == calls
    other = step.bind(x, 1, grid=1, block=4)
    with pytest.raises(devmod.ArgumentError) as caught:
        device.default_stream.graph([other])
    assert str(caught.value) == (
        "the default stream of a rocm device has no graphs: HIP does not capture it. Create a stream with device.stream(), and bind the "
        "launches with stream= it"
    )


# -- streams of other libraries


def library_class(name: str, library: str) -> type:
    """Return a class of a library that is not installed here."""

    def __init__(self: Any, **values: Any) -> None:
        vars(self).update(values)

    return type(name, (), {"__module__": library, "__init__": __init__, "__int__": lambda self: self.handle})


@pytest.fixture
def foreign(device: Any) -> Any:
    """The handle of a stream that devmod did not make."""
    driver = device.driver
    with device.context:
        handle = driver.create_stream()
    yield handle
    with device.context:
        driver.destroy_stream(handle)


@pytest.mark.parametrize(
    ("name", "library", "attribute"),
    [("Stream", "torch.cuda", "cuda_stream"), ("ExternalStream", "cupy.cuda", "ptr"), ("ihipStream_t", "rocm.bindings.hip", "handle")],
)
def test_a_stream_of_another_library(device: Any, add: Any, foreign: int, name: str, library: str, attribute: str) -> None:
    from devmod_rocm._adopt import adopt_stream

    stream = library_class(name, library)(**{attribute: foreign})
    a, b, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0))
    add(a, b, c, 64, grid=1, block=64, stream=stream)
    assert c.numpy().tolist() == [3] * 64
    adopted = adopt_stream(stream)
    assert adopted is not None
    assert adopted is adopt_stream(stream)
    assert (adopted.handle, adopted.device, adopted.owner) == (foreign, device, stream)
    adopted.record().synchronize()
    null = library_class(name, library)(**{attribute: 0})
    assert adopt_stream(null) is device.default_stream


@pytest.mark.parametrize("value", [0, "stream"])
def test_a_number_is_no_stream(device: Any, add: Any, value: Any) -> None:
    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    with pytest.raises(devmod.ArgumentError) as caught:
        add(a, b, c, 64, grid=1, block=64, stream=value)
    assert str(caught.value).startswith("the rocm function 'add' was given stream=, which is ")
    assert str(caught.value).endswith(": expected a stream of kind rocm")


def test_the_device_of_a_stream_in_hip_5(device: Any, foreign: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """HIP 5 has no hipStreamGetDevice. The objects of PyTorch and CuPy have the number of their device."""
    from devmod_rocm._adopt import RocmAdoption
    from devmod_rocm._api import HIP

    def missing(stream: int) -> int:
        raise DriverError(HIP.not_supported, "this driver has no such function", "hipStreamGetDevice")

    monkeypatch.setattr(device.driver, "stream_context", missing)
    adoption, one = RocmAdoption(HIP, lambda: [device, device]), RocmAdoption(HIP, lambda: [device])
    known = library_class("Stream", "torch.cuda")(cuda_stream=foreign, device_index=1)
    assert adoption.adopt_stream(known).handle == foreign  # type: ignore[union-attr]
    unknown = library_class("ihipStream_t", "hip.hip")(handle=foreign)
    assert one.adopt_stream(unknown).device is device  # type: ignore[union-attr]
    with pytest.raises(devmod.ArgumentError) as caught:
        adoption.adopt_stream(unknown)
    assert str(caught.value) == (
        "stream= is a stream that the driver refuses: hipStreamGetDevice: hipErrorNotSupported (this driver has no such function)"
    )
