"""The table "Where to change what" in CONTRIBUTING.md: each change with two places has tests that
notice if one of them is changed alone.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import breakages  # noqa: E402


class Row(NamedTuple):
    """A row of the table: the change, its first place, its second one, and the tests."""

    change: str
    first: str
    second: str
    tests: str


def table() -> list[Row]:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = page.partition("|---|---|---|---|\n")[2].partition("\n\n")[0].splitlines()
    return [Row(*(cell.strip() for cell in line[1:-1].split("|"))) for line in lines]


ROWS = table()
WITH_TWO_PLACES = [row for row in ROWS if row.second]
FAULTS = [each for each in breakages.breakages() if each.row]
#: The rows whose second place no fault can leave behind, each with the reason.
NOT_PLANTED = {
    "the signature algorithms that are accepted": "the page describes them in prose",
    "what makes a build compile again": "each is a part of the key, and may change alone",
    "a binary of a wheel, or what it is linked with": "a fault is a text, and the first place is a binary",
    "a key of tuning records": "a reader ignores a key that it does not know",
    "an operator of ONNX that tinygrad lacks or computes wrongly": "a command writes the second place",
    "the npm package: its files, types or version": "the package is built to compare them",
}


def files_in(cell: str) -> list[str]:
    """Return the files of Python that a cell names."""
    return re.findall(r"`([\w./-]+\.py)`", cell)


def test_a_row_names_files_of_tests() -> None:
    for row in ROWS:
        named = re.findall(r"`([\w.-]+/[\w./-]+)`", row.tests)
        assert named, row.change
        for each in named:
            assert (ROOT / each).exists(), f"{row.change}: {each}"
    assert {row.change for row in WITH_TWO_PLACES if not files_in(row.tests)} == set()


def test_a_row_with_two_places_has_a_fault_or_a_reason() -> None:
    planted = {fault.row for fault in FAULTS}
    assert planted | NOT_PLANTED.keys() == {row.change for row in WITH_TWO_PLACES}
    assert planted & NOT_PLANTED.keys() == set()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.name)
def test_the_tests_of_a_fault_are_those_of_its_row(fault: breakages.Breakage) -> None:
    (row,) = [row for row in ROWS if row.change == fault.row]
    assert {*fault.tests} <= {*files_in(row.tests)}
