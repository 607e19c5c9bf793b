"""Arrays on devices, for each vendor: copies, views, too little memory, and memory that is freed
with its arrays.
"""

from __future__ import annotations

import gc
import mmap
import threading
from typing import Any

import numpy as np
import pytest
from backend_checks import check_memory_error, check_new_arrays, release_copies, run_in_threads
from each_case import refusal
from vendor import Vendor

import devmod
from devmod._arrays.empty import page_lockers
from devmod.plugins import find
from devmod_conformance import run
from devmod_simulators import StandinDriver


@pytest.mark.each_driver
@pytest.mark.row("R37")
def test_copies_and_views(device: Any, vendor: Vendor, executes: None) -> None:
    results = run(find("devmod.conformance", vendor.kind)(), ("R37-copies", "R37-views"))
    assert [(result.outcome, result.reason) for result in results] == [("passed", "")] * 2


def test_new_arrays_are_complete_for_every_stream(device: Any, vendor: Vendor) -> None:
    twice, x = vendor.kernels()["twice"], device.zeros(1 << 12, "float32")
    check_new_arrays(device, lambda: twice(x, grid=16, block=256))


@pytest.mark.volume_but("cuda-ctypes")
@pytest.mark.each_driver
def test_large_copies_that_do_not_wait(device: Any) -> None:
    # Larger than the page-locked pieces of a copy in flight.
    host = np.random.default_rng(0).random(5 << 20)
    stream, back = device.stream(), np.empty_like(host)
    array = device.empty(host.shape, "float64")
    array.copy_from(host, stream=stream, wait=False)
    array.copy_to(back, stream=stream, wait=False).synchronize()
    np.testing.assert_array_equal(back, host)
    device.synchronize()
    assert len(device.transfers.pending) == 0


@pytest.mark.parametrize("size", [16, 1 << 20])
def test_a_started_copy_to_the_device_keeps_the_host_array(
    device: Any, size: int, vendor: Vendor
) -> None:
    target, stream = device.zeros(size, "float32"), device.stream()
    done = target.copy_from(np.ones(size, "float32"), stream=stream, wait=False)
    gc.collect()
    others = [
        np.full(size, 7, "float32") for _ in range(4)
    ]  # may have the memory of the freed array
    if 4 * size > vendor.pageable_bytes and not vendor.on_hardware():
        assert len(device.transfers.pending) > 0
    done.synchronize()
    assert (target.numpy() == 1).all()
    assert others[0][0] == 7


@pytest.mark.parametrize("nbytes", [64, 5 << 20])
def test_a_started_copy_without_page_locked_memory_is_done_when_it_returns(
    device: Any, nbytes: int, standin: StandinDriver, vendor: Vendor
) -> None:
    """Nothing keeps the host array alive then, so its memory may be used for something else."""
    target, stream = device.zeros(nbytes, "uint8"), device.stream()
    device.synchronize()
    release_copies(device)
    gc.collect()
    standin.set("stages_pageable", 0)  # with CUDA, a copy reads the host's memory when it runs
    vendor.fail("allocate_host", 2)  # out of memory
    host, back = np.ones(nbytes, "uint8"), np.zeros(nbytes, "uint8")
    target.copy_from(host, stream=stream, wait=False)
    host[:] = 7
    target.copy_to(back, stream=stream, wait=False)
    assert (back == 1).all()
    vendor.succeed()
    assert (target.numpy() == 1).all()


def test_a_started_copy_to_the_host_ends_in_any_wait(device: Any) -> None:
    source, stream = device.from_numpy(np.arange(1 << 10)), device.stream()

    def wait_for_later_event() -> None:
        stream.record().synchronize()

    def wait_for_another_stream() -> None:
        other = device.stream()
        other.wait(stream.record())
        other.synchronize()

    for wait in (
        stream.synchronize,
        device.synchronize,
        wait_for_later_event,
        wait_for_another_stream,
    ):
        back = np.zeros(1 << 10, np.int64)
        source.copy_to(back, stream=stream, wait=False)
        wait()
        np.testing.assert_array_equal(back, np.arange(1 << 10))


def test_page_locked_host_memory_is_not_copied_twice(
    device: Any, standin: StandinDriver, vendor: Vendor
) -> None:
    """Where the driver is open, `devmod.empty` returns such memory."""
    count = 1 << 18
    array, back = device.empty(count, "float32"), np.empty(count, "float32")
    page_lockers.sort(
        key=lambda each: each() is not device.context
    )  # other tests have opened other drivers
    host = devmod.empty(count, "float32")
    # Some drivers begin such memory within a page.
    assert all(
        devmod.empty(number, "float32").ctypes.data % mmap.PAGESIZE == 0
        for number in (1, count, count + 1)
    )
    host[:] = np.arange(count)
    release_copies(device)
    pieces = vendor.calls("allocate_host")
    vendor.fail("is_event_done", 600)  # not ready
    event = array.copy_from(host, wait=False)
    assert len(device.transfers.pending) == 1  # keeps the host array
    vendor.succeed()
    event.synchronize()
    assert len(device.transfers.pending) == 0
    host[:] = 0
    array.copy_to(host, wait=False).synchronize()
    np.testing.assert_array_equal(host, np.arange(count))
    assert vendor.calls("allocate_host") == pieces
    array.copy_to(back, wait=False).synchronize()
    np.testing.assert_array_equal(back, host)
    handles = len(device.context.host_memory)
    del host
    gc.collect()
    assert len(device.context.host_memory) < handles
    vendor.fail("allocate_host", 2)  # out of memory
    array.copy_to(plain := devmod.empty(count, "float32"))
    np.testing.assert_array_equal(plain, back)


@pytest.mark.parametrize(("nbytes", "most"), [(1 << 10, 32), (1 << 20, 8)])
def test_the_page_locked_memory_of_copies_in_flight_is_bounded(
    device: Any, standin: StandinDriver, nbytes: int, most: int, vendor: Vendor
) -> None:
    source, stream = device.from_numpy(np.arange(nbytes, dtype="uint8")), device.stream()
    device.synchronize()
    release_copies(device)
    gc.collect()
    before = standin.report.get("host-blocks", 0)
    results = [np.zeros(nbytes, "uint8") for _ in range(40)]
    vendor.fail("is_event_done", 600)  # not ready
    for back in results:
        source.copy_to(back, stream=stream, wait=False)
    assert standin.report["host-blocks"] - before == most
    assert len(device.transfers.pending) == most
    vendor.succeed()
    stream.synchronize()
    for back in results:
        np.testing.assert_array_equal(back, np.arange(nbytes, dtype="uint8"))


def test_memory_is_freed_with_its_arrays(device: Any) -> None:
    root = device.zeros(1 << 10, "float32")
    view = root[16:32]
    capsule = root.__dlpack__()  # it frees the capsules that other tests have left
    gc.collect()
    count = len(device.context.memory)
    del root
    gc.collect()
    assert len(device.context.memory) == count
    assert view.numpy().tolist() == [0] * 16
    del view
    assert len(device.context.memory) == count
    del capsule
    device.zeros(
        1, "uint8"
    ).__dlpack__()  # it frees the capsule above, and stays until the next one
    gc.collect()
    assert len(device.context.memory) == count


@pytest.mark.each_driver
def test_memory_is_freed_in_whatever_thread_collects_it(
    device: Any, standin: StandinDriver
) -> None:
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


@pytest.mark.each_driver
def test_arrays_in_threads_without_a_context(device: Any, add: Any) -> None:
    a, b = (
        device.from_numpy(np.arange(64, dtype="float32")),
        device.from_numpy(np.ones(64, "float32")),
    )
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


@pytest.mark.each_driver
def test_the_threads_context_is_the_same_afterwards(device: Any, add: Any) -> None:
    driver = device.driver
    current: list[int] = []

    def work() -> None:
        a = device.zeros(64, "float32")
        a.numpy()
        current.append(driver.call("current_context"))
        add.bind(a, a, a, 64, grid=1, block=64)()
        current.append(driver.call("current_context"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    # A launch leaves the context current in a thread that had none: the next launch succeeds at
    # once.
    assert current == [0, device.context.handle]


@pytest.mark.each_driver
def test_a_module_is_unloaded_after_its_launches(
    device: Any, standin: StandinDriver, vendor: Vendor
) -> None:
    twice, x, stream = (
        vendor.kernels()["twice"],
        device.from_numpy(np.ones(64, "float32")),
        device.stream(),
    )
    twice(x, grid=1, block=64, stream=stream)
    gc.collect()  # modules of other tests
    waits, unloads = vendor.calls("synchronize_context"), vendor.calls("unload_module")
    del twice
    gc.collect()
    # A wait for the context would end the capture of any stream.
    assert (vendor.calls("synchronize_context"), vendor.calls("unload_module")) == (
        waits,
        unloads + 1,
    )
    assert x.numpy().tolist() == [2] * 64


# -- memory


def test_an_array_larger_than_the_memory(device: Any, vendor: Vendor) -> None:
    check_memory_error(device, device.memory + 1, vendor.error("out of memory"))


def test_a_full_device_loses_nothing(device: Any, add: Any, vendor: Vendor) -> None:
    if vendor.on_hardware():
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
        f"{device} cannot allocate {device.memory // 8} bytes: {vendor.error('out of memory')}; {free} bytes are free of {device.memory}"
    )
    add(a, b, c, 64, grid=1, block=64)
    np.testing.assert_array_equal(c.numpy(), 2 * host)
    many.clear()
    del caught
    device.empty(device.memory // 8, "uint8")


def test_the_piece_of_a_copy_whose_event_fails_is_used_again_when_it_is_done(
    device: Any, vendor: Vendor
) -> None:
    source, target = (
        device.from_numpy(np.arange(1 << 10, dtype="uint8")),
        device.zeros(1 << 10, "uint8"),
    )
    first, second = device.stream(), device.stream()
    device.synchronize()
    release_copies(device)
    gc.collect()
    host, backs = np.full(1 << 10, 7, "uint8"), [np.zeros(1 << 10, "uint8") for _ in range(32)]
    vendor.fail("create_event", 2)
    for back in backs:  # as many as may be in flight
        with pytest.raises(devmod.LaunchError):
            source.copy_to(back, stream=first, wait=False)
    vendor.succeed()
    target.copy_from(host, stream=second, wait=False)
    first.synchronize()  # writes the pieces of its copies
    second.synchronize()
    np.testing.assert_array_equal(target.numpy(), host)
    vendor.fail("is_event_done", 600)  # not ready
    for back in backs:  # each of these waits for a copy without an event
        source.copy_to(back, stream=first, wait=False)
    vendor.succeed()
    first.synchronize()
    assert len(device.transfers.pending) == 0


def test_the_piece_of_a_finished_copy_is_used_again(device: Any, standin: StandinDriver) -> None:
    source, stream = device.from_numpy(np.arange(1 << 10, dtype="uint8")), device.stream()
    device.synchronize()
    release_copies(device)
    gc.collect()
    before = standin.report.get("host-blocks", 0)
    results = [np.zeros(1 << 10, "uint8") for _ in range(30)]
    for back in results:  # each asks whether the earlier copies are done
        source.copy_to(back, stream=stream, wait=False)
    assert standin.report["host-blocks"] - before < len(results)
    stream.synchronize()
    for back in results:
        np.testing.assert_array_equal(back, source.numpy())


def test_too_little_page_locked_memory_copies_without_it(
    device: Any, standin: StandinDriver, vendor: Vendor
) -> None:
    host, back = np.arange(1 << 18, dtype="float32"), np.zeros(1 << 18, "float32")
    array, stream = device.empty(host.shape, "float32"), device.stream()
    vendor.fail("allocate_host", 2)
    release_copies(device)
    array.copy_from(host, stream=stream, wait=False).synchronize()
    array.copy_to(back, stream=stream, wait=False).synchronize()
    np.testing.assert_array_equal(back, host)


@pytest.mark.parametrize(
    "operation", ["allocate", "copy_to_device", "copy_to_host", "copy_on_device", "fill"]
)
def test_an_error_of_a_copy(
    device: Any, vendor: Vendor, standin: StandinDriver, operation: str
) -> None:
    a, b, host = device.zeros(64, "float32"), device.zeros(64, "float32"), np.zeros(64, "float32")
    work, what = {
        "allocate": (lambda: device.empty(64, "float32"), f"{device} cannot allocate 256 bytes"),
        "copy_to_device": (lambda: a.copy_from(host), f"a copy of 256 bytes to {device} failed"),
        "copy_to_host": (a.numpy, f"a copy of 256 bytes from {device} failed"),
        "copy_on_device": (lambda: a.copy_from(b), f"a copy of 256 bytes on {device} failed"),
        "fill": (lambda: device.zeros(64, "float32"), f"{device} cannot fill 256 bytes"),
    }[operation]
    vendor.fail(operation, 1)
    assert refusal(devmod.LaunchError, work) == f"{what}: {vendor.error('invalid value')}"
    vendor.succeed()
    work()
