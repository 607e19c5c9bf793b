"""The test files that cover a room or a command, by what they called in a recorded run.

    python tools/covering.py NAME...              print the files, of less than a minute together
    python tools/covering.py --write [pytest…]    run the tests, and write tools/covering.toml

A room is the folder of a distribution, such as readers; a command is one of devmod, such as
inspect. As a plugin of pytest, this file records which functions of the sources each test file
calls in its own process.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from devmod.errors import did_you_mean
from environments import ROOT

#: What a run has recorded: a file of each process of pytest.
RECORDED = ROOT / "build" / "covering"
WRITTEN = ROOT / "tools" / "covering.toml"
#: The seconds of processor that the files of a name take together, and the most files.
BUDGET = 50.0
MOST = 12
#: The seconds of a file besides its tests: the collection, and what its tests share.
START = 1.0

#: The tests of each option of each command: its help, a page, a test, and a completion.
OPTIONS = "tests/test_new_members.py"

#: The functions of the sources, by file and line.
Functions = frozenset[str]


class Record(NamedTuple):
    """What the tests of a file called, and their seconds of processor."""

    seconds: float
    functions: Functions


class Recorder:
    """The plugin of pytest."""

    def __init__(self) -> None:
        self._codes: dict[str, set[CodeType]] = {}
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record the functions that a test and its fixtures call."""
        name = item.path.relative_to(ROOT).as_posix()
        codes = self._codes.setdefault(name, set())

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                codes.add(frame.f_code)

        begin = _processor()
        sys.setprofile(note)
        yield
        sys.setprofile(None)
        self._seconds[name] = self._seconds.get(name, 0.0) + _processor() - begin

    def pytest_sessionfinish(self) -> None:
        """Write the records of this process."""
        records = {}
        for name, codes in self._codes.items():
            functions = frozenset(filter(None, map(_function, codes)))
            records[name] = Record(self._seconds[name], functions)
        if records:
            write_records(RECORDED, records)


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin, for ``-p covering``."""
    config.pluginmanager.register(Recorder())


def _processor() -> float:
    """Return the seconds of processor so far, with those of the processes that have ended: the
    load of the machine does not change them.
    """
    return sum(os.times()[:4])


def _function(code: CodeType) -> str:
    """Return the place of a function of the sources; "" for other code, and for that of a module,
    which an import runs.
    """
    path = code.co_filename.removeprefix(f"{ROOT}{os.sep}")
    if path == code.co_filename or f"src{os.sep}" not in path or code.co_name == "<module>":
        return ""
    return f"{path}:{code.co_firstlineno}"


def write_records(folder: Path, records: Mapping[str, Record]) -> None:
    """Write the records of this process."""
    rows = {name: [each.seconds, sorted(each.functions)] for name, each in records.items()}
    (folder / f"{os.getpid()}.json").write_text(json.dumps(rows))


def read_records(folder: Path) -> dict[str, Record]:
    """Return the records of the processes of a run, by the test file."""
    found: dict[str, Record] = {}
    for path in sorted(folder.glob("*.json")):
        for name, (seconds, functions) in json.loads(path.read_text()).items():
            old = found.get(name, Record(0.0, frozenset()))
            found[name] = Record(old.seconds + seconds, old.functions | {*functions})
    return found


def covering(
    wanted: Functions, records: Mapping[str, Record], own: Iterable[str] = ()
) -> list[str]:
    """Return test files of `BUDGET` together that call the functions `wanted`.

    The next file is the one with the most functions for its time that no file before it calls.
    Once all are called, each is called anew. `own` are files that are there before any other.
    """
    chosen: list[str] = []
    left = set(wanted)
    seconds = 0.0
    candidates = dict(records)
    for name, record in records.items():
        if name not in own and not wanted & record.functions:
            del candidates[name]
    while candidates and len(chosen) < MOST:
        left = left or set(wanted)
        rates = {}
        for name, record in candidates.items():
            rate = len(left & record.functions) / (record.seconds + START)
            rates[name] = (name in own, rate, name)
        best = max(rates, key=rates.__getitem__)
        if not rates[best][0] and not rates[best][1]:
            left.clear()  # the others call none of these
            continue
        record = candidates.pop(best)
        if seconds + record.seconds + START <= BUDGET:
            chosen.append(best)
            seconds += record.seconds + START
            left -= record.functions
    return sorted(chosen)


def named_for(name: str, records: Mapping[str, Record]) -> list[str]:
    """Return the test files that have a command's name: they may start it as a process."""
    word = name.replace("-", "_")
    names = {f"test_{word}.py", f"test_{word}_command.py"}
    return [each for each in records if Path(each).name in names]


def with_word(name: str) -> list[str]:
    """Return the test files whose names have the name of a command as a word: the last recorded run
    may be older than the command.
    """
    pattern = re.compile(rf"test_(?:\w+_)?{re.escape(name.replace('-', '_'))}(?:_\w+)?\.py")
    return [each for each in _tests_of(name) if pattern.fullmatch(Path(each).name)]


def with_argument(name: str) -> list[str]:
    """Return the test files that have the name of a command as an argument of a call."""
    pattern = re.compile(rf"""[(\[ ]"{re.escape(name)}", """)
    return [each for each in _tests_of(name) if pattern.search((ROOT / each).read_text())]


def _tests_of(name: str) -> list[str]:
    """Return all test files for the name of a command, and none for another name."""
    from devmod_workbench._cli._known import KNOWN

    if name not in KNOWN:
        return []
    paths = [path.relative_to(ROOT) for path in sorted(ROOT.glob("[a-z]*/**/test_*.py"))]
    return [path.as_posix() for path in paths if path.parts[0] != "build"]


def tests_beside(name: str) -> list[str]:
    """Return the test files of the distribution that has a room's or a command's sources: those of
    others alone are what a run records.
    """
    place = (commands() | rooms()).get(name, "")
    folder = ROOT / place.partition("/src/")[0] / "tests"
    if not place:
        return []
    return sorted(path.relative_to(ROOT).as_posix() for path in folder.glob("**/test_*.py"))


def _within(place: str, records: Mapping[str, Record]) -> Functions:
    """Return the functions of a file or a folder that any test calls."""
    found: set[str] = set()
    for record in records.values():
        found |= {each for each in record.functions if each.startswith(place)}
    return frozenset(found)


def rooms() -> dict[str, str]:
    """Return the folder with the sources of each distribution by its name: "opencl" and
    "devmod-opencl" for that of OpenCL.
    """
    found = {}
    for pattern in ("*/pyproject.toml", "*/*/pyproject.toml"):
        for path in sorted(ROOT.glob(pattern)):
            folder = path.parent
            if (folder / "src").is_dir():
                place = f"{folder.relative_to(ROOT).as_posix()}/src/"
                found[folder.name.removeprefix("devmod-")] = place
    return found


def commands() -> dict[str, str]:
    """Return the file of each command by its name."""
    import click

    from devmod_workbench._cli import group
    from devmod_workbench._cli._known import KNOWN

    found = {}
    context = click.Context(group)
    for name in KNOWN:
        command = group.get_command(context, name)
        if command is None or command.callback is None:
            continue
        path = Path(inspect.unwrap(command.callback).__code__.co_filename)
        found[name] = f"{path.relative_to(ROOT).as_posix()}:"
    return found


def table(
    records: Mapping[str, Record], before: Mapping[str, Mapping[str, list[str]]] | None = None
) -> str:
    """Return the text of tools/covering.toml. The names of the table `before` keep their files."""
    lines = [
        "# The test files that cover each room and each command, of less than a minute together.",
        "# `make covering` writes it.",
    ]
    for title, places in (("commands", commands()), ("rooms", rooms())):
        lines += ["", f"[{title}]"]
        for name, place in sorted(places.items()):
            own = []
            if title == "commands":
                own = named_for(name, records)
            files = (before or {}).get(title, {}).get(name, [])
            if not files:
                files = covering(_within(place, records), records, own)
            if files:
                lines.append(f"{name} = [")
                lines += [f'    "{each}",' for each in files]
                lines.append("]")
    return "\n".join(lines) + "\n"


def files_of(names: Iterable[str], written: Mapping[str, Mapping[str, list[str]]]) -> list[str]:
    """Return the test files of rooms and commands; for a command, with those of its options.

    Raises
    ------
    SystemExit
        A name is neither, or no test of it is recorded.
    """
    from devmod_workbench._cli._known import KNOWN

    known = {**written["rooms"], **written["commands"]}
    files: dict[str, None] = {}
    for name in names:
        short = name.removeprefix("devmod-")
        if short in KNOWN:
            files[OPTIONS] = None
        if short not in known:
            named = with_word(short) or with_argument(short) or tests_beside(short)
            if named:
                files |= dict.fromkeys(named)
                continue
            raise SystemExit(
                f"no test of {name!r} is recorded{did_you_mean(short, known) or '.'} The rooms and the commands with tests: "
                f"{', '.join(sorted(known))}. `make covering` records the others"
            )
        files |= dict.fromkeys(known[short])
    return [each for each in files if (ROOT / each).exists()]


def record(options: list[str]) -> None:
    """Run pytest with options, and write the table of what it records. A run of some test files
    alone leaves the records of the others; without any, as in a new clone, it adds names to the
    table that is there.
    """
    RECORDED.mkdir(parents=True, exist_ok=True)
    before = {}
    written = None
    if any((ROOT / each).exists() for each in options):
        before = read_records(RECORDED)
        if not before:
            written = tomllib.loads(WRITTEN.read_text())
    for path in RECORDED.glob("*.json"):
        path.unlink()
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    # A test that fails is recorded too: the profile may change what a test counts.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "covering", "-m", "not volume", *options]
    subprocess.run(command, cwd=ROOT, env=env, check=False)
    records = read_records(RECORDED)
    if not records:
        raise SystemExit("covering: no test ran, so nothing is written")
    records = before | records
    for path in RECORDED.glob("*.json"):
        path.unlink()
    write_records(RECORDED, records)
    WRITTEN.write_text(table(records, written))
    print(f"{WRITTEN.relative_to(ROOT)}: from {len(records)} test files")


def main(words: list[str]) -> None:
    """Print the files of names, or write the table."""
    if words[:1] == ["--write"]:
        record(words[1:])
        return
    written: dict[str, Any] = tomllib.loads(WRITTEN.read_text())
    print(*files_of(words, written))


if __name__ == "__main__":
    main(sys.argv[1:])
