"""TVM's OpenCL modules, run on a device and compared with NumPy."""

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
    f(a, b, c, 16, 64)  # launch parameters as TVM passes them
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


@pytest.mark.row("R24")
def test_source_dumped_for_tvm_builds_in_parts_and_as_a_whole(device: Any) -> None:
    source = (
        "int one(void) { return 1; }\nkernel void f(global int *x) { x[0] = one(); }\nkernel void g(global int *x) { x[0] = 2 * one(); }"
    )
    result = devmod.compile(source, "opencl")
    dumped: Any = devmod.interop.tvm.load_module_bytes("opencl", devmod.interop.tvm.dump_module_bytes(result))
    text = bytes(dumped.code).decode()
    parts = dict(part.split("\n", 1) for part in text.split("// Function: ")[1:])  # TVM's runtime splits it like this
    assert list(parts) == ["f", "g"]
    for name, expected in (("f", 1), ("g", 2)):
        alone = devmod.create("opencl", parts[name].encode(), "cl", {name: result.functions[name]})
        for module in (alone, dumped):
            x = np.zeros(1, "int32")
            module[name](x, grid=1, block=1)
            assert x.tolist() == [expected]
