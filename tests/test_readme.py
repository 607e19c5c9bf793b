"""The commands and the code of the READMEs and of some pages work as printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    env = os.environ | {"DEVMOD_CACHE_DIR": str(folder / "cache"), "PYTHONUTF8": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that has examples/, as the root of a clone has."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.fixture
def compiled(folder: Path) -> Path:
    (console, *_) = blocks("README.md", "console")
    for line in console.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:2] == ["devmod", "compile"]:
            run([sys.executable, "-m", *words], folder)
    return folder


def test_the_shell_commands_of_the_readme(compiled: Path) -> None:
    (console, *_) = blocks("README.md", "console")
    commands = [shlex.split(line.removeprefix("$ "), comments=True) for line in console.splitlines()]
    ends = [words for words in commands if words[0] == "devmod" and words[1] != "view"]
    outputs = {words[1]: run([sys.executable, "-m", *words], compiled) for words in ends}
    assert set(outputs) == {"compile", "inspect", "devices", "doctor", "--version"}
    assert ["devmod", "view", "softmax.devmod"] in commands
    assert "softmax(x: float32* r, y: float32* " in outputs["inspect"]


def test_the_page_that_the_readme_opens(compiled: Path) -> None:
    command = [sys.executable, "-m", "devmod", "view", "softmax.devmod", "--no-open"]
    env = os.environ | {"DEVMOD_CACHE_DIR": str(compiled / "cache"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=compiled, env=env, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            (address,) = re.findall(r"http://\S+", server.stdout.readline())
            assert b"<title>" in urllib.request.urlopen(address, timeout=300).read()
        finally:
            server.terminate()


def test_the_python_of_the_readme(compiled: Path) -> None:
    (code,) = blocks("README.md", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    error, interface = run([sys.executable, "-W", "error", "-c", code], compiled).splitlines()
    assert float(error) < 1e-5
    assert interface.startswith("<Interface (x: float32* rw)")


def test_the_python_of_the_distributions_readmes(folder: Path) -> None:
    (code,) = blocks("core/README.md", "python")
    run([sys.executable, "-W", "error", "-c", code], folder)
    assert (folder / "twice.devmod").exists()
    (code,) = blocks("plugins/devmod-opencl/README.md", "python")  # it uses that file
    assert run([sys.executable, "-W", "error", "-c", code], folder).startswith("[  0.   4.   8.")
