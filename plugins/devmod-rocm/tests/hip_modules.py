"""Modules of HIP source for tests, compiled once for each processor."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from backend_checks import code_of
from standin_rocm import device_arch

import devmod
from devmod_driver_api.binaries import LoadedBinary

DIMENSIONS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
ADD = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""

ADD_INFO = {"add": devmod.FunctionInfo("add", ["handle", "handle", "handle", "int32"])}
#: The payload in messages.
WHAT = "the rocm payload of format 'hsaco'"


@cache
def saved(source: str, arch: str = "", *options: str) -> bytes:
    """Return a module of HIP source, as a file has it."""
    return devmod.dumps(
        devmod.compile(
            source, f"rocm -arch={arch or device_arch()}", language="HIP", options=options
        )
    )


def module_of(source: str, arch: str = "", *options: str) -> devmod.Module:
    """Return a new module of HIP source."""
    return devmod.loads(saved(source, arch, *options))


def code_object(source: str, arch: str = "", *options: str) -> bytes:
    """Return the code object of HIP source for one processor."""
    code: bytes = code_of(module_of(source, arch, *options))
    return code


def function_of(source: str, *options: str) -> Any:
    """Return the only function of HIP source."""
    module = module_of(source, "", *options)
    (name,) = module
    return module[name]


def create(
    code: bytes, functions: dict[str, devmod.FunctionInfo], fmt: str = "hsaco"
) -> devmod.Module:
    """Return a module of a payload."""
    return devmod.create("rocm", code, fmt, functions)


def run_add(module: devmod.Module, n: int = 64) -> None:
    """Call `add` of a module, and compare with NumPy."""
    a, b, c = np.arange(n, dtype="float32"), np.ones(n, "float32"), np.zeros(n, "float32")
    module["add"](a, b, c, n, grid=2, block=n // 2)
    np.testing.assert_array_equal(c, a + b)


def error_of(module: devmod.Module, name: str = "add") -> devmod.DevmodError:
    """Return the error of the first get_function."""
    with pytest.raises(devmod.DevmodError) as caught:
        module[name]
    return caught.value


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Each code object that a driver gets."""
    loaded: list[bytes] = []
    load = LoadedBinary.__init__

    def watched(binary: LoadedBinary, device: Any, data: bytes, *rest: Any) -> None:
        loaded.append(data)
        load(binary, device, data, *rest)

    monkeypatch.setattr(LoadedBinary, "__init__", watched)
    return loaded
