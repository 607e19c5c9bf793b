"""The stand-in CUDA driver itself, through cuda-bindings:

memory, handles and the order of streams.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from cuda_calls import allocate, check, code, cuda, read
from cuda_sources import AXPY
from ptx_sources import ptx_of

from devmod_simulators import StandinDriver

pytestmark = pytest.mark.usefixtures("context")


def test_a_kernel_of_ptx_runs_in_the_worker() -> None:
    module = check(cuda.cuModuleLoadData(ptx_of(AXPY).encode() + b"\0"))
    function = check(cuda.cuModuleGetFunction(module, b"k"))
    x = allocate(np.arange(1000, dtype=np.float32))
    y = allocate(np.ones(1000, np.float32))
    values = (
        (2.0, int(x), int(y), 1000),
        (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int),
    )
    check(cuda.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, 0, values, 0))
    assert read(y, 1000, np.float32) == [2 * i + 1 for i in range(1000)]


def test_work_of_a_stream_waits_until_something_needs_it(standin: StandinDriver) -> None:
    first, second = (check(cuda.cuStreamCreate(1)) for _ in range(2))
    memory = allocate(np.zeros(4, np.int32))
    check(cuda.cuMemsetD32Async(memory, 7, 4, first))
    assert (
        read(memory) == [0] * 4
    )  # a non-blocking stream: the copy in the legacy stream does not wait for it
    check(cuda.cuStreamSynchronize(second))
    assert read(memory) == [0] * 4
    check(cuda.cuStreamSynchronize(first))
    assert read(memory) == [7] * 4


def test_a_stream_that_waits_for_an_event_sees_the_work_before_it() -> None:
    first, second = (check(cuda.cuStreamCreate(1)) for _ in range(2))
    event = check(cuda.cuEventCreate(0))
    source, target, other = (allocate(np.zeros(4, np.int32)) for _ in range(3))
    check(cuda.cuMemsetD32Async(source, 7, 4, first))
    check(cuda.cuEventRecord(event, first))
    check(cuda.cuMemsetD32Async(source, 8, 4, first))
    check(cuda.cuMemcpyDtoDAsync(other, source, 16, second))  # forgot to wait
    check(cuda.cuStreamWaitEvent(second, event, 0))
    check(cuda.cuMemcpyDtoDAsync(target, source, 16, second))
    check(cuda.cuStreamSynchronize(second))
    assert read(other) == [0] * 4
    assert read(target) == [7] * 4  # what came behind the event has not run
    check(cuda.cuCtxSynchronize())
    assert read(source) == [8] * 4


def test_the_legacy_stream_and_blocking_streams_wait_for_each_other() -> None:
    stream = check(cuda.cuStreamCreate(0))
    memory, copy = (allocate(np.zeros(4, np.int32)) for _ in range(2))
    check(cuda.cuMemsetD32Async(memory, 7, 4, stream))
    check(cuda.cuMemcpyDtoDAsync(copy, memory, 16, 0))
    check(cuda.cuMemsetD32Async(memory, 8, 4, stream))
    check(cuda.cuStreamSynchronize(stream))
    assert read(memory) == [8] * 4
    assert read(copy) == [7] * 4


def test_the_youngest_work_runs_first_where_nothing_orders_it() -> None:
    first, second = (check(cuda.cuStreamCreate(1)) for _ in range(2))
    memory = allocate(np.zeros(4, np.int32))
    check(cuda.cuMemsetD32Async(memory, 1, 4, first))
    check(cuda.cuMemsetD32Async(memory, 2, 4, second))
    check(cuda.cuCtxSynchronize())
    assert read(memory) == [1] * 4


def test_a_query_runs_one_operation() -> None:
    stream = check(cuda.cuStreamCreate(1))
    memory = allocate(np.zeros(4, np.int32))
    event = check(cuda.cuEventCreate(0))
    check(cuda.cuMemsetD32Async(memory, 1, 4, stream))
    check(cuda.cuMemsetD32Async(memory, 2, 4, stream))
    check(cuda.cuEventRecord(event, stream))
    assert code(cuda.cuStreamQuery(stream)) == "CUDA_ERROR_NOT_READY"
    assert read(memory) == [1] * 4
    assert code(cuda.cuEventQuery(event)) == "CUDA_ERROR_NOT_READY"
    assert read(memory) == [2] * 4
    assert code(cuda.cuEventQuery(event)) == "CUDA_ERROR_NOT_READY"
    assert code(cuda.cuEventQuery(event)) == "CUDA_SUCCESS"
    assert code(cuda.cuStreamQuery(stream)) == "CUDA_SUCCESS"


@pytest.mark.parametrize("stages", [0, 1])
def test_an_asynchronous_copy_accesses_pageable_memory_when_it_runs_unless_the_driver_stages_it(
    stages: int, standin: StandinDriver
) -> None:
    standin.set("stages_pageable", stages)
    stream = check(cuda.cuStreamCreate(1))
    pageable = np.full(4, 1, np.int32)
    address = check(cuda.cuMemAllocHost(16))
    pinned = np.frombuffer((ctypes.c_char * 16).from_address(int(address)), np.int32)
    pinned[:] = 1
    first, second = (allocate(np.zeros(4, np.int32)) for _ in range(2))
    check(cuda.cuMemcpyHtoDAsync(first, pageable.ctypes.data, 16, stream))
    check(cuda.cuMemcpyHtoDAsync(second, int(address), 16, stream))
    pageable[:] = 2
    pinned[:] = 2
    check(cuda.cuStreamSynchronize(stream))
    assert read(first) == [2 - stages] * 4
    assert read(second) == [2] * 4
    check(cuda.cuMemFreeHost(int(address)))


def test_a_copy_from_pageable_memory_does_not_wait_for_its_end() -> None:
    stream = check(cuda.cuStreamCreate(1))
    source, target = (allocate(np.zeros(4, np.int32)) for _ in range(2))
    values = np.full(4, 7, np.int32)
    check(cuda.cuMemcpyHtoD(source, values.ctypes.data, 16))  # in the legacy stream
    check(
        cuda.cuMemcpyDtoDAsync(target, source, 16, stream)
    )  # a stream that does not wait for that one
    check(cuda.cuStreamSynchronize(stream))
    assert read(target) == [0] * 4


def test_new_memory_has_a_pattern() -> None:
    assert read(check(cuda.cuMemAlloc(16)), 16, np.uint8) == [0xA5] * 16


def test_an_event_has_a_time_after_its_work_ran() -> None:
    stream = check(cuda.cuStreamCreate(1))
    begin, end = (check(cuda.cuEventCreate(0)) for _ in range(2))
    assert code(cuda.cuEventElapsedTime(begin, end)) == "CUDA_ERROR_INVALID_HANDLE"  # not recorded
    check(cuda.cuEventRecord(begin, stream))
    check(cuda.cuEventRecord(end, stream))
    assert code(cuda.cuEventElapsedTime(begin, end)) == "CUDA_ERROR_NOT_READY"
    check(cuda.cuEventSynchronize(end))
    assert check(cuda.cuEventElapsedTime(begin, end)) >= 0
    plain = check(cuda.cuEventCreate(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    check(cuda.cuEventRecord(plain, stream))
    assert code(cuda.cuEventElapsedTime(begin, plain)) == "CUDA_ERROR_INVALID_HANDLE"


def violations(standin: StandinDriver) -> list[str]:
    """Return the violations without their handles, and forget them."""
    result = [
        " ".join("HANDLE" if word.startswith("0x") else word for word in text.split())
        for text in standin.violations
    ]
    standin.reset()
    return result


def test_a_stale_handle_is_detected(standin: StandinDriver) -> None:
    stream = check(cuda.cuStreamCreate(0))
    value = int(stream)
    check(cuda.cuStreamDestroy(stream))
    again = check(cuda.cuStreamCreate(0))
    assert int(again) != value
    assert code(cuda.cuStreamSynchronize(value)) == "CUDA_ERROR_INVALID_HANDLE"
    assert code(cuda.cuStreamDestroy(value)) == "CUDA_ERROR_INVALID_HANDLE"
    assert violations(standin) == ["HANDLE is the handle of a destroyed object of the streams"] * 2


def test_a_handle_of_another_kind_and_an_arbitrary_number_are_detected(
    standin: StandinDriver,
) -> None:
    event = check(cuda.cuEventCreate(0))
    assert code(cuda.cuStreamSynchronize(int(event))) == "CUDA_ERROR_INVALID_HANDLE"
    assert code(cuda.cuEventSynchronize(4096)) == "CUDA_ERROR_INVALID_HANDLE"
    assert violations(standin) == [
        "HANDLE is a handle of the events; expected one of the streams",
        "HANDLE is not a handle; expected one of the events",
    ]


def test_memory_is_freed_once_and_by_its_start(standin: StandinDriver) -> None:
    pointer = check(cuda.cuMemAlloc(64))
    assert code(cuda.cuMemFree(int(pointer) + 4)) == "CUDA_ERROR_INVALID_VALUE"
    check(cuda.cuMemFree(pointer))
    assert code(cuda.cuMemFree(pointer)) == "CUDA_ERROR_INVALID_VALUE"
    assert (
        violations(standin) == ["HANDLE is freed and is not the start of a device allocation"] * 2
    )


def test_a_copy_beyond_an_allocation_is_refused(standin: StandinDriver) -> None:
    pointer, values = check(cuda.cuMemAlloc(64)), np.zeros(100, np.uint8)
    assert code(cuda.cuMemcpyHtoD(pointer, values.ctypes.data, 65)) == "CUDA_ERROR_INVALID_VALUE"
    assert (
        code(cuda.cuMemcpyDtoH(values.ctypes.data, int(pointer) + 1, 64))
        == "CUDA_ERROR_INVALID_VALUE"
    )
    assert code(cuda.cuMemsetD8(pointer, 0, 65)) == "CUDA_ERROR_INVALID_VALUE"
    assert violations(standin) == [
        "copy: 65 bytes at HANDLE are not within one allocation",
        "copy: 64 bytes at HANDLE are not within one allocation",
        "fill: 65 bytes at HANDLE are not within one allocation",
    ]
    assert (
        code(cuda.cuMemcpyHtoD(values.ctypes.data, values.ctypes.data, 4))
        == "CUDA_ERROR_INVALID_VALUE"
    )  # not a device pointer


def test_memory_runs_out(standin: StandinDriver) -> None:
    free, total = check(cuda.cuMemGetInfo())
    total = total - free + (1 << 20)  # other tests of this process may hold memory
    standin.set("memory", total)
    assert check(cuda.cuMemGetInfo()) == (1 << 20, total)
    pointer = check(cuda.cuMemAlloc(3 << 18))
    assert check(cuda.cuMemGetInfo()) == (1 << 18, total)
    assert code(cuda.cuMemAlloc(1 << 19)) == "CUDA_ERROR_OUT_OF_MEMORY"
    check(cuda.cuMemFree(pointer))
    assert code(cuda.cuMemAlloc(1 << 19)) == "CUDA_SUCCESS"


def test_stream_ordered_memory_is_freed_in_its_stream(standin: StandinDriver) -> None:
    stream, other = (check(cuda.cuStreamCreate(1)) for _ in range(2))
    blocks = standin.report.get("device-0-blocks", 0)
    pointer = check(cuda.cuMemAllocAsync(16, stream))
    check(cuda.cuMemsetD32Async(pointer, 7, 4, stream))
    check(cuda.cuStreamSynchronize(stream))
    assert read(pointer) == [7] * 4
    check(cuda.cuMemFreeAsync(pointer, stream))
    assert standin.report["device-0-blocks"] == blocks + 1
    check(cuda.cuStreamSynchronize(stream))
    assert standin.report.get("device-0-blocks", 0) == blocks
    late = check(cuda.cuMemAllocAsync(16, stream))
    check(cuda.cuMemsetD32Async(late, 7, 4, other))  # before the allocation: an access to no memory
    assert code(cuda.cuStreamSynchronize(other)) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert code(cuda.cuMemAlloc(16)) == "CUDA_ERROR_ILLEGAL_ADDRESS"  # sticky
    assert standin.failed
    standin.forget_failures()


def test_a_host_function_runs_in_order_and_may_not_call_cuda(standin: StandinDriver) -> None:
    stream = check(cuda.cuStreamCreate(1))
    memory = allocate(np.zeros(4, np.int32))
    codes: list[int] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
        lambda _: codes.append(standin.api.cuCtxSynchronize())
    )
    check(cuda.cuMemsetD32Async(memory, 7, 4, stream))
    check(cuda.cuLaunchHostFunc(stream, cuda.CUhostFn(_ptr=ctypes.addressof(function)), 0))
    assert codes == []
    check(cuda.cuStreamSynchronize(stream))
    assert codes == [int(cuda.CUresult.CUDA_ERROR_NOT_PERMITTED)]
    assert violations(standin) == ["cuCtxSynchronize is called within a host function of a stream"]


def test_the_report_counts_what_is_alive(standin: StandinDriver) -> None:
    before = standin.report
    stream, pointer, event = (
        check(cuda.cuStreamCreate(0)),
        check(cuda.cuMemAlloc(100)),
        check(cuda.cuEventCreate(0)),
    )
    after = standin.report
    assert {name: after[name] for name in after if after[name] != before.get(name)} == {
        "streams": before["streams"] + 1,
        "events": before["events"] + 1,
        "device-0-blocks": before.get("device-0-blocks", 0) + 1,
        "device-0-bytes": before.get("device-0-bytes", 0) + 100,
    }
    check(cuda.cuStreamDestroy(stream))
    check(cuda.cuMemFree(pointer))
    check(cuda.cuEventDestroy(event))
    assert standin.report == before


def test_a_call_fails_on_demand(standin: StandinDriver) -> None:
    calls = standin.calls("cuMemAlloc")
    standin.set("fail", f"cuMemAlloc=2@{calls + 2},cuStreamCreate=999")
    assert [code(cuda.cuMemAlloc(16)) for _ in range(3)] == [
        "CUDA_SUCCESS",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_SUCCESS",
    ]
    assert code(cuda.cuStreamCreate(0)) == "CUDA_ERROR_UNKNOWN"
    standin.set("fail", None)
    assert code(cuda.cuStreamCreate(0)) == "CUDA_SUCCESS"


def test_a_stream_has_its_context_where_none_is_current(context: Any) -> None:
    stream = check(cuda.cuStreamCreate(0))
    check(cuda.cuCtxSetCurrent(cuda.CUcontext(0)))
    assert int(check(cuda.cuStreamGetCtx(stream))) == int(context)
    assert code(cuda.cuStreamGetCtx(0)) == "CUDA_ERROR_INVALID_CONTEXT"
    assert code(cuda.cuStreamSynchronize(stream)) == "CUDA_ERROR_INVALID_CONTEXT"
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuStreamDestroy(stream))
