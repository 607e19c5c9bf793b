"""Hexagon modules: checks before a runner loads a file, errors of the runner, and modules that
load.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from backend_checks import check_error, code_of
from hexagon_kernels import ADD, module, new_module

import devmod
from devmod import FunctionInfo

INFO = {"add": FunctionInfo("add", ["handle", "handle", "handle", "int32"])}


def replace_bytes(code: bytes, at: int, data: bytes) -> bytes:
    return code[:at] + data + code[at + len(data) :]


@pytest.mark.row("R40")
def test_the_error_for_a_newer_core_names_both(device: Any) -> None:
    own, other = "v67", "v73"
    if "(v73 " in repr(device):  # the emulator of Debian 13
        own, other = "v73", "v75"
    newer = devmod.compile(ADD, f"hexagon -arch={other}", language="C")
    check_error(
        devmod.FormatError,
        lambda: newer["add"],
        f"the hexagon module is built for {other}, and {device} is a {own}: a core runs code for its own version and for older ones. Compile it "
        f"with the target 'hexagon -arch={own}'",
    )
    both = devmod.bundle(newer, module())
    x = np.ones(2, "float32")
    both["add"](x, x, x, 2)
    assert x.tolist() == [2, 2]


DAMAGED = {
    "empty": (lambda code: b"", None),
    "short": (lambda code: code[:20], None),
    "an object file": (
        lambda code: replace_bytes(code, 16, b"\1\0"),
        "it is of ELF type 1, expected 3, a shared object: link it with ld.lld -shared",
    ),
    "no program headers": (
        lambda code: replace_bytes(code, 42, b"\0\0"),
        "its program headers end outside the file",
    ),
    "many program headers": (
        lambda code: replace_bytes(code, 44, b"\xff\xff"),
        "its program headers end outside the file",
    ),
    "a truncated file": (lambda code: code[:600], "segment 2 ends outside the file"),
}


@pytest.mark.row("R40")
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_does_not_reach_the_runner(device: Any, name: str) -> None:
    damage, reason = DAMAGED[name]
    damaged = devmod.create("hexagon", damage(code_of(module())), "so", INFO)
    start = "the hexagon payload of format 'so'"
    text = (
        f"{start} is damaged, or is not a shared object: {reason}"
        if reason
        else f"{start} has no readable architecture, so it is not a shared object for Hexagon"
    )
    check_error(devmod.FormatError, lambda: damaged["add"], text)


def test_random_damage_raises_and_the_next_module_runs(device: Any) -> None:
    code = code_of(module())
    rng = random.Random(5)
    x = np.ones(4, "float32")
    for _ in range(150):
        damaged = bytearray(code)
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            devmod.create("hexagon", bytes(damaged), "so", INFO)["add"]
        except (devmod.FormatError, devmod.LaunchError, devmod.DeviceMemoryError):
            continue
    out = np.zeros(4, "float32")
    module()["add"](x, x, out, 4)
    assert out.tolist() == [2, 2, 2, 2]


def test_the_error_for_missing_functions_names_them(device: Any) -> None:
    source = 'int printf(const char *, ...); int other(int); void k(int *x) { x[0] = other(x[0]); printf("k"); }'
    check_error(
        devmod.FormatError,
        lambda: module(source)["k"],
        "the hexagon module imports functions that the runner does not have: other, printf. Define them in the module, or link it with the "
        "library that has them",
    )


PACKED_ARGUMENTS = "void *self, void *args, int count, void *result"
#: Modules with TVM's packed arguments: the source, and the declared function if its name is not
#: that of the symbol.
PACKED_MODULES = {
    "no import": (f"int __tvm_ffi_k({PACKED_ARGUMENTS}) {{ return 0; }}", "__tvm_ffi_k"),
    "another import": (
        f"float tanf(float); int __tvm_ffi_k({PACKED_ARGUMENTS}) {{ *(float *)result = tanf(count); return 0; }}",
        "__tvm_ffi_k",
    ),
    "a name without the prefix": (f"int __tvm_ffi_k({PACKED_ARGUMENTS}) {{ return 0; }}", "k"),
    "pointers that TVM sets": (
        f"void *__TVMAPISetLastError, *__tvm_module_ctx; int k({PACKED_ARGUMENTS}) {{ return 0; }}",
        "k",
    ),
    "functions of TVM": (
        f"int TVMFFIErrorSetRaised(void *); int k({PACKED_ARGUMENTS}) {{ return TVMFFIErrorSetRaised(args); }}",
        "k",
    ),
    "functions of TVM and others": (
        f"int TVMBackendAlloc(void *); float tanf(float); int k({PACKED_ARGUMENTS}) {{ return tanf(TVMBackendAlloc(args)); }}",
        "k",
    ),
}


@pytest.mark.parametrize("case", PACKED_MODULES)
def test_tvms_packed_arguments_have_an_error_of_their_own(case: str, device: Any) -> None:
    source, symbol = PACKED_MODULES[case]
    text = (
        "the hexagon module is one of TVM's packed calling convention, which devmod does not support. Load it with TVM, or export plain C "
        "functions"
    )
    tvms = {"k": FunctionInfo(symbol, ["handle", "handle", "int32", "handle"])}
    check_error(
        devmod.FormatError,
        lambda: devmod.create("hexagon", code_of(module(source)), "so", tvms)["k"],
        text,
    )
    if case.startswith("functions"):
        check_error(devmod.FormatError, lambda: module(source)["k"], text)


def test_a_plain_function_with_the_types_of_packed_arguments(device: Any) -> None:
    code = code_of(
        module(
            "void k(float *a, float *b, int n, float *c) { for (int i = 0; i < n; i++) c[i] = a[i] + b[i]; }"
        )
    )
    f = devmod.create(
        "hexagon", code, "so", {"k": FunctionInfo("k", ["handle", "handle", "int32", "handle"])}
    )["k"]
    x, out = np.ones(4, "float32"), np.zeros(4, "float32")
    f(x, x, 4, out)
    assert out.tolist() == [2, 2, 2, 2]


def test_the_error_for_a_missing_symbol_names_it(device: Any) -> None:
    mismatch = devmod.create(
        "hexagon", code_of(module()), "so", {"add": FunctionInfo("plus", ["handle"])}
    )
    check_error(
        devmod.FormatError,
        lambda: mismatch["add"],
        "the hexagon module has no symbol 'plus' for its function 'add'; its fmap does not match its code",
    )


def test_constructors_run_and_weak_imports_are_zero(device: Any) -> None:
    source = """
    extern "C" int missing(void) __attribute__((weak));
    static int value;
    struct Start { Start() { value = 7; } } start;
    extern "C" int get(void) { return value + (missing != nullptr); }
    """
    assert module(source, "C++")["get"]() == 7


def test_many_modules_are_loaded_and_unloaded(device: Any) -> None:
    x = np.zeros(1, "float32")
    free = device.free_memory()
    for _ in range(60):
        new_module()["add"](x, x, x, 1)
    device.zeros(1, "int32")
    assert device.free_memory() >= free - (1 << 21)
