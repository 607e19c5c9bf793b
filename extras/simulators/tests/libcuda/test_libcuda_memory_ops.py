"""Stream memory operations: writes of numbers, and waits for them."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest
from cuda_calls import allocate, cuda, driver, errors

GEQ, EQ, AND, NOR = range(4)


def stream() -> Any:
    return driver.cuStreamCreate(1)


def read(address: Any, dtype: str = "u4") -> int:
    out = np.zeros(1, dtype)
    driver.cuMemcpyDtoH(out.ctypes.data, address, out.nbytes)
    return int(out[0])


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("width", [32, 64])
def test_a_stream_waits_for_what_another_one_writes(width: int) -> None:
    flag, data = allocate(np.zeros(1, "u8")), allocate(np.zeros(4, "u4"))
    value = 7 if width == 32 else 7 << 32
    write = getattr(driver, f"cuStreamWriteValue{width}")
    wait = getattr(driver, f"cuStreamWaitValue{width}")
    first, second = stream(), stream()
    wait(second, flag, value, EQ)
    driver.cuMemsetD32Async(data, 2, 4, second)
    assert errors.cuStreamQuery(second) == "CUDA_ERROR_NOT_READY"
    driver.cuMemsetD32Async(data, 1, 4, first)
    write(first, flag, value, 0)
    driver.cuStreamSynchronize(second)
    assert read(data) == 2
    assert read(flag, f"u{width // 8}") == value


@pytest.mark.usefixtures("context")
def test_a_stream_waits_for_what_the_host_writes() -> None:
    pinned = driver.cuMemHostAlloc(4, 0)
    number = ctypes.c_uint32.from_address(int(pinned))
    number.value = 0
    data = allocate(np.zeros(4, "u4"))
    own = stream()
    driver.cuStreamWaitValue32(own, driver.cuMemHostGetDevicePointer(pinned, 0), 3, GEQ)
    driver.cuMemsetD32Async(data, 5, 4, own)
    assert errors.cuStreamQuery(own) == "CUDA_ERROR_NOT_READY"

    def set_number() -> None:
        number.value = 3

    thread = threading.Timer(0.2, set_number)
    thread.start()
    driver.cuStreamSynchronize(own)
    thread.join()
    assert read(data) == 5


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(
    ("flag", "value", "wanted", "is_done"),
    [
        (GEQ, 5, 5, True),
        (GEQ, 4, 5, False),
        (GEQ, 0x80000001, 0x7FFFFFFF, True),
        (EQ, 5, 4, False),
        (AND, 6, 2, True),
        (AND, 6, 1, False),
        (NOR, 0xFFFFFFF0, 0xF, False),
        (NOR, 0xFFFFFFF0, 0x7, True),
    ],
)
def test_conditions(flag: int, value: int, wanted: int, is_done: bool) -> None:
    address = allocate(np.array([value], "u4"))
    own = stream()
    driver.cuStreamWaitValue32(own, address, wanted, flag)
    expected = "CUDA_SUCCESS" if is_done else "CUDA_ERROR_NOT_READY"
    for _ in range(2):
        state = errors.cuStreamQuery(own)
    assert state == expected
    driver.cuStreamWriteValue32(stream(), address, wanted if flag != NOR else 0, 0)
    driver.cuStreamSynchronize(own)


@pytest.mark.usefixtures("context")
def test_a_batch() -> None:
    address = allocate(np.zeros(2, "u8"))
    operations = []
    kinds = cuda.CUstreamBatchMemOpType
    for kind, offset, value in (
        (kinds.CU_STREAM_MEM_OP_WRITE_VALUE_32, 0, 9),
        (kinds.CU_STREAM_MEM_OP_BARRIER, 0, 0),
        (kinds.CU_STREAM_MEM_OP_WAIT_VALUE_32, 0, 9),
        (kinds.CU_STREAM_MEM_OP_WRITE_VALUE_64, 8, 1 << 40),
    ):
        each = cuda.CUstreamBatchMemOpParams()
        each.operation = kind
        part = each.writeValue
        part.operation = kind
        part.address = cuda.CUdeviceptr(int(address) + offset)
        if kind == kinds.CU_STREAM_MEM_OP_WRITE_VALUE_64:
            part.value64 = cuda.cuuint64_t(value)
        else:
            part.value = cuda.cuuint32_t(value)
        if kind != kinds.CU_STREAM_MEM_OP_BARRIER:
            each.writeValue = part
        operations.append(each)
    own = stream()
    driver.cuStreamBatchMemOp(own, len(operations), operations, 0)
    driver.cuStreamSynchronize(own)
    assert read(address) == 9
    assert read(int(address) + 8, "u8") == 1 << 40


@pytest.mark.usefixtures("context")
def test_what_is_refused() -> None:
    address = allocate(np.zeros(1, "u8"))
    own = stream()
    assert errors.cuStreamWriteValue32(own, int(address) + 2, 0, 0) == "CUDA_ERROR_INVALID_VALUE"
    assert errors.cuStreamWriteValue32(own, address, 0, 2) == "CUDA_ERROR_INVALID_VALUE"
    assert errors.cuStreamWaitValue32(own, address, 0, 1 << 30) == "CUDA_ERROR_NOT_SUPPORTED"
    driver.cuStreamBeginCapture(own, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    assert errors.cuStreamWriteValue32(own, address, 0, 0) == "CUDA_ERROR_NOT_SUPPORTED"
    driver.cuStreamEndCapture(own)
