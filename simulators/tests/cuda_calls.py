"""Calls of the stand-in CUDA driver through cuda-bindings, for its own tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

cuda = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")


def check(result: tuple[Any, ...]) -> Any:
    """Return the values of a call, or raise its error."""
    assert result[0] == 0, result
    return result[1] if len(result) == 2 else result[1:]


def code(result: tuple[Any, ...]) -> str:
    """Return the name of a call's error."""
    return result[0].name


def allocate(array: np.ndarray) -> Any:
    """Return device memory with the bytes of an array."""
    pointer = check(cuda.cuMemAlloc(array.nbytes))
    check(cuda.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
    check(cuda.cuCtxSynchronize())
    return pointer


def read(pointer: Any, count: int = 4, dtype: Any = np.int32) -> list[Any]:
    """Return the numbers at a device pointer, with no wait for any stream but the legacy one."""
    result = np.zeros(count, dtype)
    check(cuda.cuMemcpyDtoH(result.ctypes.data, pointer, result.nbytes))
    return result.tolist()
