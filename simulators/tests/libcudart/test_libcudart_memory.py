"""The stand-in CUDA runtimes: allocations, copies, fills, pools and arrays."""

from __future__ import annotations

import ctypes
from ctypes import byref

import pytest
from runtime_calls import (
    DEFAULT,
    INVALID_CHANNEL_DESCRIPTOR,
    INVALID_DEVICE,
    INVALID_DIRECTION,
    INVALID_PITCH,
    INVALID_VALUE,
    ON_DEVICE,
    OUT_OF_MEMORY,
    TO_DEVICE,
    TO_HOST,
    ChannelFormat,
    Copy3D,
    Extent,
    Location,
    PitchedPointer,
    PointerAttributes,
    Runtime,
)

pytestmark = pytest.mark.row("R55")
TEXT = bytes(range(48))


@pytest.mark.parametrize("default", [False, True], ids=["kind", "default"])
@pytest.mark.parametrize("form", ["cudaMemcpy", "cudaMemcpy_ptds"])
def test_a_copy_goes_where_its_kind_says(calls: Runtime, form: str, default: bool) -> None:
    first, second = (calls.make("cudaMalloc", 48) for _ in range(2))
    target = ctypes.create_string_buffer(48)
    for to, source, kind in ((first, TEXT, 1), (second, first, 3), (target, second, 2)):
        calls.check(form, to, source, 48, DEFAULT if default else kind)
    assert target.raw == TEXT
    other = ctypes.create_string_buffer(48)
    calls.check(form, other, target, 48, DEFAULT if default else 0)
    assert other.raw == TEXT


def test_a_copy_with_an_unknown_kind_is_refused(calls: Runtime) -> None:
    pointer = calls.make("cudaMalloc", 48)
    for kind in (-1, 5):
        assert calls.cudaMemcpy(pointer, TEXT, 48, kind) == INVALID_DIRECTION
    assert calls.cudaMemcpy(TEXT, TEXT, 48, TO_DEVICE) == INVALID_VALUE


def test_zero_bytes_are_no_error_and_no_memory(calls: Runtime) -> None:
    for name in ("cudaMalloc", "cudaMallocHost"):
        assert calls.make(name, 0) == 0
    assert calls.make("cudaHostAlloc", 0, 0) == 0
    assert calls.make("cudaMallocAsync", 0, 0) == 0
    for name in ("cudaFree", "cudaFreeHost", "cudaFreeArray"):
        calls.check(name, 0)
    calls.check("cudaMemcpy", 0, 0, 0, TO_DEVICE)
    calls.check("cudaMemset", 0, 1, 0)


def test_rows_of_a_pitch_are_copied_and_filled(calls: Runtime) -> None:
    pitch = ctypes.c_size_t()
    pointer = calls.make("cudaMallocPitch", byref(pitch), 12, 4)
    assert pitch.value % 512 == 0
    calls.check("cudaMemcpy2D", pointer, pitch, TEXT, 12, 12, 4, TO_DEVICE)
    calls.check("cudaMemset2D", pointer + 4, pitch, 255, 4, 2)
    target = ctypes.create_string_buffer(64)
    calls.check("cudaMemcpy2D", target, 16, pointer, pitch, 12, 4, TO_HOST)
    rows = [target.raw[start : start + 12] for start in range(0, 64, 16)]
    filled = [TEXT[:4] + b"\xff" * 4 + TEXT[8:12], TEXT[12:16] + b"\xff" * 4 + TEXT[20:24]]
    assert rows == [*filled, TEXT[24:36], TEXT[36:]]
    assert calls.cudaMemcpy2D(target, 8, pointer, pitch, 12, 4, TO_HOST) == INVALID_PITCH


def test_a_box_is_copied_out_of_a_space(calls: Runtime) -> None:
    space = PitchedPointer()
    calls.check("cudaMalloc3D", byref(space), Extent(4, 3, 4))
    assert (space.width, space.height) == (4, 3)
    host = PitchedPointer(ctypes.cast(TEXT, ctypes.c_void_p), 4, 4, 3)
    copy = Copy3D(source=host, target=space, extent=Extent(4, 3, 4), kind=TO_DEVICE)
    calls.check("cudaMemcpy3D", byref(copy))
    calls.check("cudaMemset3D", space, 255, Extent(4, 1, 2))
    target = ctypes.create_string_buffer(8)
    box = PitchedPointer(ctypes.addressof(target), 2, 2, 2)
    copy = Copy3D(source=space, target=box, extent=Extent(2, 2, 2), kind=TO_HOST)
    copy.source_at = Extent(1, 0, 1)
    calls.check("cudaMemcpy3D", byref(copy))
    assert target.raw == b"\xff\xff" + TEXT[17:19] + TEXT[25:27] + TEXT[29:31]
    copy.source_array = copy.target_array = 0
    copy.source = PitchedPointer()
    assert calls.cudaMemcpy3D(byref(copy)) == INVALID_VALUE


def test_attributes_say_what_a_pointer_is(calls: Runtime) -> None:
    own = ctypes.create_string_buffer(4096)
    registered = ctypes.create_string_buffer(4096)
    calls.check("cudaHostRegister", registered, 4096, 0)
    device = calls.make("cudaMalloc", 16)
    pinned = calls.make("cudaMallocHost", 16)
    managed = calls.make("cudaMallocManaged", 16, 1)
    known = ctypes.addressof(registered)
    mapped = calls.make("cudaHostGetDevicePointer", registered, 0)
    assert mapped != known  # kernels run in a process of their own
    expected = {
        ctypes.addressof(own): (0, -2, None, ctypes.addressof(own)),
        known: (1, 0, mapped, known),
        pinned: (1, 0, pinned, pinned),
        device: (2, 0, device, None),
        managed: (3, 0, managed, managed),
    }
    for pointer, values in expected.items():
        found = PointerAttributes()
        calls.check("cudaPointerGetAttributes", byref(found), pointer)
        assert (found.type, found.device, found.device_pointer, found.host_pointer) == values
    calls.check("cudaHostUnregister", registered)


def advise(calls: Runtime, pointer: int, advice: int, device: int) -> int:
    """Call the form of cudaMemAdvise that each version has."""
    if calls.major == 12:
        location = Location(2 if device < 0 else 1, max(device, 0))
        calls.check("cudaMemAdvise_v2", pointer, 64, advice, location)
        return calls.cudaMemAdvise(pointer, 64, advice, device)
    return calls.cudaMemAdvise(pointer, 64, advice, Location(2 if device < 0 else 1, device))


def test_advice_and_prefetches_are_kept_for_managed_memory(calls: Runtime) -> None:
    managed = calls.make("cudaMallocManaged", 64, 1)
    assert [advise(calls, managed, advice, -1) for advice in (1, 3, 5)] == [0, 0, 0]
    where: tuple[object, ...] = (0,)
    if calls.major == 13:
        where = (Location(1, 0), 0)
    calls.check("cudaMemPrefetchAsync", managed, 64, *where, 0)
    first, second = ctypes.c_int(), ctypes.c_int()
    found = []
    for attribute in (1, 2, 3, 4):
        value = ctypes.c_int()
        calls.check("cudaMemRangeGetAttribute", byref(value), 4, attribute, managed, 64)
        found.append(value.value)
    assert found == [1, -1, -1, 0]
    kinds, sizes = (ctypes.c_int * 2)(1, 2), (ctypes.c_size_t * 2)(4, 4)
    places = (ctypes.c_void_p * 2)(*(ctypes.addressof(each) for each in (first, second)))
    calls.check("cudaMemRangeGetAttributes", places, sizes, kinds, 2, managed, 64)
    assert (first.value, second.value) == (1, -1)
    plain = calls.make("cudaMalloc", 64)
    assert calls.cudaMemPrefetchAsync(plain, 64, *where, 0) == INVALID_VALUE


def test_a_pool_gives_memory_up_to_its_size(calls: Runtime) -> None:
    properties = (ctypes.c_uint32 * 32)(1, 0, 1, 0)  # pinned memory of device 0
    properties[6] = 4096
    pool = calls.make("cudaMemPoolCreate", properties)
    pointer = calls.make("cudaMallocFromPoolAsync", 3000, pool, 0)
    other = ctypes.c_void_p()
    assert calls.cudaMallocFromPoolAsync(byref(other), 2000, pool, 0) == OUT_OF_MEMORY
    calls.check("cudaFreeAsync", pointer, 0)
    calls.check("cudaStreamSynchronize", 0)
    used = [ctypes.c_uint64(), ctypes.c_uint64()]
    for number, attribute in enumerate((7, 8)):  # current and high
        calls.check("cudaMemPoolGetAttribute", pool, attribute, byref(used[number]))
    assert [each.value for each in used] == [0, 3000]
    calls.check("cudaDeviceSetMemPool", 0, pool)
    assert calls.make("cudaDeviceGetMemPool", 0) == pool
    calls.check("cudaMemPoolDestroy", pool)
    default = calls.make("cudaDeviceGetDefaultMemPool", 0)
    assert calls.make("cudaDeviceGetMemPool", 0) == default != pool
    assert calls.cudaMemPoolDestroy(default) == INVALID_VALUE
    assert calls.cudaDeviceGetMemPool(byref(other), 9) == INVALID_DEVICE


def test_the_bytes_of_an_array_go_on_in_its_next_row(calls: Runtime) -> None:
    form = ChannelFormat(16, 16, 0, 0, 1)
    array = calls.make("cudaMallocArray", byref(form), 3, 4, 0)
    calls.check("cudaMemcpyToArray", array, 0, 0, TEXT, 48, TO_DEVICE)
    calls.check("cudaMemcpyToArray", array, 8, 0, b"\xff" * 12, 12, TO_DEVICE)
    copy = calls.make("cudaMallocArray", byref(form), 3, 4, 0)
    calls.check("cudaMemcpy2DArrayToArray", copy, 0, 0, array, 0, 0, 12, 4, ON_DEVICE)
    target = ctypes.create_string_buffer(48)
    calls.check("cudaMemcpy2DFromArray", target, 12, copy, 0, 0, 12, 4, TO_HOST)
    assert target.raw == TEXT[:8] + b"\xff" * 12 + TEXT[20:]
    part = ctypes.create_string_buffer(8)
    calls.check("cudaMemcpyFromArray", part, copy, 8, 2, 8, TO_HOST)
    assert part.raw == TEXT[32:40]
    for each in (array, copy):
        calls.check("cudaFreeArray", each)


def test_an_array_has_the_format_of_its_channels(calls: Runtime) -> None:
    form = ChannelFormat(32, 0, 0, 0, 2)
    array = calls.make("cudaMalloc3DArray", byref(form), Extent(5, 4, 3), 2)
    found, extent, flags = ChannelFormat(), Extent(), ctypes.c_uint()
    calls.check("cudaArrayGetInfo", byref(found), byref(extent), byref(flags), array)
    assert bytes(found) == bytes(form)
    assert bytes(extent) == bytes(Extent(5, 4, 3))
    assert flags.value == 2
    for wrong in (ChannelFormat(32, 16, 0, 0, 0), ChannelFormat(8, 0, 0, 0, 2), ChannelFormat()):
        result = ctypes.c_void_p()
        code = calls.cudaMallocArray(byref(result), byref(wrong), 4, 4, 0)
        assert code == INVALID_CHANNEL_DESCRIPTOR
    calls.check("cudaFreeArray", array)


def test_a_mipmapped_array_has_a_smaller_array_for_each_level(calls: Runtime) -> None:
    form = ChannelFormat(8, 0, 0, 0, 1)
    mipmap = calls.make("cudaMallocMipmappedArray", byref(form), Extent(8, 4, 0), 3, 0)
    level = calls.make("cudaGetMipmappedArrayLevel", mipmap, 1)
    extent = Extent()
    calls.check("cudaArrayGetInfo", None, byref(extent), None, level)
    assert bytes(extent) == bytes(Extent(4, 2, 0))
    calls.check("cudaMemcpy2DToArray", level, 0, 0, TEXT, 4, 4, 2, TO_DEVICE)
    target = ctypes.create_string_buffer(8)
    calls.check("cudaMemcpy2DFromArray", target, 4, level, 0, 0, 4, 2, TO_HOST)
    assert target.raw == TEXT[:8]
    calls.check("cudaFreeMipmappedArray", mipmap)
    calls.check("cudaFreeMipmappedArray", 0)
