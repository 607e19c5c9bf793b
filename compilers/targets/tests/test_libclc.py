"""The library of OpenCL C's built-in functions: its files, its copy in the cache, its compiler."""

from __future__ import annotations

import hashlib
import lzma
import multiprocessing
import re
import shutil
from pathlib import Path

import pytest

from devmod.errors import DevmodError, ToolchainNotFoundError
from devmod_targets import libclc
from devmod_targets.authoring.clang_build import LlvmToolchain
from devmod_targets.authoring.zig import run_zig

pytestmark = pytest.mark.row("R58")
LIBRARIES = (libclc.PTX, libclc.AMDGPU)
FOLDER = Path(libclc.__file__).parent
TARGETS = {libclc.PTX: "nvptx64-nvidia-cuda", libclc.AMDGPU: "amdgcn-amd-amdhsa"}
SOURCE = b"""
float __attribute__((overloadable)) sin(float x);
float f(float x) { return sin(x); }
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("library", LIBRARIES)
def test_clang_links_the_functions_that_a_source_calls(library: str, cache: Path) -> None:
    language = ("-x", "cl", "-cl-std=CL3.0", "-cl-no-stdinc")
    output = ("-emit-llvm", "-S", "f.cl", "-o", "f.ll")
    arguments = ["clang", "-target", TARGETS[library], "-nogpulib", "-O2", *language, *output]
    arguments += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", "library.bc"]
    files = {"f.cl": SOURCE, "library.bc": libclc.read_library(library)}
    result = run_zig(arguments, files, "f.ll", kind="kind")
    assert result.status == 0, result.log
    declared = re.findall(r"^declare .*@([^(]+)\(", result.output.decode(), re.MULTILINE)
    assert [name for name in declared if not name.startswith("llvm.")] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_library_is_unpacked_once(
    library: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = libclc.read_library(library)
    monkeypatch.setattr(lzma, "open", None)
    assert libclc.read_library(library) == data
    assert [path.read_bytes() for path in cache.glob("libclc/*.bc")] == [data]


@pytest.mark.parametrize("damage", [b"", b"other", None])
def test_a_damaged_copy_in_the_cache_is_replaced(damage: bytes | None, cache: Path) -> None:
    data = libclc.read_library(libclc.PTX)
    (path,) = cache.glob("libclc/*.bc")
    if damage is None:  # the same size
        damage = data[:-1] + bytes([data[-1] ^ 1])
    path.write_bytes(damage)
    assert libclc.read_library(libclc.PTX) == data
    assert path.read_bytes() == data


def test_without_a_cache_the_library_is_unpacked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(file))
    assert libclc.read_library(libclc.PTX) == libclc.read_library(libclc.PTX) != b""


def _digest(library: str) -> str:
    return hashlib.sha256(libclc.read_library(library)).hexdigest()


def test_several_processes_unpack_the_library_at_once(cache: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        digests = pool.map(_digest, [libclc.PTX] * 4, chunksize=1)
    (digest,) = set(digests)
    names = [path.name for path in cache.joinpath("libclc").iterdir()]
    assert sorted(names) == sorted([f"{digest}.bc", "CACHEDIR.TAG"])


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (b"no xz", "Input format not supported by decoder"),
        (lzma.compress(b"other"), "its digest is not that of its record"),
        (lzma.compress(bytes(1 << 20))[:-20], "Compressed file ended before"),
    ],
)
def test_a_damaged_file_of_the_wheel_is_an_error(
    packed: bytes, problem: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(FOLDER / "record.json", tmp_path)
    source = tmp_path / "nvptx64--.bc.xz"
    source.write_bytes(packed)
    monkeypatch.setattr(libclc, "_FOLDER", str(tmp_path))
    with pytest.raises(DevmodError) as error:
        libclc.read_library(libclc.PTX)
    assert str(error.value).startswith(f"{str(source)!r} is damaged: {problem}")
    assert "pip install --force-reinstall devmod-targets" in str(error.value)
    assert not [*cache.glob("**/*.bc")]


@pytest.mark.parametrize("name", ["clang 22.1.8 (ziglang 0.17.1)", "clang 23.0.0", "clang unknown"])
def test_a_clang_that_may_read_the_bitcode_is_accepted(name: str) -> None:
    libclc.check_clang(LlvmToolchain((), (), name, ()), "rocm", "devmod-core[build-rocm-opencl]")


def test_an_older_clang_is_an_error() -> None:
    toolchain = LlvmToolchain((), (), "clang 21.1.0 (ziglang 0.16.0)", ())
    with pytest.raises(ToolchainNotFoundError) as error:
        libclc.check_clang(toolchain, "rocm", "devmod-core[build-rocm-opencl]")
    assert str(error.value) == (
        "rocm cannot compile OpenCL C here: expected clang 22 or newer, because libclc 22.1.8, the library of its built-in functions, "
        "is bitcode of LLVM 22; got clang 21.1.0 (ziglang 0.16.0). "
        'To update it: pip install --upgrade "devmod-core[build-rocm-opencl]", or name another clang with DEVMOD_CLANG'
    )
