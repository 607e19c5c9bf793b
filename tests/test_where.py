"""The comments "Where to change": the places that they name are there, and each change with two
places has tests that notice if one of them is changed alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import breakages
import where

ROOT = Path(__file__).resolve().parent.parent
ROWS = where.rows()
WITH_TWO_PLACES = [row for row in ROWS if row.also]
FAULTS = [each for each in breakages.breakages() if each.row]
#: The rows whose second place no fault can leave behind, each with the reason.
NOT_PLANTED = {
    "an option of the compiler of OpenCL C": "an option may change no macro and no type",
    "a key of a manifest's kernel": "a key that is not read is an error of the manifest",
    "what is read of an ELF file, such as a code object of AMD": "a reader may have a field alone",
    "a field that is read of a kernel in PTX or in a cubin": "a reader may have a field alone",
    "the signature algorithms that are accepted": "the page describes them in prose",
    "what makes a build compile again": "each is a part of the key, and may change alone",
    "a binary of a wheel, or what it is linked with": "a fault is a text, and the first place is a binary",
    "a section of a file, which has a name and bytes of any kind": "a reader passes over a name that it does not know",
    "a key of tuning records": "a reader ignores a key that it does not know",
    "an operator of ONNX that tinygrad lacks or computes wrongly": "a command writes the second place",
    "the npm package: its files, types or version": "the package is built to compare them",
    "an option of the compiler of ROCm": "each list may have an option alone",
    "an option of the compilers of Vulkan: glslang, glslc and dxc": "each compiler has options of its own",
    "an option of the compiler of WebGPU": "the page describes them in prose",
    "to rename a parameter, or another public name that goes": "there is none yet",
    "a new public name, such as a function, a class or a method of one": "a method is in no list; `make docs` misses it on the page",
    "a word for the value of an argument of `devmod run`, such as random or zeros": "the help has examples of some",
    "a field of a function's interface, such as default_block": "a reader ignores a field that it does not know",
    "a field of the origin of a module, such as its toolchain": "a reader ignores a field that it does not know",
    "what `devmod devices` lists of a device: a column, or a key of --json": "a key may be in the list for programs alone",
    "a picture of the docs": "the page shows the file that is there",
    "a new distribution, which is a wheel of its own": "the second places are of the repository, not of a text",
    "a dependency of a wheel, or a bound of one": "a command writes the second place",
    "a benchmark, whose figures are on the page of the performance": "a page may leave out a figure",
}
#: Files, each with the names in it that may follow.
PLACES = re.compile(r"`([\w.-]+/[\w./-]*)`(?: \(((?:`\w+`(?:, )?)+)\))?")


def python_files_in(text: str) -> list[str]:
    """Return the files of Python that a field names."""
    return re.findall(r"`([\w./-]+\.py)`", text)


def defines(path: Path, name: str) -> bool:
    start = r"^\s*(?:def |class |function |const |)"
    return re.search(rf"{start}\b{name}\b", path.read_text(), re.MULTILINE) is not None


def test_a_row_is_found_by_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert where.main(["element", "type", "scalars"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "an element type, which scalars have too"
    place, _, number = lines[1].removeprefix("  in ").rpartition(":")
    assert place == "core/src/devmod/_values/dtypes.py"
    assert "Where to change: " in (ROOT / place).read_text().splitlines()[int(number) - 1]
    assert where.main(["a change that nobody makes"]) == 1


@pytest.mark.parametrize(
    ("question", "subjects"),
    [
        ("an option to each of seven compilers", ["an option of the compiler of "] * 5),
        ("drop a kind", ["a kind that goes"]),
        ("a new row of the contract", ["a row of the contract"]),
        ("a new example", ["an example"]),
        ("a new error class", ["an error class"]),
        ("another entry point group", ["an entry-point group"]),
        ("a synonym for a command", ["a synonym, another word for a command"]),
        ("an exit code", ["an exit status of commands"]),
        ("a new golden file", ["a golden file"]),
        ("a new public function", ["a new public name"]),
        ("a method", ["a new public name"]),
        ("a word for an argument of run", ["a word for the value of an argument"]),
        ("a field of the interface", ["a field of a function's interface"]),
        ("a field of the origin", ["a field of the origin"]),
        ("a new dependency", ["a dependency of a wheel"]),
        ("a new benchmark", ["a benchmark"]),
        ("a task of make", ["a task of make"]),
        ("a column of devices", ["what `devmod devices` lists"]),
        ("a check of doctor", ["a check of `devmod doctor`"]),
        ("a marker of tests", ["a marker"]),
        ("a picture", ["a picture of the docs"]),
        ("an extra of core", ["an extra"]),
        ("a new distribution", ["a new distribution"]),
        ("a new wheel", ["a new distribution"]),
        ("a reader to fuzz", ["a reader that `make fuzz`"]),
        ("a workflow", ["a workflow of CI"]),
    ],
)
def test_a_question_of_a_newcomer(
    capsys: pytest.CaptureFixture[str], question: str, subjects: list[str]
) -> None:
    assert where.main(question.split()) == 0
    printed = [text.partition("\n")[0] for text in capsys.readouterr().out.split("\n\n")]
    for subject in {*subjects}:
        assert sum(each.startswith(subject) for each in printed) >= subjects.count(subject)


def test_rows_with_some_of_the_words_are_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert where.main(["a", "second", "file"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "no row has all of second file; these have most of the words:"
    assert lines[1] == ""
    assert {*lines[2:]} <= {row.change for row in ROWS}


def test_words_of_the_other_lines_find_a_row_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A person asks with the name of a command, or of a file."""
    assert where.main(["option", "inspect", "_output.py"]) == 0
    start = "no row has all of option inspect _output.py; these have most of the words:\n\n"
    assert capsys.readouterr().out.startswith(f"{start}an option of a command\n")


def test_a_comment_is_read_in_each_language() -> None:
    change = "change"  # so that this file has no such comments
    code = f"""
    # Where to {change}: a thing
    #   here: `A`,
    #     `B`
    #   tests: `tests/a.py`
    #: What A is.
    A = 1
// Where to {change}: another one
//   also: `docs/a.md`
"""
    first, second = where.rows_of(code, "a.py")
    assert first == ("a thing", "a.py", 2, "`A`, `B`", "", "`tests/a.py`")
    assert second == ("another one", "a.py", 8, "", "`docs/a.md`", "")


def test_each_change_has_one_row() -> None:
    changes = [row.change for row in ROWS]
    assert len(changes) == len({*changes}) > 70


def test_the_places_of_a_row_are_there() -> None:
    for row in ROWS:
        own = ROOT / row.path
        for place, names in PLACES.findall(f"{row.here} {row.also}"):
            path = ROOT / place
            assert path.exists(), f"{row.change}: {place}"
            for name in re.findall(r"\w+", names):
                assert defines(path, name), f"{row.change}: {place} has no {name}"
        first = re.match(r"(?:`\w+`(?:, |;| and |$))+", row.here)
        for name in re.findall(r"\w+", first[0] if first else ""):
            if name != "and":
                assert defines(own, name), f"{row.change}: {row.path} has no {name}"


def test_a_row_names_files_of_tests() -> None:
    for row in ROWS:
        named = re.findall(r"`([\w.-]+/[\w./-]+)`", row.tests)
        assert named, row.change
        for each in named:
            assert (ROOT / each).exists(), f"{row.change}: {each}"
    assert {row.change for row in WITH_TWO_PLACES if not python_files_in(row.tests)} == set()


def test_a_row_with_two_places_has_a_fault_or_a_reason() -> None:
    planted = {fault.row for fault in FAULTS}
    assert planted | NOT_PLANTED.keys() == {row.change for row in WITH_TWO_PLACES}
    assert planted & NOT_PLANTED.keys() == set()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.name)
def test_the_tests_of_a_fault_are_those_of_its_row(fault: breakages.Breakage) -> None:
    (row,) = [row for row in ROWS if row.change == fault.row]
    assert {*fault.tests} <= {*python_files_in(row.tests)}


def test_a_reader_that_ends_early_is_no_error() -> None:
    command = [sys.executable, str(ROOT / "tools" / "where.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # before the first of more bytes than a pipe holds
        assert process.stderr.read() == ""
    assert process.returncode == 0
