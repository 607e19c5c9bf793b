"""Change the sources of a room by rule, one place at a time, and report whether the room's tests
notice each change. One that no test notices shows a missing test.

    python tools/mutations.py ROOM [-n 200] [--seed 0] [--jobs 2] [--within PART …]

`tools/mutating` has the rules. A room has so many places that a run tries some, which the seed
chooses. `tools/equivalent.toml` names the changes that no test can notice, with the reason.

The copies of the tree are in build/mutations. Which tests run is chosen for each change: those that
execute its line, some of each file first, then the others of their files. A run records the lines
that each test of Python executes; the record of a test file is used until that file or a source
that it executes changes. The tests of a changed wheel run first, then the others of the room for
what these do not notice, then those of other rooms. For C and JavaScript it runs all of these.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import breakages
from environments import ROOT
from mutating import python_rules, text_rules
from mutating.executed import SHARED
from mutating.mutant import RULES, Mutant

FOLDER = ROOT / "build" / "mutations"
TOOLS = ROOT / "tools" / "mutating"
EQUIVALENT = "tools/equivalent.toml"
#: So many tests of each file run first, if they take less than so many seconds.
_OF_A_FILE, _FAST = 3, 0.2
#: The limit of a run in seconds: a part that is fixed, and a factor of what its tests take.
_START, _SLOWER = 60, 5
#: The tracer is planted behind it.
_FIRST_LINE = "from __future__ import annotations"
#: The limit in seconds of the tests of a file while their lines are recorded.
_RECORDING = 600
#: The limit in seconds where it is not known what the tests take.
_LIMIT = 600

#: What core has of programs and of URLs.
_USES_OF_CORE = [
    "tests/test_program_tools.py",
    "tests/test_fixed_sizes.py",
    "extras/remote/tests/test_load_url.py",
    "extras/remote/tests/test_pinned_urls.py",
]
_ONNX = "tests/test_onnx*.py"
_BYTES = [
    "tests/test_readers.py",
    "tests/test_reader_limits.py",
    "tests/test_golden*.py",
    "tests/test_tuned_readers.py",
]
#: Comparisons of all readers with generated files.
_COMPARISONS = ["tests/test_spec_verdicts.py", "tests/fuzz/test_differential.py"]
#: What compiles, verifies and imports shows what the readers find.
_USES_OF_READERS = [
    "core/tests/test_interop_tvm.py",
    "tests/test_verify*.py",
    "tests/test_twin.py",
    "compilers/targets/tests/test_*.py",
]
#: Calls of devmod without a driver, also of what core has of arrays and devices.
_TOY = "plugins/runtime/tests/toy/test_*.py"
#: Programs, and what the runtime has of their plans and calls.
_PROGRAMS = "tests/test_program_*.py"
#: The commands, without the tests that search or draw again and again: they take many minutes while
#: their lines are recorded.
_USES_OF_WORKBENCH = [
    "tests/test_run_and_bench.py",
    "tests/test_verify.py",
    "tests/test_verify_payloads.py",
    "tests/test_profile.py",
    "tests/test_testing.py",
    "tests/test_program_tools.py",
]


class Room(NamedTuple):
    """Sources and the tests that must notice a change of them.

    Attributes
    ----------
    sources, tests
        Patterns of files. The tests are the room's own, or take little time.
    goal
        The share of the changes that tests notice, in percent: with less, the run fails.
    marker
        The tests that run, by their markers.
    uses
        Patterns of tests of other rooms. They run for the changes that `tests` do not notice: it
        takes long to record their lines.
    """

    sources: list[str]
    tests: list[str]
    goal: int
    marker: str = "not volume"
    uses: Sequence[str] = ()


ROOMS = {
    "core": Room(
        ["core/src/**/*.py"],
        ["core/tests/test_*.py"],
        97,
        uses=[_TOY, *_BYTES, *_USES_OF_CORE],
    ),
    "readers": Room(
        ["compilers/readers/src/**/*.py", "compilers/wgsl/src/**/*.py"],
        ["compilers/readers/tests/test_*.py", "compilers/wgsl/tests/test_*.py"],
        97,
        uses=_USES_OF_READERS,
    ),
    "readers-c": Room(
        ["compilers/readers/c/devmod_reader.c"],
        ["compilers/readers/tests/test_c_reader.py", *_BYTES],
        97,
        uses=_COMPARISONS,
    ),
    "readers-javascript": Room(
        ["extras/browser/js/src/*.js"],
        ["tests/test_browser_package.py", *_BYTES],
        97,
        uses=[*_COMPARISONS, "tests/test_browser*.py"],
    ),
    "runtime": Room(
        ["plugins/runtime/src/**/*.py", "plugins/driver-api/src/**/*.py"],
        [_TOY, "plugins/driver-api/tests/test_*.py"],
        95,
        uses=[_PROGRAMS],
    ),
    "workbench": Room(
        ["workbench/src/**/*.py"], ["workbench/tests/**/test_*.py"], 95, uses=_USES_OF_WORKBENCH
    ),
    "targets": Room(["compilers/targets/src/**/*.py"], ["compilers/targets/tests/test_*.py"], 92),
    "models": Room(
        ["extras/models/src/**/*.py"],
        ["extras/models/tests/test_*.py"],
        92,
        uses=["tests/test_*model*.py", _ONNX],
    ),
    "plugins": Room(["plugins/devmod-*/src/**/*.py"], ["plugins/devmod-*/tests/test_*.py"], 92),
    "simulators": Room(
        ["extras/simulators/src/**/*.py"], ["extras/simulators/tests/**/test_*.py"], 92, ""
    ),
}


class Tests(NamedTuple):
    """The tests of one file: the seconds of each, and the lines that it executes by source.

    The name `SHARED` has the lines that run before the first test.
    """

    path: str
    seconds: dict[str, float]
    lines: dict[str, dict[str, set[int]]]


class Stage(NamedTuple):
    """Tests that run together, and the limit in seconds."""

    tests: list[str]
    limit: int


def files(patterns: Iterable[str], root: Path = ROOT) -> list[Path]:
    """Return the files that match, from the root: those of each pattern in the order of names."""
    results: dict[Path, None] = {}
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            results[path.relative_to(root)] = None
    return list(results)


@cache
def mutants_of(path: Path, root: Path = ROOT) -> list[Mutant]:
    """Return all changes of a source."""
    text = (root / path).read_text(encoding="utf-8")
    if path.suffix == ".py":
        return python_rules.mutants(path, text)
    return text_rules.mutants(path, text)


def equivalents(root: Path = ROOT) -> dict[Mutant, str]:
    """Return the changes that no test can notice, with the reasons.

    Raises
    ------
    ValueError
        An entry matches no change: its line has another text now.
    """
    results: dict[Mutant, str] = {}
    table = (root / EQUIVALENT).read_text(encoding="utf-8")
    for entry in tomllib.loads(table).get("mutant", []):
        found = []
        path = root / entry["file"]
        if path.is_file():
            for mutant in mutants_of(Path(entry["file"]), root):
                if (mutant.source, mutant.rule) != (entry["line"], entry["rule"]):
                    continue
                if mutant.new == entry.get("new", mutant.new):
                    found.append(mutant)
        if not found:
            raise ValueError(f"{EQUIVALENT}: no change of {entry['file']} matches {entry['line']}")
        results.update(dict.fromkeys(found, entry["reason"]))
    return results


def choose(
    room: Room, count: int, seed: int, within: Sequence[str] = ("",), root: Path = ROOT
) -> list[Mutant]:
    """Return as many changes as asked for, of different lines, which compile.

    The paths of their sources contain a text of `within`.
    """
    every: list[Mutant] = []
    for path in files(room.sources, root):
        if any(part in path.as_posix() for part in within):
            every += mutants_of(path, root)
    random.Random(seed).shuffle(every)
    known = equivalents(root)
    results: dict[tuple[Path, int], Mutant] = {}
    for mutant in every:
        if len(results) == count:
            break
        place = (mutant.path, mutant.line)
        if place not in results and mutant not in known and compiles(mutant, root):
            results[place] = mutant
    return list(results.values())


def compiles(mutant: Mutant, root: Path = ROOT) -> bool:
    """Return whether a compiler takes the changed source: else the change is none to notice."""
    text = mutant.apply((root / mutant.path).read_text(encoding="utf-8"))
    if mutant.path.suffix == ".py":
        try:
            compile(text, str(mutant.path), "exec")
        except SyntaxError:
            return False
        return True
    command = ["node", "--check", "--input-type=module", "-"]
    if mutant.path.suffix == ".c":
        folder = str((root / mutant.path).parent)
        flags = ["-std=c11", "-Wall", "-Wextra", "-Werror"]  # as the tests build it
        command = ["cc", "-fsyntax-only", *flags, f"-I{folder}", "-xc", "-"]
    return not subprocess.run(command, input=text, text=True, capture_output=True).returncode


class Copy:
    """A copy of the tree, in which one process runs tests at a time."""

    def __init__(self, root: Path, room: Room, python: Path) -> None:
        self.root = root
        self.room = room
        self._python = python
        self._passing: set[str] = set()
        self._failing: set[str] = set()

    def record(self, path: Path) -> Tests:
        """Return the tests of a file with the lines that they execute."""
        key = "\n".join([path.as_posix(), self.room.marker, *self.room.sources])
        name = hashlib.sha256(key.encode()).hexdigest()
        result = self.root.parent / "lines" / f"{name}.json"
        if not self._is_current(result):
            self._record(path, result)
        found = json.loads(result.read_text())["tests"]
        seconds = {name: taken for name, (taken, _) in found.items()}
        lines = {}
        for name, (_, by_source) in found.items():
            lines[name] = {source: {*numbers} for source, numbers in by_source.items()}
        return Tests(path.as_posix(), seconds, lines)

    def _is_current(self, record: Path) -> bool:
        """Return whether the test file of a record and the sources that it executes are the same
        now: no other source changes which lines its tests execute.
        """
        if not record.exists():
            return False
        digests = json.loads(record.read_text())["digests"]
        return all(self._digest(name) == digest for name, digest in digests.items())

    def _digest(self, name: str) -> str:
        path = self.root / name
        if not path.is_file():
            return ""
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def _starts(self, sources: list[Path]) -> list[tuple[int, Path]]:
        """Return the place of each source's line 0 in the file of the marks, and the end."""
        results = []
        at = 0
        for each in sources:
            results.append((at, each))
            at += (self.root / each).read_bytes().count(b"\n") + 2
        results.append((at, Path()))
        return results

    def _record(self, path: Path, result: Path) -> None:
        sources = files(self.room.sources, self.root)
        digests = {each.as_posix(): self._digest(each.as_posix()) for each in (*sources, path)}
        marks = self.root / "build" / "marks"
        marks.mkdir(parents=True, exist_ok=True)
        every = self._starts(sources)
        *starts, (size, _) = every
        (marks / "lines").write_bytes(bytes(size))
        texts = [f"{start} {self.root / each}\n" for start, each in starts]
        (marks / "sources").write_text("".join(texts))
        result.parent.mkdir(exist_ok=True)
        draft = result.with_suffix(f".{self.root.name}")
        draft.unlink(missing_ok=True)
        options = ["-q", "-p", "no:cacheprovider", "-m", self.room.marker]
        command = [str(self._python), str(TOOLS / "executed.py"), str(marks), str(draft)]
        package = self.root / "core" / "src" / "devmod" / "__init__.py"
        tracer = f"exec(open({str(TOOLS / 'lines.py')!r}).read(), {{'FOLDER': {str(marks)!r}}})"
        text = package.read_text().replace(_FIRST_LINE, f"{_FIRST_LINE}; {tracer}", 1)
        started = breakages.started(
            [*command, *options, str(path)], self.root, stdout=subprocess.DEVNULL
        )
        with breakages.planted(package, text), started as process:
            try:
                process.wait(_RECORDING)
            except subprocess.TimeoutExpired:
                print(f"{path} is not used: its tests do not end while a tracer runs", flush=True)
                draft.write_text("{}")
        if not draft.exists():
            raise SystemExit(f"{path}: its tests end the process")
        tests = {}
        executed = {path.as_posix()}
        for name, (seconds, places) in json.loads(draft.read_text()).items():
            lines = _by_source(places, every)
            executed |= lines.keys()
            tests[name] = seconds, lines
        if not tests:  # they have not ended
            executed |= digests.keys()
        known = {name: digests[name] for name in sorted(executed)}
        draft.write_text(json.dumps({"digests": known, "tests": tests}), encoding="utf-8")
        shutil.move(draft, result)

    def judge(self, mutant: Mutant, stages: list[Stage]) -> str:
        """Return the test that notices a change, or ""."""
        path = self.root / mutant.path
        text = mutant.apply(path.read_text(encoding="utf-8"))
        for stage in stages:
            while True:
                with breakages.planted(path, text):
                    failed = self._run(stage)
                if not failed:
                    break
                if self._passes_otherwise(failed, stage):
                    return failed
        return ""

    def _passes_otherwise(self, failed: str, stage: Stage) -> bool:
        """Return whether a failed test passes without the change."""
        if failed.startswith("exit code"):
            collected = self._run(Stage(["--collect-only", *stage.tests], stage.limit))
            if collected:
                raise RuntimeError(f"tests are not found without a change: {collected}")
        if "::" not in failed or failed in self._passing:
            return True
        tests: list[str] = []  # those before it may be the reason
        for each in stage.tests:
            if failed.startswith(f"{each}::"):
                tests = [failed]  # of a whole file
                break
            tests.append(each)
            if each.startswith(failed):
                break
        if not self._run(Stage(tests, stage.limit)):
            self._passing.add(failed)
            return True
        self._failing.add(tests[-1])
        return False

    def _run(self, stage: Stage) -> str:
        """Return the first test that fails, or ""."""
        tests = [each for each in stage.tests if each not in self._failing]
        if not tests:
            return ""
        deselected = [f"--deselect={each}" for each in sorted(self._failing)]
        failed, _ = breakages.run(
            self._python,
            [*deselected, *tests],
            "--cache-clear",
            stage.limit,
            copy=self.root,
            marker=self.room.marker,
        )
        return failed


def _by_source(places: list[int], starts: list[tuple[int, Path]]) -> dict[str, list[int]]:
    """Return the marked lines of each source."""
    results: dict[str, list[int]] = {}
    at = 0
    for place in places:
        while place >= starts[at + 1][0]:
            at += 1
        start, path = starts[at]
        results.setdefault(path.as_posix(), []).append(place - start)
    return results


def stages(mutant: Mutant, every: list[Tests], root: Path = ROOT) -> list[Stage]:
    """Return the tests to run for a change, in their order; none if no test executes its line.

    A statement of a module runs once a process: its tests are those that execute a function of the
    module, or those that import it if there are none.
    """
    lines = {*range(mutant.span[0], mutant.span[1] + 1)}
    if mutant.is_late:
        return _executing(mutant.path, lines, every)
    return _executing(mutant.path, late_lines(mutant.path, root), every) or _executing(
        mutant.path, lines, every
    )


@cache
def late_lines(path: Path, root: Path = ROOT) -> set[int]:
    """Return the lines of a source of Python that its functions execute."""
    return python_rules.late_lines((root / path).read_text(encoding="utf-8"))


def _executing(path: Path, lines: set[int], every: list[Tests]) -> list[Stage]:
    """Return the tests of the files that execute one of the lines.

    The first are some of each file that execute it, then all of these; then the others, since a
    cached value or a fixture of a module is executed by the first of its tests alone.
    """
    some: list[tuple[float, str]] = []
    more: list[tuple[float, str]] = []
    others: list[tuple[float, str]] = []
    for tests in every:
        executing: list[tuple[float, str]] = []
        rest: list[tuple[float, str]] = []
        is_shared = False
        for name, found in tests.lines.items():
            is_executing = not lines.isdisjoint(found.get(path.as_posix(), ()))
            if name == SHARED:
                is_shared = is_executing
            elif is_executing:
                executing.append((tests.seconds[name], name))
            else:
                rest.append((tests.seconds[name], name))
        executing.sort()
        fast = [each for each in executing[:_OF_A_FILE] if each[0] < _FAST]
        some += fast
        more += executing[len(fast) :]
        if executing or is_shared:
            others += rest
    return [_stage(part) for part in (some, more, others) if part]


def _stage(tests: list[tuple[float, str]]) -> Stage:
    tests.sort()
    seconds = sum(taken for taken, _ in tests)
    return Stage([name for _, name in tests], _START + int(_SLOWER * seconds))


class Verdict(NamedTuple):
    """What is known of a change: the test that notices it or "", whether a test executes it, and
    the seconds that this took.
    """

    failed: str = ""
    is_executed: bool = False
    seconds: float = 0.0


def judge_all(chosen: Sequence[Mutant], copies: Sequence[Copy]) -> list[bool]:
    """Run the tests of each change, print the results, and return which changes are noticed."""
    room = copies[0].room
    verdicts = dict.fromkeys(chosen, Verdict())
    for tests in _groups(room, chosen, copies[0].root):
        missed = [mutant for mutant, verdict in verdicts.items() if not verdict.failed]
        if tests and missed:
            _judge_by(tests, missed, verdicts, copies)
    for mutant, (failed, is_executed, seconds) in verdicts.items():
        why = mutant.source
        if not is_executed:
            why = f"no test executes it: {mutant.source}"
        if not failed:
            print(f"MISSED  {seconds:4.0f} s  {mutant}  {why}", flush=True)
    return [bool(verdicts[mutant].failed) for mutant in chosen]


def _groups(room: Room, chosen: Sequence[Mutant], root: Path) -> list[list[Path]]:
    """Return the test files of the wheels of some changes, the room's others, and those of other
    rooms.
    """
    wheels = [mutant.path.as_posix().partition("src/")[0] for mutant in chosen]
    own: list[Path] = []
    others: list[Path] = []
    for path in files(room.tests, root):
        if path.as_posix().startswith(tuple(wheels)):
            own.append(path)
        else:
            others.append(path)
    uses = [path for path in files(room.uses, root) if path not in (*own, *others)]
    return [own, others, uses]


def _judge_by(
    tests: list[Path],
    missed: list[Mutant],
    verdicts: dict[Mutant, Verdict],
    copies: Sequence[Copy],
) -> None:
    """Run the tests of some files for changes that nothing has noticed, and print which are."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for each in copies:
        free.put(each)
    every: list[Tests] = []

    def record(path: Path) -> Tests:
        copy = free.get()
        try:
            return copy.record(path)
        finally:
            free.put(copy)

    def judge(mutant: Mutant) -> None:
        own = [Stage([path.as_posix() for path in tests], _LIMIT)]
        if mutant.path.suffix == ".py":
            own = stages(mutant, every, copies[0].root)
        before = verdicts[mutant]
        copy = free.get()
        start = time.monotonic()
        try:
            failed = copy.judge(mutant, own)
        finally:
            free.put(copy)
        seconds = before.seconds + time.monotonic() - start
        verdicts[mutant] = Verdict(failed, before.is_executed or bool(own), seconds)
        if failed:
            print(f"noticed {seconds:4.0f} s  {mutant}  {failed}", flush=True)

    with ThreadPoolExecutor(len(copies)) as threads:
        try:
            if any(mutant.path.suffix == ".py" for mutant in missed):
                every += threads.map(record, tests)
            list(threads.map(judge, missed))
        except BaseException:
            breakages.stop()  # a thread would run its tests to their end
            raise


def main() -> int:
    """Try changes of a room, and return the exit code."""
    parser = argparse.ArgumentParser(description="Change sources by rule, and run their tests.")
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("-n", type=int, default=200, help="the number of changes")
    parser.add_argument("--seed", type=int, default=0, help="which of the changes are chosen")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--within", nargs="+", default=[""], help="parts of the sources' paths")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(options)
    except KeyboardInterrupt:
        problem = "it was interrupted"
    except (OSError, ValueError, SyntaxError, subprocess.CalledProcessError) as error:
        problem = str(error)
    print(f"mutations: {problem}; changes are in {FOLDER.relative_to(ROOT)} alone", file=sys.stderr)
    return 2


def run(options: argparse.Namespace) -> int:
    """Try changes, print the shares that tests notice, and return the exit code.

    Raises
    ------
    ValueError
        There is no change, or an entry of the known ones matches none.
    """
    room = ROOMS[options.room]
    copies = []
    for number in range(options.jobs):
        root = FOLDER / str(number)
        root.mkdir(parents=True, exist_ok=True)
        copies.append(Copy(root, room, breakages.update_copy(root)))
    # Of a copy: the tree may change meanwhile.
    chosen = choose(room, options.n, options.seed, options.within, copies[0].root)
    if not chosen:
        raise ValueError(f"there is no change in {' '.join(options.within)}")
    noticed = judge_all(chosen, copies)
    share = 100 * sum(noticed) / len(noticed)
    print(f"{options.room}: {sum(noticed)} of {len(noticed)} are noticed, {share:.1f} of 100")
    for rule in RULES:
        own = [found for mutant, found in zip(chosen, noticed, strict=True) if mutant.rule == rule]
        if own:
            print(f"  {sum(own):4} of {len(own):4}  {rule}: {RULES[rule]}")
    return int(share < room.goal)


if __name__ == "__main__":
    sys.exit(main())
