"""The import graph of the source tree, read from the code: what `tests/test_house.py` checks."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from each_case import some

from setup import projects  # tools/setup.py

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [
    path / "src"
    for path in (*projects(), ROOT / "extras" / "tvm", *sorted(ROOT.glob("examples/*")))
    if (path / "src").is_dir()
]


@contextmanager
def parsed(text: str) -> Iterator[ast.Module]:
    """Give the tree of a source, without garbage collections, which took most of the time."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield ast.parse(text)
    finally:
        if is_enabled:
            gc.enable()


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module."""
    results = {}
    for source in SOURCES:
        for path in some(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            results[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return results


def is_type_checking(node: ast.AST) -> bool:
    """Return whether a node is a condition that is true for type checkers alone."""
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


@cache
def statements(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Return the imports of a file, and whether each is for type checkers alone."""
    results: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
    with parsed(path.read_text()) as tree:
        pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, types = pending.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            results.append((node, types))
            continue
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            is_typing = name == "body" and is_type_checking(node)
            pending += [(each, types or is_typing) for each in getattr(node, name, ())]
    return results


@cache
def imports(*, types: bool = False) -> dict[str, set[str]]:
    """Return the modules that each module imports, at its top and inside functions; under
    TYPE_CHECKING too if `types` is true.
    """
    known = modules()
    return {
        name: {to for to in _imported(name, path, known, types) if to != name}
        for name, path in known.items()
    }


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other in a circle (Tarjan's strongly connected
    components).
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    results: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for to in sorted(graph.get(node, ())):
            if to not in index:
                visit(to)
                low[node] = min(low[node], low[to])
            elif to in stack:
                low[node] = min(low[node], index[to])
        if low[node] == index[node]:
            at = stack.index(node)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                results.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return results


def _imported(name: str, path: Path, known: dict[str, Path], types: bool) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node, for_types in statements(path):
        if for_types and not types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif node.module or node.level:
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                if inner in known or module in known:
                    yield inner if inner in known else module
