"""Runs a section of docs/frameworks.md, with the blocks of its first one."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmod_workbench._cli import main

ROOT = Path(__file__).resolve().parents[3]


def check_page(
    heading: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the blocks in a folder, and compare what they print."""
    monkeypatch.syspath_prepend(ROOT / "tests")
    from pages import blocks, commands, same

    page = (ROOT / "docs" / "frameworks.md").read_text()
    start = page.partition("\n## Call programs from ")[0]
    own = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    monkeypatch.chdir(folder)
    used = []
    for mark, name, text in blocks(start + own):
        used.append(mark)
        if mark == "file":
            (folder / name).write_text(text)
        elif mark == "shell":
            for words, expected in commands(text):
                assert main(words[1:]) == 0
                assert same(expected, capsys.readouterr().out)
        elif mark == "run":
            exec(compile(text, "frameworks.md", "exec"), {})
        else:
            assert capsys.readouterr().out == text
    assert used == ["file", "file", "shell", "run", "prints"]
