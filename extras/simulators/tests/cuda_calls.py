"""Calls of the stand-in CUDA driver through cuda-bindings, for its own tests."""

from __future__ import annotations

from collections.abc import Callable
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
    return str(result[0].name)


class Driver:
    """The functions of the driver, each with what another function makes of its result."""

    def __init__(self, finish: Callable[[tuple[Any, ...]], Any]) -> None:
        self.finish = finish

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(cuda, name)
        return lambda *arguments: self.finish(function(*arguments))


driver = Driver(check)
errors = Driver(code)


def allocate(array: np.ndarray) -> Any:
    """Return device memory with the bytes of an array."""
    pointer = driver.cuMemAlloc(array.nbytes)
    driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes)
    driver.cuCtxSynchronize()
    return pointer


def zeros(count: int) -> Any:
    """Return device memory with integers."""
    return allocate(np.zeros(count, np.int32))


def read(pointer: Any, count: int = 4, dtype: Any = np.int32) -> list[Any]:
    """Return the numbers at a device pointer, with no wait for any stream but the legacy one."""
    result = np.zeros(count, dtype)
    driver.cuMemcpyDtoH(result.ctypes.data, pointer, result.nbytes)
    return result.tolist()
