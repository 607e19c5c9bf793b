"""The commands and the code of the READMEs and of some pages work as printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import devmod
from devmod_simulators import UnavailableError, libcuda
from devmod_standins import libamdhip64, rdna3

ROOT = Path(__file__).resolve().parent.parent


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    env = os.environ | {"DEVMOD_CACHE_DIR": str(folder / "cache"), "PYTHONUTF8": "1"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that has examples/, as the root of a clone has."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.fixture
def compiled(folder: Path) -> Path:
    """Return the folder after the commands of the README, whose output is compared."""
    (_, example, _) = blocks("README.md", "console")
    commands = [
        line.removeprefix("$ ") for line in example.splitlines() if line.startswith("$ devmod")
    ]
    output = "".join(
        run([sys.executable, "-m", *shlex.split(command, comments=True)], folder)
        for command in commands
    )
    assert output == "".join(
        f"{line}\n" for line in example.splitlines() if not line.startswith("$ ")
    )
    return folder


def test_the_python_of_the_readme(compiled: Path) -> None:
    (code,), (printed,) = blocks("README.md", "python"), blocks("README.md", "text")
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    assert run([sys.executable, "-W", "error", "-c", code], compiled) == printed


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 700
    assert len((ROOT / "extras" / "simulators" / "README.md").read_text().split()) < 900


def test_the_python_of_cores_readme(folder: Path) -> None:
    (code,) = blocks("core/README.md", "python")
    run([sys.executable, "-W", "error", "-c", code], folder)
    assert (folder / "twice.devmod").exists()


def stand_in(kind: str) -> dict[str, str]:
    """Return the environment with a stand-in for the driver of a kind; {} if this repository has
    none that runs kernels here.
    """
    try:
        if kind == "cuda":
            return libcuda.environment()
        if kind == "rocm" and not rdna3.missing():
            return {**libamdhip64.environment(), rdna3.VARIABLE: str(rdna3.folder())}
    except UnavailableError:
        pass
    return {}


@pytest.mark.parametrize("kind", devmod.targets.KINDS)
def test_the_python_of_a_plugins_readme(kind: str, tmp_path: Path) -> None:
    """Without a device for the kind, the kernel compiles, and its call raises
    DeviceNotFoundError.
    """
    document = f"plugins/devmod-{kind}/README.md"
    assert len((ROOT / document).read_text().split()) <= 150
    (code,), (printed,) = blocks(document, "python"), blocks(document, "text")
    driver = stand_in(kind)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | driver,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if "devmod.errors.DeviceNotFoundError: " not in done.stderr or driver or kind == "opencl":
        assert (done.stdout, done.returncode) == (printed, 0), done.stderr
