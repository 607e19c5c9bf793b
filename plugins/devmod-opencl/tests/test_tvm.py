"""TVM's OpenCL modules, run on a device and compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm_vectors import check_matmul, check_vadd, only_function

import devmod


@pytest.mark.row("R35", "R37")
def test_vadd(device: Any) -> None:
    f, info = only_function("vadd", "opencl")
    assert info.launch_param_tags == ("blockIdx.x", "threadIdx.x")
    check_vadd(f, block=64)


@pytest.mark.row("R35", "R37")
def test_matmul(device: Any) -> None:
    check_matmul(*only_function("matmul", "opencl"), device, block=(8, 8))


@pytest.mark.row("R24")
def test_source_dumped_for_tvm_builds_in_parts_and_as_a_whole(device: Any) -> None:
    source = "int one(void) { return 1; }\nkernel void f(global int *x) { x[0] = one(); }\nkernel void g(global int *x) { x[0] = 2 * one(); }"
    result = devmod.compile(source, "opencl")
    dumped: Any = devmod.interop.tvm.load_module_bytes(
        "opencl", devmod.interop.tvm.dump_module_bytes(result)
    )
    text = bytes(dumped.code).decode()
    parts = dict(
        part.split("\n", 1) for part in text.split("// Function: ")[1:]
    )  # TVM's runtime splits it like this
    assert list(parts) == ["f", "g"]
    for name, expected in (("f", 1), ("g", 2)):
        alone = devmod.create("opencl", parts[name].encode(), "cl", {name: result.functions[name]})
        for module in (alone, dumped):
            x = np.zeros(1, "int32")
            module[name](x, grid=1, block=1)
            assert x.tolist() == [expected]
