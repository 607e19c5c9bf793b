"""`find_program` searches no folder of the current one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from devmod.backend import find_program


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which has a program, and which three entries of PATH name."""
    program = tmp_path / "here" / "naga"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.chdir(program.parent)
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", "../here"]))
    return tmp_path


def test_a_program_in_the_current_folder_is_not_found(here: Path) -> None:
    assert find_program("naga") == ""


def test_the_absolute_folders_of_path_are_searched_in_their_order(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (here / name).mkdir()
        (here / name / "naga").touch(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([".", str(here / "one"), str(here / "two")]))
    assert find_program("naga") == str(here / "one" / "naga")


def test_a_name_with_a_folder_is_a_path(here: Path) -> None:
    assert find_program("./naga") == str(here / "here" / "naga")
    assert find_program(str(here / "here" / "naga")) == str(here / "here" / "naga")
    assert find_program("./nothing") == ""


def test_a_program_that_windows_finds_in_the_current_folder_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`shutil.which` searches that folder first there, and returns a relative path."""
    monkeypatch.setattr(shutil, "which", lambda name, path=None: rf".\{name}.EXE")
    assert find_program("naga") == ""
