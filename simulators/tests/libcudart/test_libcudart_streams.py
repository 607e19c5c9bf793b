"""The stand-in CUDA runtimes: the order of streams, events, callbacks and captures."""

from __future__ import annotations

import ctypes
from ctypes import byref

import pytest
from runtime_calls import (
    CAPTURE_UNSUPPORTED,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_READY,
    ON_DEVICE,
    TO_DEVICE,
    TO_HOST,
    Runtime,
)

pytestmark = pytest.mark.row("R55")
NON_BLOCKING = 1
PER_THREAD = 2


@pytest.fixture
def memory(calls: Runtime) -> int:
    """Four bytes of device memory."""
    return calls.upload(b"old!")


def test_the_legacy_stream_waits_for_others_and_that_of_a_thread_does_not(
    calls: Runtime, memory: int
) -> None:
    stream = calls.make("cudaStreamCreate")
    calls.check("cudaMemsetAsync", memory, 7, 4, stream)
    assert calls.read(memory, 4, "cudaMemcpy_ptds") == b"old!"
    assert calls.read(memory, 4) == b"\7" * 4


def test_the_forms_for_the_stream_of_a_thread_use_it(calls: Runtime, memory: int) -> None:
    calls.check("cudaMemsetAsync_ptsz", memory, 7, 4, 0)
    stream = calls.make("cudaStreamCreateWithFlags", NON_BLOCKING)
    calls.check("cudaStreamSynchronize", stream)
    assert calls.cudaStreamQuery(PER_THREAD) == NOT_READY
    calls.check("cudaMemsetAsync_ptsz", memory, 8, 4, 0)
    calls.check("cudaStreamSynchronize_ptsz", 0)
    calls.check("cudaStreamQuery", PER_THREAD)
    assert calls.read(memory, 4) == b"\10" * 4


@pytest.mark.parametrize("suffix", ["", "_ptds"])
def test_a_copy_waits_for_the_pinned_memory_of_the_host(
    calls: Runtime, memory: int, suffix: str
) -> None:
    pinned = calls.make("cudaMallocHost", 4)
    view = (ctypes.c_char * 4).from_address(pinned)
    later = "_ptsz" if suffix else ""
    calls.check(f"cudaMemcpyAsync{later}", pinned, memory, 4, TO_HOST, 0)
    assert view.raw != b"old!"
    calls.check(f"cudaMemcpy{suffix}", pinned, memory, 4, TO_HOST)
    assert view.raw == b"old!"
    view.raw = b"new!"
    calls.check(f"cudaMemcpy{suffix}", memory, pinned, 4, TO_DEVICE)
    view.raw = b"late"
    assert calls.read(memory, 4) == b"new!"


@pytest.mark.parametrize("suffix", ["", "_ptds"])
def test_a_copy_within_a_device_and_a_fill_are_not_waited_for(
    calls: Runtime, memory: int, suffix: str
) -> None:
    other = calls.upload(b"then")
    calls.check(f"cudaMemcpy{suffix}", other, memory, 4, ON_DEVICE)
    calls.check(f"cudaMemset{suffix}", memory, 7, 4)
    stream = PER_THREAD if suffix else 1
    assert calls.cudaStreamQuery(stream) == NOT_READY
    assert (calls.read(memory, 4), calls.read(other, 4)) == (b"\7" * 4, b"old!")


def test_streams_have_flags_priorities_and_attributes(calls: Runtime) -> None:
    least, greatest = ctypes.c_int(), ctypes.c_int()
    calls.check("cudaDeviceGetStreamPriorityRange", byref(least), byref(greatest))
    assert greatest.value < least.value == 0
    stream = calls.make("cudaStreamCreateWithPriority", NON_BLOCKING, greatest)
    flags, priority, device = ctypes.c_uint(), ctypes.c_int(), ctypes.c_int(9)
    calls.check("cudaStreamGetFlags", stream, byref(flags))
    calls.check("cudaStreamGetPriority", stream, byref(priority))
    calls.check("cudaStreamGetDevice", stream, byref(device))
    assert (flags.value, priority.value, device.value) == (NON_BLOCKING, greatest.value, 0)
    numbers = {ctypes.c_uint64().value}
    for each in (stream, 0, PER_THREAD):
        number = ctypes.c_uint64()
        calls.check("cudaStreamGetId", each, byref(number))
        numbers.add(number.value)
    assert len(numbers) == 4
    value, copied = (ctypes.c_int * 16)(3), (ctypes.c_int * 16)()
    calls.check("cudaStreamSetAttribute", stream, 3, value)  # how the host waits
    calls.check("cudaStreamCopyAttributes", PER_THREAD, stream)
    calls.check("cudaStreamGetAttribute_ptsz", 0, 3, copied)
    assert list(copied) == list(value)
    assert calls.cudaStreamSetAttribute(stream, 2, value) == INVALID_VALUE
    calls.check("cudaStreamDestroy", stream)
    assert calls.cudaStreamDestroy(0) == INVALID_HANDLE


def test_events_have_the_order_and_the_time_of_their_streams(calls: Runtime, memory: int) -> None:
    stream = calls.make("cudaStreamCreateWithFlags", NON_BLOCKING)
    start, end = calls.make("cudaEventCreate"), calls.make("cudaEventCreateWithFlags", 0)
    calls.check("cudaEventRecord", start, stream)
    calls.check("cudaMemsetAsync", memory, 7, 4, stream)
    assert calls.cudaEventRecordWithFlags(end, stream, 1) == INVALID_VALUE  # no capture
    calls.check("cudaEventRecordWithFlags", end, stream, 0)
    milliseconds = ctypes.c_float(-1)
    assert calls.cudaEventElapsedTime(byref(milliseconds), start, end) == NOT_READY
    calls.check("cudaStreamWaitEvent_ptsz", 0, end, 0)
    assert calls.read(memory, 4, "cudaMemcpy_ptds") == b"\7" * 4
    calls.check("cudaEventSynchronize", end)
    calls.check("cudaEventQuery", start)
    calls.check("cudaEventElapsedTime", byref(milliseconds), start, end)
    assert milliseconds.value >= 0
    calls.check("cudaEventDestroy", start)
    assert calls.cudaEventDestroy(0) == INVALID_HANDLE


def test_a_callback_runs_behind_the_work_of_its_stream(calls: Runtime, memory: int) -> None:
    found: list[object] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    def note(stream: int, status: int, data: int) -> None:
        found.append((stream, status, data))

    stream = calls.make("cudaStreamCreate")
    calls.check("cudaStreamAddCallback", stream, note, 5, 0)
    assert not found
    calls.check("cudaStreamSynchronize", stream)
    assert found == [(stream, 0, 5)]
    assert calls.cudaStreamAddCallback(stream, note, 5, 1) == INVALID_VALUE
    calls.check("cudaStreamBeginCapture", stream, 2)
    assert calls.cudaStreamAddCallback(stream, note, 5, 0) == CAPTURE_UNSUPPORTED
    graph = ctypes.c_void_p()
    assert calls.cudaStreamEndCapture(stream, byref(graph)) != 0
    assert len(found) == 1


@pytest.mark.parametrize("suffix", ["", "_ptsz"])
def test_a_capture_becomes_a_graph_that_runs_at_each_launch(
    calls: Runtime, memory: int, suffix: str
) -> None:
    stream = calls.make("cudaStreamCreateWithFlags", NON_BLOCKING)
    calls.check(f"cudaStreamBeginCapture{suffix}", stream, 0)
    status = ctypes.c_int()
    calls.check(f"cudaStreamIsCapturing{suffix}", stream, byref(status))
    assert status.value == 1
    calls.check(f"cudaMemsetAsync{suffix}", memory, 7, 4, stream)
    graph = ctypes.c_void_p()
    calls.check(f"cudaStreamEndCapture{suffix}", stream, byref(graph))
    assert calls.read(memory, 4) == b"old!"
    executable = calls.make("cudaGraphInstantiate", graph, 0)
    calls.check(f"cudaGraphUpload{suffix}", executable, 0)
    calls.check(f"cudaGraphLaunch{suffix}", executable, 0)
    assert calls.cudaStreamQuery(PER_THREAD if suffix else 1) == NOT_READY
    assert calls.read(memory, 4) == b"\7" * 4
    calls.check("cudaGraphExecDestroy", executable)
    calls.check("cudaGraphDestroy", graph)
    mode = ctypes.c_int(2)
    calls.check("cudaThreadExchangeStreamCaptureMode", byref(mode))
    assert mode.value == 0
    calls.check("cudaThreadExchangeStreamCaptureMode", byref(mode))
