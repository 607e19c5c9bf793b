"""Run the tests and examples of other projects on the simulated GPU, and print a table of results.

    python tools/peers_simulated.py [SUITE ...]

tools/peers_simulated.toml describes each suite, and which variable names the folder of its
sources: `HECBENCH=… make peers-simulated NAMES=hecbench`. Without the folder, a suite is not run.
Environments and logs are in build/peers-simulated.
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
from contextlib import suppress
from pathlib import Path
from typing import Any

import build_pycuda
from environments import ROOT, InstallError, install, kept

FOLDER = ROOT / "build" / "peers-simulated"
DISTRIBUTIONS = ("core", "readers", "runtime", "simulators")
DATA = Path(__file__).with_suffix(".toml")
PATTERN = re.compile(r"\$(\w+)")

#: A suite as the data file has it, and how each of its tests ended, with the reason.
Suite = dict[str, Any]
Results = dict[str, tuple[str, str]]


def main(names: list[str], data: Path = DATA) -> int:
    """Run suites, print a row for each, and then the failures whose cause is not known."""
    suites = tomllib.loads(data.read_text(encoding="utf-8"))
    rows = []
    for name in names or suites:
        reason, results = run_suite(name, suites[name])
        rows.append(row(name, suites[name], reason, results))
        for test, (state, text) in results.items():
            if state == "failed" and cause(suites[name], text) == "unknown":
                print(f"{name}: {test}: {last_line(text)}", flush=True)
    print("| suite | passed | failed | skipped | why they failed |\n|---|---|---|---|---|")
    print("\n".join(rows))
    return 0


def run_suite(name: str, suite: Suite) -> tuple[str, Results]:
    """Return why a suite is not run, or "" and its results."""
    source = os.environ.get(suite.get("source", ""), "")
    if "source" in suite and not source:
        return f"not run: {suite['source']} names no folder", {}
    try:
        python = environment(name, suite)
    except InstallError as error:
        return f"not run: {last_line(str(error))}", {}
    work = FOLDER / f"{name}-work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    words = {"source": source, "python": str(python), "work": str(work)}
    if "pytest" in suite:
        return "", run_tests(suite, words)
    return "", run_programs(suite, words)


def environment(name: str, suite: Suite) -> Path:
    """Return the interpreter of a suite's environment, made if it is missing."""
    requirements = list(suite["requirements"])
    if "pycuda" in requirements:
        requirements.remove("pycuda")
        requirements += [str(build_pycuda.wheel_for(sys.executable)), *build_pycuda.pins()]
    for each in DISTRIBUTIONS:
        requirements += ["--editable", str(ROOT / each)]

    def fill(python: Path) -> None:
        install(python, requirements, cached=True)

    return kept(FOLDER / name, f"{sys.version}{requirements}", fill)


def run_tests(suite: Suite, words: dict[str, str]) -> Results:
    """Run tests with pytest. After a process that a test ends or blocks, one runs the others."""
    log = Path(words["work"], "log")
    log.touch()
    # Without it pytest reads the settings of this repository.
    settings = Path(words["work"], "pytest.ini")
    settings.write_text("[pytest]\n" + suite.get("settings", ""), encoding="utf-8")
    variables = variables_of(suite, words) | {"DEVMOD_PEERS_LOG": str(log)}
    path = [str(Path(__file__).parent), variables.get("PYTHONPATH", "")]
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    command = [*simulate(words), words["python"], "-m", "pytest", "-p", "peers_plugin", "-q"]
    command += ["-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command += ["-c", str(settings), "--rootdir", words["work"]]
    command += filled(suite["pytest"], words)

    while True:
        size = log.stat().st_size
        ended = run(command, variables, Path(words["work"]), suite["seconds"], log)[0]
        results = read_log(log, ended)
        if "" in results or log.stat().st_size == size:
            return {test: result for test, result in results.items() if test}


def read_log(log: Path, ended: str) -> Results:
    """Return the results of a log. `ended`: how the process ended, the reason of a test that only
    began.
    """
    results: Results = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if results.get(entry["test"], ("", ""))[0] != "failed":
            results[entry["test"]] = (entry["state"], entry["text"])
    for test, (state, _) in results.items():
        if state == "begun":
            results[test] = ("failed", ended)
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"test": test, "state": "failed", "text": ended}) + "\n")
    return results


def run_programs(suite: Suite, words: dict[str, str]) -> Results:
    """Run programs, each in a copy of its folder, and judge them by exit code and output."""
    results: Results = {}
    for name, program in programs(suite, words).items():
        entry = {"expect": "", **suite.get("default", {}), **program}
        folder = Path(words["work"], name)
        shutil.copytree(filled([entry["folder"]], words | {"name": name})[0], folder)
        text = entry["run"].replace("$arguments", entry.get("arguments", ""))
        command = filled(["sh", "-c", text], words | {"name": name})
        limit = entry.get("seconds", suite["seconds"])
        began = time.monotonic()
        ended, output = run([*simulate(words), *command], variables_of(suite, words), folder, limit)
        state = "passed"
        if ended != "exit code 0" or not re.search(entry["expect"], output):
            state = "failed"
        results[name] = (state, f"{output}\n{ended}")
        print(f"{state} {time.monotonic() - began:4.0f} s  {name}", flush=True)
        (folder / "output.txt").write_text(f"{output}\n{ended}\n", encoding="utf-8")
    return results


def programs(suite: Suite, words: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the programs of the data file, or those that a pattern finds in the sources."""
    if "files" not in suite:
        return dict(suite["programs"])
    source = Path(words["source"])
    found = {}
    for path in sorted(source.glob(suite["files"])):
        found[path.name] = {"folder": str(path.parent)}
    return found


def filled(texts: list[str], words: dict[str, str]) -> list[str]:
    """Return texts with the words for $source, $python, $work and $name."""
    return [PATTERN.sub(lambda found: words.get(found[1], found[0]), each) for each in texts]


def simulate(words: dict[str, str]) -> list[str]:
    """Return the words before a command that give it the simulated GPU."""
    return [words["python"], "-P", "-m", "devmod", "simulate", "--"]


def variables_of(suite: Suite, words: dict[str, str]) -> dict[str, str]:
    """Return the environment variables of a suite."""
    variables = dict(os.environ)
    folders = [str(Path(words["python"]).parent), variables["PATH"]]
    variables["PATH"] = os.pathsep.join(folders)
    for name, text in suite.get("environment", {}).items():
        variables[name] = filled([text], words)[0]
    return variables


def run(
    command: list[str],
    variables: dict[str, str],
    folder: Path,
    seconds: float,
    log: Path | None = None,
) -> tuple[str, str]:
    """Run a command in a process group of its own; return how it ended and its output. With `log`,
    the seconds are those without a new line there.
    """
    output = Path(str(folder) + ".output")
    with output.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            env=variables,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        began = time.time()
        ended = ""
        while not ended:
            with suppress(subprocess.TimeoutExpired):
                ended = f"exit code {process.wait(timeout=1)}"
            since = began if log is None else max(began, log.stat().st_mtime)
            if not ended and time.time() > since + seconds:
                ended = f"no result in {seconds} s"
        # Also what the command has started and left.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return ended, output.read_text(encoding="utf-8", errors="replace")


def cause(suite: Suite, text: str) -> str:
    """Return the cause of a failure: that of the first pattern of the data file that fits."""
    for pattern, reason in suite.get("causes", []):
        if re.search(pattern, text):
            return str(reason)
    return "unknown"


def row(name: str, suite: Suite, reason: str, results: Results) -> str:
    """Return the row of a suite."""
    title = suite.get("title", name)
    if reason:
        return f"| {title} | {reason} | | | |"
    counts = Counter(state for state, _ in results.values())
    causes: Counter[str] = Counter()
    for state, text in results.values():
        if state == "failed":
            causes[cause(suite, text)] += 1
    told = "; ".join(f"{count}: {each}" for each, count in causes.most_common())
    numbers = " | ".join(str(counts[each]) for each in ("passed", "failed", "skipped"))
    return f"| {title} | {numbers} | {told} |"


def last_line(text: str) -> str:
    """Return the last line of a text that has one."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
