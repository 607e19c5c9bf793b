"""Arrays on Hexagon devices: copies, views, and too little memory."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from backend_checks import check_error, check_memory_error, run_python
from hexagon_kernels import module, new_module

import devmod


@pytest.fixture
def add(device: Any) -> Any:
    return module()["add"]


def test_too_little_memory(device: Any) -> None:
    check_memory_error(device, 1 << 31, "no free range of the device's memory is large enough")


def test_memory_is_free_again_with_its_array(device: Any) -> None:
    gc.collect()
    free = device.free_memory()
    arrays = [device.zeros(1000, "float32") for _ in range(100)]
    assert device.free_memory() == free - 100 * 4096
    del arrays[::2]
    large = device.empty(free // 2, "uint8")
    del arrays, large
    gc.collect()
    assert device.free_memory() == free


def test_arrays_are_aligned_to_a_vector(device: Any) -> None:
    assert {device.empty(size, "uint8").memory.address % 128 for size in (1, 3, 127, 129)} == {0}


@pytest.mark.row("R20")
def test_a_global_is_an_array_that_keeps_its_module_loaded(device: Any) -> None:
    loaded = new_module()
    calls = loaded.get_global("calls", dtype="int32")
    x = np.zeros(4, "float32")
    loaded["add"](x, x.copy(), x.copy(), 4)
    assert calls.numpy().tolist() == [1]
    calls.copy_from(np.array([41], "int32"))
    assert loaded["count_calls"]() == 41
    del loaded
    gc.collect()
    assert calls.numpy().tolist() == [41]
    check_error(
        devmod.FunctionNotFoundError,
        lambda: module().get_global("missing"),
        "the hexagon module has no global 'missing': it exports the variables of its source that are not static, 'calls'",
    )
    check_error(
        devmod.ArgumentError,
        lambda: module().get_global("calls", dtype="int64"),
        "get_global('calls'): the variable has 4 bytes, which is not a whole number of int64",
    )


@pytest.mark.row("R20")
def test_a_global_has_the_type_and_the_shape_of_the_source(device: Any) -> None:
    loaded = devmod.compile(
        "namespace filters { float weights[3][4]; }\nint count;\n"
        'extern "C" void k(float *x) { for (int i = 0; i < 3; i++) x[i] = filters::weights[i][2] + count; }',
        f"hexagon -arch={device.arch}",
        language="C++",
    )
    weights = loaded.get_global("filters::weights")
    assert (weights.dtype, weights.shape) == ("float32", (3, 4))
    weights.copy_from(np.arange(12, dtype="float32").reshape(3, 4))
    loaded.get_global("count").copy_from(np.array(100, "int32"))
    x = np.zeros(3, "float32")
    loaded["k"](x)
    assert x.tolist() == [102, 106, 110]


@pytest.mark.row("R33")
def test_each_device_has_its_own_variable_and_arrays(device: Any) -> None:
    program = """
import sys; sys.path.insert(0, {folder!r})
import devmod
from hexagon_kernels import module
from backend_checks import check_two_devices
first, second = devmod.device("hexagon", 0), devmod.device("hexagon", 1)
check_two_devices(module()["add"], first, second)
print(*(module().get_global("calls", each, dtype="int32").numpy()[0] for each in (first, second)))
"""
    from pathlib import Path

    printed = run_python(
        program.format(folder=str(Path(__file__).parent)), DEVMOD_HEXAGON_DEVICES="2"
    )
    assert printed.split() == ["1", "3"]
