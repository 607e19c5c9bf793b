"""Build the wheel of every distribution of this repository into a folder, without the network.

python tools/wheels.py [folder]
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from environments import ROOT, InstallError, python_of
from setup import projects
from task_lock import task_lock

#: devmod-tvm is built where TVM is installed: its library of C++ needs the headers of TVM.
TVM = ROOT / "extras" / "tvm"
WITH_TVM = ROOT / "build" / "frameworks"

#: Builds the wheels, or the sdists, of the folders on the command line in one process: hatchling's
#: start takes longer than most builds.
_BUILD = """
import os, sys
import hatchling.build
form, folder, *projects = sys.argv[1:]
for number, project in enumerate(projects, 1):
    print(f"{number} of {len(projects)}: {os.path.basename(project)}", flush=True)
    os.chdir(project)
    try:
        getattr(hatchling.build, f"build_{form}")(folder)
    except BaseException:
        print("building the", form, "of", project, "failed:", flush=True)
        raise
"""


def distributions() -> list[Path]:
    """Return the folders of all distributions: core, the plugins, those in examples/, and the
    metapackage. No list names them.
    """
    return [
        *projects(),
        *sorted(path.parent for path in (ROOT / "examples").glob("*/pyproject.toml")),
        ROOT,
    ]


def is_backend(table: Mapping[str, Any]) -> bool:
    """Return whether a distribution other than core makes modules."""
    return table["name"] != "devmod-core" and "devmod.create" in table.get("entry-points", {})


def build(folder: Path, show: Callable[[str], object] | None = None) -> list[Path]:
    """Build the wheels of all distributions but devmod-tvm and return their paths. InstallError has
    the output of a failed build.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return build_into(sys.executable, folder, distributions(), "wheel", show)


def build_into(
    python: str,
    folder: Path,
    projects: list[Path],
    form: str,
    show: Callable[[str], object] | None = None,
) -> list[Path]:
    """Build the "wheel" or the "sdist" of projects with an interpreter into a folder, and return
    all of that form there. `show` gets each line of the output, such as "3 of 23: core".
    """
    command = [python, "-c", _BUILD, form, str(folder.resolve()), *map(str, projects)]
    # One date for all files: the same sources give the same wheel.
    env = {"SOURCE_DATE_EPOCH": "1700000000"} | os.environ
    lines = []
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            if show is not None:
                show(line.rstrip())
    if process.returncode:
        raise InstallError("".join(lines))
    return sorted(folder.glob("*.whl" if form == "wheel" else "*.tar.gz"))


def main() -> None:
    """Build into the folder that the command line names, by default build/wheels, and list the
    wheels.
    """
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "wheels"
    try:
        with task_lock("wheels"):
            wheels = build(folder, lambda line: print(f"wheels: {line}", flush=True))
            with_tvm = python_of(WITH_TVM)
            if with_tvm.exists():
                print("wheels: building devmod-tvm", flush=True)
                wheels = build_into(str(with_tvm), folder, [TVM], "wheel")
            else:
                print(
                    "wheels: without devmod-tvm, which needs TVM's headers: make frameworks installs them"
                )
    except InstallError as error:
        raise SystemExit(f"wheels: {error}") from None
    for wheel in wheels:
        print(f"{wheel.stat().st_size / 1000:8.1f} kB  {wheel}")
    print(
        f"\nTo install some of them, here with the compilers and a device on the CPU:\n  {install_command(folder)}"
    )


def install_command(folder: Path) -> str:
    """Return the command of pip that installs wheels of a folder. The versions are exact: an index
    may have newer ones by others.
    """
    version = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]["version"]
    place = os.path.relpath(folder)
    return f'pip install --find-links {shlex.quote(place)} "devmod-core[build]=={version}" "devmod-opencl[pocl]=={version}"'


if __name__ == "__main__":
    main()
