"""`devmod.device` with streams of other libraries, for each vendor. The tests of devmod-cuda have
contexts.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backend_checks import run_in_threads
from each_case import refusal, some
from foreign_arrays import Tensor, collect_exports, of_library
from vendor import Vendor

import devmod
from devmod_simulators import StandinDriver

pytestmark = pytest.mark.row("R57")
LIBRARIES = pytest.mark.parametrize("library", ["own", "torch", "cupy"])


@pytest.fixture
def handle(device: Any) -> Iterator[int]:
    """The handle of a stream that another library has made."""
    driver = device.driver
    with device.context:
        made = driver.call("create_stream", 1)
    yield made
    gc.collect()
    with device.context:
        driver.call("synchronize_stream", made)
        driver.call("destroy_stream", made)


@pytest.fixture(autouse=True)
def _libraries(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch and CuPy, built for the vendor."""
    is_hip = vendor.kind == "rocm"
    runtime = SimpleNamespace(is_hip=is_hip)
    version = SimpleNamespace(hip="7.0" if is_hip else None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=version))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))


def waits(vendor: Vendor) -> int:
    """Return how often a thread has waited."""
    return sum(
        map(vendor.calls, ("synchronize_stream", "synchronize_event", "synchronize_context"))
    )


@pytest.mark.each_driver
@LIBRARIES
def test_one_stream_has_one_device(device: Any, handle: int, library: str, vendor: Vendor) -> None:
    stream = vendor.foreign_stream(library, handle)
    adopted: Any = devmod.device(stream)
    assert adopted is not device
    assert (adopted.kind, adopted.index, adopted.limits) == (vendor.kind, 0, device.limits)
    name, package = type(stream).__name__, type(stream).__module__.partition(".")[0]
    article = "an" if name[0] in "aeiouE" else "a"
    assert repr(adopted) == f"{device} over {article} {name} of {package} 0x{handle:x}"
    assert (adopted.default_stream.handle, adopted.default_stream.owner) == (handle, stream)
    assert adopted.default_stream is adopted.current_stream is vendor.adopt_stream(stream)
    again = vendor.foreign_stream(library, handle)
    assert devmod.device(again) is adopted
    found = run_in_threads(lambda _: devmod.device(stream), range(4))
    assert all(each is adopted for each in some(found))


@pytest.mark.each_driver
@LIBRARIES
def test_a_default_stream_is_that_of_the_listed_device(
    device: Any, library: str, vendor: Vendor
) -> None:
    assert devmod.device(vendor.foreign_stream(library, vendor.legacy_stream)) is device
    assert devmod.device(vendor.foreign_stream(library, 0, device_index=0, device_id=0)) is device


def test_another_vendors_library_is_not_taken(
    device: Any, handle: int, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch and CuPy have the names of CUDA for ROCm too."""
    from importlib import import_module

    other = import_module({"cuda": "devmod_rocm", "rocm": "devmod_cuda"}[vendor.kind])
    own = import_module(f"devmod_{vendor.kind}")
    for library in ("torch", "cupy"):
        stream = vendor.foreign_stream(library, handle)
        assert other.adopt(stream) is None
        assert own.adopt(stream).default_stream.handle == handle
    for each in (None, 3, object(), np.zeros(1)):
        assert own.adopt(each) is None


@pytest.mark.each_driver
def test_memory_and_launches_are_in_the_order_of_the_stream(
    device: Any, add: Any, handle: int, vendor: Vendor
) -> None:
    """The stand-in driver runs the work of a stream only after what it depends on."""
    adopted: Any = devmod.device(vendor.foreign_stream("own", handle))
    call = add.on(adopted)
    driver = device.driver
    a, c = adopted.from_numpy(np.ones(64, "float32")), adopted.zeros(64, "float32")
    call(a, a, c, 64, grid=1, block=64)
    launch = add.bind(a, c, c, 64, grid=1, block=64)
    before = waits(vendor)
    with device.context:
        driver.call("fill", c.address, 0, 256, handle)
    launch()
    call(a, c, c, 64, grid=1, block=64)
    with device.context:
        driver.call("copy_on_device", a.address, c.address, 256, handle)
    call(a, c, c, 64, grid=1, block=64)
    assert waits(vendor) == before
    with adopted.default_stream.batch():
        for _ in range(3):
            call(c, a, c, 64, grid=1, block=64)
    assert c.numpy().tolist() == [10] * 64
    host = np.full(64, 2, "float32")
    call(host, host, host, 64, grid=1, block=64)
    assert host.tolist() == [4] * 64


@pytest.mark.each_driver
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_an_array_whose_library_works_in_the_stream(
    device: Any,
    add: Any,
    b: Any,
    c: Any,
    handle: int,
    library: str,
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is used where it is, and nothing waits. The function may have no device."""
    stream = vendor.foreign_stream(library, handle)
    for name in ("current_stream", "get_current_stream"):
        cuda: Any = getattr(sys.modules[library], "cuda", SimpleNamespace())
        monkeypatch.setattr(cuda, name, lambda index: stream, raising=False)
        monkeypatch.setattr(sys.modules[library], "cuda", cuda, raising=False)
    adopted = devmod.device(stream)
    tensors = [of_library(Tensor, library, each) for each in (b, c)]
    _kept = collect_exports(device)
    copies = [vendor.calls(f"copy_{each}") for each in ("to_device", "to_host", "on_device")]
    before = waits(vendor)
    for call in (add.on(adopted), add):
        call(tensors[0], tensors[1], tensors[1], 64, grid=1, block=64)
        call(tensors[0], tensors[1], tensors[1], 64, grid=1, block=64, stream=stream)
    assert waits(vendor) == before
    after = [vendor.calls(f"copy_{each}") for each in ("to_device", "to_host", "on_device")]
    assert after == copies
    assert vendor.adopt_array(tensors[0])[1] is adopted.default_stream
    device.synchronize()
    assert c.numpy().tolist() == [4] * 64


@pytest.mark.each_driver
def test_arrays_and_streams_of_the_listed_device(
    device: Any, add: Any, b: Any, c: Any, handle: int, vendor: Vendor
) -> None:
    """They are of the same context."""
    adopted: Any = devmod.device(vendor.foreign_stream("own", handle))
    a = adopted.zeros(64, "float32")
    with device.stream() as stream:
        add.on(adopted)(a, b, c, 64, grid=1, block=64)
        adopted.default_stream.synchronize()
        add.on(adopted)(a, b, c, 64, grid=1, block=64, stream=stream)
    add(b, c, c, 64, grid=1, block=64)
    device.synchronize()
    assert c.numpy().tolist() == [2] * 64
    a.copy_from(c)
    assert a.numpy().tolist() == [2] * 64
    event = adopted.default_stream.record()
    device.default_stream.wait(event)


@pytest.mark.each_driver
def test_a_library_without_a_current_stream_works_before_the_launch(
    device: Any, add: Any, b: Any, c: Any, handle: int, vendor: Vendor
) -> None:
    """Its work is ordered before the default stream, and that before the caller's one."""
    adopted = devmod.device(vendor.foreign_stream("own", handle))
    tensor = Tensor(b)
    add.on(adopted)(tensor, c, c, 64, grid=1, block=64)
    adopted.default_stream.synchronize()
    _kept = collect_exports(device)
    with device.context:
        device.driver.call("fill", b.address, 0, 256, vendor.legacy_stream)
    before = waits(vendor)
    add.on(adopted)(tensor, c, c, 64, grid=1, block=64)
    assert tensor.streams == [vendor.legacy_stream] * 2
    assert waits(vendor) == before
    adopted.default_stream.synchronize()
    assert c.numpy().tolist() == [1] * 64


@pytest.mark.each_driver
def test_the_device_holds_the_stream_and_nothing_else_does(
    device: Any, add: Any, b: Any, handle: int, vendor: Vendor, standin: StandinDriver
) -> None:
    stream = vendor.foreign_stream("own", handle)
    adopted: Any = devmod.device(stream)
    a = adopted.zeros(64, "float32")
    add(a, a, a, 64, grid=1, block=64)
    add.on(adopted)(a, a, a, 64, grid=1, block=64)
    references: list[weakref.ref[Any]] = [
        weakref.ref(each) for each in (stream, adopted, adopted.default_stream)
    ]
    del stream
    gc.collect()
    assert all(each() is not None for each in references)
    streams = standin.report["streams"]
    del adopted, a
    gc.collect()
    assert [each() for each in references] == [None, None, None]
    assert standin.report["streams"] == streams  # it is not destroyed
    new = devmod.device(vendor.foreign_stream("own", handle))
    add.on(new)(b, b, b, 64, grid=1, block=64)
    new.synchronize()
    assert b.numpy().tolist() == [2] * 64


def test_a_stream_handle_that_is_used_again(
    device: Any, handle: int, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver numbers the streams."""
    numbers = [1]
    monkeypatch.setattr(device.driver, "stream_id", lambda stream: numbers[0])
    first, second = (vendor.foreign_stream("own", handle) for _ in range(2))
    adopted, stream = devmod.device(first), vendor.adopt_stream(first)
    assert (devmod.device(second), vendor.adopt_stream(second)) == (adopted, stream)
    assert stream.last_owner is second
    numbers[0] = 2
    again: Any = devmod.device(second)
    assert again is not adopted
    assert again.default_stream is vendor.adopt_stream(second) is not stream
    assert again.default_stream.owner is second


def test_an_error_of_the_driver(
    device: Any, handle: int, vendor: Vendor, standin: StandinDriver
) -> None:
    stream = vendor.foreign_stream("own", handle)
    function = {"cuda": "cuStreamGetId", "rocm": "hipStreamGetId"}[vendor.kind]
    standin.set("fail", f"{function}=1")
    text = refusal(devmod.LaunchError, devmod.device, stream)
    assert (
        text == f"{device} cannot use a stream of another library: {vendor.error('invalid value')}"
    )
    vendor.succeed()
    assert devmod.device(stream).kind == vendor.kind


@pytest.mark.each_driver
@pytest.mark.parametrize("has_device", [False, True])
@pytest.mark.parametrize("state", ["open", "closed", "left", "closed and left"])
def test_memory_is_freed_after_the_work_in_a_stream_of_the_caller(
    state: str, has_device: bool, device: Any, add: Any, vendor: Vendor, standin: StandinDriver
) -> None:
    """The stand-in CUDA driver frees memory at once, and a kernel that uses it later fails. A
    stream that is destroyed completes its work.
    """
    driver = device.driver
    with device.context:
        handle = driver.call("create_stream", 1)
    stream = vendor.foreign_stream("own", handle)
    stream.is_closed = False

    def close() -> None:
        stream.is_closed = True
        with device.context:
            driver.call("destroy_stream", handle)

    call = add.on(devmod.device(stream) if has_device else device)
    x, y = device.from_numpy(np.ones(64, "float32")), device.zeros(64, "float32")
    out = device.zeros(64, "float32")
    gc.collect()  # the modules of earlier tests: an unload waits
    # Unlike a call, a prepared launch leaves no reference to the stream in the function.
    launch = None
    if "left" in state:
        launch = call.bind(x, x, y, 64, grid=1, block=64, stream=stream)
        launch()
    else:
        call(x, x, y, 64, grid=1, block=64, stream=stream)
    with device.context:
        driver.call("copy_on_device", out.address, y.address, 256, handle)
    if "closed" in state:
        close()
    if "left" in state:
        del launch, call
        gc.collect()
    if state == "left":
        close()
    del x, y
    gc.collect()
    if state == "open":
        close()
    device.synchronize()
    assert out.numpy().tolist() == [2] * 64


@pytest.mark.each_driver
def test_memory_is_freed_while_another_thread_uses_new_streams(
    device: Any, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may run between any two lines of a free, here of Python's `weakref`."""
    faults: list[str] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda details: faults.append(repr(details.exc_value))
    )
    with device.context:
        handles = [device.driver.call("create_stream", 1) for _ in range(40)]
    unused = [*handles]
    streams = [vendor.adopt_stream(vendor.foreign_stream("torch", unused.pop())) for _ in range(3)]

    def run_another_thread(frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename != weakref.__file__:
            return None
        if event == "line" and unused:
            stream = vendor.foreign_stream("torch", unused.pop())
            streams.append(vendor.adopt_stream(stream))
        return run_another_thread

    array = [device.empty(64, "float32")]
    gc.collect()  # devices of other tests over streams
    before = sys.gettrace()
    sys.settrace(run_another_thread)
    try:
        array.clear()
        device.share(None)
        assert not device.has_queues
    finally:
        sys.settrace(before)
    assert faults == []
    streams.clear()
    with device.context:
        for each in handles:
            device.driver.call("destroy_stream", each)


@pytest.mark.each_driver
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_program_that_frees_nothing_leaves_streams(
    is_closed: bool, device: Any, add: Any, vendor: Vendor
) -> None:
    """The ends of their work are forgotten when they are complete."""
    x, y = device.zeros(64, "float32"), device.zeros(64, "float32")
    gc.collect()
    events = len(device.context.events)
    ends = device.context._ends
    for _ in range(50):
        with device.context:
            handle = device.driver.call("create_stream", 1)
        stream = vendor.foreign_stream("torch", handle)
        launch = add.bind(x, x, y, 64, grid=1, block=64, stream=stream)
        launch()
        stream.is_closed = is_closed
        del launch, stream
        gc.collect()
        with device.context:
            device.driver.call("synchronize_stream", handle)
            device.driver.call("destroy_stream", handle)
    assert len(ends) <= 2
    assert len(device.context.events) <= events + 2
    waits_before = vendor.calls("synchronize_context")
    del x
    assert vendor.calls("synchronize_context") == waits_before + is_closed
    assert not ends


@pytest.mark.each_driver
def test_a_driver_without_numbers_uses_a_handle_again(
    device: Any, add: Any, handle: int, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work in the first stream of the handle may go on after that in the second one."""
    driver = device.driver
    monkeypatch.setattr(type(driver), "stream_id", lambda self, stream: 0)
    monkeypatch.setattr(type(driver), "is_done", lambda self, query, handle: False)
    x, y = device.zeros(64, "float32"), device.zeros(64, "float32")
    for _ in range(2):
        stream = vendor.foreign_stream("torch", handle)
        launch = add.bind(x, x, y, 64, grid=1, block=64, stream=stream)
        launch()
        del launch, stream
        gc.collect()
    before = vendor.calls("synchronize_event")
    del x
    assert vendor.calls("synchronize_event") == before + 2


@pytest.mark.each_driver
def test_the_current_stream_of_pytorch_may_be_an_external_one(
    device: Any, add: Any, vendor: Vendor
) -> None:
    """Its owner may destroy it while the Stream lives, and a driver may end the process for its
    handle. The stand-in reports a use of it.
    """
    driver = device.driver
    with device.context:
        handle = driver.call("create_stream", 1)
    stream = vendor.foreign_stream("torch", handle, stream_id=handle)
    x, y = device.zeros(64, "float32"), device.zeros(64, "float32")
    add(x, x, y, 64, grid=1, block=64, stream=stream)
    with device.context:
        driver.call("synchronize_stream", handle)
        driver.call("destroy_stream", handle)
    del x
    gc.collect()
    add(y, y, y, 64, grid=1, block=64)  # the function leaves the stream
    del stream
    gc.collect()
