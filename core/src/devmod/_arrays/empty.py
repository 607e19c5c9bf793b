"""NumPy arrays whose memory devices can use without a copy."""

from __future__ import annotations

from _weakref import ref
from math import prod

from devmod._values.param import numpy_dtype
from devmod.errors import ArgumentError, FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
else:
    from devmod._util.numpy import np

#: What `lock_pages_with` has got, the last one first.
page_lockers: list[ref[Any]] = []


def lock_pages_with(driver: Any) -> None:
    """Ask an open driver for the memory of `devmod.empty` while the driver lives, before those that
    were opened earlier. Its method `page_locked` returns new memory of so many bytes, or None.
    """
    page_lockers.insert(0, ref(driver, page_lockers.remove))


def empty(shape: int | Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
    """Return an uninitialized NumPy array that has its memory pages for itself.

    Devices with the host's memory use it without a copy. The memory is page-locked if a driver that
    can do that is open (CUDA, ROCm), so copies to and from its devices are faster. No driver is
    opened.

    Parameters
    ----------
    shape
        A length, or one for each dimension.
    dtype
        A name such as "float32" or "bfloat16", or what ``numpy.dtype`` takes.

    Raises
    ------
    ArgumentError
        `shape` or `dtype` is invalid.
    MemoryError
        There is too little memory.
    """
    try:
        try:
            element = np.dtype(dtype)
        except TypeError:
            if not isinstance(dtype, str):
                raise
            element = numpy_dtype(dtype)
        lengths = np.broadcast_to(np.empty((), element), shape).shape
    except (TypeError, ValueError, FormatError) as error:
        raise ArgumentError(
            f"empty: no NumPy array has shape={shape!r} and dtype={dtype!r}: {error}",
            argument="shape",
        ) from None
    if element.hasobject:
        raise ArgumentError(
            f"empty: dtype={dtype!r} has Python objects; expected numbers", argument="dtype"
        )
    return in_pages(lengths, element, page_lockers)


def in_pages(
    shape: tuple[int, ...], dtype: np.dtype[Any], lockers: Sequence[ref[Any]] = ()
) -> np.ndarray[Any, Any]:
    """Return an array as `empty` does, in memory of the first one of `lockers` that has any."""
    from mmap import PAGESIZE

    nbytes = prod(shape) * dtype.itemsize
    pages = -(-nbytes // PAGESIZE) * PAGESIZE
    memory = None
    if pages:
        memory = _page_locked(pages + PAGESIZE, lockers)
    if memory is None:
        whole = np.empty(pages + PAGESIZE, np.uint8)
    else:
        whole = np.frombuffer(memory, np.uint8)
    start = -whole.__array_interface__["data"][0] % PAGESIZE
    return whole[start : start + nbytes].view(dtype).reshape(shape)


def _page_locked(nbytes: int, lockers: Sequence[ref[Any]]) -> Any:
    """Return memory of the first locker that has any; None without one."""
    for reference in lockers:
        locker = reference()
        if locker is not None:
            memory = locker.page_locked(nbytes)
            if memory is not None:
                return memory
    return None
