"""Hexagon modules: checks before a runner loads a file, errors of the runner, and modules that load."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
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
    newer = devmod.compile(ADD, "hexagon -arch=v73", language="C")
    check_error(
        devmod.FormatError,
        lambda: newer["add"],
        f"the hexagon module is built for v73, and {device} is a v67: a core runs code for its own version and for older ones. Compile it "
        "with the target 'hexagon -arch=v67'",
    )
    both = devmod.bundle(newer, module())
    x = np.ones(2, "float32")
    both["add"](x, x, x, 2)
    assert x.tolist() == [2, 2]


@pytest.mark.row("R32")
def test_threads_that_use_several_functions_first_load_the_module_once(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_hexagon._module import HexagonModule

    names = ["add", "count_calls", "spoil", "spin"]
    checked, loads = HexagonModule._checked_code, []
    all_there = threading.Barrier(len(names))

    def check_code(self: Any, device: Any) -> Any:
        loads.append(device)
        with suppress(threading.BrokenBarrierError):
            all_there.wait(1)  # for the other threads, which a lock keeps away
        return checked(self, device)

    monkeypatch.setattr(HexagonModule, "_checked_code", check_code)
    with ThreadPoolExecutor(len(names)) as threads:
        assert all(threads.map(new_module().get_function, names))
    assert loads == [device]


DAMAGED = {
    "empty": (lambda code: b"", None),
    "short": (lambda code: code[:20], None),
    "an object file": (
        lambda code: replace_bytes(code, 16, b"\1\0"),
        "it is of ELF type 1, expected 3, a shared object: link it with ld.lld -shared",
    ),
    "no program headers": (lambda code: replace_bytes(code, 42, b"\0\0"), "its program headers end outside the file"),
    "many program headers": (lambda code: replace_bytes(code, 44, b"\xff\xff"), "its program headers end outside the file"),
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
#: Modules with TVM's packed arguments: the source, and the declared function if its name is not that of the symbol.
PACKED_MODULES = {
    "no import": (f"int __tvm_ffi_k({PACKED_ARGUMENTS}) {{ return 0; }}", "__tvm_ffi_k"),
    "another import": (
        f"float tanf(float); int __tvm_ffi_k({PACKED_ARGUMENTS}) {{ *(float *)result = tanf(count); return 0; }}",
        "__tvm_ffi_k",
    ),
    "a name without the prefix": (f"int __tvm_ffi_k({PACKED_ARGUMENTS}) {{ return 0; }}", "k"),
    "pointers that TVM sets": (f"void *__TVMAPISetLastError, *__tvm_module_ctx; int k({PACKED_ARGUMENTS}) {{ return 0; }}", "k"),
    "functions of TVM": (f"int TVMFFIErrorSetRaised(void *); int k({PACKED_ARGUMENTS}) {{ return TVMFFIErrorSetRaised(args); }}", "k"),
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
    check_error(devmod.FormatError, lambda: devmod.create("hexagon", code_of(module(source)), "so", tvms)["k"], text)
    if case.startswith("functions"):
        check_error(devmod.FormatError, lambda: module(source)["k"], text)


def test_a_plain_function_with_the_types_of_packed_arguments(device: Any) -> None:
    code = code_of(module("void k(float *a, float *b, int n, float *c) { for (int i = 0; i < n; i++) c[i] = a[i] + b[i]; }"))
    f = devmod.create("hexagon", code, "so", {"k": FunctionInfo("k", ["handle", "handle", "int32", "handle"])})["k"]
    x, out = np.ones(4, "float32"), np.zeros(4, "float32")
    f(x, x, 4, out)
    assert out.tolist() == [2, 2, 2, 2]


def test_the_error_for_a_missing_symbol_names_it(device: Any) -> None:
    mismatch = devmod.create("hexagon", code_of(module()), "so", {"add": FunctionInfo("plus", ["handle"])})
    check_error(
        devmod.FormatError,
        lambda: mismatch["add"],
        "the hexagon module has no symbol 'plus' for its function 'add'; its fmap does not match its code",
    )


@pytest.mark.row("R24", "R37")
def test_a_file_is_compiled_saved_loaded_and_run(device: Any, tmp_path: Path) -> None:
    path = tmp_path / "kernels.devmod"
    devmod.save(new_module(), path)
    x = np.arange(5, dtype="float32")
    devmod.load(path)["add"](x, x, x, 5)
    assert x.tolist() == [0, 2, 4, 6, 8]
    raw = tmp_path / "kernels.so"
    devmod.loads(devmod.dumps(module())).write_to_file(raw)
    loaded = devmod.load_from_file(raw)
    assert loaded.kind == "hexagon"
    loaded["add"](x, x, x, 5)
    assert x.tolist() == [0, 4, 8, 12, 16]


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
