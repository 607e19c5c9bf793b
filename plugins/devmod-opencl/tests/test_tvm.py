"""Kernels that nobody here wrote: TVM's OpenCL modules, run on a device and compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod

VECTORS = Path(__file__).parents[3] / "core" / "tests" / "vectors" / "tvm"


def only_function(name: str) -> tuple[Any, Any]:
    tree = devmod.interop.tvm.load_imports((VECTORS / name).read_bytes())
    module = next(each for each in [tree, *tree.imports] if each.kind == "opencl")
    ((key, info),) = module.functions.items()
    return module[key], info


@pytest.mark.row("R35", "R37")
def test_vadd(device: Any) -> None:
    f, info = only_function("vadd.opencl.tvmimports")
    a, b = np.random.default_rng(0).random((2, 1024), "float32")
    c = np.zeros(1024, "float32")
    assert info.launch_param_tags == ("blockIdx.x", "threadIdx.x")
    f(a, b, c, 16, 64)  # TVM's way
    np.testing.assert_array_equal(c, a + b)
    c[:] = 0
    f(a, b, c, grid=16, block=64)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.row("R35", "R37")
def test_matmul(device: Any) -> None:
    f, info = only_function("matmul.opencl.tvmimports")
    a, b = np.random.default_rng(0).random((2, 64, 64), "float32")
    c = np.zeros((64, 64), "float32")
    values = {"blockIdx.y": 8, "blockIdx.x": 8, "threadIdx.y": 8, "threadIdx.x": 8}
    assert {*info.launch_param_tags} == {*values}
    f(a, b, c, *(values[tag] for tag in info.launch_param_tags))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    on_device = [device.from_numpy(each) for each in (a, b, c)]
    f(*on_device, grid=(8, 8), block=(8, 8))
    np.testing.assert_allclose(on_device[2].numpy(), a @ b, rtol=1e-5)
