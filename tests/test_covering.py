"""`make test NAMES=…`: the test files that cover a room or a command."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import covering  # noqa: E402
from covering import Record  # noqa: E402
from devmod.backend import escape_line  # noqa: E402

RECORDS = {
    "tests/test_all.py": Record(20.0, frozenset({"core/src/a.py:1", "core/src/a.py:5"})),
    "tests/test_one.py": Record(0.1, frozenset({"core/src/a.py:1"})),
    "tests/test_slow.py": Record(90.0, frozenset({"core/src/b.py:1", "core/src/a.py:5"})),
    "tests/test_other.py": Record(0.1, frozenset({"readers/src/c.py:1"})),
}


def test_the_files_cover_what_is_wanted_in_their_time() -> None:
    wanted = frozenset({"core/src/a.py:1", "core/src/a.py:5", "core/src/b.py:1"})
    # That of 90 s is left out, though it alone calls a function.
    both = ["tests/test_all.py", "tests/test_one.py"]
    assert covering.covering(wanted, RECORDS) == both
    assert covering.covering(frozenset({"core/src/a.py:1"}), RECORDS) == both
    assert covering.covering(frozenset({"readers/src/c.py:1"}), RECORDS) == ["tests/test_other.py"]
    assert covering.covering(frozenset({"core/src/none.py:1"}), RECORDS) == []


def test_the_best_files_for_their_time_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = frozenset({"core/src/a.py:1", "core/src/a.py:5"})
    monkeypatch.setattr(covering, "MOST", 1)
    assert covering.covering(wanted, RECORDS) == ["tests/test_one.py"]
    own = covering.named_for("other", RECORDS)
    assert covering.covering(wanted, RECORDS, own) == ["tests/test_other.py"]


def test_what_a_test_calls_is_recorded_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covering, "RECORDED", tmp_path)
    recorder = covering.Recorder()
    item: Any = SimpleNamespace(path=ROOT / "tests" / "test_x.py")
    for text in ("a", "b\n"):
        test = recorder.pytest_runtest_protocol(item)
        next(test)
        escape_line(text)
        assert next(test, None) is None
    recorder.pytest_sessionfinish()
    (record,) = covering.read_records(tmp_path).items()
    assert record[0] == "tests/test_x.py"
    assert record[1].seconds >= 0
    code = escape_line.__code__
    place = Path(code.co_filename).relative_to(ROOT).as_posix()
    assert f"{place}:{code.co_firstlineno}" in record[1].functions
    assert not [each for each in record[1].functions if not each.startswith("core/src/")]


def test_a_name_is_a_room_or_a_command() -> None:
    written = {"rooms": {"opencl": ["README.md", "gone.py"]}, "commands": {"inspect": ["LICENSE"]}}
    assert covering.files_of(["devmod-opencl"], written) == ["README.md"]
    # Those of the options of all commands notice an option that lacks its help, page or test.
    files = [covering.OPTIONS, "LICENSE", "README.md"]
    assert covering.files_of(["inspect", "devmod-opencl"], written) == files
    with pytest.raises(SystemExit) as caught:
        covering.files_of(["inspekt"], written)
    assert str(caught.value) == (
        "no test of 'inspekt' is recorded. Did you mean 'inspect'? The rooms and the commands with tests: inspect, opencl. "
        "`make covering` records the others"
    )


def test_the_rooms_and_the_commands_are_those_of_the_repository() -> None:
    assert covering.rooms()["readers"] == "compilers/readers/src/"
    assert covering.rooms()["opencl"] == "plugins/devmod-opencl/src/"
    commands = covering.commands()
    assert commands["inspect"] == "workbench/src/devmod_workbench/_cli/inspect.py:"
    assert commands["compile"] == "compilers/targets/src/devmod_targets/_cli/compile.py:"


def test_a_run_of_some_files_adds_names_to_a_table() -> None:
    place = "workbench/src/devmod_workbench/_cli"
    functions = frozenset({f"{place}/inspect.py:9", f"{place}/run.py:9"})
    records = {"tests/test_some.py": Record(1.0, functions)}
    before = {"commands": {"inspect": ["tests/test_whole.py"]}, "rooms": {}}
    table = tomllib.loads(covering.table(records, before))
    assert table["commands"] == {
        "inspect": ["tests/test_whole.py"],
        "run": ["tests/test_some.py"],
    }
    assert tomllib.loads(covering.table(records))["commands"]["inspect"] == ["tests/test_some.py"]


def test_the_written_files_are_there() -> None:
    """Those of a file that has left are left out by the task; then it is time to write anew."""
    written = tomllib.loads(covering.WRITTEN.read_text())
    listed = {each for table in written.values() for files in table.values() for each in files}
    assert [each for each in sorted(listed) if not (ROOT / each).exists()] == []
    assert written["commands"].keys() <= covering.commands().keys()
    assert written["rooms"].keys() <= covering.rooms().keys()
    assert {"inspect", "run", "verify"} <= written["commands"].keys()


def test_a_command_that_no_run_has_recorded_has_the_tests_with_its_name() -> None:
    written: dict[str, dict[str, list[str]]] = {"rooms": {}, "commands": {}}
    first, *files = covering.files_of(["triton"], written)
    assert first == covering.OPTIONS
    assert "compilers/targets/tests/test_triton_package.py" in files
    assert "plugins/runtime/tests/test_triton_served.py" in files
    assert all("triton" in each for each in files)
    assert covering.files_of(["onnx"], written)[-1].startswith("tests/test_onnx")
    assert covering.with_word("readers") == []


def test_each_room_and_each_command_has_tests_without_a_record() -> None:
    written: dict[str, dict[str, list[str]]] = {"rooms": {}, "commands": {}}
    # The names of no test file have these words. A test of another distribution calls a command;
    # the tests of a room are those beside its sources.
    for name, path in {
        "pin": "extras/remote/tests/test_pinned_urls.py",
        "keygen": "extras/trust/tests/test_commands.py",
    }.items():
        files = covering.files_of([name], written)
        assert path in files
        assert len(files) < 6
    assert covering.with_argument("remote") == []
    files = covering.files_of(["trust"], written)
    assert "extras/trust/tests/test_commands.py" in files
    assert all(each.startswith("extras/trust/tests/") for each in files)
    without = []
    for name in covering.commands() | covering.rooms():
        try:
            covering.files_of([name], written)
        except SystemExit:
            without.append(name)
    assert without == []
