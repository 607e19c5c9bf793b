"""Kernels of other compilers run on ROCm: Triton's, and those in containers that LLVM's programs
wrote.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from containers import FOLDER as CONTAINERS
from recorded_triton import FOLDER, recorded_kernel

import devmod
from devmod import FunctionInfo
from devmod.interop import offload, triton

#: Triton's kernel as it is in the code object: its launcher passes two pointers to scratch memory
#: behind the arguments.
ADD = {"add": FunctionInfo("add", ["handle", "handle", "handle", "int32", "handle", "handle"])}


def arrays(n: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(7)
    return rng.random(n, "float32"), rng.random(n, "float32"), np.zeros(n, "float32")


def test_a_kernel_of_triton_is_called_without_its_hidden_pointers(
    emulator: Any, device: Any
) -> None:
    f = triton.load(recorded_kernel("add", "hip"))["add"]
    x, y, out = arrays(1000)
    f(x, y, out, 1000, grid=4)
    np.testing.assert_array_equal(out, x + y)
    result = device.zeros(1000, "float32")
    f.bind(device.from_numpy(x), device.from_numpy(y), result, 1000, grid=4)()
    np.testing.assert_array_equal(result.numpy(), x + y)


@pytest.mark.filterwarnings("ignore")  # Triton's own
def test_functions_that_triton_compiles_here(emulator: Any, device: Any) -> None:
    pytest.importorskip("triton", reason="needs triton, a wheel of 286 MB")
    source = FOLDER.parents[1] / "kernels/triton/kernels.py"
    expression = "add(x: *fp32, y: *fp32, out: *fp32, n: i32)"
    target = f"rocm -arch={device.arch.partition(':')[0]}"
    f = devmod.compile(
        source,
        target,
        name_expressions=[expression],
        defines={"BLOCK": 256},
        options=["num_warps=8"],
    )["add"]
    x, y = np.arange(300, dtype=np.float32), np.full(300, 0.5, np.float32)
    out = np.zeros(300, np.float32)
    f(x, y, out, 300, grid=2)
    assert f.block == (256, 1, 1)
    assert np.array_equal(out, x + y)


@pytest.mark.row("R40")
@pytest.mark.parametrize("path", ["plain.bundle", "zstd.bundle", "images.offloadbinary"])
def test_containers_of_llvm_run(path: str, emulator: Any, device: Any) -> None:
    data = (CONTAINERS / path).read_bytes()
    block = triton.load(recorded_kernel("add", "hip"))["add"].block
    x, y, out = arrays(1000)
    scratch = device.zeros(1, "uint8")
    devmod.create("rocm", data, "hsaco", ADD)["add"](
        x, y, out, 1000, scratch, scratch, grid=4, block=block
    )
    np.testing.assert_array_equal(out, x + y)


def test_a_container_taken_apart_at_the_build_runs(emulator: Any, device: Any) -> None:
    module = offload.load(CONTAINERS / "offloading.o", ADD)
    rocm = devmod.loads(devmod.dumps(module), prefer=["rocm"])
    block = triton.load(recorded_kernel("add", "hip"))["add"].block
    x, y, out = arrays(1000)
    scratch = device.zeros(1, "uint8")
    rocm["add"](x, y, out, 1000, scratch, scratch, grid=4, block=block)
    np.testing.assert_array_equal(out, x + y)
