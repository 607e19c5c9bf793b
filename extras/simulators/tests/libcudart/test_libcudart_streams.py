"""The stand-in CUDA runtimes: the order of streams, events, callbacks and captures."""

from __future__ import annotations

import ctypes

import pytest
from runtime_calls import (
    CAPTURE_UNSUPPORTED,
    INVALID_VALUE,
    NOT_READY,
    ON_DEVICE,
    TO_DEVICE,
    TO_HOST,
    Runtime,
)

pytestmark = pytest.mark.row("R55")
NON_BLOCKING = 1
LEGACY = 1
PER_THREAD = 2


@pytest.fixture
def memory(calls: Runtime) -> int:
    """Four bytes of device memory."""
    return calls.upload(b"old!")


@pytest.mark.volume_but("cuda13")
def test_the_legacy_stream_waits_for_others_and_that_of_a_thread_does_not(
    calls: Runtime, memory: int
) -> None:
    stream = calls.make("cudaStreamCreate")
    calls.check("cudaMemsetAsync", memory, 7, 4, stream)
    assert calls.read(memory, 4, "cudaMemcpy_ptds") == b"old!"
    assert calls.read(memory, 4) == b"\7" * 4


@pytest.mark.volume_but("cuda13-", "cuda13-_ptds")
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


@pytest.mark.parametrize(("suffix", "stream"), [("", LEGACY), ("_ptds", PER_THREAD)])
def test_a_copy_within_a_device_and_a_fill_are_not_waited_for(
    calls: Runtime, memory: int, suffix: str, stream: int
) -> None:
    other = calls.upload(b"then")
    calls.check(f"cudaMemcpy{suffix}", other, memory, 4, ON_DEVICE)
    calls.check(f"cudaMemset{suffix}", memory, 7, 4)
    assert calls.cudaStreamQuery(stream) == NOT_READY
    assert (calls.read(memory, 4), calls.read(other, 4)) == (b"\7" * 4, b"old!")


@pytest.mark.volume_but("cuda13")
def test_the_hints_of_a_stream_are_kept(calls: Runtime) -> None:
    stream = calls.make("cudaStreamCreateWithPriority", NON_BLOCKING, -5)
    for name, value in (("Flags", NON_BLOCKING), ("Priority", -5), ("Device", 0)):
        assert calls.get(f"cudaStreamGet{name}", stream, ...) == (value,)
    calls.check("cudaStreamSetAttribute", stream, 3, b"\3" + bytes(63))  # how the host waits
    calls.check("cudaStreamCopyAttributes", PER_THREAD, stream)
    assert calls.get("cudaStreamGetAttribute_ptsz", 0, 3, ...) == (3,)
    assert calls.cudaStreamSetAttribute(stream, 2, bytes(64)) == INVALID_VALUE


@pytest.mark.volume_but("cuda13")
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
    calls.check("cudaStreamBeginCapture", stream, 2)
    assert calls.cudaStreamAddCallback(stream, note, 5, 0) == CAPTURE_UNSUPPORTED
    assert calls.cudaStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())) != 0


@pytest.mark.parametrize(("suffix", "where"), [("", LEGACY), ("_ptsz", PER_THREAD)])
def test_a_capture_becomes_a_graph_that_runs_in_a_stream(
    calls: Runtime, memory: int, suffix: str, where: int
) -> None:
    stream = calls.make("cudaStreamCreateWithFlags", NON_BLOCKING)
    calls.check(f"cudaStreamBeginCapture{suffix}", stream, 0)
    assert calls.get(f"cudaStreamIsCapturing{suffix}", stream, ...) == (1,)
    calls.check(f"cudaMemsetAsync{suffix}", memory, 7, 4, stream)
    (graph,) = calls.get(f"cudaStreamEndCapture{suffix}", stream, ..., form="Q")
    executable = calls.make("cudaGraphInstantiate", graph, 0)
    calls.check(f"cudaGraphLaunch{suffix}", executable, 0)
    assert calls.cudaStreamQuery(where) == NOT_READY
    assert calls.read(memory, 4) == b"\7" * 4
