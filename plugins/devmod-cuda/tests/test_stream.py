"""Streams and events of CUDA devices, and streams of other libraries."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from cuda_kernels import adder
from foreign_context import foreign_context
from standin_cuda import Standin

import devmod
from devmod_conformance.checks import check_deleted_streams, check_foreign_events, check_streams


@pytest.fixture
def add(device: Any) -> Any:
    return adder()["add"]


def test_streams(device: Any, add: Any) -> None:
    check_streams(device, add, grid=1, block=64)


def test_deleted_streams(device: Any, add: Any) -> None:
    check_deleted_streams(device, add, grid=1, block=64)


def test_foreign_events(device: Any) -> None:
    check_foreign_events(device)


def test_the_default_stream_is_cudas_legacy_default_stream(device: Any) -> None:
    assert device.default_stream is device.default_stream
    assert device.default_stream.__cuda_stream__() == (0, 1)
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


def test_the_work_of_a_deleted_stream_is_before_that_of_the_default_stream(device: Any, add: Any) -> None:
    twice = adder()["twice"]
    ones, c = device.from_numpy(np.ones(64, "float32")), device.zeros(64, "float32")
    stream = device.stream()
    launch = add.bind(ones, c, c, 64, grid=1, block=64, stream=stream)
    for _ in range(8):
        launch()
    del launch, stream
    gc.collect()
    twice(c, grid=1, block=64)
    assert c.numpy().tolist() == [16] * 64


def test_an_event_of_a_thread_without_a_context(device: Any) -> None:
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
    ("cuStreamCreate", lambda device: device.stream(), "cannot create a stream"),
    ("cuEventCreate", lambda device: device.default_stream.record(), "cannot record an event"),
    ("cuStreamSynchronize", lambda device: device.default_stream.synchronize(), "reports a fault of a launch"),
    ("cuCtxSynchronize", lambda device: device.synchronize(), "reports a fault of a launch"),
    ("cuEventSynchronize", lambda device: device.default_stream.record().synchronize(), "reports a fault of a launch"),
    ("cuStreamWaitEvent", lambda device: device.stream().wait(device.default_stream.record()), "cannot wait for an event"),
    (
        "cuEventElapsedTime",
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
    assert str(caught.value) == f"{device} {what}: CUDA_ERROR_INVALID_VALUE (invalid value)"
    work(device)


# -- streams of other libraries


class Protocol:
    """A stream with the protocol of cuda.core."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def library_class(module: str, **attributes: Any) -> type:
    """Return a class `Stream` of a library that is not installed here."""

    def __init__(self: Any, **values: Any) -> None:
        vars(self).update(values)

    return type("Stream", (), {"__module__": module, "__init__": __init__, **attributes})


@pytest.fixture
def foreign(device: Any) -> Any:
    """The handle of a stream that devmod did not make."""
    driver = device.driver
    with device.context:
        handle = driver.create_stream()
    yield handle
    with device.context:
        driver.destroy_stream(handle)


@pytest.mark.parametrize("library", ["protocol", "torch", "cupy"])
def test_a_stream_of_another_library(device: Any, add: Any, foreign: int, library: str, standin: Standin) -> None:
    if library == "protocol":
        stream: Any = Protocol(foreign)
    else:
        stream = library_class(f"{library}.cuda")(**{{"torch": "cuda_stream", "cupy": "ptr"}[library]: foreign})
    a, b, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0))
    for _ in range(2):
        add(a, b, c, 64, grid=1, block=64, stream=stream)
    assert c.numpy().tolist() == [3] * 64
    from devmod_cuda._adopt import adopt_stream

    adopted = adopt_stream(stream)
    assert adopted is not None
    assert adopted is adopt_stream(stream)
    assert (adopted.handle, adopted.device, adopted.owner) == (foreign, device, stream)
    adopted.record().synchronize()


def test_a_stream_of_pycuda(device: Any, add: Any, cuda_driver: str) -> None:
    if cuda_driver != "pycuda":
        pytest.skip("pycuda's streams come with pycuda")
    import pycuda.driver

    context = pycuda.driver.Device(0).retain_primary_context()
    context.push()
    try:
        stream = pycuda.driver.Stream()
        a, b, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0))
        add(a, b, c, 64, grid=1, block=64, stream=stream)
        stream.synchronize()
        assert c.numpy().tolist() == [3] * 64
        del stream
        gc.collect()
    finally:
        context.pop()


@pytest.mark.parametrize("handle", [0, 1])
def test_the_default_streams_of_other_libraries_are_devmods(device: Any, handle: int) -> None:
    from devmod_cuda._adopt import adopt_stream

    assert adopt_stream(Protocol(handle)) is device.default_stream
    assert adopt_stream(library_class("cupy.cuda")(ptr=handle, device_id=-1)) is device.default_stream
    assert adopt_stream(library_class("torch.cuda")(cuda_stream=handle, device_index=0)) is device.default_stream


@pytest.mark.parametrize("value", [0, 1, "stream", object()])
def test_a_number_is_no_stream(device: Any, add: Any, value: Any) -> None:
    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    with pytest.raises(devmod.ArgumentError) as caught:
        add(a, b, c, 64, grid=1, block=64, stream=value)
    assert str(caught.value).startswith("the cuda function 'add' was given stream=, which is ")
    assert str(caught.value).endswith(": expected a stream of kind cuda")


def test_a_stream_of_another_context(device: Any, add: Any) -> None:
    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    with foreign_context(device):
        handle = device.driver.create_stream()
        with pytest.raises(devmod.ArgumentError) as caught:
            add(a, b, c, 64, grid=1, block=64, stream=Protocol(handle))
        assert str(caught.value) == (
            "stream= is a stream of a CUDA context that is not a device's primary one, and devmod uses the primary contexts, as PyTorch "
            "and CuPy do (pycuda: import pycuda.autoprimaryctx in place of pycuda.autoinit)"
        )
        add(a, b, c, 64, grid=1, block=64)  # the current context is the other one
        device.driver.destroy_stream(handle)
    device.synchronize()


def test_a_launch_while_another_context_is_current(device: Any, add: Any) -> None:
    a, b, c = (device.from_numpy(np.full(64, value, "float32")) for value in (1, 2, 0))
    launch = add.bind(a, b, c, 64, grid=1, block=64)
    with foreign_context(device) as other:
        for call in (launch, lambda: add(a, c, c, 64, grid=1, block=64)):
            call()
            assert device.driver.current_context() == other
        assert c.numpy().tolist() == [4] * 64
        assert device.driver.current_context() == other
