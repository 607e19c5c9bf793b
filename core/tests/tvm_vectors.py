"""TVM's modules of the vectors, and how they are called, for the tests of runtimes. pytest's
`pythonpath` has this folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import devmod

VECTORS = Path(__file__).parent / "vectors" / "tvm"


def vector_module(name: str, kind: str) -> devmod.Module:
    """Return the module of a kind in the vector ``<name>.<kind>.tvmimports``."""
    tree = devmod.interop.tvm.load_imports((VECTORS / f"{name}.{kind}.tvmimports").read_bytes())
    return next(each for each in [tree, *tree.imports] if each.kind == kind)


def only_function(name: str, kind: str) -> tuple[Any, devmod.FunctionInfo]:
    """Return the only function of a vector's module, and its description."""
    module = vector_module(name, kind)
    ((key, info),) = module.functions.items()
    return module[key], info


def check_vadd(f: Any, *, read_only: bool = False, **launch: int) -> None:
    """Call the vector addition as TVM does, and with a grid, and compare the results with NumPy's.

    `read_only` passes a read-only array, for modules whose tags mark what a kernel only reads.
    """
    a, b = np.random.default_rng(0).random((2, 1024), "float32")
    c = np.zeros(1024, "float32")
    f(a, b, c, 16, 64)
    np.testing.assert_array_equal(c, a + b)
    c[:] = 0
    a.flags.writeable = not read_only
    f(a, b, c, **({"grid": 16} | launch))
    np.testing.assert_array_equal(c, a + b)


def check_matmul(f: Any, info: devmod.FunctionInfo, device: Any, **launch: tuple[int, int]) -> None:
    """Call the matrix product as TVM does, and bound to arrays of a device, and compare the results
    with NumPy's.
    """
    a, b = np.random.default_rng(0).random((2, 64, 64), "float32")
    c = np.zeros((64, 64), "float32")
    tags = [tag for tag in info.launch_param_tags if not tag.startswith("paramWriteAccess")]
    assert {*tags} == {"blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"}
    f(a, b, c, *[8 for _ in tags])
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    on_device = [device.from_numpy(each) for each in (a, b, c)]
    f.bind(*on_device, **({"grid": (8, 8)} | launch))()
    np.testing.assert_allclose(on_device[2].numpy(), a @ b, rtol=1e-5)
