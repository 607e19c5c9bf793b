"""Tests check something: no assertion and no loop of theirs holds for want of items."""

from __future__ import annotations

import subprocess

import pytest
from each_case import some
from empty_checks import empty_checks
from imports import ROOT


def test_no_assertion_of_a_test_holds_where_there_is_nothing_to_check() -> None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [each for each in listed.split("\0") if "tests/" in each and (ROOT / each).is_file()]
    found = []
    for name in some(names):
        for line, text in empty_checks((ROOT / name).read_text(encoding="utf-8")):
            found.append(
                f"{name}:{line}: {text} may be empty: put some() of each_case.py around it"
            )
    assert found == []


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ("assert all(each > 0 for each in found())", "(each > 0 for each in found())"),
        ("assert all([each for each in a.items])", "[each for each in a.items]"),
        ("rows = made()\nassert all(rows)", "rows"),
        ("assert x == 1 and all(y in x for y in names)", "(y in x for y in names)"),
        ("assert all(a for a in (1, 2) if a > 3)", "(a for a in (1, 2) if a > 3)"),
        ("assert all(a for a in [*found])", "(a for a in [*found])"),
        ("assert all(a for a in {**found})", "(a for a in {**found})"),
        ("assert all(a < b for a, b in zip(x, (1, 2)))", "(a < b for a, b in zip(x, (1, 2)))"),
        ("assert all(map(f, (1, 2), found))", "map(f, (1, 2), found)"),
        ("assert all(a for a in range(0))", "(a for a in range(0))"),
        ("assert all(a for a in range(n))", "(a for a in range(n))"),
        ("rows = [1]\nrows = []\nassert all(rows)", "rows"),
        ("for rows in [1], []:\n    assert all(rows)", "rows"),
        ("assert not found\nassert all(a for a in found)", "(a for a in found)"),
        ("for each in folder.glob('*.py'):\n    f(each)", "folder.glob('*.py')"),
        ("for each in sorted(folder.rglob('*')):\n    assert each", "sorted(folder.rglob('*'))"),
        ("files = [*folder.iterdir()]\nfor each in files:\n    f(each)", "files"),
        (
            "for each in [b for a in c for b in a.glob('*')]:\n    f(each)",
            "[b for a in c for b in a.glob('*')]",
        ),
        ("for each in [*one, *os.listdir(a)]:\n    f(each)", "[*one, *os.listdir(a)]"),
        # Those that are known to have items.
        ("assert all(each > 0 for each in some(found()))", ""),
        ("assert all(each for each in (1, found()))", ""),
        ("assert all(each for each in [*found, 1])", ""),
        ("assert all(each for each in {'a': 1, **found}.items())", ""),
        ("assert all(a in text for a in 'one two'.split())", ""),
        ("rows = [1, 2]\nassert all(a for _, a in enumerate(sorted(rows)))", ""),
        ("assert all(a == b for a, b in zip(x, (1, 2), strict=True))", ""),
        ("assert all(a < b for a, b in zip('ab', (1, 2)))", ""),
        ("assert all(a for a in range(1, 3))", ""),
        ("rows = made()\nassert len(rows) == 3\nassert all(rows)", ""),
        ("assert found\nassert all(a for a in found)", ""),
        ("assert {a.b for a in found} == {1, 2}\nassert all(a.c for a in found)", ""),
        ("one, two = rows = made()\nassert all(rows)", "rows"),
        ("one, two = rows\nassert all(rows)", ""),
        ("for each in some(folder.glob('*.py')):\n    f(each)", ""),
        ("files = [*folder.iterdir()]\nassert len(files) == 2\nfor a in files:\n    f(a)", ""),
        ("for each in names:\n    assert each", ""),
        ("assert [*folder.glob('*.tmp')] == []", ""),
        ("assert not any(folder.glob('*.tmp'))", ""),
        ("is_whole = all(each for each in found)", ""),
    ],
)
def test_a_planted_check_without_items_is_found(planted: str, expected: str) -> None:
    body = planted.replace("\n", "\n    ")
    found = [text for _, text in empty_checks(f"def test_it(found, names):\n    {body}\n")]
    assert found == [expected] * bool(expected)


def test_a_loop_over_files_of_a_helper_needs_items_if_it_checks() -> None:
    loop = "    for each in folder.glob('*'):\n        {}\n"
    assert [*empty_checks("def files():\n" + loop.format("yield each"))] == []
    assert [*empty_checks("def files():\n" + loop.format("assert each"))] == [
        (2, "folder.glob('*')")
    ]


def test_a_name_of_the_file_is_known_in_its_tests() -> None:
    code = "ROWS = {rows}\ndef test_it({name}):\n    assert all(each for each in ROWS)\n"
    assert [*empty_checks(code.format(rows="(1, 2)", name=""))] == []
    unknown = [(3, "(each for each in ROWS)")]
    assert [*empty_checks(code.format(rows="(1, 2)", name="ROWS"))] == unknown
    assert [*empty_checks(code.format(rows="made()", name=""))] == unknown
