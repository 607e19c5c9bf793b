"""The stand-in HIP runtime itself, through ctypes: memory, handles and the order of streams."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest
from hip_calls import (
    ILLEGAL_ADDRESS,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_PERMITTED,
    NOT_READY,
    OUT_OF_MEMORY,
    SUCCESS,
    allocate,
    check,
    event,
    hip,
    made,
    read,
    signatures,
    stream,
    violations,
)

from devmod_simulators import StandinDriver, libamdhip64

pytestmark = pytest.mark.usefixtures("standin")


def zeros() -> int:
    """Return device memory of four zeros."""
    return allocate(np.zeros(4, np.int32))


def test_the_list_of_calls_is_what_the_library_exports() -> None:
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", libamdhip64.build()], capture_output=True, text=True, check=True
    ).stdout.split()[2::3]
    assert sorted(each for each in symbols if each.startswith("hip")) == sorted(signatures())


def test_work_of_a_stream_waits_until_something_needs_it() -> None:
    first, second = stream(), stream()
    memory = zeros()
    check(hip.hipMemsetD32Async(memory, 7, 4, first))
    assert read(memory) == [0] * 4  # the null stream does not wait for a non-blocking one
    check(hip.hipStreamSynchronize(second))
    assert read(memory) == [0] * 4
    check(hip.hipStreamSynchronize(first))
    assert read(memory) == [7] * 4


def test_a_stream_that_waits_for_an_event_sees_the_work_before_it() -> None:
    first, second, mark = stream(), stream(), event()
    source, target, other = zeros(), zeros(), zeros()
    check(hip.hipMemsetD32Async(source, 7, 4, first))
    check(hip.hipEventRecord(mark, first))
    check(hip.hipMemsetD32Async(source, 8, 4, first))
    check(hip.hipMemcpyDtoDAsync(other, source, 16, second))  # forgot to wait
    check(hip.hipStreamWaitEvent(second, mark, 0))
    check(hip.hipMemcpyDtoDAsync(target, source, 16, second))
    check(hip.hipStreamSynchronize(second))
    assert (read(other), read(target)) == ([0] * 4, [7] * 4)  # what came behind the event has not run
    check(hip.hipDeviceSynchronize())
    assert read(source) == [8] * 4


def test_the_null_stream_and_blocking_streams_wait_for_each_other() -> None:
    blocking = stream(0)
    memory, copy = zeros(), zeros()
    check(hip.hipMemsetD32Async(memory, 7, 4, blocking))
    check(hip.hipMemcpyDtoDAsync(copy, memory, 16, None))
    check(hip.hipMemsetD32Async(memory, 8, 4, blocking))
    check(hip.hipStreamSynchronize(blocking))
    assert (read(memory), read(copy)) == ([8] * 4, [7] * 4)


def test_a_query_runs_one_operation() -> None:
    queue, mark = stream(), event()
    memory = zeros()
    check(hip.hipMemsetD32Async(memory, 1, 4, queue))
    check(hip.hipMemsetD32Async(memory, 2, 4, queue))
    check(hip.hipEventRecord(mark, queue))
    assert hip.hipStreamQuery(queue) == NOT_READY
    assert read(memory) == [1] * 4
    assert [hip.hipEventQuery(mark) for _ in range(3)] == [NOT_READY, NOT_READY, SUCCESS]
    assert hip.hipStreamQuery(queue) == SUCCESS
    assert hip.hipGetLastError() == SUCCESS  # "not ready" is no error of the thread


def test_pageable_memory_is_read_at_the_call_and_pinned_memory_when_the_copy_runs() -> None:
    queue = stream()
    pageable = np.full(4, 1, np.int32)
    address = made(hip.hipHostMalloc, 16, 0)
    pinned = np.frombuffer((ctypes.c_char * 16).from_address(address), np.int32)
    pinned[:] = 1
    first, second = zeros(), zeros()
    check(hip.hipMemcpyHtoDAsync(first, pageable.ctypes.data, 16, queue))
    check(hip.hipMemcpyHtoDAsync(second, address, 16, queue))
    pageable[:] = 2
    pinned[:] = 2
    check(hip.hipStreamSynchronize(queue))
    assert (read(first), read(second)) == ([1] * 4, [2] * 4)
    check(hip.hipHostFree(address))


def test_the_kind_of_a_copy_is_checked() -> None:
    memory, values = zeros(), np.ones(4, np.int32)
    assert hip.hipMemcpy(memory, values.ctypes.data, 16, 4) == SUCCESS  # hipMemcpyDefault
    assert read(memory) == [1] * 4
    assert hip.hipMemcpy(values.ctypes.data, values.ctypes.data, 16, 1) == INVALID_VALUE  # not a device pointer
    assert hip.hipMemcpy(memory, values.ctypes.data, 16, 5) == 21  # hipErrorInvalidMemcpyDirection


def test_rows_are_copied_with_their_pitches() -> None:
    pitch, pointer = ctypes.c_size_t(), ctypes.c_void_p()
    check(hip.hipMallocPitch(ctypes.byref(pointer), ctypes.byref(pitch), 12, 2))
    values, result = np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros((2, 3), np.int32)
    check(hip.hipMemcpy2D(pointer, pitch.value, values.ctypes.data, 12, 12, 2, 1))
    check(hip.hipMemcpy2D(result.ctypes.data, 12, pointer, pitch.value, 12, 2, 2))
    assert result.tolist() == values.tolist()
    assert hip.hipMemcpy2D(result.ctypes.data, 11, pointer, pitch.value, 12, 2, 2) == INVALID_VALUE


def test_zero_bytes_are_a_null_pointer() -> None:
    assert made(hip.hipMalloc, 0) == 0
    assert hip.hipFree(None) == SUCCESS


def test_new_memory_has_a_pattern() -> None:
    assert read(made(hip.hipMalloc, 16), 16, np.uint8) == [0xA5] * 16


def test_an_event_has_a_time_after_its_work_ran() -> None:
    queue, begin, end, time = stream(), event(), event(), ctypes.c_float(-1)
    assert hip.hipEventElapsedTime(ctypes.byref(time), begin, end) == INVALID_HANDLE  # not recorded
    check(hip.hipEventRecord(begin, queue))
    check(hip.hipEventRecord(end, queue))
    assert hip.hipEventElapsedTime(ctypes.byref(time), begin, end) == NOT_READY
    check(hip.hipEventSynchronize(end))
    check(hip.hipEventElapsedTime(ctypes.byref(time), begin, end))
    assert time.value >= 0
    plain = event(2)  # hipEventDisableTiming
    check(hip.hipEventRecord(plain, queue))
    assert hip.hipEventElapsedTime(ctypes.byref(time), begin, plain) == INVALID_HANDLE


def test_stale_and_wrong_handles_are_detected() -> None:
    queue, mark = stream(), event()
    check(hip.hipStreamDestroy(queue))
    assert hip.hipStreamSynchronize(queue) == INVALID_HANDLE
    assert hip.hipStreamSynchronize(mark) == INVALID_HANDLE
    assert hip.hipEventSynchronize(4096) == INVALID_HANDLE
    assert violations() == [
        "HANDLE is the handle of a destroyed object of the streams",
        "HANDLE is a handle of the events; expected one of the streams",
        "HANDLE is not a handle; expected one of the events",
    ]


def test_memory_is_freed_once_and_by_its_start() -> None:
    pointer = made(hip.hipMalloc, 64)
    assert hip.hipFree(pointer + 4) == INVALID_VALUE
    check(hip.hipFree(pointer))
    assert hip.hipFree(pointer) == INVALID_VALUE
    assert violations() == ["HANDLE is freed and is not the start of a device allocation"] * 2


def test_a_copy_beyond_an_allocation_is_refused() -> None:
    pointer, values = made(hip.hipMalloc, 64), np.zeros(100, np.uint8)
    assert hip.hipMemcpyHtoD(pointer, values.ctypes.data, 65) == INVALID_VALUE
    assert hip.hipMemsetD8(pointer, 0, 65) == INVALID_VALUE
    assert violations() == [
        "copy: 65 bytes at HANDLE are not within one allocation",
        "fill: 65 bytes at HANDLE are not within one allocation",
    ]


def test_memory_runs_out(standin: StandinDriver) -> None:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(hip.hipMemGetInfo(ctypes.byref(free), ctypes.byref(total)))
    standin.set("memory", total.value - free.value + (1 << 20))  # other tests of this process may hold memory
    pointer = made(hip.hipMalloc, 3 << 18)
    assert hip.hipMalloc(ctypes.byref(ctypes.c_void_p()), 1 << 19) == OUT_OF_MEMORY
    assert (hip.hipGetLastError(), hip.hipGetLastError()) == (OUT_OF_MEMORY, SUCCESS)
    check(hip.hipFree(pointer))
    check(hip.hipFree(made(hip.hipMalloc, 1 << 19)))


def test_stream_ordered_memory_is_freed_in_its_stream(standin: StandinDriver) -> None:
    queue, other = stream(), stream()
    blocks = standin.report.get("device-0-blocks", 0)
    pointer = made(hip.hipMallocAsync, 16, queue)
    check(hip.hipMemsetD32Async(pointer, 7, 4, queue))
    check(hip.hipStreamSynchronize(queue))
    assert read(pointer) == [7] * 4
    check(hip.hipFreeAsync(pointer, queue))
    assert standin.report["device-0-blocks"] == blocks + 1
    check(hip.hipStreamSynchronize(queue))
    assert standin.report.get("device-0-blocks", 0) == blocks
    late = made(hip.hipMallocAsync, 16, queue)
    check(hip.hipMemsetD32Async(late, 7, 4, other))  # before the allocation: an access to no memory
    assert hip.hipStreamSynchronize(other) == ILLEGAL_ADDRESS
    assert hip.hipMalloc(ctypes.byref(ctypes.c_void_p()), 16) == ILLEGAL_ADDRESS  # sticky
    assert standin.failed


def test_a_host_function_runs_in_order_and_may_not_call_the_runtime() -> None:
    queue, memory = stream(), zeros()
    codes: list[int] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: codes.append(hip.hipDeviceSynchronize()))
    check(hip.hipMemsetD32Async(memory, 7, 4, queue))
    check(hip.hipLaunchHostFunc(queue, function, None))
    assert codes == []
    check(hip.hipStreamSynchronize(queue))
    assert codes == [NOT_PERMITTED]
    assert violations() == ["hipDeviceSynchronize is called within a host function of a stream"]


def test_a_call_fails_on_demand(standin: StandinDriver) -> None:
    calls = standin.calls("hipMalloc")
    standin.set("fail", f"hipMalloc=2@{calls + 2},hipStreamCreate=999")
    pointer = ctypes.c_void_p()
    assert [hip.hipMalloc(ctypes.byref(pointer), 16) for _ in range(3)] == [SUCCESS, OUT_OF_MEMORY, SUCCESS]
    assert hip.hipStreamCreate(ctypes.byref(pointer)) == 999
    standin.set("fail", None)
    check(hip.hipStreamCreate(ctypes.byref(pointer)))


def test_what_a_pointer_is_depends_on_the_version(standin: StandinDriver) -> None:
    pointer, host = made(hip.hipMalloc, 16), np.zeros(4, np.int32)
    result = (ctypes.c_int * 8)()
    check(hip.hipPointerGetAttributes(result, pointer))
    assert list(result[:2]) == [2, 0]  # hipMemoryTypeDevice
    check(hip.hipPointerGetAttributes(result, host.ctypes.data))
    assert list(result[:2]) == [0, -2]  # not registered
    standin.set("driver_version", 50221153)
    check(hip.hipPointerGetAttributes(result, pointer))
    assert list(result[:2]) == [1, 0]
    assert hip.hipPointerGetAttributes(result, host.ctypes.data) == INVALID_VALUE


def test_the_names_and_the_texts_of_errors() -> None:
    assert hip.hipGetErrorName(700) == b"hipErrorIllegalAddress"
    assert hip.hipGetErrorString(2) == b"out of memory"
    assert hip.hipGetErrorName(12345) == b"hipErrorUnknown"


def test_a_graph_runs_what_a_stream_has_captured() -> None:
    queue, other, mark = stream(), stream(), event()
    memory, copy = zeros(), zeros()
    check(hip.hipStreamBeginCapture(queue, 0))
    check(hip.hipMemsetD32Async(memory, 7, 4, queue))
    check(hip.hipEventRecord(mark, queue))
    check(hip.hipStreamWaitEvent(other, mark, 0))
    check(hip.hipMemcpyDtoDAsync(copy, memory, 16, other))
    check(hip.hipEventRecord(mark, other))
    check(hip.hipStreamWaitEvent(queue, mark, 0))
    assert hip.hipMalloc(ctypes.byref(ctypes.c_void_p()), 16) == 900  # hipErrorStreamCaptureUnsupported
    graph = ctypes.c_void_p()
    assert hip.hipStreamEndCapture(queue, ctypes.byref(graph)) == 901  # hipErrorStreamCaptureInvalidated
    check(hip.hipStreamBeginCapture(queue, 0))
    check(hip.hipMemsetD32Async(memory, 8, 4, queue))
    check(hip.hipMemcpyDtoDAsync(copy, memory, 16, queue))
    check(hip.hipStreamEndCapture(queue, ctypes.byref(graph)))
    count = ctypes.c_size_t()
    check(hip.hipGraphGetNodes(graph, None, ctypes.byref(count)))
    assert count.value == 2
    executable = made(hip.hipGraphInstantiate, graph, None, None, 0)
    check(hip.hipGraphLaunch(executable, queue))
    assert read(copy) == [0] * 4
    check(hip.hipStreamSynchronize(queue))
    assert read(copy) == [8] * 4
    check(hip.hipGraphExecDestroy(executable))
    check(hip.hipGraphDestroy(graph))
