"""Every block of docs/backend.md is executed: files are written, code runs, the wheel is built and
installed, output is compared.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import blocks, commands, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.conftest import Environment, Wheels

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "backend.md").read_text()


class Reader:
    """Runs the blocks in a new folder and a new environment."""

    def __init__(self, box: Environment, folder: Path, *own_tests: str) -> None:
        self.box = box
        self.folder = folder
        self.own_tests = own_tests
        self.installed = False
        folder.mkdir()

    def run(self, *arguments: str) -> str:
        """Run Python, with the package on its path until the wheel is installed."""
        env = {
            name: value
            for name, value in os.environ.items()
            if name == "DEVMOD_OPENCL_POCL_CPU" or not name.startswith(("DEVMOD_", "PYTHON"))
        }
        env |= {"DEVMOD_CACHE_DIR": str(self.folder / "cache"), "PYTHONUTF8": "1", "COLUMNS": "160"}
        if not self.installed:
            env["PYTHONPATH"] = str(self.folder / "src")
        process = subprocess.run(
            [str(self.box.python), *arguments],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert process.returncode == 0, f"{' '.join(arguments)}\n{process.stdout}\n{process.stderr}"
        return process.stdout

    def requirement(self, word: str) -> str:
        """Return the requirement that installs what `word` names: a wheel of the folder, of this
        repository, or of an index.
        """
        name, _, extras = word.rstrip("]").partition("[")
        if word.endswith(".whl"):
            return str(self.folder / word)
        return (
            self.box.wheels.direct(name, *filter(None, extras.split(",")))
            if name in self.box.wheels
            else word
        )

    def command(self, words: list[str]) -> str:
        """Run a command of a console block. Commands that would use the network are replaced."""
        if words[0] in ("devmod", "pytest"):
            return self.run("-m", *words, *(self.own_tests if words[0] == "pytest" else ()))
        if words[:3] == ["python", "-m", "build"]:
            build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
            subprocess.run(build, cwd=self.folder, capture_output=True, check=True)
            return ""
        if words[:2] == ["pip", "install"]:
            self.box.install(*map(self.requirement, words[2:]))
            self.installed = self.installed or any(word.endswith(".whl") for word in words)
            return ""
        if words[:3] == ["pip", "uninstall", "--yes"]:
            self.box.uninstall(*words[3:])
            return ""
        assert words[0] == "ls", f"{shlex.join(words)}: this test cannot run that command"
        return subprocess.run(
            words, cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout


@pytest.mark.volume_but("some")
@pytest.mark.row("R1", "R6", "R10", "R24", "R25", "R29", "R31", "R34")
@pytest.mark.parametrize("own_tests", [("-k", "R33"), ()], ids=["some", "all"])
def test_the_blocks_print_what_the_page_shows(
    own_tests: tuple[str, ...],
    wheels: Wheels,
    environment: Callable[..., Environment],
    tmp_path: Path,
) -> None:
    """The page runs every row by the command, and then by pytest, of which `make test` has some."""
    reader = Reader(environment(), tmp_path / "work", *own_tests)
    printed = ""
    for what, name, text in blocks(PAGE):
        if what == "file":
            path = reader.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif what == "run":
            printed = reader.run("-W", "error", "-c", text)
        elif what == "prints":
            assert same(text, printed), f"expected\n{text}\ngot\n{printed}"
        else:
            for words, expected in commands(text):
                result = reader.command(words)
                assert same(expected, result), (
                    f"$ {shlex.join(words)}\nexpected\n{expected}\ngot\n{result}"
                )
    assert reader.installed


def test_every_block_of_code_is_executed() -> None:
    fences = re.findall(r"^```(python|toml|console)$", PAGE, re.MULTILINE)
    assert len(fences) == len([what for what, _, _ in blocks(PAGE) if what != "prints"])
    assert {"file", "run", "prints", "shell"} == {what for what, _, _ in blocks(PAGE)}


def test_the_package_of_the_page_passes_ruff(tmp_path: Path) -> None:
    for what, name, text in blocks(PAGE):
        if what == "file" and name.endswith(".py"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    for command in (
        ["check", "--ignore", "D1,A001,I001,I002", *settings],
        ["format", "--check", *settings],
    ):
        process = subprocess.run(
            [*ruff, *command, "src", "tests"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stdout + process.stderr


def test_the_page_has_the_hooks_and_their_parameters() -> None:
    from devmod._plugins.hooks import HOOKS, Hooks

    rows = dict(re.findall(r"^\| `(devmod_\w+)\((.*?)\)` \|", PAGE, re.MULTILINE))
    assert rows == {
        name: ", ".join([*inspect.signature(getattr(Hooks, name)).parameters][1:]) for name in HOOKS
    }


@pytest.mark.row("R1")
def test_the_page_has_the_groups_of_the_contract() -> None:
    from devmod.plugins import GROUPS

    def table(text: str) -> dict[str, tuple[str, str]]:
        return {
            group: (name, call)
            for group, name, call in re.findall(
                r"^\| `(devmod\.\w+)` \| (.+?) \| (.+?) \|$", text, re.MULTILINE
            )
        }

    page, contract = table(PAGE), table((ROOT / "docs" / "contract.md").read_text())
    assert list(page) == list(contract) == list(GROUPS)
    for group in GROUPS:
        if group != "devmod.protocol":
            assert page[group] == contract[group]
