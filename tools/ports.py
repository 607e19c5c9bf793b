"""Run projects' own OpenCL tests with pyopencl, with devmod in its place, and with devmod on
Vulkan, and write the table of docs/porting.md.

    python tools/ports.py [PROJECT ...]

tools/ports.toml describes the projects, and names the variable of a checkout for tests that a wheel
lacks: `PYCLESPERANTO=… make ports`. A project imports `examples/ports/devmod_pyopencl.py` in place
of pyopencl. Environments, copies and outcomes are in build/ports.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tomllib
from collections import Counter
from pathlib import Path
from string import Template
from typing import Any

from environments import ROOT, InstallError, install, kept
from peers_simulated import Results, execute, read_results, stop
from setup import fingerprint

DATA = Path(__file__).with_suffix(".toml")
PAGE = ROOT / "docs" / "porting.md"
FOLDER = ROOT / "build" / "ports"
DISTRIBUTIONS = (
    "core",
    "compilers/readers",
    "compilers/wgsl",
    "compilers/targets",
    "plugins/runtime",
    "plugins/devmod-opencl",
    "plugins/devmod-vulkan",
)
NEEDED = (
    "pytest>=9",
    "pytest-xdist",
    "pyopencl",
    "pocl-binary-distribution",
    "libclang",
    "pyclspv",
)
#: A worker that a test ends or blocks is followed by one for the other tests.
PYTEST = (
    "-q -n 1 --max-worker-restart 1000 -p ports_plugin -o cache_dir=cache -c pytest.ini --rootdir ."
    " --junit-xml results.xml -o faulthandler_exit_on_timeout=true -o faulthandler_timeout="
)
#: What runs the kernels, and the kind that the changed project compiles for.
MODES = {"pyopencl": "", "devmod": "opencl", "devmod on Vulkan": "vulkan"}
COLUMNS = (
    "project",
    "lines changed",
    "passed, failed, skipped: pyopencl",
    "devmod",
    "differ",
    "devmod on Vulkan",
    "CPU of the first call, a call: pyopencl",
    "devmod",
    "kernels",
    "their file",
)
HEAD = (f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|")

#: A project as the data file has it.
Project = dict[str, Any]


def main(names: list[str], data: Path = DATA, page: Path = PAGE) -> int:
    """Run projects, and replace their rows in the page."""
    projects = tomllib.loads(data.read_text(encoding="utf-8"))
    for name in names:
        if name not in projects:
            raise SystemExit(f"there is no project {name!r}; there is: {', '.join(projects)}")
    for name in names or projects:
        project = projects[name]
        source = os.environ.get(project.get("source", ""), "")
        if "source" in project and not source:
            print(f"{project['title']}: not run: {project['source']} names no folder")
            continue
        try:
            python = environment(name, project)
        except InstallError as error:
            print(f"{project['title']}: not run: {str(error).splitlines()[0]}")
            continue
        runs = {mode: run_project(name, project, python, source, mode) for mode in MODES}
        report(project, runs)
        write_row(page, row(project, runs))
    return 0


def environment(name: str, project: Project) -> Path:
    """Return the interpreter of a project's environment, made if it is missing."""
    requirements = [*NEEDED, *project["requirements"]]
    for each in DISTRIBUTIONS:
        requirements += ["--editable", str(ROOT / each)]

    def fill(python: Path) -> None:
        install(python, requirements, cached=True)

    return kept(FOLDER / name, f"{sys.version}{requirements}{fingerprint()}", fill)


# -- A run: the tests of a project, and the time of a call.


class Run:
    """The outcomes of a project's tests, and what was counted."""

    def __init__(self, results: Results, durations: list[float], work: Path) -> None:
        self.results = results
        self.durations = durations
        self.copies = 0
        #: The bytes of each program's file, and its kernels, by program.
        self.programs: dict[str, tuple[int, int]] = {}
        for path in work.glob("counts/*.json"):
            counts = json.loads(path.read_text(encoding="utf-8"))
            self.copies += counts["copies"]
            for program, size, kernels in counts["programs"]:
                self.programs[program] = size, kernels

    @property
    def outcomes(self) -> dict[str, str]:
        """How each test ended."""
        return {name: state for name, (state, _) in sorted(self.results.items())}

    @property
    def counts(self) -> str:
        """The numbers of tests that passed, failed and were skipped."""
        counts = Counter(self.outcomes.values())
        return ", ".join(str(counts[state]) for state in ("passed", "failed", "skipped"))


def run_project(name: str, project: Project, python: Path, source: str, mode: str) -> Run:
    """Run the tests of a project in a new folder, and write their outcomes beside it."""
    work = FOLDER / f"{name}-{mode.replace(' ', '-')}"
    shutil.rmtree(work, ignore_errors=True)
    (work / "counts").mkdir(parents=True)
    # With a file of its own, pytest reads no settings of this repository.
    (work / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    copy_packages(project, python, work / "site")
    for each in project.get("beside", ()):
        for folder in (work, work / "site"):
            shutil.copytree(Path(source) / each, folder / each)
    if MODES[mode]:
        change(project, work / "site")
    words = {"source": source, "tools": str(Path(__file__).parent)}
    folders = [work / "site", ROOT / "tools" / "porting", ROOT / "examples" / "ports"]
    inherited = filter(None, [os.environ.get("PYTHONPATH", "")])
    variables = {
        "PYTHONPATH": os.pathsep.join([*map(str, folders), *inherited]),
        "PORTS_COUNTS": str(work / "counts"),
        "DEVMOD_PORT": MODES[mode],
        "PORTS_DATA": str(work / "data"),
        # No kernel that an earlier run has compiled is found.
        "DEVMOD_CACHE_DIR": str(work / "kernels"),
        "POCL_CACHE_DIR": str(work / "pocl"),
    }
    (work / "pocl").mkdir()
    if MODES[mode] == "vulkan":
        variables["PORTS_STEP"] = str(project.get("vulkan_step", 1))
    if "prepare" in project:
        script = Template(project["prepare"]).substitute(words)
        _, output = execute([str(python), script], variables, work)
        variables |= json.loads(output.splitlines()[-1])
    tests = Template(project["tests"]).substitute(words).split()
    options = f"{PYTEST}{project['seconds']}".split()
    ended, output = execute([str(python), "-m", "pytest", *options, *tests], variables, work)
    results: Results = {"pytest": ("failed", f"{output}\n{ended}")}
    if (work / "results.xml").exists():
        results = read_results(work / "results.xml")
    for cache in ("kernels", "pocl"):
        shutil.rmtree(work / cache, ignore_errors=True)
    (work / "pocl").mkdir()
    timing = ROOT / "tools" / "porting" / "time_call.py"
    _, output = execute([str(python), str(timing), project["call"]], variables, work)
    durations = []
    if output.rstrip().endswith("]"):
        durations = json.loads(output.splitlines()[-1])
    run = Run(results, durations, work)
    text = json.dumps(run.outcomes, indent=1)
    (FOLDER / f"{work.name}.json").write_text(f"{text}\n", encoding="utf-8")
    return run


def copy_packages(project: Project, python: Path, site: Path) -> None:
    """Copy the packages of a project from its environment."""
    installed = next(python.parent.parent.glob("lib/*/site-packages"))
    for package in project["packages"]:
        shutil.copytree(installed / package, site / package)
        # The libraries of a wheel that its extension modules load.
        libraries = f"{package.lower()}.libs"
        if (installed / libraries).exists():
            shutil.copytree(installed / libraries, site / libraries)


def change(project: Project, site: Path) -> None:
    """Change lines of the copies.

    Raises
    ------
    ValueError
        A file has another number of these lines.
    """
    for name, old, new, *times in project["changes"]:
        path = site / name
        lines = path.read_text(encoding="utf-8").split("\n")
        expected = sum(times) or 1
        if lines.count(old) != expected:
            raise ValueError(f"{name} has {lines.count(old)} lines {old!r}; expected {expected}")
        lines = [new if line == old else line for line in lines]
        path.write_text("\n".join(lines), encoding="utf-8")


def changed_lines(project: Project) -> int:
    """Return the number of lines that `change` changes."""
    return sum(sum(each[3:]) or 1 for each in project["changes"])


# -- The table.


def differences(runs: dict[str, Run]) -> list[str]:
    """Return the tests that end in another way with devmod, each with both outcomes."""
    before, after = (runs[mode].outcomes for mode in ("pyopencl", "devmod"))
    result = []
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name, "missing"), after.get(name, "missing")
        if one != other:
            result.append(f"{name}: {one}, with devmod {other}")
    return result


def report(project: Project, runs: dict[str, Run]) -> None:
    """Print the differences, the copies, and why tests fail on Vulkan."""
    title = project["title"]
    for each in differences(runs):
        print(f"{title}: {each}")
    print(f"{title}: devmod copied {runs['devmod'].copies} arrays")
    before = runs["pyopencl"].outcomes
    causes: Counter[str] = Counter()
    for name, (state, text) in runs["devmod on Vulkan"].results.items():
        if state == "failed" and before.get(name) == "passed":
            causes[cause(project, text)] += 1
    for text, count in causes.most_common():
        print(f"{title}: on Vulkan {count} fail: {text}")


def cause(project: Project, text: str) -> str:
    """Return the cause of a failure: that of the first pattern of the data file that fits, or the
    first line with an error.
    """
    for pattern, reason in project.get("causes", []):
        if re.search(pattern, text):
            return str(reason)
    return next((line for line in text.splitlines() if "Error" in line), text[:100])[:200]


def row(project: Project, runs: dict[str, Run]) -> str:
    """Return the row of a project."""
    programs = runs["devmod"].programs.values()
    on_vulkan = runs["devmod on Vulkan"].counts
    if "vulkan_step" in project:
        on_vulkan += f" of one in {project['vulkan_step']}"
    cells = [
        project["title"],
        str(changed_lines(project)),
        runs["pyopencl"].counts,
        runs["devmod"].counts,
        str(len(differences(runs))),
        on_vulkan,
        time_text(runs["pyopencl"]),
        time_text(runs["devmod"]),
        str(sum(kernels for _, kernels in programs)),
        f"{sum(size for size, _ in programs) / 1e3:.0f} kB",
    ]
    return f"| {' | '.join(cells)} |"


def time_text(run: Run) -> str:
    """Return the times of the first call and of a later one."""
    if not run.durations:
        return "none"
    first, later = run.durations
    return f"{first:.1f} s, {later * 1e3:.2f} ms"


def write_row(page: Path, text: str) -> None:
    """Write a row into the table of the page, in place of that of the same project."""
    lines = page.read_text(encoding="utf-8").split("\n")
    if HEAD[0] not in lines:
        raise SystemExit(f"{page.name} has no table with the head {HEAD[0]!r}")
    end = start = lines.index(HEAD[0]) + len(HEAD)
    while lines[end].startswith("|"):
        end += 1
    title = text.split(" | ")[0]
    rows = [line for line in lines[start:end] if line.split(" | ")[0] != title]
    lines[start:end] = [*rows, text]
    page.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    sys.exit(main(sys.argv[1:]))
