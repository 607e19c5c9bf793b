"""Other people's wheels with kernels: the page's project with hatchling and with setuptools, and
the example distribution.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from pages import blocks

from release import unpack  # tools/release.py

ROOT = Path(__file__).resolve().parent.parent
BEFORE, _, REST = (ROOT / "docs" / "own-wheel.md").read_text().partition("\n## With hatchling\n")
HATCHLING, _, REST = REST.partition("\n## With setuptools\n")
SETUPTOOLS, _, USE = REST.partition("\n## Use\n")
#: What pip calls of a build backend.
PEP517 = "import {0} as backend; print('\\n@' + backend.{1}({2!r}))"
PROJECTS = {
    "hatchling": ("hatchling.build", HATCHLING),
    "setuptools": ("setuptools.build_meta", SETUPTOOLS),
}


class Project:
    """The project of the page, in a folder."""

    def __init__(self, box: Any, folder: Path, backend: str) -> None:
        self.box, self.folder = box, folder
        self.backend, section = PROJECTS[backend]
        for mark, name, text in blocks(BEFORE + section):
            if mark == "file":
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)

    def build(self, hook: str, result: str, folder: Path | None = None) -> Path:
        """Build a distribution as pip does, and return its path."""
        folder = folder or self.folder
        script = (
            f"import os; os.chdir({str(folder)!r}); {PEP517.format(self.backend, hook, result)}"
        )
        output = self.box.run("-c", script)
        (name,) = re.findall(r"^@(.+)$", output, re.MULTILINE)
        return folder / result / name


def bundle_in(wheel: Path) -> bytes:
    with ZipFile(wheel) as file:
        return file.read("my_kernels/my_kernels.devmod")


@pytest.mark.row("R38", "R43")
@pytest.mark.volume_but("setuptools")
@pytest.mark.parametrize("backend", PROJECTS)
def test_the_project_of_the_page(
    backend: str, environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    core = wheels.direct("devmod-core", "build-opencl", "build-webgpu")
    needs = ("editables",) if backend == "hatchling" else ()  # pip asks the backend for it
    box = environment(core, wheels.direct("devmod-opencl", "pocl"), backend, *needs, "numpy")
    project = Project(box, tmp_path / "project", backend)
    wheel = project.build("build_wheel", "dist")
    assert f"$ pip install {wheel.name}\n" in USE
    unpack(project.build("build_sdist", "dist"), tmp_path / "unpacked")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert not list(source.rglob("*.devmod"))
    assert bundle_in(project.build("build_wheel", "dist", source)) == bundle_in(wheel)

    marked = (text for mark, _, text in blocks(USE) if mark in ("run", "prints"))
    use, prints, library, library_prints = marked
    shutil.rmtree(project.folder / "src" / "my_kernels" / "__pycache__", ignore_errors=True)
    for distribution in (project.build("build_editable", "editable"), wheel):
        box.install("--no-deps", "--force-reinstall", str(distribution))
        output = box.run("-W", "error", "-c", f"{use}\nprint(my_kernels.__file__)")
        assert output.startswith(prints)
        assert output.removeprefix(prints).startswith(str(project.folder)) is (
            distribution is not wheel
        )
    program = f"{use}\nprint('the rules:')\n{library}"
    output = box.run("-W", "error", "-c", program)
    assert output == f"{prints}the rules:\n{library_prints}"
    # From a zip file on the path, nothing is unpacked.
    box.uninstall("my-kernels")
    assert (
        box.run("-W", "error", "-c", f"import sys; sys.path.insert(0, {str(wheel)!r})\n{use}")
        == prints
    )
    box.uninstall("devmod-opencl")
    without = box.run("-c", f"import sys; sys.path.insert(0, {str(wheel)!r})\n{program}")
    assert without == "['twice']\nthe rules:\n2.0\n"
    code = f"import sys; sys.path.insert(0, {str(wheel)!r})\nimport devmod, my_kernels, numpy\ntry: my_kernels.twice(numpy.ones(1, 'f'))\nexcept devmod.NotRegisteredError as error: print(error)"
    assert "pip install devmod-opencl" in box.run("-c", code)


def test_the_example_distribution(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    box = environment(
        wheels.direct("devmod-core"),
        wheels.direct("picture-kernels"),
        wheels.direct("devmod-opencl", "pocl"),
        "pytest",
    )
    tests = shutil.copytree(
        ROOT / "examples" / "picture-kernels" / "tests",
        tmp_path / "tests",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    command = [
        str(box.python),
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        str(tests),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
