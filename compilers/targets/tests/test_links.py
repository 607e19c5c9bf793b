"""Commands write no file through a symbolic link that a stranger has put into the folder, unless
the user names that link.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from build_project import write_kernels
from command_line import printed_by

import devmod
from devmod_workbench._cli import main


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is a project; the folder home has one file."""
    project, home = tmp_path / "project", tmp_path / "home"
    write_kernels(project, 1)
    home.mkdir()
    (home / "precious").write_text("precious")
    monkeypatch.chdir(project)
    return project


def home_of(project: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project.parent / "home").iterdir()}


@pytest.mark.parametrize(
    ("output", "link", "target"),
    [
        ("k.devmod", "k.devmod", "../home/precious"),
        ("out/k.devmod", "out", "../home"),
        ("k.devmod", "k.devmod", "../home/new"),
    ],
)
def test_the_output_of_a_manifest(
    capsys: pytest.CaptureFixture[str], project: Path, output: str, link: str, target: str
) -> None:
    manifest = Path("devmod.toml")
    manifest.write_text(manifest.read_text().replace('"k.devmod"', f'"{output}"'))
    os.symlink(target, link)
    assert printed_by(capsys, "build", status=1).err == (
        f"devmod: error: the output of devmod.toml is not written: {str(project / link)!r} is a symbolic link. Remove it, or name the "
        "file: devmod build --output FILE\n"
    )
    assert home_of(project) == {"precious": b"precious"}


def test_an_output_that_the_user_names(project: Path) -> None:
    os.symlink("../home/k.devmod", "k.devmod")
    assert main(["build", "-q", "-o", "k.devmod"]) == 0
    assert devmod.load(project.parent / "home" / "k.devmod").kind == "opencl"
    assert devmod.build(output="../home/other.devmod").written
    assert os.path.islink("k.devmod")


def test_the_default_output_of_a_compile(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    os.symlink("../home/precious", "k0.devmod")
    assert (
        printed_by(capsys, "compile", "k0.cl", "-t", "opencl", status=1).err
        == f"devmod: error: 'k0.devmod' is not written: {str(project / 'k0.devmod')!r} is a symbolic link\n"
    )
    assert home_of(project) == {"precious": b"precious"}
    assert main(["compile", "-q", "k0.cl", "-t", "opencl", "-o", "k0.devmod"]) == 0
    assert devmod.load(project.parent / "home" / "precious").kind == "opencl"


def test_the_metadata_of_a_raw_payload(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    os.symlink("../home/new", "out.tvm_meta.json")
    assert (
        "'out.tvm_meta.json' is a symbolic link"
        in printed_by(capsys, "compile", "k0.cl", "-t", "opencl", "-o", "out.cl", status=1).err
    )
    assert home_of(project) == {"precious": b"precious"}


def test_a_new_manifest(project: Path) -> None:
    """It replaces a link, and no name of a temporary file is predictable."""
    os.remove("devmod.toml")
    for name in (
        "devmod.toml",
        f".devmod.toml.{os.getpid()}.partial",
        f".devmod.schema.json.{os.getpid()}.partial",
    ):
        os.symlink("../home/precious", name)
    assert main(["init", "-q", "--force"]) == 0
    assert home_of(project) == {"precious": b"precious"}
    assert not os.path.islink("devmod.toml")
