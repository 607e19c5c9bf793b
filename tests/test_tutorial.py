"""docs/backend.md is walked through as a reader would: files written, code run, the wheel built and installed, output compared."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.conftest import Environment, Wheels

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "backend.md").read_text()
BLOCK = re.compile(r"<!-- (file|run|prints|shell)(?:: (\S+))? -->\n```\w+\n(.*?)```", re.DOTALL)
MATCH = doctest.OutputChecker()


def blocks() -> Iterator[tuple[str, str, str]]:
    """Each marked block: what is to be done with it, the file it names, and its text."""
    for found in BLOCK.finditer(PAGE):
        yield found[1], found[2] or "", found[3]


def commands(text: str) -> Iterator[tuple[list[str], str]]:
    """Each command of a console block, and what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, said = part.partition("\n")
        yield shlex.split(line, comments=True), said


class Reader:
    """Somebody who does what the page says, in a folder of his own, with an environment that has only what he installed."""

    def __init__(self, box: Environment, folder: Path) -> None:
        self.box = box
        self.folder = folder
        self.installed = False
        folder.mkdir()

    def run(self, *arguments: str) -> str:
        """Run Python; before the wheel is installed, with the package on its path."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("DEVMOD_", "PYTHON"))}
        env |= {"DEVMOD_CACHE_DIR": str(self.folder / "cache"), "PYTHONUTF8": "1", "COLUMNS": "160"}
        if not self.installed:
            env["PYTHONPATH"] = str(self.folder / "src")
        done = subprocess.run(
            [str(self.box.python), *arguments], cwd=self.folder, env=env, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def command(self, words: list[str]) -> str:
        """Run a command of a console block. What fetches from a network is done from here instead."""
        if words[0] in ("devmod", "pytest"):
            return self.run("-m", *words)
        if words[:3] == ["python", "-m", "build"]:
            build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
            subprocess.run(build, cwd=self.folder, capture_output=True, check=True)
            return ""
        if words[:2] == ["pip", "install"]:
            self.box.install(*(str(self.folder / word) if word.endswith(".whl") else word for word in words[2:]))
            self.installed = True
            return ""
        if words[:3] == ["pip", "uninstall", "--yes"]:
            self.box.uninstall(*words[3:])
            return ""
        assert words[0] == "ls", f"{shlex.join(words)}: this test does not know how to run that"
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=True).stdout


def same(want: str, got: str) -> bool:
    return MATCH.check_output(want, got, doctest.ELLIPSIS)


@pytest.mark.row("R1", "R6", "R10", "R24", "R25", "R29", "R31", "R34")
def test_the_tutorial_does_what_it_says(wheels: Wheels, environment: Callable[..., Environment], tmp_path: Path) -> None:
    reader = Reader(environment(wheels.direct("devmod-core"), "numpy"), tmp_path / "work")
    said = ""
    for what, name, text in blocks():
        if what == "file":
            path = reader.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif what == "run":
            said = reader.run("-W", "error", "-c", text)
        elif what == "prints":
            assert same(text, said), f"the page says\n{text}\nand it prints\n{said}"
        else:
            for words, expected in commands(text):
                got = reader.command(words)
                assert same(expected, got), f"$ {shlex.join(words)}\nthe page says\n{expected}\nand it prints\n{got}"
    assert reader.installed


def test_every_block_of_code_on_the_page_is_run() -> None:
    fences = re.findall(r"^```(python|toml|console)$", PAGE, re.MULTILINE)
    assert len(fences) == len([what for what, _, _ in blocks() if what != "prints"])
    assert {"file", "run", "prints", "shell"} == {what for what, _, _ in blocks()}


def test_ruff_has_nothing_to_say_of_the_package_on_the_page(tmp_path: Path) -> None:
    for what, name, text in blocks():
        if what == "file" and name.endswith(".py"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    for command in (["check", "--ignore", "D1,A001,I001", *settings], ["format", "--check", *settings]):
        done = subprocess.run([*ruff, *command, "src", "tests"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.row("R1")
def test_the_page_shows_the_plugin_interface_as_the_contract_does() -> None:
    from devmod._registry import GROUPS

    def table(text: str) -> dict[str, tuple[str, str]]:
        return {group: (name, call) for group, name, call in re.findall(r"^\| `(devmod\.\w+)` \| (.+?) \| (.+?) \|$", text, re.MULTILINE)}

    page, contract = table(PAGE), table((ROOT / "docs" / "contract.md").read_text())
    assert list(page) == list(contract) == list(GROUPS)
    for group in GROUPS:
        if group != "devmod.protocol":
            assert page[group] == contract[group]
