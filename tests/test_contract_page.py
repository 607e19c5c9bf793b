"""Every row of the contract is shown by a test, and docs/rows.md names tests that are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import rows  # noqa: E402 - tools/rows.py, which writes the page


def on_the_page() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for row, listed in re.findall(r"^## (R\d+)\n((?:(?!## ).*\n)*)", rows.PAGE.read_text(), re.MULTILINE):
        found[row] = {file: re.findall(r"`([\w:]+)`", names) for file, names in re.findall(r"^- `(\S+)`: (.*)$", listed, re.MULTILINE)}
    return found


def test_the_contract_has_all_its_rows() -> None:
    assert rows.rows_of_the_contract() == [f"R{number}" for number in range(1, 45)]


def test_every_row_has_a_test_and_every_test_names_a_row_that_is_there() -> None:
    found = rows.tests_by_row()
    assert [row for row in rows.rows_of_the_contract() if row not in found] == []
    assert sorted(set(found) - set(rows.rows_of_the_contract())) == []


def test_the_page_names_a_test_for_each_row_and_none_that_is_not_there() -> None:
    page, found = on_the_page(), rows.tests_by_row()
    assert list(page) == rows.rows_of_the_contract()
    for row, files in page.items():
        assert files, f"docs/rows.md has no test for {row}: make rows"
        for file, names in files.items():
            gone = sorted(set(names) - set(found.get(row, {}).get(file, [])))
            assert not gone, f"docs/rows.md, {row}: {file} has no test {gone} that names it: make rows"
            assert names


def test_marks_are_found_wherever_pytest_takes_them(tmp_path: Path) -> None:
    import ast

    source = """
pytestmark = [pytest.mark.row("R1"), pytest.mark.slow]
@pytest.mark.row("R2", "R3")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.row("R4")), 2])
def test_a(x): ...
@pytest.mark.row("R5")
class TestB:
    def test_c(self): ...
    def helper(self): ...
def helper(): ...
"""
    found = list(rows._marked(ast.parse(source)))
    assert found == [*((row, "test_a") for row in ("R1", "R2", "R3", "R4")), ("R1", "TestB::test_c"), ("R5", "TestB::test_c")]


def test_the_tool_prints_the_tests_of_a_row() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "rows.py", "R36"], capture_output=True, text=True, check=True)
    assert "R36  tests/test_repository.py::test_one_directory_for_each_backend\n" in done.stdout
