"""Paths of sources whose bytes are not UTF-8, as old archives have them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(path, "webgpu")
    assert str(caught.value) == (
        f"the name of the file {str(path)!r} is not UTF-8, and the payload's origin has that name: rename the file"
    )


def test_libclang_needs_a_folder_in_utf8(tmp_path: Path) -> None:
    folder = place(tmp_path, b"d\xf6r")
    (folder / "k.cl").write_text(CL)
    (folder / "k.wgsl").write_text(WGSL)
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(folder / "k.cl", "opencl")
    assert str(caught.value) == (
        f"libclang cannot parse the OpenCL C source k.cl: {str(folder / 'k.cl')!r} is not UTF-8. Rename the file or the folder"
    )
    assert list(devmod.compile(folder / "k.wgsl", "webgpu")) == ["k"]  # its compiler reads no path
