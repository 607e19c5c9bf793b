"""TVM's CUDA modules, run on a device and compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from each_case import refusal
from tvm_vectors import check_matmul, check_vadd, only_function, vector_module

import devmod


@pytest.mark.row("R35", "R37")
def test_vadd(device: Any) -> None:
    f, info = only_function("vadd", "cuda")
    assert info.launch_param_tags == ("blockIdx.x", "threadIdx.x")
    check_vadd(f, block=64)
    a = np.zeros(1024, "float32")
    assert refusal(devmod.LaunchError, f, a, a, np.zeros(1024, "float32"), 8, 128) == (
        f"the cuda function 'vadd_kernel' cannot be launched on {device}: the kernel is built for blocks of at most 64 threads "
        "(__launch_bounds__), and block=(128, 1, 1) has 128"
    )


@pytest.mark.volume
@pytest.mark.row("R35", "R37")
def test_matmul(device: Any) -> None:
    check_matmul(*only_function("matmul", "cuda"), device, block=(8, 8))


@pytest.mark.row("R24", "R35")
def test_a_module_dumped_for_tvm_runs_after_it_is_loaded(device: Any) -> None:
    module = vector_module("vadd", "cuda")
    loaded = devmod.interop.tvm.load_module_bytes(
        "cuda", devmod.interop.tvm.dump_module_bytes(module)
    )
    a = device.from_numpy(np.ones(1024, "float32"))
    c = device.zeros(1024, "float32")
    launch = loaded["vadd_kernel"].bind(a, a, c, 16, 64)
    launch()
    assert c.numpy().tolist() == [2] * 1024
    assert dict(loaded.functions) == dict(module.functions)
