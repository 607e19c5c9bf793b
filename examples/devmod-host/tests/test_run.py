"""Running kernels: behaviour that no row of the contract covers."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import devmod


def module(source: str, *arg_types: str, name: str = "k") -> devmod.Module:
    return devmod.create("host", source.encode(), "c", {"k": devmod.FunctionInfo(name, arg_types)})


def test_threads_run_in_order_with_their_indices() -> None:
    source = "void k(unsigned *out, unsigned *at) {\n"
    for number, word in enumerate(("blockIdx", "threadIdx", "blockDim", "gridDim")):
        source += (
            "".join(
                f"out[*at * 12 + {number * 3 + axis}] = {word}.{'xyz'[axis]};" for axis in range(3)
            )
            + "\n"
        )
    out, at = np.zeros((2 * 3 * 2, 12), "uint32"), np.zeros(1, "uint32")
    module(source + "++*at; }", "handle", "handle")["k"](out, at, grid=(3, 2), block=(1, 1, 2))
    assert at[0] == 12
    assert out[:, :6].tolist() == [
        [x, y, 0, 0, 0, z] for y in range(2) for x in range(3) for z in range(2)
    ]
    assert (out[:, 6:] == [1, 1, 2, 3, 2, 1]).all()


def test_a_kernel_without_arguments_and_an_empty_grid() -> None:
    function = module("void k(void) {}")["k"]
    function(grid=3, block=2)
    function(grid=0, block=2)


def test_each_module_has_its_own_variables() -> None:
    source = "static int count; void k(int *x) { *x = ++count; }"
    first, second, x = (
        module(source, "handle")["k"],
        module(source, "handle")["k"],
        np.zeros(1, "int32"),
    )
    for function, count in ((first, 1), (first, 2), (second, 1)):
        function(x, grid=1, block=1)
        assert x[0] == count


def test_specialize_sets_defines() -> None:
    found = devmod.compile(
        "#ifndef TILE\n#define TILE 1\n#endif\nvoid k(int *x) { *x = TILE; }", "host"
    )["k"]
    x = np.zeros(1, "int32")
    for function, tile in ((found, 1), (found.specialize(TILE=8), 8)):
        function(x, grid=1, block=1)
        assert x[0] == tile


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (
            lambda: module("void k(int *x)\n{\n    *x = ;\n}", "handle"),
            devmod.CompileError,
            r"^\S+ cannot compile the host source:\n  <source>:3:10: error: .+$",
        ),
        (
            lambda: module("void g(void); void k(void) { g(); }"),
            devmod.CompileError,
            r"^the compiled host source cannot be loaded: it: undefined symbol: g$",
        ),
        (
            lambda: module("void k(int x) {}", "int32", "int32"),
            devmod.FormatError,
            r"^the host payload's fmap does not match its source: too many arguments to function .*$",
        ),
        (
            lambda: module("void k(int x) {}", "float16x4"),
            devmod.FormatError,
            r"^argument 1 of the host function 'k' is of type float16x4, which C cannot pass by value; expected one of bool, .*, or a pointer$",
        ),
        (
            lambda: module("//devmod: -O3 -fplugin=evil\nvoid k(void) {}"),
            devmod.FormatError,
            r"^the first line of the host source has the option '-fplugin=evil': "
            r"only options for optimization, language and processor are allowed$",
        ),
        (
            lambda: module("\0"),
            devmod.FormatError,
            r"^the host payload of format 'c' has a zero byte at 0, which ends a source$",
        ),
        (
            lambda: module("void k(void) {}", name="k); system("),
            devmod.FormatError,
            r"^the host payload's fmap names a function 'k\); system\(', which is not a name in C$",
        ),
    ],
)
def test_invalid_payloads_are_refused_by_get_function(
    made: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        made()["k"]  # type: ignore[operator]


def test_errors_name_the_limits_of_a_launch() -> None:
    function = module("void k(int *x) {}", "handle")["k"]
    with pytest.raises(devmod.LaunchError) as caught:
        function(np.zeros(1, "int32"), grid=1 << 32, block=1)
    assert str(caught.value) == (
        f"the host function 'k' cannot be launched on {devmod.device('host')}: its max_dimension is 4294967295, "
        "got grid=(4294967296, 1, 1), block=(1, 1, 1); launch in several parts, or let the kernel index more dimensions"
    )
    with pytest.raises(devmod.LaunchError, match=r"cannot allocate \d+ bytes: its memory is \d+$"):
        devmod.device("host").empty(1 << 60, "uint8")


RUN = """
import devmod
x = bytearray(4)
devmod.create("host", b"void k(int *x) { *x = 7; }", "c", {"k": devmod.FunctionInfo("k", ["handle"])})["k"](x, grid=1, block=1)
print(x[0])
"""


def test_compiled_libraries_are_cached_and_damaged_files_are_compiled_again(tmp_path: Path) -> None:
    compiler = tmp_path / "counting-cc"
    compiler.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || echo >> {tmp_path / "runs"}\nexec cc "$@"\n'
    )
    compiler.chmod(0o755)
    env = os.environ | {"DEVMOD_CACHE_DIR": str(tmp_path / "cache"), "CC": str(compiler)}

    def runs() -> int:
        assert (
            subprocess.run(
                [sys.executable, "-c", RUN], env=env, capture_output=True, text=True, check=True
            ).stdout
            == "7\n"
        )
        return len((tmp_path / "runs").read_text())

    assert [runs(), runs()] == [1, 1]
    (entry,) = (tmp_path / "cache" / "host").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    assert runs() == 2
    entry.parent.chmod(0o770)  # others could have written it
    assert [runs(), runs()] == [3, 4]
    entry.parent.chmod(0o700)
    assert runs() == 4


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"CC": "no-such-cc -m64"}, "CC names 'no-such-cc', which is not an installed program"),
        ({"CC": "false"}, "false --version ended with exit code 1"),
        ({"PATH": ""}, "none of cc, gcc and clang is on PATH"),
    ],
)
def test_the_error_without_a_compiler_has_the_command_that_installs_one(
    env: dict[str, str], why: str
) -> None:
    clean = {name: value for name, value in os.environ.items() if name != "CC"}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=clean | env, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == (
        f"devmod.errors.DeviceNotFoundError: no C compiler was found, and the host backend runs C: {why}. Install one "
        "(Debian, Ubuntu: apt-get install gcc; Fedora: dnf install gcc; macOS: xcode-select --install), or name one in the "
        "environment variable CC"
    )


def test_an_array_larger_than_the_memory() -> None:
    device = devmod.device("host")
    with pytest.raises(devmod.DeviceMemoryError) as caught:
        device.empty(device.memory + 1, "uint8")
    assert str(caught.value).startswith(
        f"{device} cannot allocate {device.memory + 1} bytes: its memory is {device.memory}"
    )
    assert caught.value.requested == device.memory + 1


def test_the_system_has_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    device = devmod.device("host")
    monkeypatch.setattr(device, "memory", 1 << 62)
    with pytest.raises(devmod.DeviceMemoryError) as caught:
        device.empty(1 << 61, "uint8")
    assert (
        str(caught.value)
        == f"{device} cannot allocate {1 << 61} bytes: the system has too little memory"
    )


def test_other_libraries_share_an_array() -> None:
    array = devmod.device("host").from_numpy(np.arange(64, dtype="float32"))
    view = np.from_dlpack(array[16:].reshape(4, 12))
    view[0, 0] = 7
    del view
    assert array.numpy()[16] == 7
    assert array.__dlpack_device__() == (1, 0)


def test_the_garbage_collector_frees_views_in_cycles() -> None:
    for _ in range(3):
        cycle = [devmod.device("host").zeros(64, "float32")[16:48]]
        cycle.append(cycle)
        del cycle
        gc.collect()
