"""`devmod.backend.find_program` searches the absolute folders of PATH, and no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devmod.backend import find_program

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a program there is known by its suffix")


def program(folder: Path) -> str:
    folder.mkdir()
    path = folder / "tool-of-a-test"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_is_found_in_the_first_folder_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = program(tmp_path / "first"), program(tmp_path / "second")
    (tmp_path / "empty").mkdir()
    folders = [tmp_path / name for name in ("empty", "second", "first")]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    assert find_program("tool-of-a-test") == second
    assert find_program("other-tool-of-a-test") == ""
    assert find_program(first) == first


def test_a_relative_folder_of_path_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "stranger")
    monkeypatch.chdir(tmp_path / "stranger")
    for path in ("", ".", os.pathsep, "../stranger"):
        monkeypatch.setenv("PATH", path)
        assert find_program("tool-of-a-test") == ""


def test_a_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    assert find_program("folder/tool-of-a-test") == path
    assert find_program("folder/missing") == ""
    os.chmod(path, 0o644)
    assert find_program("folder/tool-of-a-test") == ""
