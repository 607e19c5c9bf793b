"""Modules in TVM's bytes: its kind is "hip", and its source under that key may be LLVM IR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hip_modules import ADD, code_object

import devmod
from devmod import FunctionInfo

#: As TVM declares functions: without an interface, one launch value for each tag.
INFO = {
    "add": FunctionInfo(
        "add", ["handle", "handle", "handle", "int32"], ["blockIdx.x", "threadIdx.x"]
    )
}


@pytest.mark.row("R2", "R24", "R35")
def test_a_module_in_tvms_bytes_runs(emulator: Any, device: Any) -> None:
    module = devmod.create("rocm", code_object(ADD), "hsaco", INFO)
    blob = devmod.interop.tvm.dump_imports(module)
    assert b"hip" in blob
    assert b"rocm" not in blob
    loaded = devmod.interop.tvm.load_imports(blob)
    assert (loaded.kind, loaded.format) == ("rocm", "hsaco")
    assert devmod.interop.tvm.dump_imports(loaded) == blob
    a, b = np.random.default_rng(0).random((2, 64), "float32")
    c = np.zeros(64, "float32")
    loaded["add"](a, b, c, 64, 2, 32)
    np.testing.assert_array_equal(c, a + b)
