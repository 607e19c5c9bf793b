"""The stand-in CUDA driver itself, through cuda-bindings: memory, handles and the order of
streams.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from cuda_calls import cuda, driver, errors, read, zeros

from devmod_simulators import StandinDriver

pytestmark = pytest.mark.usefixtures("context")


def test_work_of_a_stream_waits_until_something_needs_it(standin: StandinDriver) -> None:
    first, second = (driver.cuStreamCreate(1) for _ in range(2))
    memory = zeros(4)
    driver.cuMemsetD32Async(memory, 7, 4, first)
    # A non-blocking stream: the copy in the legacy stream does not wait for it.
    assert read(memory) == [0] * 4
    driver.cuStreamSynchronize(second)
    assert read(memory) == [0] * 4
    driver.cuStreamSynchronize(first)
    assert read(memory) == [7] * 4


def test_a_stream_that_waits_for_an_event_sees_the_work_before_it() -> None:
    first, second = (driver.cuStreamCreate(1) for _ in range(2))
    event = driver.cuEventCreate(0)
    source, target, other = (zeros(4) for _ in range(3))
    driver.cuMemsetD32Async(source, 7, 4, first)
    driver.cuEventRecord(event, first)
    driver.cuMemsetD32Async(source, 8, 4, first)
    driver.cuMemcpyDtoDAsync(other, source, 16, second)  # forgot to wait
    driver.cuStreamWaitEvent(second, event, 0)
    driver.cuMemcpyDtoDAsync(target, source, 16, second)
    driver.cuStreamSynchronize(second)
    assert read(other) == [0] * 4
    assert read(target) == [7] * 4  # what came behind the event has not run
    driver.cuCtxSynchronize()
    assert read(source) == [8] * 4


def test_the_legacy_stream_and_blocking_streams_wait_for_each_other() -> None:
    stream = driver.cuStreamCreate(0)
    memory, copy = (zeros(4) for _ in range(2))
    driver.cuMemsetD32Async(memory, 7, 4, stream)
    driver.cuMemcpyDtoDAsync(copy, memory, 16, 0)
    driver.cuMemsetD32Async(memory, 8, 4, stream)
    driver.cuStreamSynchronize(stream)
    assert read(memory) == [8] * 4
    assert read(copy) == [7] * 4


def test_the_youngest_work_runs_first_where_nothing_orders_it() -> None:
    first, second = (driver.cuStreamCreate(1) for _ in range(2))
    memory = zeros(4)
    driver.cuMemsetD32Async(memory, 1, 4, first)
    driver.cuMemsetD32Async(memory, 2, 4, second)
    driver.cuCtxSynchronize()
    assert read(memory) == [1] * 4


def test_a_query_runs_one_operation() -> None:
    stream = driver.cuStreamCreate(1)
    memory = zeros(4)
    event = driver.cuEventCreate(0)
    driver.cuMemsetD32Async(memory, 1, 4, stream)
    driver.cuMemsetD32Async(memory, 2, 4, stream)
    driver.cuEventRecord(event, stream)
    assert errors.cuStreamQuery(stream) == "CUDA_ERROR_NOT_READY"
    assert read(memory) == [1] * 4
    assert errors.cuEventQuery(event) == "CUDA_ERROR_NOT_READY"
    assert read(memory) == [2] * 4
    assert errors.cuEventQuery(event) == "CUDA_ERROR_NOT_READY"
    assert errors.cuEventQuery(event) == "CUDA_SUCCESS"
    assert errors.cuStreamQuery(stream) == "CUDA_SUCCESS"


@pytest.mark.parametrize("stages", [0, 1])
def test_an_asynchronous_copy_accesses_pageable_memory_when_it_runs_unless_the_driver_stages_it(
    stages: int, standin: StandinDriver
) -> None:
    standin.set("stages_pageable", stages)
    stream = driver.cuStreamCreate(1)
    pageable = np.full(4, 1, np.int32)
    address = driver.cuMemAllocHost(16)
    pinned = np.frombuffer((ctypes.c_char * 16).from_address(int(address)), np.int32)
    pinned[:] = 1
    first, second = (zeros(4) for _ in range(2))
    driver.cuMemcpyHtoDAsync(first, pageable.ctypes.data, 16, stream)
    driver.cuMemcpyHtoDAsync(second, int(address), 16, stream)
    pageable[:] = 2
    pinned[:] = 2
    driver.cuStreamSynchronize(stream)
    assert read(first) == [2 - stages] * 4
    assert read(second) == [2] * 4
    driver.cuMemFreeHost(int(address))


def test_a_copy_from_pageable_memory_does_not_wait_for_its_end() -> None:
    stream = driver.cuStreamCreate(1)
    source, target = (zeros(4) for _ in range(2))
    values = np.full(4, 7, np.int32)
    driver.cuMemcpyHtoD(source, values.ctypes.data, 16)  # in the legacy stream
    driver.cuMemcpyDtoDAsync(target, source, 16, stream)  # a stream that does not wait for that one
    driver.cuStreamSynchronize(stream)
    assert read(target) == [0] * 4


def test_new_memory_has_a_pattern() -> None:
    assert read(driver.cuMemAlloc(16), 16, np.uint8) == [0xA5] * 16


def test_an_event_has_a_time_after_its_work_ran() -> None:
    stream = driver.cuStreamCreate(1)
    begin, end = (driver.cuEventCreate(0) for _ in range(2))
    assert errors.cuEventElapsedTime(begin, end) == "CUDA_ERROR_INVALID_HANDLE"  # not recorded
    driver.cuEventRecord(begin, stream)
    driver.cuEventRecord(end, stream)
    assert errors.cuEventElapsedTime(begin, end) == "CUDA_ERROR_NOT_READY"
    driver.cuEventSynchronize(end)
    assert driver.cuEventElapsedTime(begin, end) >= 0
    plain = driver.cuEventCreate(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING)
    driver.cuEventRecord(plain, stream)
    assert errors.cuEventElapsedTime(begin, plain) == "CUDA_ERROR_INVALID_HANDLE"


def violations(standin: StandinDriver) -> list[str]:
    """Return the violations without their handles, and forget them."""
    result = [
        " ".join("HANDLE" if word.startswith("0x") else word for word in text.split())
        for text in standin.violations
    ]
    standin.reset()
    return result


def test_a_stale_handle_is_detected(standin: StandinDriver) -> None:
    stream = driver.cuStreamCreate(0)
    value = int(stream)
    driver.cuStreamDestroy(stream)
    again = driver.cuStreamCreate(0)
    assert int(again) != value
    assert errors.cuStreamSynchronize(value) == "CUDA_ERROR_INVALID_HANDLE"
    assert errors.cuStreamDestroy(value) == "CUDA_ERROR_INVALID_HANDLE"
    assert violations(standin) == ["HANDLE is the handle of a destroyed object of the streams"] * 2


def test_a_handle_of_another_kind_and_an_arbitrary_number_are_detected(
    standin: StandinDriver,
) -> None:
    event = driver.cuEventCreate(0)
    assert errors.cuStreamSynchronize(int(event)) == "CUDA_ERROR_INVALID_HANDLE"
    assert errors.cuEventSynchronize(4096) == "CUDA_ERROR_INVALID_HANDLE"
    assert violations(standin) == [
        "HANDLE is a handle of the events; expected one of the streams",
        "HANDLE is not a handle; expected one of the events",
    ]


def test_memory_is_freed_once_and_by_its_start(standin: StandinDriver) -> None:
    pointer = driver.cuMemAlloc(64)
    assert errors.cuMemFree(int(pointer) + 4) == "CUDA_ERROR_INVALID_VALUE"
    driver.cuMemFree(pointer)
    assert errors.cuMemFree(pointer) == "CUDA_ERROR_INVALID_VALUE"
    assert (
        violations(standin) == ["HANDLE is freed and is not the start of a device allocation"] * 2
    )


def test_a_copy_beyond_an_allocation_is_refused(standin: StandinDriver) -> None:
    pointer, values = driver.cuMemAlloc(64), np.zeros(100, np.uint8)
    assert errors.cuMemcpyHtoD(pointer, values.ctypes.data, 65) == "CUDA_ERROR_INVALID_VALUE"
    assert (
        errors.cuMemcpyDtoH(values.ctypes.data, int(pointer) + 1, 64) == "CUDA_ERROR_INVALID_VALUE"
    )
    assert errors.cuMemsetD8(pointer, 0, 65) == "CUDA_ERROR_INVALID_VALUE"
    assert violations(standin) == [
        "copy: 65 bytes at HANDLE are not within one allocation",
        "copy: 64 bytes at HANDLE are not within one allocation",
        "fill: 65 bytes at HANDLE are not within one allocation",
    ]
    # It is not a device pointer.
    assert (
        errors.cuMemcpyHtoD(values.ctypes.data, values.ctypes.data, 4) == "CUDA_ERROR_INVALID_VALUE"
    )


def test_memory_runs_out(standin: StandinDriver) -> None:
    free, total = driver.cuMemGetInfo()
    total = total - free + (1 << 20)  # other tests of this process may hold memory
    standin.set("memory", total)
    assert driver.cuMemGetInfo() == (1 << 20, total)
    pointer = driver.cuMemAlloc(3 << 18)
    assert driver.cuMemGetInfo() == (1 << 18, total)
    assert errors.cuMemAlloc(1 << 19) == "CUDA_ERROR_OUT_OF_MEMORY"
    driver.cuMemFree(pointer)
    assert errors.cuMemAlloc(1 << 19) == "CUDA_SUCCESS"


def test_stream_ordered_memory_is_freed_in_its_stream(standin: StandinDriver) -> None:
    stream, other = (driver.cuStreamCreate(1) for _ in range(2))
    blocks = standin.report.get("device-0-blocks", 0)
    pointer = driver.cuMemAllocAsync(16, stream)
    driver.cuMemsetD32Async(pointer, 7, 4, stream)
    driver.cuStreamSynchronize(stream)
    assert read(pointer) == [7] * 4
    driver.cuMemFreeAsync(pointer, stream)
    assert standin.report["device-0-blocks"] == blocks + 1
    driver.cuStreamSynchronize(stream)
    assert standin.report.get("device-0-blocks", 0) == blocks
    late = driver.cuMemAllocAsync(16, stream)
    driver.cuMemsetD32Async(late, 7, 4, other)  # before the allocation: an access to no memory
    assert errors.cuStreamSynchronize(other) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert errors.cuMemAlloc(16) == "CUDA_ERROR_ILLEGAL_ADDRESS"  # sticky
    assert standin.failed


def test_a_host_function_runs_in_order_and_may_not_call_cuda(standin: StandinDriver) -> None:
    stream = driver.cuStreamCreate(1)
    memory = zeros(4)
    codes: list[int] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
        lambda _: codes.append(standin.api.cuCtxSynchronize())
    )
    driver.cuMemsetD32Async(memory, 7, 4, stream)
    driver.cuLaunchHostFunc(stream, cuda.CUhostFn(_ptr=ctypes.addressof(function)), 0)
    assert codes == []
    driver.cuStreamSynchronize(stream)
    assert codes == [int(cuda.CUresult.CUDA_ERROR_NOT_PERMITTED)]
    assert violations(standin) == ["cuCtxSynchronize is called within a host function of a stream"]


def test_the_report_counts_what_is_alive(standin: StandinDriver) -> None:
    before = standin.report
    stream, pointer, event = (
        driver.cuStreamCreate(0),
        driver.cuMemAlloc(100),
        driver.cuEventCreate(0),
    )
    after = standin.report
    assert {name: after[name] for name in after if after[name] != before.get(name)} == {
        "streams": before["streams"] + 1,
        "events": before["events"] + 1,
        "device-0-blocks": before.get("device-0-blocks", 0) + 1,
        "device-0-bytes": before.get("device-0-bytes", 0) + 100,
    }
    driver.cuStreamDestroy(stream)
    driver.cuMemFree(pointer)
    driver.cuEventDestroy(event)
    assert standin.report == before


def test_a_call_fails_on_demand(standin: StandinDriver) -> None:
    calls = standin.calls("cuMemAlloc")
    standin.set("fail", f"cuMemAlloc=2@{calls + 2},cuStreamCreate=999")
    assert [errors.cuMemAlloc(16) for _ in range(3)] == [
        "CUDA_SUCCESS",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_SUCCESS",
    ]
    assert errors.cuStreamCreate(0) == "CUDA_ERROR_UNKNOWN"
    standin.set("fail", None)
    assert errors.cuStreamCreate(0) == "CUDA_SUCCESS"


def test_a_stream_has_its_context_where_none_is_current(context: Any) -> None:
    stream = driver.cuStreamCreate(0)
    driver.cuCtxSetCurrent(cuda.CUcontext(0))
    assert int(driver.cuStreamGetCtx(stream)) == int(context)
    assert errors.cuStreamGetCtx(0) == "CUDA_ERROR_INVALID_CONTEXT"
    assert errors.cuStreamSynchronize(stream) == "CUDA_ERROR_INVALID_CONTEXT"
    driver.cuCtxSetCurrent(context)
    driver.cuStreamDestroy(stream)


def test_a_context_has_a_number_that_no_other_one_has_had(
    context: Any, standin: StandinDriver
) -> None:
    first = driver.cuCtxCreate(None, 0, 0)
    number = driver.cuCtxGetId(first)
    assert number == driver.cuCtxGetId(None) != driver.cuCtxGetId(context)
    stream = driver.cuStreamCreate(0)
    numbers = {driver.cuStreamGetId(stream), driver.cuStreamGetId(0)}
    driver.cuStreamDestroy(stream)
    driver.cuCtxDestroy(first)
    assert errors.cuCtxGetId(first) == "CUDA_ERROR_CONTEXT_IS_DESTROYED"
    driver.cuCtxSetCurrent(context)
    numbers |= {driver.cuStreamGetId(stream := driver.cuStreamCreate(0))}
    assert len(numbers) == 3
    driver.cuStreamDestroy(stream)


def test_a_primary_context_is_active_once_it_is_retained(context: Any) -> None:
    states = [driver.cuDevicePrimaryCtxGetState(0)]
    driver.cuDevicePrimaryCtxRelease(0)
    states.append(driver.cuDevicePrimaryCtxGetState(0))
    driver.cuDevicePrimaryCtxRetain(0)
    states.append(driver.cuDevicePrimaryCtxGetState(0))
    assert states == [(0, 1), (0, 0), (0, 1)]


@pytest.mark.volume_but
def test_ranges_of_managed_memory_are_prefetched_and_discarded_together() -> None:
    pair = [driver.cuMemAllocManaged(4096, 1) for _ in range(2)]
    batch = pair, [4096, 4096], 2
    stream, device, host = driver.cuStreamCreate(1), cuda.CUmemLocation(), cuda.CUmemLocation()
    device.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    host.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST

    def places() -> list[int]:
        name = cuda.CUmem_range_attribute.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
        return [driver.cuMemRangeGetAttribute(4, name, each, 4096) for each in pair]

    for firsts, queue in (([1, 2], stream), ([0, 2], stream), ([0, 0], stream), ([0, 1], 0)):
        code = errors.cuMemPrefetchBatchAsync(*batch, [device, host], firsts, 2, 0, queue)
        assert code == "CUDA_ERROR_INVALID_VALUE"
    assert places() == [-2, -2]
    driver.cuMemPrefetchBatchAsync(*batch, [device, host], [0, 1], 2, 0, stream)
    assert places() == [0, -1]
    for each in pair:
        driver.cuMemsetD32Async(each, 7, 4, stream)
    driver.cuMemDiscardBatchAsync(pair[:1], [16], 1, 0, stream)
    driver.cuStreamSynchronize(stream)
    assert [read(each, 1) == [7] for each in pair] == [False, True]
    driver.cuMemDiscardAndPrefetchBatchAsync(*batch, [device], [0], 1, 0, stream)
    driver.cuStreamSynchronize(stream)
    assert read(pair[1], 1) != [7]
    assert places() == [0, 0]


def test_a_batch_of_copies_is_in_the_order_of_its_stream(standin: StandinDriver) -> None:
    stream, source = driver.cuStreamCreate(1), zeros(4)
    first, second = zeros(4), zeros(4)
    # The order of accesses, and places for hints.
    hints = (ctypes.c_int * 12)(1, 0, 0, 0, 0, 0, 3)
    to = (ctypes.c_uint64 * 2)(int(first), int(second))
    start = (ctypes.c_uint64 * 2)(int(source), int(source))
    sizes, firsts = (ctypes.c_size_t * 2)(16, 8), (ctypes.c_size_t * 2)(0, 1)
    failed = ctypes.c_size_t(5)

    def copy(count: int, hint_count: int, handle: int, *more: Any, name: str = "_v2") -> int:
        function = getattr(standin.api, f"cuMemcpyBatchAsync{name}")
        numbers = (ctypes.c_size_t(count), hints, firsts, ctypes.c_size_t(hint_count))
        return int(function(to, start, sizes, *numbers, *more, ctypes.c_void_p(handle)))

    driver.cuMemsetD32Async(source, 7, 4, stream)
    assert copy(2, 1, int(stream)) == 0
    assert (read(first), read(second)) == ([0] * 4, [0] * 4)
    driver.cuStreamSynchronize(stream)
    assert (read(first), read(second)) == ([7] * 4, [7, 7, 0, 0])

    wrong = [(2, 1, 0), (2, 1, 1), (0, 1, int(stream)), (1, 2, int(stream)), (2, 0, int(stream))]
    assert [copy(*each) for each in wrong] == [1] * 5
    hints[0] = 4
    assert copy(2, 1, int(stream)) == 1
    hints[0], firsts[1] = 2, 0
    assert copy(2, 2, int(stream)) == 1
    assert copy(2, 1, int(stream), ctypes.byref(failed), name="") == 0
    assert failed.value == 2**64 - 1
