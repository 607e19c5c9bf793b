"""Modules in TVM's bytes: its kind is "hip", and its source under that key may be LLVM IR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hip_modules import ADD, code_object

import devmod
from devmod import FunctionInfo

#: As TVM declares functions: without an interface, one launch value for each tag.
INFO = {"add": FunctionInfo("add", ["handle", "handle", "handle", "int32"], ["blockIdx.x", "threadIdx.x"])}
LLVM = 'target triple = "amdgcn-amd-amdhsa-hcc"\n'


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


@pytest.mark.row("R2")
@pytest.mark.parametrize("name", ["rocm", "hip", "hsaco"])
def test_the_names_of_the_kind(name: str, device: Any) -> None:
    data = devmod.create("rocm", code_object(ADD), "hsaco", INFO).save_to_bytes()
    module = devmod.load_from_bytes(name, data)
    assert (module.kind, module["add"].info.arg_types) == ("rocm", ("handle", "handle", "handle", "int32"))


@pytest.mark.row("R13", "R26")
def test_the_source_of_tvm_may_be_llvm(device: Any) -> None:
    module = devmod.create("rocm", code_object(ADD), "hsaco", INFO, {"hip": LLVM, "asm": "s_endpgm\n"})
    assert module.inspect_source() == LLVM
    assert (module.inspect_source("hip"), module.inspect_source("asm"), module.inspect_source("hsaco")) == (LLVM, "s_endpgm\n", "")
    assert module["add"].info.name == "add"
