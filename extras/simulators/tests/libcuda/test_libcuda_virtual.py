"""Virtual memory: addresses that are reserved, memory of a device, and maps of one to the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_calls import cuda, driver, errors

from devmod_simulators import StandinDriver

SIZE = 2 << 20
READWRITE = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE


def properties(device: int = 0) -> Any:
    prop = cuda.CUmemAllocationProp()
    prop.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = device
    return prop


def access(address: int, size: int, flags: Any = READWRITE, device: int = 0) -> str:
    desc = cuda.CUmemAccessDesc()
    desc.location = properties(device).location
    desc.flags = flags
    return errors.cuMemSetAccess(address, size, [desc], 1)


def create(size: int = SIZE) -> Any:
    return driver.cuMemCreate(size, properties(), 0)


def reserve(size: int) -> int:
    return int(driver.cuMemAddressReserve(size, 0, 0, 0))


def write(address: int, values: np.ndarray) -> str:
    return errors.cuMemcpyHtoD(address, values.ctypes.data, values.nbytes)


def read(address: int, count: int) -> list[int]:
    out = np.zeros(count, np.uint32)
    driver.cuMemcpyDtoH(out.ctypes.data, address, out.nbytes)
    return out.tolist()


@pytest.mark.usefixtures("context")
def test_memory_grows_behind_its_addresses(standin: StandinDriver) -> None:
    """As vectors that grow: copies and fills go over the ends of the parts."""
    granularity = driver.cuMemGetAllocationGranularity(
        properties(), cuda.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    )
    assert granularity == SIZE
    start = reserve(4 * SIZE)
    parts = [create(), create()]
    free, total = driver.cuMemGetInfo()
    assert total - free >= 2 * SIZE
    driver.cuMemMap(start, SIZE, 0, parts[0], 0)
    values = np.arange(4, dtype=np.uint32)
    assert write(start, values) == "CUDA_ERROR_INVALID_VALUE"  # no access yet
    assert access(start, SIZE) == "CUDA_SUCCESS"
    assert write(start + SIZE - 16, values) == "CUDA_SUCCESS"
    driver.cuMemMap(start + SIZE, SIZE, 0, parts[1], 0)
    assert access(start + SIZE, SIZE) == "CUDA_SUCCESS"
    assert write(start + SIZE - 8, values) == "CUDA_SUCCESS"
    assert read(start + SIZE - 16, 6) == [0, 1, 0, 1, 2, 3]
    driver.cuMemsetD32(start, 7, 2 * SIZE // 4)
    for part in parts:
        driver.cuMemRelease(part)
    assert read(start + 2 * SIZE - 8, 2) == [7, 7]
    assert errors.cuMemAddressFree(start, 4 * SIZE) == "CUDA_ERROR_INVALID_VALUE"  # it is mapped
    driver.cuMemUnmap(start, 2 * SIZE)
    driver.cuMemAddressFree(start, 4 * SIZE)
    assert driver.cuMemGetInfo()[0] == free + 2 * SIZE
    assert standin.report["memory-handles"] == 0
    standin.api.standin_forget()  # the write without access


@pytest.mark.usefixtures("context")
def test_memory_keeps_its_contents_while_it_is_not_mapped(standin: StandinDriver) -> None:
    start, other = reserve(SIZE), reserve(SIZE)
    memory = create()
    driver.cuMemMap(start, SIZE, 0, memory, 0)
    access(start, SIZE)
    write(start, np.array([1, 2], np.uint32))
    assert int(driver.cuMemRetainAllocationHandle(start)) == int(memory)
    driver.cuMemRelease(memory)
    assert errors.cuMemMap(other, SIZE, 0, memory, 0) == "CUDA_ERROR_NOT_SUPPORTED"
    assert standin.reason == "the simulated GPU maps memory to one range of addresses at a time"
    driver.cuMemUnmap(start, SIZE)
    driver.cuMemMap(other, SIZE, 0, memory, 0)
    access(other, SIZE)
    assert read(other, 2) == [1, 2]
    assert int(driver.cuMemGetAccess(properties().location, other)) == int(READWRITE)
    driver.cuMemUnmap(other, SIZE)
    driver.cuMemRelease(memory)
    driver.cuMemAddressFree(start, SIZE)
    driver.cuMemAddressFree(other, SIZE)


@pytest.mark.usefixtures("context")
def test_a_kernel_has_the_mapped_memory() -> None:
    ptx = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b64 %x, %y; .reg .b32 %t;
    ld.param.u64 %x, [p]; mov.u32 %t, %tid.x; mul.wide.u32 %y, %t, 4; add.u64 %x, %x, %y;
    st.global.u32 [%x], %t; ret;
}
"""
    function = driver.cuModuleGetFunction(driver.cuModuleLoadData(ptx), b"k")
    start = reserve(2 * SIZE)
    for at in (start, start + SIZE):
        memory = create()
        driver.cuMemMap(at, SIZE, 0, memory, 0)
        driver.cuMemRelease(memory)
    access(start, 2 * SIZE)

    def run(address: int) -> str:
        argument = np.array([address], np.uint64)
        pointers = np.array([argument.ctypes.data], np.uint64)
        driver.cuLaunchKernel(function, 1, 1, 1, 8, 1, 1, 0, 0, pointers.ctypes.data, 0)
        return errors.cuCtxSynchronize()

    assert run(start + SIZE - 16) == "CUDA_SUCCESS"
    assert read(start + SIZE - 16, 8) == list(range(8))
    assert run(start + 2 * SIZE - 16) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    driver.cuMemUnmap(start, 2 * SIZE)
    driver.cuMemAddressFree(start, 2 * SIZE)


@pytest.mark.usefixtures("context")
def test_what_is_refused() -> None:
    start = reserve(2 * SIZE)
    memory = create()
    invalid = "CUDA_ERROR_INVALID_VALUE"
    assert errors.cuMemCreate(SIZE + 1, properties(), 0) == invalid
    assert errors.cuMemCreate(1 << 50, properties(), 0) == "CUDA_ERROR_OUT_OF_MEMORY"
    assert errors.cuMemCreate(SIZE, properties(9), 0) == "CUDA_ERROR_INVALID_DEVICE"
    assert errors.cuMemAddressReserve(1 << 50, 0, 0, 0) == "CUDA_ERROR_OUT_OF_MEMORY"
    assert errors.cuMemMap(start + 2 * SIZE, SIZE, 0, memory, 0) == invalid
    assert errors.cuMemMap(start, 2 * SIZE, 0, memory, 0) == invalid
    driver.cuMemMap(start, SIZE, 0, memory, 0)
    second = create()
    assert errors.cuMemMap(start, SIZE, 0, second, 0) == invalid
    assert access(start, 2 * SIZE) == invalid  # the second half is not mapped
    assert errors.cuMemUnmap(start + SIZE, SIZE) == invalid
    driver.cuMemUnmap(start, SIZE)
    for each in (memory, second):
        driver.cuMemRelease(each)
    driver.cuMemAddressFree(start, 2 * SIZE)
