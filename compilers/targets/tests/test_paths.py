"""Paths of sources whose bytes are not UTF-8, as old archives have them, and names with lone
surrogates.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from build_project import write_kernels
from each_case import refusal

import devmod

CL = "kernel void k(global float *x) { x[0] = 1; }\n"
WGSL = "@group(0) @binding(0) var<storage, read_write> x: array<f32>; @compute @workgroup_size(1) fn k() { x[0] = 1; }"


def place(folder: Path, name: bytes) -> Path:
    path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
    try:
        path.mkdir()
    except OSError:
        pytest.skip("the file system takes UTF-8 alone")
    return path


def test_a_name_that_is_not_utf8_is_an_error_of_the_source(tmp_path: Path) -> None:
    path = place(tmp_path, b"f") / os.fsdecode(b"br\xf6ken.wgsl")
    try:
        path.write_text(WGSL)
    except OSError:
        pytest.skip("the file system takes UTF-8 alone")
    assert refusal(devmod.CompileError, devmod.compile, path, "webgpu") == (
        f"the name of the file {str(path)!r} is not UTF-8, and the payload's origin has that name: rename the file"
    )


def test_libclang_needs_a_folder_in_utf8(tmp_path: Path) -> None:
    folder = place(tmp_path, b"d\xf6r")
    (folder / "k.cl").write_text(CL)
    (folder / "k.wgsl").write_text(WGSL)
    assert refusal(devmod.CompileError, devmod.compile, folder / "k.cl", "opencl") == (
        f"libclang cannot parse the OpenCL C source k.cl: {str(folder / 'k.cl')!r} is not UTF-8. Rename the file or the folder"
    )
    assert list(devmod.compile(folder / "k.wgsl", "webgpu")) == ["k"]  # its compiler reads no path


@pytest.mark.skipif(os.name != "posix", reason="Windows has files with such names")
@pytest.mark.parametrize(
    "options",
    [
        {"manifest": "\ud800"},
        {"manifest": "\ud800.toml"},
        {"output": "\ud800.devmod"},
        {"cache": "\ud800"},
        {"cache": "file:///\ud800"},
    ],
)
def test_a_build_with_a_path_that_no_file_can_have(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {"manifest": str(write_kernels(tmp_path / "p", 1))} | options
    with pytest.raises(devmod.ArgumentError, match=r"^no file can have the path '.*\\ud800.*'$"):
        devmod.build(**arguments)


@pytest.mark.parametrize(
    ("target", "language"),
    [
        ("rocm -arch=gfx1100", "HIP"),
        ("cuda -arch=compute_90", "CUDA C++"),
        ("hexagon -arch=v68", "C++"),
    ],
)
@pytest.mark.parametrize("argument", ["name_expressions", "options"])
def test_a_lone_surrogate_in_an_argument_of_a_compile(
    target: str, language: str, argument: str
) -> None:
    assert (
        refusal(
            devmod.CompileError,
            devmod.compile,
            "void k() {}",
            target,
            language=language,
            **{argument: ["k\ud800"]},
        )
        == f"{argument}= has 'k\\ud800', which UTF-8 cannot encode"
    )


def test_the_command_in_a_folder_that_is_not_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from devmod_workbench._cli import main

    folder = place(tmp_path, b"d\xf6r")
    (folder / "k.wgsl").write_text(WGSL)
    (folder / "devmod.toml").write_text('targets = ["webgpu"]\n[kernels.k]\nsources = ["k.wgsl"]\n')
    monkeypatch.chdir(tmp_path)
    assert main(["build", folder.name]) == 0
    assert main(["build", folder.name, "--json", "-o", str(folder / "other.devmod")]) == 0
    assert list(devmod.load(folder / "kernels.devmod")) == ["k"]
    monkeypatch.chdir(folder)
    assert main(["build", "--plan"]) == 0
    assert main(["compile", "k.wgsl", "-t", "webgpu", "-D", "A=\udcf6"]) == 1
    assert main(["compile", "k.wgsl", "-t", "webgpu", "--function", "\udcf6(handle)"]) == 2
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("target", "suffix", "source"),
    [
        ("hexagon -arch=v68", "c", "void k(int *x) { x[0] = 1; }\n"),
        ("rocm -arch=gfx1100", "hip", 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n'),
        ("opencl", "cl", CL),
        ("webgpu", "wgsl", WGSL),
    ],
)
@pytest.mark.parametrize("name", ["-v", "-E", "-save-temps", "@k", "--help"])
def test_a_name_that_is_like_an_option(
    target: str, suffix: str, source: str, name: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.{suffix}"
    path.write_text(source)
    assert list(devmod.compile(path, target)) == ["k"]
