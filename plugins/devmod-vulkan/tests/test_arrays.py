"""Arrays on Vulkan devices: copies, views, and too little memory."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import check_memory_error, check_new_arrays, run_in_threads, run_python
from each_case import raised
from vulkan_kernels import SLOW, is_done, kernel

import devmod


def test_new_arrays_are_complete_for_every_stream(device: Any) -> None:
    slow, x = kernel(SLOW), device.zeros(8, "uint32")
    check_new_arrays(device, lambda: slow(x, 60_000, grid=8))


STAGED = """
import devmod
from vulkan_kernels import SLOW, is_done, kernel
import numpy as np
from backend_checks import check_new_arrays
from devmod_conformance import run
from devmod_vulkan._conformance import VulkanConformance
device = devmod.device("vulkan")
device.physical.shares_memory = False
assert not device.logical.direct
for result in run(VulkanConformance(), ("R37-copies", "R37-views")):
    assert result.outcome == "passed", result
slow, x = kernel(SLOW), device.zeros(8, "uint32")
check_new_arrays(device, lambda: slow(x, 2_000_000, grid=8))
# Streams of a device with one queue need no wait for the content of a new array; those of other devices do.
for make in (lambda: device.zeros(8, "uint32"), lambda: device.from_numpy(np.ones(8, "uint32"))):
    slow(x, 60_000, grid=8)
    event = device.default_stream.record()
    make()
    assert is_done(event)
print("done")
"""


def test_a_device_with_memory_of_its_own(device: Any, add: Any) -> None:
    assert run_python(STAGED, PYTHONPATH=str(Path(__file__).parent)) == "done\n"


@pytest.mark.parametrize("waiter", ["event", "stream", "device", "several threads"])
def test_a_started_read_is_done_when_it_is_waited_for(waiter: str, device: Any) -> None:
    slow, x = kernel(SLOW), device.from_numpy(np.ones(1 << 20, "uint32"))
    stream = device.stream()
    slow(x, 60_000, grid=8, stream=stream)
    host = np.zeros(1 << 20, "uint32")
    event = x.copy_to(host, stream=stream, wait=False)
    assert host[-1] == 0  # the host copies when it waits
    if waiter == "event":
        event.synchronize()
    elif waiter == "stream":
        stream.synchronize()
    elif waiter == "device":
        device.synchronize()
    else:
        assert (
            run_in_threads(
                lambda wait: (wait(), int(host[-1]))[1],
                [event.synchronize] * 4 + [stream.synchronize] * 4,
            )
            == [1] * 8
        )
    np.testing.assert_array_equal(host, x.numpy())


def test_a_started_read_is_done_though_its_stream_is_deleted(device: Any) -> None:
    x, host, stream = (
        device.from_numpy(np.ones(64, "float32")),
        np.zeros(64, "float32"),
        device.stream(),
    )
    later = device.stream()  # the device is synchronized in the order of its streams
    kernel(SLOW)(device.zeros(256, "uint32"), 60_000, grid=256, stream=later)
    stream.wait(later.record())
    x.copy_to(host, stream=stream, wait=False)
    deleted = weakref.ref(stream)
    del stream
    gc.collect()
    assert deleted() is None
    device.synchronize()
    assert host.sum() == 64


def test_a_queued_launch_keeps_the_memory_of_a_view(device: Any) -> None:
    slow, size = kernel(SLOW), 1 << 16
    for _ in range(3):
        x = device.from_numpy(np.ones(size, "uint32"))
        slow(x[1024:2048], 60_000, grid=256)
        del x
        y = device.from_numpy(np.zeros(size, "uint32"))  # at the same place, if the memory is free
        device.synchronize()
        assert not y.numpy().any()


def test_a_copy_to_an_array_waits_for_launches_on_its_views(device: Any) -> None:
    slow, size = kernel(SLOW), 1 << 16
    for _ in range(5):
        x = device.from_numpy(np.ones(size, "uint32"))
        slow(x[1024:2048], 60_000, grid=64)
        x.copy_from(np.zeros(size, "uint32"))
        device.synchronize()
        assert not x.numpy().any()


def test_an_interrupted_wait_leaves_the_read_to_the_next(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_vulkan._device import Download

    x, host, stream = (
        device.from_numpy(np.ones(64, "float32")),
        np.zeros(64, "float32"),
        device.stream(),
    )
    event = x.copy_to(host, stream=stream, wait=False)
    with monkeypatch.context() as patch:
        patch.setattr(Download, "finish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            event.synchronize()
    event.synchronize()
    assert host.sum() == 64
    assert stream._downloads == {}


def test_a_large_read_and_write_in_pieces(device: Any) -> None:
    host = np.arange(5 << 20, dtype="float32")
    x, y, back = (
        device.empty(host.shape, "float32"),
        device.zeros(host.shape, "float32"),
        np.zeros_like(host),
    )
    y.copy_from(x, wait=False)  # x counts as used now, so its next copy is staged
    x.copy_from(host, wait=False)
    y.copy_from(x, wait=False)
    y.copy_to(back, wait=False)
    device.synchronize()
    np.testing.assert_array_equal(back, host)


def test_a_started_copy_uses_a_limited_amount_of_staging_memory(device: Any) -> None:
    slow, size, stream = kernel(SLOW), 64 << 20, device.stream()
    x, host, busy = device.zeros(size, "uint8"), np.ones(size, "uint8"), device.zeros(8, "uint32")
    slow(busy, 1, grid=8, stream=stream)

    def used() -> int:
        return sum(
            lease.value[2]
            for block in device.logical.staging.blocks
            for lease in block.leases.values()
            if not lease.expired
        )

    x.copy_from(
        device.zeros(size, "uint8"), stream=stream
    )  # x counts as used now, so its next copy is staged
    for start in (
        lambda: x.copy_from(host, stream=stream, wait=False),
        lambda: x.copy_to(host, stream=stream, wait=False),
    ):
        device.synchronize()
        gc.collect()
        before = used()
        slow(busy, 60_000, grid=8, stream=stream)
        start()
        assert used() - before < size


def test_copies_in_a_batch_keep_their_place(device: Any, add: Any) -> None:
    a, b, c = (
        device.zeros(64, "float32"),
        device.from_numpy(np.ones(64, "float32")),
        device.zeros(64, "float32"),
    )
    stream = device.stream()
    launch = add.bind(a, b, c, 64, grid=1, stream=stream)
    with stream.batch():
        for _ in range(8):
            launch()
            a.copy_from(c, stream=stream, wait=False)
            a[32:].copy_from(np.full(32, 5, "float32"), stream=stream, wait=False)
    np.testing.assert_array_equal(c.numpy(), [8] * 32 + [6] * 32)


def test_a_view_of_a_deleted_array_keeps_its_memory(device: Any) -> None:
    views = [device.from_numpy(np.full(1024, number, "float32"))[256:512] for number in range(50)]
    gc.collect()
    others = [device.zeros(1024, "float32") for _ in range(50)]
    assert [int(view.numpy()[0]) for view in views] == list(range(50))
    assert [int(other.numpy()[0]) for other in others] == [0] * 50


def test_the_driver_has_too_little_memory(device: Any, add: Any) -> None:
    logical = device.logical
    a, b, c = (device.zeros(64, "float32") for _ in range(3))
    refused = device.limits["maxMemoryAllocationSize"] // 2
    real, logical.calls.vkAllocateMemory = logical.calls.vkAllocateMemory, lambda *_: -2
    try:
        check_memory_error(device, refused, "VK_ERROR_OUT_OF_DEVICE_MEMORY")
        error = raised(
            devmod.DeviceMemoryError, add, np.zeros(1 << 25, "float32"), b, c, 64, grid=1
        )
        assert error.requested == 1 << 27
    finally:
        logical.calls.vkAllocateMemory = real
    add(a, b, c, 64, grid=1)
    add(np.zeros(1 << 25, "float32"), b, c, 64, grid=1)
    assert c.numpy().sum() == 0


def test_the_memory_of_a_queued_launch_is_waited_for(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate, codes = device.logical.calls.vkAllocateMemory, [-2]
    x = device.empty(1 << 25, "uint32")
    kernel(SLOW)(x, 60_000, grid=8)
    event = device.default_stream.record()
    del x
    gc.collect()
    monkeypatch.setitem(
        vars(device.logical.calls),
        "vkAllocateMemory",
        lambda *arguments: codes.pop() if codes else allocate(*arguments),
    )
    device.empty(1 << 25, "uint32")
    assert not codes
    assert is_done(event)


def test_the_free_memory_of_the_largest_heap(
    device: Any, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A double fills in what VK_EXT_memory_budget reports."""
    from devmod_vulkan._driver import ffi

    physical = device.physical
    real = physical.calls.vkGetPhysicalDeviceMemoryProperties2

    def report(handle: Any, found: Any) -> None:
        real(handle, found)
        heaps = found.memoryProperties.memoryHeaps
        budget = ffi.cast("VkPhysicalDeviceMemoryBudgetPropertiesEXT *", found.pNext)
        for number in range(found.memoryProperties.memoryHeapCount):
            budget.heapBudget[number] = heaps[number].size
            budget.heapUsage[number] = heaps[number].size - 1000

    monkeypatch.setattr(physical, "extensions", physical.extensions | {"VK_EXT_memory_budget"})
    monkeypatch.setitem(vars(physical.calls), "vkGetPhysicalDeviceMemoryProperties2", report)
    limit = device.limits["maxMemoryAllocationSize"]
    error = raised(devmod.DeviceMemoryError, device.empty, limit + 1, "uint8")
    assert str(error) == (
        f"{device} cannot allocate {limit + 1} bytes: its maxMemoryAllocationSize is {limit}; 1000 bytes are free of {device.memory}"
    )
    assert error.free == 1000
