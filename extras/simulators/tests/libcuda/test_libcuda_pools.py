"""Pools of memory by location, and allocations of no bytes, through cuda-bindings."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda_calls import check, code, cuda, driver, errors

pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.volume_but]

INVALID = "CUDA_ERROR_INVALID_VALUE"
TYPES = {
    "pinned": cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED,
    "managed": cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_MANAGED,
}
#: The locations of pools, and whether the host may access their memory.
PLACES = [
    ("pinned", "DEVICE", False),
    ("pinned", "HOST", True),
    ("pinned", "HOST_NUMA", True),
    ("managed", "NONE", True),
    ("managed", "DEVICE", True),
    ("managed", "HOST", True),
]


def location(name: str, number: int = 0) -> Any:
    """Return a CUmemLocation."""
    result = cuda.CUmemLocation()
    result.type = getattr(cuda.CUmemLocationType, f"CU_MEM_LOCATION_TYPE_{name}")
    result.id = number
    return result


def create(kind: str, place: str, number: int = 0, **fields: Any) -> Any:
    """Call cuMemPoolCreate."""
    properties = cuda.CUmemPoolProps()
    properties.allocType = TYPES[kind]
    properties.location = location(place, number)
    for name, value in fields.items():
        setattr(properties, name, value)
    return cuda.cuMemPoolCreate(properties)


def used(pool: Any) -> int:
    """Return the bytes of a pool's allocations."""
    current = cuda.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    return int(driver.cuMemPoolGetAttribute(pool, current))


@pytest.mark.parametrize(("kind", "place", "by_host"), PLACES)
def test_a_location_has_a_default_pool_and_a_current_one(
    kind: str, place: str, by_host: bool
) -> None:
    where = location(place), TYPES[kind]
    default = int(driver.cuMemGetDefaultMemPool(*where))
    assert int(driver.cuMemGetMemPool(*where)) == default
    pool = check(create(kind, place))
    driver.cuMemSetMemPool(*where, pool)
    assert int(driver.cuMemGetMemPool(*where)) == int(pool)
    driver.cuMemPoolDestroy(pool)
    assert int(driver.cuMemGetMemPool(*where)) == default
    assert errors.cuMemPoolDestroy(cuda.CUmemoryPool(default)) == INVALID
    if (kind, place) == ("pinned", "DEVICE"):
        assert int(driver.cuDeviceGetDefaultMemPool(0)) == default


@pytest.mark.parametrize(("kind", "place", "by_host"), PLACES)
def test_a_pool_allocates_where_its_location_is(kind: str, place: str, by_host: bool) -> None:
    pool = check(create(kind, place))
    access = driver.cuMemPoolGetAccess(pool, location("HOST"))
    assert access.name.endswith("READWRITE") == by_host
    pointer = driver.cuMemAllocFromPoolAsync(64, pool, 0)
    assert used(pool) == 64
    driver.cuMemsetD32Async(pointer, 7, 16, 0)
    driver.cuCtxSynchronize()
    if by_host:
        assert (ctypes.c_int * 16).from_address(int(pointer))[15] == 7
    is_managed = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED
    assert bool(driver.cuPointerGetAttribute(is_managed, pointer)) == (kind == "managed")
    driver.cuMemFreeAsync(pointer, 0)
    driver.cuCtxSynchronize()
    assert used(pool) == 0


def test_a_pool_has_one_location() -> None:
    host = check(create("pinned", "HOST"))
    device, pinned = location("DEVICE"), TYPES["pinned"]
    assert errors.cuMemSetMemPool(device, pinned, host) == INVALID
    assert errors.cuMemSetMemPool(location("HOST"), TYPES["managed"], host) == INVALID
    assert errors.cuDeviceSetMemPool(0, host) == INVALID
    assert errors.cuMemGetMemPool(location("NONE"), pinned) == INVALID
    assert errors.cuMemGetMemPool(location("HOST_NUMA", 1), pinned) == INVALID
    assert errors.cuMemGetMemPool(location("DEVICE", 9), pinned) == "CUDA_ERROR_INVALID_DEVICE"
    assert code(create("pinned", "HOST_NUMA_CURRENT")) == INVALID
    assert code(create("managed", "DEVICE", maxSize=1 << 20)) == INVALID
    shared = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    assert code(create("pinned", "HOST", handleTypes=shared)) == INVALID
    assert code(create("pinned", "DEVICE", handleTypes=shared)) == "CUDA_ERROR_NOT_SUPPORTED"


@pytest.mark.parametrize("captures", [False, True])
def test_a_stream_allocates_no_bytes(captures: bool) -> None:
    stream = driver.cuStreamCreate(1)
    if captures:
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        driver.cuStreamBeginCapture(stream, mode)
    pool = driver.cuDeviceGetDefaultMemPool(0)
    before = used(pool)
    for pointer in (
        driver.cuMemAllocAsync(0, stream),
        driver.cuMemAllocFromPoolAsync(0, pool, stream),
    ):
        assert int(pointer) == 0
        driver.cuMemFreeAsync(pointer, stream)
    if captures:
        graph = driver.cuStreamEndCapture(stream)
        assert driver.cuGraphGetNodes(graph, 1)[1] == 0
    assert used(pool) == before
    assert errors.cuMemAlloc(0) == INVALID
