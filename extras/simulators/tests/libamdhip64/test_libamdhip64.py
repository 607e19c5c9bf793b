"""The stand-in HIP runtime itself, through ctypes: where it is not CUDA's. test_libcuda.py tests
the code that both stand-ins have.
"""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest
from hip_calls import (
    INVALID_VALUE,
    NOT_READY,
    OUT_OF_MEMORY,
    SUCCESS,
    allocate,
    check,
    hip,
    made,
    read,
    signatures,
    stream,
)

from devmod_simulators import StandinDriver
from devmod_standins import libamdhip64

pytestmark = pytest.mark.usefixtures("standin")


def zeros() -> int:
    """Return device memory of four zeros."""
    return allocate(np.zeros(4, np.int32))


def test_the_list_of_calls_is_what_the_library_exports() -> None:
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", libamdhip64.build()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[2::3]
    assert sorted(each for each in symbols if each.startswith("hip")) == sorted(signatures())


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
    # It is not a device pointer.
    assert hip.hipMemcpy(values.ctypes.data, values.ctypes.data, 16, 1) == INVALID_VALUE
    assert hip.hipMemcpy(memory, values.ctypes.data, 16, 5) == 21  # hipErrorInvalidMemcpyDirection


def test_rows_are_copied_with_their_pitches() -> None:
    pitch, pointer = ctypes.c_size_t(), ctypes.c_void_p()
    check(hip.hipMallocPitch(ctypes.byref(pointer), ctypes.byref(pitch), 12, 2))
    values, result = np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros((2, 3), np.int32)
    check(hip.hipMemcpy2D(pointer, pitch.value, values.ctypes.data, 12, 12, 2, 1))
    check(hip.hipMemcpy2D(result.ctypes.data, 12, pointer, pitch.value, 12, 2, 2))
    assert result.tolist() == values.tolist()
    assert hip.hipMemcpy2D(result.ctypes.data, 11, pointer, pitch.value, 12, 2, 2) == INVALID_VALUE


def test_an_error_of_a_thread_is_kept_until_it_is_read(standin: StandinDriver) -> None:
    queue, memory = stream(), zeros()
    hip.hipGetLastError()  # that of another test
    check(hip.hipMemsetD32Async(memory, 1, 4, queue))
    assert (hip.hipStreamQuery(queue), hip.hipGetLastError()) == (
        NOT_READY,
        SUCCESS,
    )  # "not ready" is no error of the thread
    standin.set("fail", f"hipMalloc={OUT_OF_MEMORY}")
    assert hip.hipMalloc(ctypes.byref(ctypes.c_void_p()), 16) == OUT_OF_MEMORY
    assert (hip.hipGetLastError(), hip.hipGetLastError()) == (OUT_OF_MEMORY, SUCCESS)


def test_zero_bytes_are_a_null_pointer() -> None:
    assert made(hip.hipMalloc, 0) == 0
    assert hip.hipFree(None) == SUCCESS


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
