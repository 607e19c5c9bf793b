"""A copy of OpenCL under another name: devmod's tools say of it what they say of OpenCL.

The copy is what OpenCL owns: its description, the rules for its payloads, and its wheel. The
compiler and the tools are devmod's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from imports import ROOT

WHEEL = ROOT / "plugins" / "devmod-opencl"
pytestmark = pytest.mark.row("R54")
#: The files of the copy's package, besides those of the wheel.
OWN = {
    "target.py": ROOT / "core/src/devmod/targets/opencl/__init__.py",
    "payloads.py": ROOT / "compilers/readers/src/devmod_readers/payloads/opencl.py",
}
SOURCE = """\
__kernel void twice(__global const float *x, __global float *y, int n, __local float *part)
{
    int i = get_global_id(0);
    if (i < n)
        y[i] = 2 * x[i];
}
__kernel void rows(__global float *y) { y[get_global_id(1)] = 1; }
"""
#: What `PROGRAM` asks.
TOOLS = (
    "doctor",
    "init",
    "manifest",
    "build",
    "built again",
    "inspect",
    "run",
    "verify",
    "bench",
    "kit",
    "dimensions",
    "explain",
    "lost",
    "options",
    "syntax",
    "missing",
)
#: Runs commands, and prints what each has printed.
PROGRAM = r"""
import contextlib, io, json, sys, warnings
from pathlib import Path
import numpy as np

import devmod
from devmod_workbench._cli import main

kind = sys.argv[1]
warnings.simplefilter("always")


def run(*words):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        status = main(words)
    return [status, out.getvalue()]


def say(function):
    try:
        return str(function())
    except devmod.DevmodError as error:
        return f"{type(error).__name__} {error.kind}: {error}"


def lost():
    module = devmod.compile(Path("k.cl"), kind)
    info = module.functions["twice"].replace(name="thrice")
    return devmod.create(kind, module.payload()[-1], "cl", {"twice": info})


def dimensions():
    with devmod.guard(), warnings.catch_warnings(record=True) as caught:
        module["rows"](np.zeros(8, "float32"), threads=8)
    return [str(each.message) for each in caught][0]


module = devmod.compile(Path("k.cl"), kind)
device = devmod.device(kind)
payload = module.save_to_bytes()
launch = ("x=random[100]", "y=zeros[100]", "n=100", "part=local:4", "--threads", "128", "--block", "32")
found = {
    "doctor": run("doctor", kind),
    "init": run("init", ".", "-t", kind),
    "manifest": [0, Path("devmod.toml").read_text()],
    "build": run("build"),
    "built again": run("build"),
    "inspect": run("inspect", "kernels.devmod"),
    "run": run("run", "kernels.devmod", "twice", *launch, "--print", "y"),
}
sys.frozen = True  # launch in this process
found |= {
    "verify": run("verify", "kernels.devmod", "twice", *launch),
    "bench": run("bench", "kernels.devmod", "twice", *launch, "--repeat", "1"),
    "dimensions": dimensions(),
    "explain": say(lambda: devmod.explain(devmod.load("kernels.devmod"), device=device)),
    "lost": say(lambda: devmod.verify(lost()).payloads),
    "options": say(lambda: devmod.compile("kernel void f() {}", f"{kind} -x=1")),
    "syntax": say(lambda: devmod.compile("kernel void f( {}", kind)),
    "missing": say(lambda: module.get_function("thrice")),
    "kit": run("conformance", kind, "--row", "R18", "--row", "R33-devices"),
}
print(json.dumps(found))
"""


def renamed(text: str) -> str:
    """Return a text of OpenCL with the name of the copy. The compiler, which is no copy, keeps its
    name.
    """
    text = text.replace("devmod_readers.payloads.opencl:", "devmod_twin.payloads:")
    text = text.replace("devmod_opencl", "devmod_twin").replace("devmod-opencl", "devmod-twin")
    text = text.replace("devmod_doctor.opencl", "devmod_doctor.twin")
    return re.sub(r"(?<![\w.\-/])opencl\b", "twin", text)


def install_twin(folder: Path) -> None:
    """Write the copy and its metadata into a folder, as an installer does."""
    package = folder / "devmod_twin"
    shutil.copytree(WHEEL / "src" / "devmod_opencl", package)
    for name, path in OWN.items():
        shutil.copy(path, package / name)
    for path in package.glob("*.py"):
        path.write_text(renamed(path.read_text()))
    project = tomllib.loads(renamed((WHEEL / "pyproject.toml").read_text()))["project"]
    groups = {**project["entry-points"], "devmod.targets": {"twin": "devmod_twin.target:SPEC"}}
    lines = []
    for group, entries in groups.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {value}" for name, value in entries.items()]
    metadata = folder / "devmod_twin-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: devmod-twin\nVersion: 0.1.0\n")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the tools say of OpenCL and of the copy, by kind."""
    site = tmp_path_factory.mktemp("site")
    install_twin(site)
    found = {}
    for kind, other in (("opencl", "twin"), ("twin", "opencl")):
        folder = tmp_path_factory.mktemp(kind)
        (folder / "k.cl").write_text(SOURCE)
        environment = os.environ | {
            "PYTHONPATH": str(site),
            "DEVMOD_PLUGINS_DENY": f"devmod-{other}",
            "DEVMOD_CACHE_DIR": str(folder / "cache"),
        }
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, kind],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        found[kind] = json.loads(result.stdout.replace(str(folder), "FOLDER"))
    return found


def shown(value: Any) -> str:
    """Return a text without its numbers and the widths of columns, which times change."""
    text = value if isinstance(value, str) else value[1]
    text = re.sub(r"\d+(?:\.\d+)?(?:e[+-]\d+)?(?: ?[mµnu]?s\b)?", "#", text)
    return re.sub(r"[\s─-]+", " ", text)


@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_says_of_a_copy_what_it_says_of_opencl(tool: str, said: dict[str, Any]) -> None:
    expected = said["opencl"][tool]
    if not isinstance(expected, str):
        expected = expected[1]
    assert shown(said["twin"][tool]) == shown(renamed(expected))


def test_the_tools_work_on_both(said: dict[str, Any]) -> None:
    for each in said.values():
        assert [each[tool][0] for tool in TOOLS[:10]] == [0] * 10
        assert "reads its place in 2 dimensions" in each["dimensions"]
