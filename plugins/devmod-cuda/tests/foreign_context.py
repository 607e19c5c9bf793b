"""A CUDA context that is not a device's primary one, such as ``pycuda.autoinit`` makes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def foreign_context(device: Any) -> Iterator[int]:
    """Make a context that is the thread's current one in the body; the value is its handle."""
    library, handle = device.driver.library, ctypes.c_void_p()
    flags, number = ctypes.c_uint(0), ctypes.c_int(device.handle)
    if device.driver.version >= 12050:
        status = library.cuCtxCreate_v4(ctypes.byref(handle), None, flags, number)
    else:
        status = library.cuCtxCreate_v2(ctypes.byref(handle), flags, number)
    assert status == 0
    try:
        yield handle.value or 0
    finally:
        library.cuCtxDestroy_v2(handle)
