"""Binaries and their variables, for each vendor: loaded once, unloaded with the last reference,
variables as arrays.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import run_in_threads, run_python
from vendor import Vendor

import devmod
from devmod import FunctionInfo
from devmod_simulators import StandinDriver

GLOBALS = """
__device__ unsigned char bytes[4] = {1, 2, 3, 4};
__constant__ float factors[2] = {2, 3};
extern "C" __global__ void k(float *x) { x[threadIdx.x] *= factors[threadIdx.x & 1] + bytes[threadIdx.x & 3]; }
"""


def module_with_globals(vendor: Vendor) -> devmod.Module:
    return vendor.module(
        GLOBALS, {"k": FunctionInfo("k", ["handle"], ["blockIdx.x", "threadIdx.x"])}
    )


@pytest.mark.row("R30", "R32", "R33")
def test_threads_load_one_binary_for_all_functions(
    device: Any, vendor: Vendor, standin: StandinDriver
) -> None:
    module = vendor.kernels(executes=False)
    loads = vendor.calls("load_module")
    functions = run_in_threads(module.get_function, ["add", "twice"] * 4)
    assert vendor.calls("load_module") == loads + 1
    assert len({*map(id, functions)}) == 2


@pytest.mark.row("R20", "R33")
@pytest.mark.parametrize("last", ["array", "launch"])
def test_a_binary_is_unloaded_with_its_last_reference(
    last: str, device: Any, vendor: Vendor, standin: StandinDriver
) -> None:
    if last == "launch":
        vendor.needs_execution()
    module, x = module_with_globals(vendor), device.zeros(4, "float32")
    references: Any = {
        "array": module.get_global("bytes", device),
        "launch": module["k"].bind(x, grid=1, block=4),
    }
    gc.collect()
    unloads = vendor.calls("unload_module")
    del module, references["launch" if last == "array" else "array"]
    gc.collect()
    if last == "array":
        assert references[last].numpy().tolist() == [1, 2, 3, 4]
    else:
        references[last]()
    assert vendor.calls("unload_module") == unloads
    references.clear()
    gc.collect()
    assert vendor.calls("unload_module") == unloads + 1


@pytest.mark.row("R20", "R33")
def test_globals_are_arrays_over_the_memory_of_the_binary(
    device: Any, vendor: Vendor, executes: None
) -> None:
    module = module_with_globals(vendor)
    table, factors = (
        module.get_global("bytes"),
        module.get_global("factors", device, dtype="float32"),
    )
    assert (table.shape, table.dtype, table.numpy().tolist()) == ((4,), "uint8", [1, 2, 3, 4])
    assert (factors.shape, factors.dtype, factors.numpy().tolist()) == ((2,), "float32", [2, 3])
    factors.copy_from(np.array([10, 20], "float32"))
    x = np.ones(4, "float32")
    module["k"](x, grid=1, block=4)
    assert x.tolist() == [11, 22, 13, 24]
    table.copy_from(np.array([10, 20, 30, 40], "uint8"))
    module["k"](x, grid=1, block=4)
    assert x.tolist() == [11 * 20, 22 * 40, 13 * 40, 24 * 60]
    assert module.get_global("factors", dtype="float32").numpy().tolist() == [10, 20]


EACH_DEVICE = """
import numpy as np, devmod
first, second = (devmod.device(KIND, number) for number in (0, 1))
module = devmod.load(PATH)
module.get_global("factors", first, dtype="float32").copy_from(np.array([5, 6], "float32"))
print(*(module.get_global("factors", each, dtype="float32").numpy().tolist() for each in (first, second, None)))
for device in (first, second):
    x = device.from_numpy(np.ones(2, "float32"))
    module["k"].on(device)(x, grid=1, block=2)
    print(x.numpy().tolist())
"""


@pytest.mark.row("R20", "R33")
def test_a_global_for_each_device(
    vendor: Vendor,
    environment: dict[str, str],
    executes: None,
    standin: StandinDriver,
    tmp_path: Path,
) -> None:
    devmod.save(module_with_globals(vendor), tmp_path / "k.devmod")
    program = EACH_DEVICE.replace("KIND", repr(vendor.kind)).replace(
        "PATH", repr(str(tmp_path / "k.devmod"))
    )
    output = run_python(program, **environment, DEVMOD_STANDIN_DEVICES="2")
    assert output == "[5.0, 6.0] [2.0, 3.0] [5.0, 6.0]\n[6.0, 8.0]\n[3.0, 5.0]\n"
