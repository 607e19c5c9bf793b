"""A pipe in the place of a file: an error with its name. Opening it would wait for a writer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from build_project import plan_in, write_kernels

import devmod
from devmod_targets.build.build import build_plan
from devmod_targets.build.plan import Job
from devmod_workbench._cli import main

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "p").mkdir()
    monkeypatch.chdir(tmp_path / "p")
    return tmp_path / "p"


def refusal(path: Path) -> str:
    return f"{str(path)!r} is a pipe (FIFO); expected a regular file"


def test_a_source(folder: Path) -> None:
    os.mkfifo(folder / "k.cl")
    with pytest.raises(devmod.CompileError) as caught:
        devmod.compile(folder / "k.cl", "opencl")
    assert (
        str(caught.value)
        == refusal(folder / "k.cl") + ". Pass the text, or - on the command line for standard input"
    )


def test_a_source_of_a_build(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_kernels(folder, 1)
    (folder / "k0.cl").unlink()
    os.mkfifo(folder / "k0.cl")
    assert main(["build"]) == 1
    place = "devmod.toml:4: kernels.k0.sources[0]"
    assert (
        capsys.readouterr().err
        == f"devmod: error: {place}: 'k0.cl' is a pipe or a device; expected a file\n"
    )
    plan = plan_in(folder, Job("k0", str(folder), "k0.cl", "opencl"))
    with pytest.raises(devmod.FormatError) as caught:
        build_plan(plan)
    assert str(caught.value) == refusal(folder / "k0.cl")


def test_the_output_of_a_build(folder: Path) -> None:
    devmod.build(write_kernels(folder, 1))
    (folder / "k.devmod").unlink()
    os.mkfifo(folder / "k.devmod")
    with pytest.raises(devmod.FormatError) as caught:
        devmod.build(folder)
    assert (
        str(caught.value)
        == f"{str(folder / 'k.devmod')!r} is a pipe (FIFO), which saving would replace. Give the path of a regular file"
    )


def test_the_manifest_of_init(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "k.cl").write_text("kernel void k(global float *x) {}\n")
    os.mkfifo(folder / "devmod.toml")
    assert main(["init"]) == 1
    assert capsys.readouterr() == ("", "devmod: error: devmod.toml exists; --force overwrites it\n")
