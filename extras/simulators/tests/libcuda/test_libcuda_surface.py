"""The simulated driver has all functions of cuda.h: those that it lacks are errors with their
names.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import pytest
from cuda_headers import cuda_header

from devmod_simulators import StandinDriver

#: Errors of CUDA.
SUCCESS = 0
NOT_SUPPORTED = 801


def test_each_function_of_the_header_is_there(standin: StandinDriver) -> None:
    text = cuda_header("cuda.h")
    names = set(re.findall(r"CUresult CUDAAPI\s+(cu\w+)\(", text))
    names |= set(re.findall(r"#define cu\w+ +(?:__CUDA_API_\w+\()?(cu\w+_v\d)", text))
    assert len(names) > 500
    assert [name for name in sorted(names) if not hasattr(standin.api, name)] == []


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(
    ("name", "more"),
    [("cuGreenCtxCreate", ""), ("cuMemAlloc", "; programs of today call cuMemAlloc_v2")],
)
def test_a_function_that_is_missing_names_itself_once(
    name: str, more: str, standin: StandinDriver, capfd: pytest.CaptureFixture[str]
) -> None:
    function = getattr(standin.api, name)
    assert [function(None, None, None, None) for _ in range(2)] == [NOT_SUPPORTED] * 2
    text = f"the simulated GPU does not have {name}"
    assert capfd.readouterr().err == f"devmod-simulators: {text}{more}\n"
    assert standin.reason == text


@pytest.mark.usefixtures("context")
def test_a_name_without_a_version_is_the_form_with_its_parameters(standin: StandinDriver) -> None:
    api = standin.api
    event = ctypes.c_void_p()
    assert api.cuEventCreate(ctypes.byref(event), 0) == SUCCESS
    assert api.cuEventRecord_ptsz(event, None) == SUCCESS
    assert api.cuStreamSynchronize_ptsz(None) == SUCCESS
    assert api.cuEventDestroy(event) == SUCCESS
    assert standin.report["events"] == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cuCtxSynchronize", "cuCtxSynchronize"),
        ("cuLaunchHostFunc", "cuLaunchHostFunc"),
        ("cuCtxCreate", "cuCtxCreate_v4"),
        ("cuGreenCtxCreate", "cuGreenCtxCreate"),
    ],
)
def test_a_look_up_finds_a_form_that_is_there_before_one_that_is_missing(
    name: str, expected: str, standin: StandinDriver
) -> None:
    found = ctypes.c_void_p()
    version = 13000
    api: Any = standin.api
    zero = ctypes.c_uint64(0)
    api.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), version, zero, None)
    assert found.value == ctypes.cast(getattr(api, expected), ctypes.c_void_p).value


@pytest.mark.parametrize("name", ["cuMemAlloc_v2", "cuMemcpy_ptds", "cuStreamSynchronize_ptsz"])
def test_a_look_up_does_not_know_the_names_of_the_library(
    name: str, standin: StandinDriver
) -> None:
    found = ctypes.c_void_p(7)
    status = ctypes.c_int()
    api: Any = standin.api
    place, zero = ctypes.byref(found), ctypes.c_uint64(0)
    assert api.cuGetProcAddress_v2(name.encode(), place, 13000, zero, ctypes.byref(status)) == 0
    assert (found.value, status.value) == (None, 1)
