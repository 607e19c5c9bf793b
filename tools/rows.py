"""Which tests of `make test` show each row of the contract: the end of docs/contract.md. Tests
name their rows: `@pytest.mark.row("R8")`.

python tools/rows.py            print the tests of all rows
python tools/rows.py R8 R9      print the tests of these rows
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from environments import ROOT

CONTRACT = ROOT / "docs" / "contract.md"
FOLDERS = (
    "core/tests",
    "workbench/tests",
    "compilers/*/tests",
    "plugins/runtime/tests/*",
    "extras/remote/tests",
    "extras/models/tests",
    "extras/frameworks/tests",
    "extras/tvm/tests",
    "extras/trust/tests",
    "plugins/*/tests",
    "examples/*/tests",
    "tests",
)


# Where to change: a row of the contract, such as R8
#   here: `FOLDERS` has the folders of tests that show a row
#   also: `docs/contract.md`; a test with `@pytest.mark.row("R8")`; what a backend must do is a row
#     of the conformance kit too, in `conformance/src/devmod_conformance/_rows/`;
#     `tests/test_contract_page.py` (`test_the_contract_has_all_its_rows`) has their number
#   tests: `tests/test_contract_page.py`
def rows_of_the_contract() -> list[str]:
    """Return R1, R2, … in the order of the page."""
    return re.findall(r"^- \*\*(R\d+)\*\* ", CONTRACT.read_text(), re.MULTILINE)


@cache
def tests_by_row() -> dict[str, dict[str, list[str]]]:
    """Return row → test file (from the root) → names of its tests, in the order of the files and of
    each file.

    A test with the marker `volume` is not counted: each row needs one in `make test`.
    """
    results: dict[str, dict[str, list[str]]] = {}
    paths: list[Path] = []
    for folder in FOLDERS:
        paths += ROOT.glob(f"{folder}/test_*.py")
    for path in sorted(paths):
        text = path.read_text()
        if "mark.row(" not in text:
            continue
        for row, name in _marked(ast.parse(text)):
            names = results.setdefault(row, {}).setdefault(path.relative_to(ROOT).as_posix(), [])
            if name not in names:
                names.append(name)
    return results


def _marked(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (row, test) for each test function, by its own marks, its class's and its module's."""
    marks = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        )
    ]
    of_module: list[str] = []
    for mark in marks:
        of_module += _rows(mark)

    def walk(body: list[ast.stmt], inherited: list[str], prefix: str) -> Iterator[tuple[str, str]]:
        for node in body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            if "pytest.mark.volume" in map(ast.unparse, node.decorator_list):
                continue
            own = list(inherited)
            for mark in node.decorator_list:
                own += _rows(mark)
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, own, f"{prefix}{node.name}::")
            elif node.name.startswith("test"):
                for row in own:
                    yield row, prefix + node.name

    if any("pytest.mark.volume" in ast.unparse(mark) for mark in marks):
        return iter(())
    return walk(tree.body, of_module, "")


def _rows(mark: ast.expr) -> Iterator[str]:
    """Yield the rows in every ``pytest.mark.row(…)`` inside an expression, also for single
    parameters.
    """
    for node in ast.walk(mark):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr != "row":
            continue
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value


def section() -> str:
    """Return the section of the page."""
    found = tests_by_row()
    lines = []
    for row in rows_of_the_contract():
        lines.append(f"### {row}\n")
        for file, names in found.get(row, {}).items():
            lines.append(f"- `{file}`: {', '.join(f'`{name}`' for name in names)}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main(rows: list[str]) -> None:
    """Print the tests of some rows, or of all."""
    known = rows_of_the_contract()
    for row in rows:
        if row not in known:
            raise SystemExit(
                f"docs/contract.md has no row {row}. Its rows: {known[0]} to {known[-1]}"
            )
    found = tests_by_row()
    for row in rows or known:
        for file, names in found.get(row, {}).items():
            print(*(f"{row}  {file}::{name}" for name in names), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
