"""Run the tests and programs of other projects on the simulated GPU, and print a table of results.

    python tools/peers_simulated.py [SUITE ...]

tools/peers_simulated.toml describes the suites, and names the variable of the folder of sources:
`HECBENCH=… make peers-simulated NAMES=hecbench`. Without the folder a suite is not run.
Environments, copies and outputs are in build/peers-simulated.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import Any
from xml.etree import ElementTree

import build_pycuda
from environments import ROOT, InstallError, install, kept
from setup import fingerprint

DATA = Path(__file__).with_suffix(".toml")
FOLDER = ROOT / "build" / "peers-simulated"
DISTRIBUTIONS = (
    *("core", "compilers/readers", "compilers/wgsl", "compilers/targets"),
    *("plugins/runtime", "workbench", "extras/simulators[compiled]"),
)
#: A worker that a test ends or blocks is followed by one for the other tests.
PYTEST = (
    "-q -n 1 --max-worker-restart 1000 -o cache_dir=cache -c pytest.ini --rootdir ."
    " --junit-xml results.xml -o faulthandler_exit_on_timeout=true -o faulthandler_timeout="
)
STATES = {"failure": "failed", "error": "failed", "skipped": "skipped"}
#: The driver is built with the headers of nvidia-cuda-runtime.
NEEDED = ("pytest>=9", "pytest-xdist", "nvidia-cuda-runtime>=13")

#: A suite as the data file has it, and how each of its tests ended, with its text.
Suite = dict[str, Any]
Results = dict[str, tuple[str, str]]


def main(names: list[str], data: Path = DATA) -> int:
    """Run suites and print the table."""
    suites = tomllib.loads(data.read_text(encoding="utf-8"))
    for name in names:
        if name not in suites:
            raise SystemExit(f"there is no suite {name!r}; there is: {', '.join(suites)}")
    rows = ["| suite | passed | failed | skipped | causes |", "|---|---|---|---|---|"]
    for name in names or suites:
        reason, results = run_suite(name, suites[name])
        rows.append(row(suites[name], reason, results))
    print("\n".join(rows))
    return 0


def run_suite(name: str, suite: Suite) -> tuple[str, Results]:
    """Return why a suite is not run, or "", and its results."""
    source = os.environ.get(suite.get("source", ""), "")
    if "source" in suite and not source:
        return f"not run: {suite['source']} names no folder", {}
    try:
        python = environment(name, suite)
    except InstallError as error:
        return f"not run: {str(error).splitlines()[0]}", {}
    work = FOLDER / f"{name}-work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    words = {"source": source, "python": str(python), "work": str(work), "bin": str(python.parent)}
    # No kernel that an earlier run has compiled is found.
    words["DEVMOD_CACHE_DIR"] = str(work / "kernels")
    words["tools"] = str(Path(__file__).parent)
    words["nvcc"] = str(next(python.parent.parent.glob("lib/*/site-packages/nvidia/cu13/bin"), ""))
    if "default" in suite:
        return "", run_programs(suite, words)
    return "", run_tests(suite, words)


def environment(name: str, suite: Suite) -> Path:
    """Return the interpreter of a suite's environment, made if it is missing."""
    requirements = [*NEEDED, *suite["requirements"]]
    if "pycuda" in requirements:
        requirements.remove("pycuda")
        requirements += [str(build_pycuda.wheel_for(sys.executable)), *build_pycuda.pins()]
    for each in DISTRIBUTIONS:
        requirements += ["--editable", str(ROOT / each)]

    def fill(python: Path) -> None:
        install(python, requirements, cached=True)

    return kept(FOLDER / name, f"{sys.version}{requirements}{fingerprint()}", fill)


def run_tests(suite: Suite, words: dict[str, str]) -> Results:
    """Run tests with pytest, whose options are in $pytest, and those that failed again: an error of
    a device is that of each later call of its process.
    """
    work = Path(words["work"])
    # With a file of its own, pytest reads no settings of this repository.
    (work / "pytest.ini").write_text("[pytest]\n" + suite.get("settings", ""), encoding="utf-8")
    words["pytest"] = f"{PYTEST}{suite['seconds']}"
    results = run_pytest(suite, words, work)
    failed = work / "cache" / "v" / "cache" / "lastfailed"
    if failed.exists():
        words["pytest"] += " --lf --maxfail=1"
        results |= run_again(suite, words, failed)
    return results


def run_again(suite: Suite, words: dict[str, str], failed: Path) -> Results:
    """Run tests in new processes, each up to its first failure: that test has failed if it was the
    first of its process.
    """
    results: Results = {}
    waiting = {case_name(test): test for test in json.loads(failed.read_text(encoding="utf-8"))}
    while waiting:
        failed.write_text(json.dumps(dict.fromkeys(waiting.values(), True)), encoding="utf-8")
        ended = run_pytest(suite, words, Path(words["work"]))
        first = next((name for name in ended if name in waiting), "")
        if not first:
            return results | ended
        for name, result in ended.items():
            if name == first or result[0] != "failed":
                results[name] = result
                waiting.pop(name, None)
    return results


def case_name(test: str) -> str:
    """Return the name of a test in a file of results."""
    path, bracket, parameters = test.partition("[")
    file, *names = path.split("::")
    module = file.removesuffix(".py").replace("/", ".")
    return ".".join([module, *names]) + bracket + parameters


def run_pytest(suite: Suite, words: dict[str, str], work: Path) -> Results:
    """Run pytest once and return the results of its file."""
    report = work / "results.xml"
    report.unlink(missing_ok=True)
    ended, output = run(suite["run"], words, work)
    if not report.exists():
        return {"pytest": ("failed", f"{output}\n{ended}")}
    return read_results(report)


def read_results(report: Path) -> Results:
    """Return the results of a file of pytest's."""
    results: Results = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        results[name] = ("passed", "")
        for part in case:
            if part.tag in STATES:
                results[name] = (STATES[part.tag], f"{part.get('message')}\n{part.text}")
    return results


def run_programs(suite: Suite, words: dict[str, str]) -> Results:
    """Run programs, each in a copy of its folder, and judge them by exit code and output."""
    results: Results = {}
    for name, program in programs(suite, words).items():
        own = words | suite["default"] | program | {"name": name}
        folder = folder_of(own)
        began = time.monotonic()
        ended, output = run(suite["run"], own, folder, suite["seconds"])
        state = "failed"
        if ended == "exit code 0" and re.search(own["expect"], output):
            state = "passed"
        results[name] = (state, f"{output}\n{ended}")
        took = f"{time.monotonic() - began:.0f} s"
        print(f"{state} {name}: {' '.join(output.split())[-100:]}, {ended}, {took}", flush=True)
    return results


def programs(suite: Suite, words: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the programs of the data file, or those that its pattern finds in the sources."""
    results = dict(suite.get("programs", {}))
    if "files" in suite:
        for path in sorted(Path(words["source"]).glob(suite["files"])):
            results[path.name] = {"folder": str(path.parent)}
    return results


def folder_of(program: dict[str, str]) -> Path:
    """Return a copy of the folder of a program, or a new folder if it has none."""
    work = Path(program["work"])
    if "folder" in program:
        return copy_of(Path(Template(program["folder"]).substitute(program)), work)
    folder = work / program["name"]
    folder.mkdir()
    return folder


def copy_of(folder: Path, work: Path) -> Path:
    """Return a new copy of a folder, beside links to what is beside the original."""
    for each in folder.parent.iterdir():
        link = work / each.name
        if not link.exists():
            link.symlink_to(each)
    copy = work / folder.name
    if copy.is_symlink():
        copy.unlink()
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    return copy


def run(
    script: str, words: dict[str, str], folder: Path, seconds: float | None = None
) -> tuple[str, str]:
    """Run a shell script on the simulated GPU, with words as variables; return how it ended and its
    output.
    """
    command = [words["python"], "-P", "-m", "devmod", "simulate", "--", "sh", "-c", script]
    folders = [words["bin"], words["nvcc"], os.environ["PATH"]]
    path = os.pathsep.join(filter(None, folders))
    return execute(command, words | {"PATH": path}, folder, seconds)


def execute(
    command: Sequence[str], variables: Mapping[str, str], folder: Path, seconds: float | None = None
) -> tuple[str, str]:
    """Run a command in a process group of its own, with environment variables; return how it ended
    and its output.
    """
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            env={**os.environ, **variables},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        ended = f"no result in {seconds} s"
        try:
            with suppress(subprocess.TimeoutExpired):
                ended = f"exit code {process.wait(seconds)}"
        finally:
            # Also what the script has started and left.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return ended, output.read_text(encoding="utf-8", errors="replace")


def row(suite: Suite, reason: str, results: Results) -> str:
    """Return the row of a suite. Print the failures whose cause is not known."""
    counts = Counter(state for state, _ in results.values())
    causes: Counter[str] = Counter()
    for name, (state, text) in results.items():
        if state == "failed":
            causes[cause(suite, name, text)] += 1
    reasons = [f"{count}: {each}" for each, count in causes.most_common()]
    if reason:
        reasons = [reason]
    cells = [str(counts[each]) for each in ("passed", "failed", "skipped")]
    return f"| {' | '.join([suite['title'], *cells, '; '.join(reasons)])} |"


def cause(suite: Suite, name: str, text: str) -> str:
    """Return the cause of a failure: that of the first pattern of the data file that fits."""
    for pattern, reason in suite.get("causes", []):
        if re.search(pattern, f"{name}\n{text}"):
            return str(reason)
    print(f"{suite['title']}: {name}: the cause is not known: {text[-300:]}")
    return "unknown"


def stop(number: int, _frame: object) -> None:
    """End this process with what it has started."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    sys.exit(main(sys.argv[1:]))
