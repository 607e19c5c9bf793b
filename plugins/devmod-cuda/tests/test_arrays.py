"""Arrays on CUDA devices: copies, views, too little memory, and memory that is freed with its arrays."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from cuda_kernels import adder
from standin_cuda import Standin, on_hardware

import devmod
from devmod_conformance.array_checks import check_copies, check_memory_error, check_new_arrays, check_views
from devmod_conformance.checks import run_in_threads


@pytest.fixture
def add(device: Any) -> Any:
    return adder()["add"]


def test_copies(device: Any, add: Any) -> None:
    check_copies(device, add, grid=1, block=64)


def test_views(device: Any, add: Any) -> None:
    check_views(device, add, grid=1, block=64)


def test_new_arrays_are_complete_for_every_stream(device: Any) -> None:
    twice, x = adder()["twice"], device.zeros(1 << 16, "float32")
    check_new_arrays(device, lambda: twice(x, grid=1 << 8, block=256))


def test_large_copies_that_do_not_wait(device: Any) -> None:
    # Larger than the page-locked pieces of a copy in flight.
    host = np.random.default_rng(0).random(5 << 20)
    stream, back = device.stream(), np.empty_like(host)
    array = device.empty(host.shape, "float64")
    array.copy_from(host, stream=stream, wait=False)
    event = array.copy_to(back, stream=stream, wait=False)
    event.synchronize()
    np.testing.assert_array_equal(back, host)
    device.synchronize()
    assert len(device.transfers) == 0


@pytest.mark.parametrize("size", [16, 1 << 20])
def test_a_started_copy_to_the_device_keeps_the_host_array(device: Any, size: int) -> None:
    target, stream = device.zeros(size, "float32"), device.stream()
    done = target.copy_from(np.ones(size, "float32"), stream=stream, wait=False)
    gc.collect()
    others = [np.full(size, 7, "float32") for _ in range(4)]  # may have the memory of the freed array
    done.synchronize()
    assert (target.numpy() == 1).all()
    assert others[0][0] == 7


def test_a_started_copy_to_the_host_ends_in_any_wait(device: Any) -> None:
    source, stream = device.from_numpy(np.arange(1 << 10)), device.stream()

    def wait_for_later_event() -> None:
        stream.record().synchronize()

    def wait_for_another_stream() -> None:
        other = device.stream()
        other.wait(stream.record())
        other.synchronize()

    for wait in (stream.synchronize, device.synchronize, wait_for_later_event, wait_for_another_stream):
        back = np.zeros(1 << 10, np.int64)
        source.copy_to(back, stream=stream, wait=False)
        wait()
        np.testing.assert_array_equal(back, np.arange(1 << 10))


def test_page_locked_host_memory_is_not_copied_twice(device: Any, standin: Standin) -> None:
    driver, count = device.driver, 1 << 18
    with device.context:
        address = driver.allocate_host(4 * count)
    try:
        import ctypes

        host = np.frombuffer((ctypes.c_char * (4 * count)).from_address(address), "float32")
        host[:] = np.arange(count)
        array, back = device.empty(count, "float32"), np.empty(count, "float32")
        device.transfers.release()
        pieces = standin.calls("cuMemHostAlloc")
        standin.set("fail", "cuEventQuery=600")  # CUDA_ERROR_NOT_READY
        event = array.copy_from(host, wait=False)
        assert len(device.transfers) == 1  # keeps the host array
        standin.set("fail", None)
        event.synchronize()
        assert len(device.transfers) == 0
        host[:] = 0
        array.copy_to(host, wait=False).synchronize()
        np.testing.assert_array_equal(host, np.arange(count))
        assert standin.calls("cuMemHostAlloc") == pieces
        array.copy_to(back, wait=False).synchronize()
        np.testing.assert_array_equal(back, host)
    finally:
        with device.context:
            driver.free_host(address)


@pytest.mark.parametrize(("nbytes", "most"), [(1 << 10, 32), (1 << 20, 8)])
def test_the_page_locked_memory_of_copies_in_flight_is_bounded(device: Any, standin: Standin, nbytes: int, most: int) -> None:
    source, stream = device.from_numpy(np.arange(nbytes, dtype="uint8")), device.stream()
    device.synchronize()
    device.transfers.release()
    gc.collect()
    before = standin.report.get("host-blocks", 0)
    results = [np.zeros(nbytes, "uint8") for _ in range(40)]
    standin.set("fail", "cuEventQuery=600")  # CUDA_ERROR_NOT_READY
    for back in results:
        source.copy_to(back, stream=stream, wait=False)
    assert standin.report["host-blocks"] - before == most
    assert len(device.transfers) == most
    standin.set("fail", None)
    stream.synchronize()
    for back in results:
        np.testing.assert_array_equal(back, np.arange(nbytes, dtype="uint8"))


def test_memory_is_freed_with_its_arrays(device: Any) -> None:
    device.empty(1, "uint8")
    gc.collect()
    count = len(device.context.memory)
    root = device.zeros(1 << 10, "float32")
    view = root[16:32]
    capsule = root.__dlpack__()
    assert len(device.context.memory) == count + 1
    del root
    gc.collect()
    assert len(device.context.memory) == count + 1
    assert view.numpy().tolist() == [0] * 16
    del view
    assert len(device.context.memory) == count + 1
    del capsule
    device.zeros(1, "uint8").__dlpack__()  # core frees unused capsules with the next one
    gc.collect()
    assert len(device.context.memory) <= count + 1


def test_memory_is_freed_in_whatever_thread_collects_it(device: Any, standin: Standin) -> None:
    gc.collect()
    count, blocks = len(device.context.memory), standin.report
    arrays = [device.zeros(64, "float32") for _ in range(16)]

    def drop() -> None:
        while arrays:
            try:
                arrays.pop()
            except IndexError:
                return

    run_in_threads(lambda _: drop(), range(4))
    assert len(device.context.memory) == count
    assert standin.report == blocks


def test_arrays_in_threads_without_a_context(device: Any, add: Any) -> None:
    a, b = device.from_numpy(np.arange(64, dtype="float32")), device.from_numpy(np.ones(64, "float32"))
    c = device.zeros(64, "float32")
    launch = add.bind(a, b, c, 64, grid=1, block=64)
    launch()

    def work(number: int) -> Any:
        for _ in range(5):
            launch()
            mine = device.zeros(64, "float32")
            add(a, c, mine, 64, grid=1, block=64)
        return mine.numpy()

    for result in run_in_threads(work, range(4)):
        np.testing.assert_array_equal(result, 2 * np.arange(64) + 1)


def test_the_threads_context_is_the_same_afterwards(device: Any, add: Any) -> None:
    driver = device.driver
    current: list[int] = []

    def work() -> None:
        a = device.zeros(64, "float32")
        a.numpy()
        current.append(driver.current_context())
        add.bind(a, a, a, 64, grid=1, block=64)()
        current.append(driver.current_context())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    # A launch leaves the context current in a thread that had none: the next launch succeeds at once.
    assert current == [0, device.context.handle]


def test_a_module_is_unloaded_after_its_launches(device: Any, standin: Standin) -> None:
    twice, x, stream = adder()["twice"], device.from_numpy(np.ones(64, "float32")), device.stream()
    twice(x, grid=1, block=64, stream=stream)
    waits, unloads = standin.calls("cuCtxSynchronize"), standin.calls("cuModuleUnload")
    del twice
    gc.collect()
    assert (standin.calls("cuCtxSynchronize"), standin.calls("cuModuleUnload")) == (waits + 1, unloads + 1)
    assert x.numpy().tolist() == [2] * 64


# -- memory


def test_an_array_larger_than_the_memory(device: Any, add: Any) -> None:
    reason = "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
    check_memory_error(device, add, device.memory + 1, reason, grid=1, block=64)


def test_a_full_device_loses_nothing(device: Any, add: Any) -> None:
    if on_hardware():
        pytest.skip("another process may use the memory of the hardware")
    host = np.arange(64, dtype="float32")
    a, b, c = device.from_numpy(host), device.from_numpy(host), device.zeros(64, "float32")
    many: list[Any] = []

    def fill() -> None:
        while True:
            many.append(device.empty(device.memory // 8, "uint8"))

    with pytest.raises(devmod.DeviceMemoryError) as caught:
        fill()
    free = device.free_memory()
    assert str(caught.value) == (
        f"{device} cannot allocate {device.memory // 8} bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory); {free} bytes are free of "
        f"{device.memory}"
    )
    add(a, b, c, 64, grid=1, block=64)
    np.testing.assert_array_equal(c.numpy(), 2 * host)
    many.clear()
    del caught
    device.empty(device.memory // 8, "uint8")


def test_too_little_page_locked_memory_copies_without_it(device: Any, standin: Standin) -> None:
    host, back = np.arange(1 << 18, dtype="float32"), np.zeros(1 << 18, "float32")
    array, stream = device.empty(host.shape, "float32"), device.stream()
    standin.set("fail", "cuMemHostAlloc=2")
    device.transfers.release()
    array.copy_from(host, stream=stream, wait=False).synchronize()
    array.copy_to(back, stream=stream, wait=False).synchronize()
    np.testing.assert_array_equal(back, host)


@pytest.mark.parametrize("call", ["cuMemAlloc", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemsetD8Async"])
def test_an_error_of_a_copy(device: Any, standin: Standin, call: str) -> None:
    a, b, host = device.zeros(64, "float32"), device.zeros(64, "float32"), np.zeros(64, "float32")
    work, what = {
        "cuMemAlloc": (lambda: device.empty(64, "float32"), f"{device} cannot allocate 256 bytes"),
        "cuMemcpyHtoDAsync": (lambda: a.copy_from(host), f"a copy of 256 bytes to {device} failed"),
        "cuMemcpyDtoHAsync": (a.numpy, f"a copy of 256 bytes from {device} failed"),
        "cuMemcpyDtoDAsync": (lambda: a.copy_from(b), f"a copy of 256 bytes on {device} failed"),
        "cuMemsetD8Async": (lambda: device.zeros(64, "float32"), f"{device} cannot fill 256 bytes"),
    }[call]
    standin.set("fail", f"{call}=1")
    with pytest.raises(devmod.LaunchError) as caught:
        work()
    assert str(caught.value) == f"{what}: CUDA_ERROR_INVALID_VALUE (invalid value)"
    standin.set("fail", None)
    work()
