"""The stand-in CUDA runtimes: allocations, copies, fills, pools and arrays."""

from __future__ import annotations

import ctypes
import struct
from ctypes import addressof, create_string_buffer
from itertools import product

import pytest
from runtime_calls import (
    DEFAULT,
    INVALID_CHANNEL_DESCRIPTOR,
    INVALID_DIRECTION,
    INVALID_PITCH,
    INVALID_VALUE,
    ON_DEVICE,
    TO_DEVICE,
    TO_HOST,
    Extent,
    PitchedPointer,
    Runtime,
)

pytestmark = pytest.mark.row("R55")
TEXT = bytes(range(48))


@pytest.mark.parametrize("default", [False, True], ids=["kind", "default"])
@pytest.mark.parametrize("form", ["cudaMemcpy", "cudaMemcpy_ptds"])
def test_a_copy_goes_where_its_kind_says(calls: Runtime, form: str, default: bool) -> None:
    first, second = calls.make("cudaMalloc", 48), calls.make("cudaMalloc", 48)
    target, other = create_string_buffer(48), create_string_buffer(48)
    ways = ((first, TEXT, 1), (second, first, 3), (target, second, 2), (other, target, 0))
    for to, source, kind in ways:
        calls.check(form, to, source, 48, DEFAULT if default else kind)
    assert other.raw == TEXT


def test_a_copy_of_another_kind_is_refused(calls: Runtime) -> None:
    pointer = calls.make("cudaMalloc", 48)
    for kind in (-1, 5):
        assert calls.cudaMemcpy(pointer, TEXT, 48, kind) == INVALID_DIRECTION
    assert calls.cudaMemcpy(TEXT, TEXT, 48, TO_DEVICE) == INVALID_VALUE


def test_zero_bytes_are_no_error_and_no_memory(calls: Runtime) -> None:
    for name in ("cudaMalloc", "cudaMallocHost", "cudaHostAlloc", "cudaMallocAsync"):
        assert calls.make(name, 0, 0) == 0
    for name in ("cudaFree", "cudaFreeHost", "cudaFreeArray", "cudaFreeMipmappedArray"):
        calls.check(name, 0)
    calls.check("cudaMemcpy", 0, 0, 0, TO_DEVICE)
    calls.check("cudaMemset", 0, 1, 0)


def test_rows_of_a_pitch_are_copied_and_filled(calls: Runtime) -> None:
    pitch = ctypes.c_size_t()
    pointer = calls.make("cudaMallocPitch", ctypes.byref(pitch), 12, 4)
    calls.check("cudaMemcpy2D", pointer, pitch, TEXT, 12, 12, 4, TO_DEVICE)
    calls.check("cudaMemset2D", pointer + 4, pitch, 255, 4, 2)
    target = create_string_buffer(48)
    calls.check("cudaMemcpy2D", target, 12, pointer, pitch, 12, 4, TO_HOST)
    filled = TEXT[:4] + b"\xff" * 4 + TEXT[8:16] + b"\xff" * 4 + TEXT[20:]
    assert target.raw == filled


@pytest.mark.volume_but("cuda13")
def test_a_row_is_no_wider_than_the_pitch_of_each_side(calls: Runtime) -> None:
    pointer = calls.make("cudaMalloc", 64)
    array = calls.make("cudaMallocArray", struct.pack("5i", 8, 0, 0, 0, 0), 12, 4, 0)
    target = create_string_buffer(48)
    for is_valid, pitch in ((True, 12), (False, 11)):
        for name, *arguments in (
            ("cudaMemcpy2D", pointer, pitch, TEXT, 12, 12, 4, TO_DEVICE),
            ("cudaMemcpy2D", pointer, 12, TEXT, pitch, 12, 4, TO_DEVICE),
            ("cudaMemcpy2D", target, pitch, pointer, 12, 12, 4, TO_HOST),
            ("cudaMemcpy2D", target, 12, pointer, pitch, 12, 4, TO_HOST),
            ("cudaMemcpy2DToArray", array, 0, 0, TEXT, pitch, 12, 4, TO_DEVICE),
            ("cudaMemcpy2DFromArray", target, pitch, array, 0, 0, 12, 4, TO_HOST),
        ):
            expected = 0 if is_valid else INVALID_PITCH
            assert (calls[name](*arguments), name, arguments) == (expected, name, arguments)


def test_a_box_is_copied_out_of_a_space(calls: Runtime) -> None:
    space = calls.get("cudaMalloc3D", ..., Extent((4, 3, 4)), form="4Q")
    assert space[2:] == (4, 3)
    data, target = create_string_buffer(TEXT, 48), create_string_buffer(8)
    no_array = (0,) * 4  # an array, and a position
    host, box = (addressof(data), 4, 4, 3), (addressof(target), 2, 2, 2)
    fill = (*no_array, *host, *no_array, *space, 4, 3, 4, TO_DEVICE)
    calls.check("cudaMemcpy3D", struct.pack("20Q", *fill))
    calls.check("cudaMemset3D", PitchedPointer(space), 255, Extent((4, 1, 2)))
    copy = (0, 1, 0, 1, *space, *no_array, *box, 2, 2, 2, TO_HOST)
    calls.check("cudaMemcpy3D", struct.pack("20Q", *copy))
    assert target.raw == b"\xff\xff" + TEXT[17:19] + TEXT[25:27] + TEXT[29:31]
    assert calls.cudaMemcpy3D(bytes(160)) == INVALID_VALUE


@pytest.mark.volume_but("cuda13")
def test_a_box_is_copied_between_arrays_of_the_same_texels(calls: Runtime) -> None:
    extent = Extent((16, 2, 0))
    arrays = {}
    for bits in ((8, 0), (16, 0), (8, 8), (16, 16)):
        form = struct.pack("5i", *bits, 0, 0, 1)
        arrays[bits] = calls.make("cudaMalloc3DArray", form, extent, 0)
    no_pointer = (0,) * 4

    def copy(target: tuple[int, int], source: tuple[int, int]) -> int:
        first = (arrays[source], 1, 0, 0, *no_pointer)
        second = (arrays[target], 2, 1, 0, *no_pointer)
        return calls.cudaMemcpy3D(struct.pack("20Q", *first, *second, 2, 1, 1, ON_DEVICE))

    for target, source in product(arrays, repeat=2):
        expected = 0 if sum(target) == sum(source) else INVALID_VALUE
        assert (copy(target, source), target, source) == (expected, target, source)


def test_attributes_say_what_a_pointer_is(calls: Runtime) -> None:
    own, registered = create_string_buffer(4096), create_string_buffer(4096)
    calls.check("cudaHostRegister", registered, 4096, 0)
    mapped = calls.make("cudaHostGetDevicePointer", registered, 0)
    assert mapped != addressof(registered)  # kernels run in a process of their own
    device, pinned = calls.make("cudaMalloc", 16), calls.make("cudaMallocHost", 16)
    managed = calls.make("cudaMallocManaged", 16, 1)
    for pointer, *expected in (
        (addressof(own), 0, -2, 0, addressof(own)),
        (addressof(registered), 1, 0, mapped, addressof(registered)),
        (pinned, 1, 0, pinned, pinned),
        (device, 2, 0, device, 0),
        (managed, 3, 0, managed, managed),
    ):
        found = calls.get("cudaPointerGetAttributes", ..., pointer, form="iiQQ")
        assert list(found) == expected
    calls.check("cudaHostUnregister", registered)


def test_advice_and_prefetches_are_kept_for_managed_memory(calls: Runtime) -> None:
    """A place is a device, or a structure of a kind and a number."""
    managed, plain = calls.make("cudaMallocManaged", 64, 1), calls.make("cudaMalloc", 64)
    host: int = -1
    device: tuple[int, ...] = (0,)
    if calls.major == 13:
        host = 2
        device = (1, 0)
    else:
        calls.check("cudaMemAdvise_v2", managed, 64, 1, 2)
    for advice in (1, 3):  # mostly read, and a preferred place
        calls.check("cudaMemAdvise", managed, 64, advice, host)
    calls.check("cudaMemPrefetchAsync", managed, 64, *device, 0)
    for attribute, expected in ((1, 1), (2, -1), (3, -2), (4, 0)):
        found = calls.get("cudaMemRangeGetAttribute", ..., 4, attribute, managed, 64)
        assert found == (expected,)
    assert calls.cudaMemPrefetchAsync(plain, 64, *device, 0) == INVALID_VALUE


@pytest.mark.volume_but("cuda13")
def test_a_pool_gives_memory_up_to_its_size(calls: Runtime) -> None:
    """Pinned memory of device 0."""
    pool = calls.make("cudaMemPoolCreate", struct.pack("4iQQ64x", 1, 0, 1, 0, 0, 4096))
    pointer = calls.make("cudaMallocFromPoolAsync", 3000, pool, 0)
    assert calls.cudaMallocFromPoolAsync(create_string_buffer(8), 2000, pool, 0) == 2
    calls.check("cudaFreeAsync", pointer, 0)
    calls.check("cudaStreamSynchronize", 0)
    for attribute, expected in ((7, 0), (8, 3000)):  # bytes in use, now and the most
        assert calls.get("cudaMemPoolGetAttribute", pool, attribute, ..., form="Q") == (expected,)
    calls.check("cudaDeviceSetMemPool", 0, pool)
    calls.check("cudaMemPoolDestroy", pool)
    names = ("cudaDeviceGetMemPool", "cudaDeviceGetDefaultMemPool")
    assert len({calls.make(name, 0) for name in names}) == 1


def test_the_pools_of_a_location(calls: Runtime) -> None:
    """CUDA 12 has those of devices alone."""
    if calls.major == 12:
        assert not hasattr(calls.library, "cudaMemGetMemPool")
        return
    for place in (struct.pack("2i", 1, 0), struct.pack("2i", 2, 0)):
        default = calls.make("cudaMemGetDefaultMemPool", place, 1)
        pool = calls.make("cudaMemPoolCreate", struct.pack("2i", 1, 0) + place + bytes(72))
        calls.check("cudaMemSetMemPool", place, 1, pool)
        assert calls.make("cudaMemGetMemPool", place, 1) == pool
        calls.check("cudaMemPoolDestroy", pool)
        assert calls.make("cudaMemGetMemPool", place, 1) == default


def test_the_bytes_of_an_array_go_on_in_its_next_row(calls: Runtime) -> None:
    form = struct.pack("5i", 16, 16, 0, 0, 1)
    array, copy = (calls.make("cudaMallocArray", form, 3, 4, 0) for _ in range(2))
    calls.check("cudaMemcpyToArray", array, 0, 0, TEXT, 48, TO_DEVICE)
    calls.check("cudaMemcpyToArray", array, 8, 0, b"\xff" * 12, 12, TO_DEVICE)
    calls.check("cudaMemcpy2DArrayToArray", copy, 0, 0, array, 0, 0, 12, 4, ON_DEVICE)
    target = create_string_buffer(40)
    calls.check("cudaMemcpyFromArray", target, copy, 4, 0, 40, TO_HOST)
    assert target.raw == TEXT[4:8] + b"\xff" * 12 + TEXT[20:44]


def test_an_array_has_the_format_of_its_channels(calls: Runtime) -> None:
    form, extent = (32, 0, 0, 0, 2), Extent((8, 4, 3))
    mipmap = calls.make("cudaMallocMipmappedArray", struct.pack("5i", *form), extent, 2, 2)
    array = calls.make("cudaGetMipmappedArrayLevel", mipmap, 1)
    assert calls.get("cudaArrayGetInfo", ..., None, None, array, form="5i") == form
    assert calls.get("cudaArrayGetInfo", None, ..., None, array, form="3Q") == (4, 2, 1)
    for wrong in ((32, 16, 0, 0, 0), (8, 0, 0, 0, 2), (0, 0, 0, 0, 0)):
        code = calls.cudaMallocArray(create_string_buffer(8), struct.pack("5i", *wrong), 4, 4, 0)
        assert code == INVALID_CHANNEL_DESCRIPTOR
