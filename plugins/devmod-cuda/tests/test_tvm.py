"""TVM's CUDA modules, run on a device and compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod

VECTORS = Path(__file__).parents[3] / "core" / "tests" / "vectors" / "tvm"


def only_function(name: str) -> tuple[Any, Any]:
    tree = devmod.interop.tvm.load_imports((VECTORS / name).read_bytes())
    module = next(each for each in [tree, *tree.imports] if each.kind == "cuda")
    ((key, info),) = module.functions.items()
    return module[key], info


@pytest.mark.row("R35", "R37")
def test_vadd(device: Any) -> None:
    f, info = only_function("vadd.cuda.tvmimports")
    a, b = np.random.default_rng(0).random((2, 1024), "float32")
    c = np.zeros(1024, "float32")
    assert info.launch_param_tags == ("blockIdx.x", "threadIdx.x")
    f(a, b, c, 16, 64)  # launch parameters as TVM passes them
    np.testing.assert_array_equal(c, a + b)
    c[:] = 0
    f(a, b, c, grid=16, block=64)
    np.testing.assert_array_equal(c, a + b)
    with pytest.raises(devmod.LaunchError) as caught:
        f(a, b, c, 8, 128)
    assert str(caught.value) == (
        f"the cuda function 'vadd_kernel' cannot be launched on {device}: the kernel is built for blocks of at most 64 threads "
        "(__launch_bounds__), and block=(128, 1, 1) has 128"
    )


@pytest.mark.row("R35", "R37")
def test_matmul(device: Any) -> None:
    f, info = only_function("matmul.cuda.tvmimports")
    a, b = np.random.default_rng(0).random((2, 64, 64), "float32")
    c = np.zeros((64, 64), "float32")
    values = {"blockIdx.y": 8, "blockIdx.x": 8, "threadIdx.y": 8, "threadIdx.x": 8}
    assert {*info.launch_param_tags} == {*values}
    f(a, b, c, *(values[tag] for tag in info.launch_param_tags))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    on_device = [device.from_numpy(each) for each in (a, b, c)]
    f(*on_device, grid=(8, 8), block=(8, 8))
    np.testing.assert_allclose(on_device[2].numpy(), a @ b, rtol=1e-5)


@pytest.mark.row("R24", "R35")
def test_a_module_dumped_for_tvm_runs_after_it_is_loaded(device: Any) -> None:
    _, info = only_function("vadd.cuda.tvmimports")
    tree = devmod.interop.tvm.load_imports((VECTORS / "vadd.cuda.tvmimports").read_bytes())
    module = next(each for each in [tree, *tree.imports] if each.kind == "cuda")
    loaded = devmod.interop.tvm.load_module_bytes("cuda", devmod.interop.tvm.dump_module_bytes(module))
    a = device.from_numpy(np.ones(1024, "float32"))
    c = device.zeros(1024, "float32")
    launch = loaded["vadd_kernel"].bind(a, a, c, 16, 64)
    launch()
    assert c.numpy().tolist() == [2] * 1024
    assert dict(loaded.functions) == {"vadd_kernel": info}
