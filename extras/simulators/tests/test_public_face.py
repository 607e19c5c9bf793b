"""What tests of the wheels use: the names, importing them, and the errors of a stand-in that cannot
be built or was misused.
"""

from __future__ import annotations

import ast
import ctypes
import os
import re
import subprocess
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from each_case import refusal, some

from devmod_simulators import (
    BuildError,
    DriverLibrary,
    StandinLibrary,
    UnavailableError,
    ViolationError,
    libcuda,
)
from devmod_simulators.drivers.generated import driver_files, runtime_files
from devmod_standins import libamdhip64

ROOT = Path(__file__).resolve().parents[3]
SOURCES, STANDINS = (
    ROOT / "extras" / "simulators" / "src",
    ROOT / "extras" / "simulators" / "standins",
)
PACKAGES = {"devmod_simulators", "devmod_standins"}
MODULES = (
    *sorted(PACKAGES),
    "devmod_simulators.ptx",
    "devmod_standins.rdna3",
)


def test_an_import_loads_no_driver_and_needs_nothing_but_python() -> None:
    program = f"import sys; sys.path.insert(0, {str(SOURCES)!r})\nbefore = set(sys.modules)\nimport devmod_simulators\nprint(*set(sys.modules) - before)"
    imported = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) == {
        "devmod_simulators"
    }
    maps = f"import sys; sys.path.insert(0, {str(STANDINS)!r})\nimport {', '.join(MODULES)}\nprint(open('/proc/self/maps').read())"
    if Path("/proc/self/maps").exists():
        loaded = subprocess.run(
            [sys.executable, "-I", "-c", maps], capture_output=True, text=True, check=True
        ).stdout
        assert "libcuda" not in loaded
        assert "libamdhip64" not in loaded


def test_nothing_outside_the_folder_uses_another_name() -> None:
    """A wheel uses the names of the wheel alone."""
    public = {
        f"{module}.{name}" for module in MODULES for name in import_module(module).__all__
    } | set(MODULES)
    used = set()
    for path in some(ROOT.glob("**/*.py")):
        parts = path.relative_to(ROOT).parts
        if (
            parts[:2] == ("extras", "simulators")
            or parts[0] == "build"
            or path.name == "test_two_places.py"  # it compares lists of the folder with others
            or {".venv", "node_modules"} & {*parts}
            or not re.search("devmod_(simulators|standins)", path.read_text())
        ):
            continue
        assert "src" not in parts or "devmod_standins" not in path.read_text(), (
            f"{path} belongs to a wheel"
        )
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in PACKAGES:
                used |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                used |= {
                    alias.name for alias in node.names if alias.name.partition(".")[0] in PACKAGES
                }
    assert used
    assert used <= public


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    library = StandinLibrary("libmade-up.so", (tmp_path,), "worker", ())
    for function in (library.build, library.environment):
        assert refusal(UnavailableError, function) == (
            "no C compiler is installed (cc), which builds the stand-in for libmade-up.so; Debian and Ubuntu: apt-get install gcc libc6-dev"
        )


@pytest.mark.volume_but
def test_without_a_header_that_a_build_reads(tmp_path: Path) -> None:
    library = StandinLibrary(
        "libmade-up.so", (tmp_path,), "worker", (), lambda: [tmp_path], generate=driver_files
    )
    assert refusal(UnavailableError, library.build) == (
        f"{tmp_path}/cudaTypedefs.h cannot be read, which a stand-in needs: No such file or directory; install its package again: pip install --force-reinstall"
    )


@pytest.mark.volume_but
def test_a_function_of_the_driver_that_its_header_lacks(tmp_path: Path) -> None:
    names = ("driver_types", "cuda_egl_interop", "cuda_gl_interop", "cuda_vdpau_interop", "cuda")
    for name in names:
        (tmp_path / f"{name}.h").touch()
    prototype = "extern cudaError_t cudaThreadSynchronize(void);\n"
    (tmp_path / "cuda_runtime_api.h").write_text(prototype)
    library = StandinLibrary(
        "libmade-up.so", (tmp_path,), "", (), lambda: [tmp_path], generate=runtime_files
    )
    assert refusal(BuildError, library.build) == (
        "libcudart/forwards.txt has cuCtxSynchronize for cudaThreadSynchronize, and cuda.h has no such function: correct the name, or build with the headers of a newer CUDA"
    )


def test_files_that_do_not_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    screen = StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    (tmp_path / "wrong.c").write_text("int wrong(void) { return missing; }\n")
    with pytest.raises(
        BuildError, match=r"^the stand-in for libmade-up\.so does not compile:\n(.*\n)+.*missing"
    ):
        StandinLibrary("libmade-up.so", (tmp_path,), "worker", ()).build()
    assert "building libmade-up.so, once" in screen.getvalue()


#: The C files of a library: what others call is declared, also in `alone`, with the types of the
#: header. A type may be known to its own file only.
SOURCES = {
    "pair.h": """#pragma once
typedef struct { int first, second; } Pair;
int declared(int (*call)(Pair), int);
""",
    "a.c": """#include "pair.h"
static int own(Pair pair) { return 2 * pair.first; }
int total(void) {
    return behind() + elsewhere((Pair){3, 5}, own) + declared(own, 7) + *alone(1);
}
int behind(void) {
    return 100000;
}
""",
    "b.c": """#include "pair.h"
typedef struct { int only; } Here;
int elsewhere(Pair pair,
              int (*call)(Pair)) {
    return call(pair) + 1000 * pair.second;
}
int of_here(Here *here) {
    return here->only;
}
int declared(int (*call)(Pair), int value) {
    return 10 * call((Pair){value, 0});
}
""",
    "alone/c.c": """#include "pair.h"
#include "prototypes.h"
static int own(Pair pair) { return 3 * pair.second; }
const int *alone(int number) {
    static int result;
    result = number * elsewhere((Pair){0, 2}, own) + 300000;
    return &result;
}
""",
}


def test_functions_that_other_files_call_need_no_prototype(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    loaded = ctypes.CDLL(str(StandinLibrary("libmade-up.so", (tmp_path,), "", ()).build()))
    assert loaded.total() == 100000 + 5006 + 140 + 302006


#: A compiler that waits until another process has started it too.
COMPILER = """#!/bin/sh
touch {folder}/started.$$
for turn in $(seq 200); do
    [ "$(ls {folder}/started.* | wc -l)" -ge 2 ] && break
    sleep 0.1
done
exec cc "$@"
"""
BUILD = """
import sys
from pathlib import Path
from devmod_simulators import StandinLibrary
from devmod_simulators.drivers import build
folder = Path(sys.argv[1])
build.CACHE = folder / "cache"
print(StandinLibrary("libmade-up.so", (folder / "sources",), "worker", ()).build())
"""


@pytest.mark.volume_but
def test_two_processes_build_a_library_at_once(tmp_path: Path) -> None:
    """Both compile; the library has its name when it is complete, and one process gives it."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "made_up.c").write_text(
        "int seven(void);\nint seven(void) { return 7; }\n"
    )
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(folder=tmp_path))
    compiler.chmod(0o755)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tmp_path)],
            env=os.environ | {"CC": str(compiler)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [each.communicate() for each in processes]
    assert len(list(tmp_path.glob("started.*"))) == 2
    assert outputs[0] == outputs[1]
    path, errors = outputs[0]
    assert errors == ""
    assert ctypes.CDLL(path.rstrip()).seven() == 7
    folder = Path(path).parent
    assert [each.name for each in folder.iterdir()] == ["libmade-up.so"]
    assert {each.name for each in folder.parent.iterdir()} == {folder.name, "included"}


@pytest.mark.parametrize("library", [libcuda, libamdhip64], ids=lambda library: library.soname)
def test_a_violation_is_an_error_at_the_end(library: DriverLibrary) -> None:
    try:
        driver = library.load()
    except UnavailableError as error:
        pytest.skip(str(error))

    def use() -> None:
        with driver.shown():
            if library is libcuda:
                context = ctypes.c_void_p()
                assert driver.api.cuInit(0) == 0
                assert driver.api.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
                assert driver.api.cuCtxSetCurrent(context) == 0
                driver.api.cuMemFree_v2(ctypes.c_void_p(5))
                assert driver.api.cuCtxSetCurrent(None) == 0
                assert driver.api.cuDevicePrimaryCtxRelease_v2(0) == 0
            else:
                driver.api.hipFree(ctypes.c_void_p(5))

    with pytest.raises(
        ViolationError, match=r"^0x5 is freed and is not the start of a device allocation$"
    ):
        use()
    with driver.shown():
        assert driver.violations == []
