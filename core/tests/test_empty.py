"""`devmod.empty`: arrays of NumPy with memory pages for themselves."""

from __future__ import annotations

import weakref
from mmap import PAGESIZE
from typing import Any

import numpy as np
from each_case import check_each, refusal

import devmod
from devmod._arrays.empty import page_lockers


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def test_an_array_begins_at_a_page_that_no_other_array_has() -> None:
    shapes = [(3,), (PAGESIZE,), (PAGESIZE + 1,), (2, PAGESIZE - 1), ()]
    arrays = [devmod.empty(shape, "uint8") for shape in shapes for _ in range(8)]
    pages: list[int] = []
    for array in arrays:
        assert address(array) % PAGESIZE == 0
        first = address(array) // PAGESIZE
        pages += range(first, first + -(-array.nbytes // PAGESIZE))
    assert len({*pages}) == len(pages)
    for number, array in enumerate(arrays):
        array[...] = number
    for number, array in enumerate(arrays):
        assert (array == number).all()


def test_the_shape_and_the_type_are_those_of_numpy() -> None:
    def check(case: tuple[Any, Any, tuple[int, ...], str]) -> None:
        shape, dtype, lengths, name = case
        array = devmod.empty(shape, dtype)
        assert (array.shape, array.dtype.name) == (lengths, name)
        assert array.flags.c_contiguous
        assert array.flags.writeable

    check_each(
        [
            (3, "float32", (3,), "float32"),
            ((2, 5), np.int64, (2, 5), "int64"),
            ([4, 1, 3], "<u2", (4, 1, 3), "uint16"),
            ((), complex, (), "complex128"),
            ((7, 2), "bfloat16", (7, 2), "bfloat16"),
        ],
        check,
    )


def test_an_invalid_shape_or_type_is_refused() -> None:
    error = refusal(devmod.ArgumentError, devmod.empty, (2, -1), "float32")
    assert error.startswith("empty: no NumPy array has shape=(2, -1) and dtype='float32': ")
    error = refusal(devmod.ArgumentError, devmod.empty, 3, "float33")
    assert error.startswith("empty: no NumPy array has shape=3 and dtype='float33': ")
    assert refusal(devmod.ArgumentError, devmod.empty, 3, object) == (
        "empty: dtype=<class 'object'> has Python objects; expected numbers"
    )


class Locker:
    """A runtime that has page-locked memory, or none."""

    def __init__(self, memory: bytearray | None) -> None:
        self.memory = memory
        self.sizes: list[int] = []

    def page_locked(self, nbytes: int) -> bytearray | None:
        self.sizes.append(nbytes)
        return self.memory


def test_the_first_runtime_with_page_locked_memory_gives_it() -> None:
    ended, without = Locker(None), Locker(None)
    first, second = (Locker(bytearray(3 * PAGESIZE)) for _ in range(2))
    lockers = [weakref.ref(each) for each in (ended, without, first, second)]
    del ended
    page_lockers[:0] = lockers
    try:
        array = devmod.empty(PAGESIZE + 1, "uint8")
        nothing = devmod.empty(0, "uint8")
    finally:
        del page_lockers[: len(lockers)]
    assert (without.sizes, first.sizes, second.sizes) == ([3 * PAGESIZE], [3 * PAGESIZE], [])
    array[...] = 7
    memory = first.memory
    assert memory is not None
    assert (memory.count(7), address(array) % PAGESIZE, nothing.size) == (PAGESIZE + 1, 0, 0)
