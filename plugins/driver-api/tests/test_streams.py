"""Streams and events of devices, and streams of other libraries, for each vendor."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from backend_checks import run_in_threads
from each_case import refusal
from interruptible import HANGS
from vendor import Vendor

import devmod
from devmod_runtime import _uninterrupted
from devmod_simulators import StandinDriver


def test_the_default_stream(device: Any, vendor: Vendor) -> None:
    assert device.default_stream is device.default_stream
    assert device.default_stream.handle == vendor.legacy_stream
    assert repr(device.default_stream) == f"<Stream of {device}>"
    assert repr(device.default_stream.record()) == f"<Event of {device}>"


@pytest.mark.each_driver
def test_streams_and_events_are_destroyed_with_their_objects(
    device: Any, standin: StandinDriver
) -> None:
    device.stream().record().synchronize()
    gc.collect()
    before = standin.report
    streams = [device.stream() for _ in range(4)]
    events = [stream.record() for stream in streams]
    assert standin.report["streams"] == before["streams"] + 4
    del streams, events
    gc.collect()
    assert (standin.report["streams"], standin.report["events"]) == (
        before["streams"],
        before["events"],
    )


def test_the_work_of_a_deleted_stream_is_before_that_of_the_default_stream(
    device: Any, add: Any, vendor: Vendor
) -> None:
    twice = vendor.kernels()["twice"]
    ones, c = device.from_numpy(np.ones(64, "float32")), device.zeros(64, "float32")
    stream = device.stream()
    launch = add.bind(ones, c, c, 64, grid=1, block=64, stream=stream)
    for _ in range(8):
        launch()
    del launch, stream
    gc.collect()
    twice(c, grid=1, block=64)
    assert c.numpy().tolist() == [16] * 64


@pytest.mark.each_driver
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
    ("create_stream", lambda device: device.stream(), "cannot create a stream"),
    ("create_event", lambda device: device.default_stream.record(), "cannot record an event"),
    (
        "synchronize_stream",
        lambda device: device.default_stream.synchronize(),
        "reports a fault of a launch",
    ),
    ("synchronize_context", lambda device: device.synchronize(), "reports a fault of a launch"),
    (
        "synchronize_event",
        lambda device: device.default_stream.record().synchronize(),
        "reports a fault of a launch",
    ),
    (
        "wait_event",
        lambda device: device.stream().wait(device.default_stream.record()),
        "cannot wait for an event",
    ),
    (
        "elapsed",
        lambda device: device.default_stream.record().elapsed(device.default_stream.record()),
        "cannot return the time of an event",
    ),
]


@pytest.mark.parametrize(
    ("operation", "work", "what"), ERRORS, ids=[operation for operation, _, _ in ERRORS]
)
def test_an_error_of_the_driver(
    device: Any, standin: StandinDriver, vendor: Vendor, operation: str, work: Any, what: str
) -> None:
    device.default_stream.synchronize()
    vendor.fail(operation, 1)
    text = refusal(devmod.LaunchError, work, device)
    vendor.succeed()
    assert text == f"{device} {what}: {vendor.error('invalid value')}"
    work(device)


# -- streams of other libraries


@pytest.fixture
def foreign(device: Any) -> Any:
    """The handle of a stream that another library has made."""
    driver = device.driver
    with device.context:
        handle = driver.call("create_stream", 1)
    yield handle
    with device.context:
        driver.call("destroy_stream", handle)


@pytest.mark.each_driver
@pytest.mark.parametrize("library", ["own", "torch", "cupy"])
def test_a_stream_of_another_library(
    device: Any, add: Any, b: Any, c: Any, foreign: int, library: str, vendor: Vendor
) -> None:
    stream, a = (
        vendor.foreign_stream(library, foreign),
        device.from_numpy(np.full(64, 2, "float32")),
    )
    for _ in range(2):
        add(a, b, c, 64, grid=1, block=64, stream=stream)
    assert c.numpy().tolist() == [3] * 64
    adopted = vendor.adopt_stream(stream)
    assert adopted is not None
    assert adopted is vendor.adopt_stream(stream)
    assert (adopted.handle, adopted.device, adopted.owner) == (foreign, device, stream)
    adopted.record().synchronize()


@pytest.mark.each_driver
@pytest.mark.parametrize("handle", [0, 1])
def test_the_default_streams_of_other_libraries_are_devmods(
    device: Any, handle: int, vendor: Vendor
) -> None:
    assert vendor.adopt_stream(vendor.foreign_stream("own", handle)) is device.default_stream
    assert (
        vendor.adopt_stream(vendor.foreign_stream("cupy", handle, device_id=-1))
        is device.default_stream
    )
    assert (
        vendor.adopt_stream(vendor.foreign_stream("torch", handle, device_index=0))
        is device.default_stream
    )
    for library in ("cupy", "torch"):  # older ones do not have the device
        assert vendor.adopt_stream(vendor.foreign_stream(library, handle)) is device.default_stream


@pytest.mark.parametrize("value", [0, 1, "stream", object()], ids=["0", "1", "text", "object"])
def test_a_number_is_no_stream(
    device: Any, add: Any, b: Any, c: Any, value: Any, vendor: Vendor
) -> None:
    text = refusal(devmod.ArgumentError, add, b, b, c, 64, grid=1, block=64, stream=value)
    assert text.startswith(f"the {vendor.kind} function 'add' was given stream=, which is ")
    assert text.endswith(f": expected a stream of kind {vendor.kind}")


@pytest.mark.parametrize("what", ["stream", "event", "device"])
def test_a_long_wait_is_in_another_thread_so_an_interrupt_ends_it(
    what: str, device: Any, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short wait is in the thread itself, and so is one that no interrupt reaches. No capture
    begins during one in another thread.
    """
    stream = device.stream()
    waits = {
        "stream": stream.synchronize,
        "event": stream.record().synchronize,
        "device": device.synchronize,
    }
    driver, call = device.context.driver, device.context.driver.call
    threads: set[int] = set()  # also those that wait for what an earlier test has left

    def recorded(operation: str, *values: Any) -> Any:
        if operation.startswith("synchronize_"):
            threads.add(threading.get_ident())
            assert device.context.waits - earlier or threading.get_ident() in direct
        return call(operation, *values)

    def waiting() -> set[int]:
        threads.clear()
        waits[what]()
        return set(threads)

    own = threading.get_ident()
    direct, earlier = {own}, set(device.context.waits)  # a wait of an earlier test may go on
    monkeypatch.setattr(driver, "call", recorded)
    monkeypatch.setattr(_uninterrupted, "_SHORT_WAIT", HANGS)
    assert own in waiting()
    monkeypatch.setattr(_uninterrupted, "_SHORT_WAIT", 0)
    query = "is_event_done" if what == "event" else "is_stream_done"
    vendor.fail(query, 600)  # not ready
    assert waiting() - {own}
    assert not device.context.waits - earlier
    (found,) = run_in_threads(
        lambda _: direct.add(threading.get_ident()) or threading.get_ident() in waiting(), [0]
    )
    assert found
    vendor.succeed()


@pytest.mark.usefixtures("standin")
def test_a_wait_asks_for_no_stream_that_was_collected_meanwhile(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in driver reports each use of a destroyed handle."""
    streams = [device.stream() for _ in range(3)]
    driver_type = type(device.context.driver)
    is_done = driver_type.is_done

    def collect(driver: Any, operation: str, handle: int) -> bool:
        streams.clear()
        done: bool = is_done(driver, operation, handle)
        return done

    monkeypatch.setattr(driver_type, "is_done", collect)
    device.synchronize()
    assert not streams
