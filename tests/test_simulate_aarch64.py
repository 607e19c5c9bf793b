"""The libraries of devmod-simulators for aarch64, and a program of nvcc in qemu."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from vendor_runtime import VendorRuntime

LIBRARIES = (
    "libcuda.so.1",
    "libcudart.so.12",
    "libcudart.so.13",
    "libdevmod_cubins.so.1",
    "libdevmod_engine.so.1",
)


@pytest.fixture(scope="module")
def package(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the wheel, unpacked."""
    folder = tmp_path_factory.mktemp("simulators")
    with zipfile.ZipFile(wheels["devmod-simulators"]) as archive:
        archive.extractall(folder)
    return folder / "devmod_simulators"


@pytest.fixture(scope="module")
def debian() -> Path:
    """The folder of Debian's Python for aarch64, with wheels in `site`."""
    runtime = VendorRuntime("aarch64")
    if runtime.reason:
        pytest.skip(runtime.reason)
    return runtime.path


def symbols(library: Path) -> set[str]:
    """Return the exported symbols of a shared library with their version nodes."""
    words = ["readelf", "--dyn-syms", "-W", str(library)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" DEFAULT +\d+ (\w+(?:@@\S+)?)$", text, re.MULTILINE))


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_libraries_of_both_machines_export_the_same(package: Path, name: str) -> None:
    if not shutil.which("readelf"):
        pytest.skip("readelf is not installed, which reads the symbols")
    folders = package / "drivers" / "built"
    both = [symbols(folders / machine / name) for machine in ("aarch64", "x86_64")]
    assert both[0]
    assert both[0] == both[1]
    machine = (folders / "aarch64" / name).read_bytes()[18:20]
    assert int.from_bytes(machine, "little") == 183  # EM_AARCH64


@pytest.mark.volume
@pytest.mark.parametrize("version", [12, 13])
def test_the_symbols_for_aarch64_are_those_of_nvidias_library(
    package: Path, debian: Path, version: int
) -> None:
    name = f"libcudart.so.{version}"
    (real,) = debian.glob(f"site/nvidia/*/lib/{name}")
    assert len(symbols(real)) > 430
    assert symbols(package / "drivers" / "built" / "aarch64" / name) == symbols(real)


PROGRAM = """
#include <stdio.h>
__managed__ int counter = 5;
__global__ void count(int by) { atomicAdd(&counter, by); }
int main()
{
    count<<<2, 48>>>(3);
    const char *name = cudaGetErrorName(cudaDeviceSynchronize());
    printf("%s %d\\n", name, counter);
    return 0;
}
"""
#: nvcc's compiler of the host. The headers of this glibc fit CUDA's; the program needs no C++
#: library, which zig would compile first.
COMPILER = """#!/bin/sh
mode=c++
for argument; do
    shift
    case $argument in
    -lstdc++) mode=cc ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec "{python}" -m ziglang "$mode" -target aarch64-linux-gnu.2.42 "$@"
"""


@pytest.mark.row("R55")
@pytest.mark.volume
def test_a_program_of_nvcc_runs_on_aarch64(package: Path, debian: Path, tmp_path: Path) -> None:
    """The program, the libraries and the interpreter of PTX are all of aarch64."""
    nvcc = None
    spec = find_spec("nvidia")
    if spec is not None:
        for folder in spec.submodule_search_locations or ():
            nvcc = nvcc or shutil.which("nvcc", path=f"{folder}/cu13/bin")
    if nvcc is None:
        pytest.skip("no wheel of NVIDIA's with nvcc is installed")
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(python=sys.executable))
    compiler.chmod(0o755)
    (tmp_path / "k.cu").write_text(PROGRAM)
    built = package / "drivers" / "built" / "aarch64"
    (tmp_path / "libcudart.so").symlink_to(built / "libcudart.so.13")
    words = [nvcc, "-ccbin", compiler, "-arch=compute_90", "-cudadevrt", "none", "--cudart"]
    words += ["shared", "-L.", "-no-compress", "k.cu", "-o", "k"]
    subprocess.run(words, cwd=tmp_path, capture_output=True, check=True)

    machine = ["qemu-aarch64", "-L", str(debian)]
    worker = [*machine, str(debian / "usr/bin/python3.11"), str(package / "ptx")]
    variables = {
        "DEVMOD_STANDIN_WORKER": "\x1f".join(worker),
        "LD_LIBRARY_PATH": str(built),
        "PYTHONPATH": str(debian / "site"),
    }
    words = [*machine, "./k"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("cudaSuccess 293\n", "", 0)
