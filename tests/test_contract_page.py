"""Every row of the contract has a test, and the pages describe what the rows name."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import rows  # noqa: E402 - tools/rows.py
from devmod._plugins.specs import find_spec  # noqa: E402
from devmod._values.tags import (  # noqa: E402
    COOPERATIVE_TAG,
    DYNAMIC_SHARED_MEMORY,
    PROGRAMMATIC_TAG,
    REQUIRED_BLOCK_TAG,
    SCOPES,
    WRITE_ACCESS_TAG,
)
from devmod.targets import KINDS  # noqa: E402


def test_the_contract_has_all_its_rows() -> None:
    assert rows.rows_of_the_contract() == [f"R{number}" for number in range(1, 63)]


def test_every_row_has_a_test_and_every_test_names_an_existing_row() -> None:
    found = rows.tests_by_row()
    assert [row for row in rows.rows_of_the_contract() if row not in found] == []
    assert sorted(set(found) - set(rows.rows_of_the_contract())) == []


def row(number: int) -> str:
    page = (ROOT / "docs" / "contract.md").read_text()
    found = re.search(rf"^- \*\*R{number}\*\* ((?:.+\n)+?)(?=- \*\*R|\n)", page, re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_page_has_the_formats_of_every_kind() -> None:
    text = " ".join(row(14).split())
    for kind in KINDS:
        spec = find_spec(kind)
        assert spec is not None
        listed = re.search(rf"\b{kind} ((?:`[a-z ]+`,? ?)+)", text)
        assert listed is not None, kind
        assert listed[1].replace("`", "").replace(",", " ").split() == [*spec.formats], kind
        for alias, fmt in spec.format_aliases.items():
            assert f"`{alias}` for `{fmt}`" in text


def test_the_pages_have_every_launch_tag() -> None:
    kernels = (ROOT / "docs" / "calling.md").read_text()
    for scope in SCOPES:
        assert f"`{scope}.{{x,y,z}}`" in kernels, scope
    for tag in (PROGRAMMATIC_TAG, COOPERATIVE_TAG, REQUIRED_BLOCK_TAG, DYNAMIC_SHARED_MEMORY):
        assert f"`{tag}`" in kernels, tag
    assert f"`{WRITE_ACCESS_TAG}[0,0,1]`" in kernels
    assert "calling.md#tvms-modules" in row(35)


def test_marks_are_read_in_every_place_that_pytest_supports(tmp_path: Path) -> None:
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
    assert found == [
        *((row, "test_a") for row in ("R1", "R2", "R3", "R4")),
        ("R1", "TestB::test_c"),
        ("R5", "TestB::test_c"),
    ]


def test_the_tool_prints_the_tests_of_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    file, name = "tests/test_repository.py", "test_one_directory_for_each_backend"
    rows.main(["R36"])
    assert f"R36  {file}::{name}\n" in capsys.readouterr().out
    section = rows.section().partition("### R36\n\n")[2].partition("\n\n### ")[0]
    assert re.search(rf"^- `{file}`: .*`{name}`", section, re.MULTILINE)
