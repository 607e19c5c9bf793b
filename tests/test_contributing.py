"""CONTRIBUTING.md: its map of the folders is that of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rows
import where
from devmod.targets import KINDS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
#: The folders of which the map has all that are in them; "" is that of the repository.
WHOLE = {"", "plugins/", "compilers/", "extras/", "core/src/devmod/"}


def folders_of_the_map(text: str) -> set[str]:
    """Return the paths of the folders that a map has, each below the one that is indented less."""
    above: list[str] = []
    paths = set()
    for spaces, name in re.findall(r"^( *)([\w/<>-]+/) ", text, re.MULTILINE):
        depth = len(spaces) // 2
        above[depth:] = [name]
        paths.add("".join(above))
    return paths


def folders_of_the_repository() -> set[str]:
    """Return the folders with files that are below those of `WHOLE`."""
    found = set()
    for path in where.files():
        place = path.relative_to(ROOT).as_posix()
        for folder in WHOLE:
            name, is_deeper, _ = place.removeprefix(folder).partition("/")
            if place.startswith(folder) and is_deeper and not name.startswith("."):
                found.add(f"{folder}{name}/")
    return found


def test_the_map_has_the_folders_of_the_repository() -> None:
    layout = PAGE.partition("```text\n")[2].partition("```")[0]
    found = folders_of_the_map(layout)
    for folder in [each for each in found if "<kind>" in each]:
        found.remove(folder)
        found |= {folder.replace("<kind>", kind) for kind in KINDS}
    # The map goes from core to its packages in one step.
    assert found == folders_of_the_repository() | {"core/src/devmod/"}


def test_a_folder_that_the_map_lacks_is_found() -> None:
    text = "a/        A\n  b/c/    C\n    d.py  D\nb/        B\n"
    assert folders_of_the_map(text) == {"a/", "a/b/c/", "b/"}


def test_the_template_of_a_message_says_what_the_page_says() -> None:
    template = (ROOT / ".gitmessage").read_text(encoding="utf-8")
    for text in (template, PAGE.partition("\n## How to commit\n")[2]):
        words = " ".join(text.replace("#", " ").split())
        assert "imperative" in words
        assert "at most 72 characters" in words
    assert max(map(len, template.splitlines())) <= 100


def test_a_row_that_the_contract_lacks_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"docs/contract.md has no row R999. Its rows: R1 to R\d+"):
        rows.main(["R1", "R999"])
    rows.main(["R1"])
    assert "R1  core/tests/" in capsys.readouterr().out
