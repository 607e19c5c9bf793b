"""Plant faults in a copy of the tree, one at a time, and report whether tests notice each. One that
no test notices shows a missing test.

    python tools/breakages.py [name …]

`tools/breakages.toml` has the faults. Each is found by its text, so code may move between files. A
fault of the readers of files has a table for each reader (`READERS`), or the reason why a reader
cannot have it.
The copy is in build/breakages, with an environment of its own; the tree itself is not changed. A
fault is noticed if one of its tests in `make test` fails with it and passes without it.
"""

from __future__ import annotations

import fnmatch
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from environments import ROOT, python_of

TABLE = ROOT / "tools" / "breakages.toml"
COPY = ROOT / "build" / "breakages"
#: The longest run of the expected tests, in seconds. A fault may make a test hang, and that is
#: noticed too.
_LIMIT = 600


#: The readers of files, and the folders of their sources.
READERS = {
    "python": "core/src/",
    "c": "compilers/readers/c/",
    "javascript": "extras/browser/js/src/",
}


class Breakage(NamedTuple):
    """A fault to plant.

    Attributes
    ----------
    name
        Its name on the command line.
    protects
        The protection that it removes.
    find, replace
        A text that is once in the sources of the wheels, and the text that replaces it.
    tests
        Patterns of the ends of the paths of test files or folders, at least one of whose tests must
        fail.
    within
        A part of the paths in which `find` is searched; or the path of a file, which may be no
        source.
    limit
        The longest run of the tests in seconds: less than usual for a fault that makes one hang.
    row
        The comment "Where to change" (`tools/where.py`) of which the fault changes one place
        alone.
    """

    name: str
    protects: str
    find: str
    replace: str
    tests: list[str]
    within: str = ""
    limit: int = _LIMIT
    row: str = ""


def breakages() -> list[Breakage]:
    """Return the faults of the table, those of several readers one by one."""
    results = []
    for name, fields in tomllib.loads(TABLE.read_text()).items():
        if "python" not in fields:
            results.append(Breakage(name=name, **fields))
            continue
        for reader, within in READERS.items():
            fault = fields[reader]
            if isinstance(fault, dict):
                common = {key: fields[key] for key in ("protects", "tests")}
                results.append(Breakage(f"{name}-{reader}", within=within, **{**common, **fault}))
    return results


@cache
def _sources(root: Path) -> dict[Path, str]:
    """Return the sources of the wheels, of the npm package, of the reader in C, of the tools, of
    OpenCL C's headers and of the simulated driver, which are the same for each fault.
    """
    folders = sorted(root.glob("*/src")) + sorted(root.glob("*/*/src"))
    files: list[Path] = []
    for folder in folders:
        files += sorted(folder.rglob("*.py"))
    scripts = ("tools/*.py", "extras/browser/js/*.js", "extras/browser/js/src/*.js")
    headers = "compilers/targets/src/devmod_targets/opencl_c/headers/devmod_*.h"
    for pattern in (
        *scripts,
        headers,
        "compilers/readers/c/*.c",
        "extras/simulators/src/*/drivers/*/*.c",
    ):
        files += sorted(root.glob(pattern))
    return {path: path.read_text() for path in files}


@cache
def _test_paths(root: Path) -> list[str]:
    folders: list[Path] = []
    for pattern in ("*/tests", "*/*/tests", "tests"):
        folders += root.glob(pattern)
    files: list[Path] = []
    for folder in folders:
        files += folder.rglob("test_*.py")
    return [path.as_posix() for path in folders + files]


def place_of(breakage: Breakage, root: Path) -> Path | str:
    """Return the file with the text of a fault; if there is not exactly one, the problem."""
    places: list[Path] = []
    sources = _sources(root)
    named = root / breakage.within
    if named.is_file():
        sources = {named: named.read_text()}
    for path, text in sources.items():
        if breakage.find in text and breakage.within in path.as_posix():
            places += [path] * text.count(breakage.find)
    if not places:
        return "text not found"
    if len(places) > 1:
        names: dict[str, None] = {}
        for path in places:
            names[path.relative_to(root).as_posix()] = None
        return f"text found several times: {', '.join(names)}"
    return places[0]


def expected_tests(breakage: Breakage, root: Path) -> list[Path] | str:
    """Return the test files or folders that must notice a fault; if one is missing, the problem."""
    results: list[Path] = []
    for end in breakage.tests:
        found = fnmatch.filter(_test_paths(root), f"*/{end}")
        if not found:
            return f"no test {end}"
        results += map(Path, found)
    return list(dict.fromkeys(results))


def update_copy(copy: Path = COPY) -> Path:
    """Make a copy equal to the tree, with an environment that has everything; return the
    interpreter of that.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    files = {name for name in names if name and (ROOT / name).is_file()}
    for name in files:
        source = ROOT / name
        target = copy / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    listed = copy / ".venv" / "copied-files"
    for name in set(listed.read_text().split("\0") if listed.exists() else ()) - files:
        (copy / name).unlink(missing_ok=True)
    subprocess.run(["make", "-s", "test-setup", f"PYTHON={sys.executable}"], cwd=copy, check=True)
    listed.write_text("\0".join(sorted(files)))
    return python_of(copy / ".venv")


def run(
    python: Path,
    tests: Sequence[Path | str],
    option: str,
    limit: int,
    *,
    copy: Path = COPY,
    marker: str = "not volume",
) -> tuple[str, str]:
    """Run tests up to the first failure, for at most `limit` seconds; return that test, or "" if
    all pass, and the end of the output.
    """
    command = [
        str(python),
        "-m",
        "pytest",
        "-x",
        "-q",
        "-m",
        marker,
        option,
        *map(str, tests),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(command, copy, **pipes) as process:
        try:
            out, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return "a test, which hangs", ""
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", out, re.MULTILINE)
    output = (out + errors).strip().rpartition("\n")[2]
    ran = process.returncode not in (0, 5)  # 5: no test is chosen
    return (failed[1] if failed else f"exit code {process.returncode}") if ran else "", output


class Stopped(Exception):
    """The tests of another thread were stopped, so no more start."""


#: The processes of the tests that run, which are stopped together.
_running: set[subprocess.Popen[Any]] = set()
_is_stopped = threading.Event()


@contextmanager
def started(command: Sequence[str], folder: Path, **pipes: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run tests in a folder. At the end, what they have started is killed too, such as a kernel
    that never ends.

    Raises
    ------
    Stopped
        `stop` was called.
    """
    with subprocess.Popen(command, cwd=folder, start_new_session=True, **pipes) as process:
        _running.add(process)
        try:
            if _is_stopped.is_set():
                raise Stopped
            yield process
            if _is_stopped.is_set():
                raise Stopped
        finally:
            _running.discard(process)
            _kill(process)


def stop() -> None:
    """Kill the tests that all threads run. These then raise Stopped, and start no others."""
    _is_stopped.set()
    for process in list(_running):
        _kill(process)


def _kill(process: subprocess.Popen[Any]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def planted(path: Path, text: str) -> Iterator[None]:
    """Replace the text of a file of a copy, and restore it with its time. Meanwhile no other file
    is beside it: some tests list its folder.

    Python knows its bytecode by the time in seconds and the size. Two faults of one size within a
    second would be one, so each gets a time of its own.
    """
    data = path.read_bytes()
    times = path.stat()
    try:
        path.write_text(text)
        own = secrets.randbelow(2**31)
        os.utime(path, (own, own))
        yield
    finally:
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def plant(breakage: Breakage, python: Path) -> tuple[bool, str]:
    """Plant a fault in the copy and remove it again. Return whether a test noticed it, and which or
    why not.
    """
    path = place_of(breakage, COPY)
    tests = expected_tests(breakage, COPY)
    if isinstance(path, str):
        return False, path
    if isinstance(tests, str):
        return False, tests
    text = path.read_text().replace(breakage.find, breakage.replace)
    if path.suffix == ".py":
        compile(text, str(path), "exec")
    with planted(path, text):
        failed, output = run(python, tests, "--cache-clear", breakage.limit)
    if not failed:
        return (
            False,
            f"NOT noticed: {output}"
            if " passed" in output
            else f"not tried, since its tests cannot run here: {output}",
        )
    if "::" in failed and run(python, tests, "--last-failed", _LIMIT)[0]:
        return False, f"{failed} fails without the fault too"
    return True, failed


def main() -> int:
    """Plant the faults of the table, or those that are named, and return the exit code."""
    names = sys.argv[1:]
    chosen = [each for each in breakages() if not names or each.name in names]
    unknown = set(names) - {each.name for each in chosen}
    if unknown:
        print(f"{TABLE.relative_to(ROOT)} has no {', '.join(sorted(unknown))}")
        return 2
    python = update_copy()
    missed = 0
    for breakage in chosen:
        start = time.monotonic()
        noticed, text = plant(breakage, python)
        missed += not noticed
        print(
            f"{'noticed' if noticed else 'MISSED '}  {breakage.name:28} {time.monotonic() - start:4.0f} s  {text}",
            flush=True,
        )
    print(f"{len(chosen) - missed} of {len(chosen)} are noticed")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
