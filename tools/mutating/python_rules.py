"""Change a source of Python by rule, at the places that its syntax tree has.

Each change replaces a part of the text, so that comments and lines stay. These are not changed:
texts, also those of errors, which tests compare whole; types; assertions, also that of `zip`;
decorators; conditions on the version of Python or the system, of which a run has one, and the
encoding of a file, whose default is the system's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from mutating.mutant import OTHER, Mutant, Recorder

#: The attributes of `sys` and `os` whose value is that of the machine.
_OF_THE_MACHINE = {"version_info", "platform", "byteorder", "name", "implementation", "maxsize"}
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_CALLS = {"min", "max", "any", "all"}
#: Functions whose arguments have no order.
_COMMUTATIVE = {"min", "max", "gcd", "lcm"}
_METHODS = {"startswith", "endswith", "partition", "rpartition"}
_COMPARISON = re.compile(r"\bnot\s+in\b|\bis\s+not\b|\bin\b|\bis\b|[<>=!]=|[<>]")
_ARITHMETIC = re.compile(r"<<|>>|//|\*\*|[-+*/%&|^]")
_LOGIC = re.compile(r"\b(?:and|or)\b")


def mutants(path: Path, text: str) -> list[Mutant]:
    """Return the changes of a source, in the order of the tree."""
    rules = _Rules(path, text)
    rules.visit_all(ast.parse(text).body)
    return rules.mutants


def late_lines(text: str) -> set[int]:
    """Return the lines of the functions' statements: those that an import does not execute."""
    results: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                results.update(range(statement.lineno, (statement.end_lineno or 0) + 1))
    return results


class _Rules(Recorder):
    """Walks over a tree and records the changes."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(path, text)
        self.is_late = False
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        """Visit nodes of which some are None."""
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit(self, node: ast.AST) -> None:  # noqa: C901 - a case for each node
        """Record the changes of a node and of those below it."""
        if _is_skipped(node):
            return
        if isinstance(node, ast.stmt):
            self.span = _head(node)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node)
                return
            case ast.ClassDef():
                self.visit_all(node.body)
                return
            case ast.AnnAssign():
                self.visit_all([node.target, node.value])
                return
            case ast.If():
                self._condition(node)
            case ast.IfExp():
                if not _is_of_the_machine(node.test):
                    self._negate(node.test)
            case ast.Compare():
                self._comparison(node)
            case ast.BinOp():
                if not (_is_text(node.left) or _is_text(node.right)):
                    self._operator("arithmetic", _ARITHMETIC, node.left, node.right)
            case ast.AugAssign():
                if not _is_text(node.value):
                    self._operator("arithmetic", _ARITHMETIC, node.target, node.value)
            case ast.BoolOp():
                for left, right in zip(node.values, node.values[1:], strict=False):
                    self._operator("logic", _LOGIC, left, right)
            case ast.UnaryOp():
                self._unary(node)
            case ast.Constant():
                self._constant(node, "number")
                return
            case ast.Subscript():
                self.visit(node.value)
                self._index(node.slice)
                return
            case ast.Expr():
                if isinstance(node.value, ast.Call):
                    self._replace("call", node.value, "None")
            case ast.Call():
                self._call(node)
        self.visit_all(ast.iter_child_nodes(node))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        if _is_declaration(node):
            return
        self.visit_all([*node.args.defaults, *node.args.kw_defaults])
        outside, self.is_late = self.is_late, True
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.visit_all(body)
        self.is_late = outside

    def _condition(self, node: ast.If) -> None:
        if _is_of_the_machine(node.test):
            return
        only_leaves = len(node.body) == 1 and isinstance(node.body[0], _EXITS)
        if only_leaves and not node.orelse:
            self._replace("guard", node.test, "False")
        else:
            self._negate(node.test)

    def _negate(self, test: ast.expr) -> None:
        self._replace("branch", test, f"not ({self._text_of(test)})")

    def _comparison(self, node: ast.Compare) -> None:
        left = node.left
        for right in node.comparators:
            self._operator("comparison", _COMPARISON, left, right)
            left = right

    def _unary(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("logic", node, f"({self._text_of(node.operand)})")
        if isinstance(node.op, ast.USub):
            self._replace("sign", node, self._text_of(node.operand))

    def _constant(self, node: ast.Constant, rule: str) -> None:
        if isinstance(node.value, bool):
            self._replace("boolean", node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace(rule, node, str(node.value + 1))
            if node.value > 0:
                self._replace(rule, node, str(node.value - 1))
        elif isinstance(node.value, float):
            self._replace(rule, node, repr(node.value * 2 + 1))

    def _index(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant):
            self._constant(node, "index")
        elif isinstance(node, ast.Slice):
            for bound in (node.lower, node.upper):
                if bound is None:
                    continue
                self._replace("index", bound, "")
                if isinstance(bound, ast.Constant):
                    self._constant(bound, "index")
                else:
                    self.visit(bound)
            self.visit_all([node.step])
        else:
            self.visit(node)

    def _call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Name(id=name) if name in _CALLS:
                self._replace("choice", node.func, OTHER[name])
            case ast.Attribute(attr=name) if name in _METHODS:
                _, end = self._span(node.func)
                self.add("choice", end - len(name), end, OTHER[name])
        is_ordered = not (isinstance(node.func, ast.Name) and node.func.id in _COMMUTATIVE)
        has_star = any(isinstance(each, ast.Starred) for each in node.args[:2])
        if is_ordered and len(node.args) >= 2 and not has_star:
            first, second = node.args[:2]
            start, first_end = self._span(first)
            second_start, end = self._span(second)
            between = self.text[first_end:second_start]
            new = self._text_of(second) + between + self._text_of(first)
            self.add("swap", start, end, new)
        arguments = [*node.args, *node.keywords]
        for at, keyword in enumerate(node.keywords):
            if keyword.arg is None or _is_skipped(keyword):
                continue
            start, end = self._span(keyword)
            position = len(node.args) + at
            if position:
                start = self._span(arguments[position - 1])[1]
            elif len(arguments) > 1:
                end = self._span(arguments[1])[0]
            self.add("default", start, end, "")

    def _operator(self, rule: str, pattern: re.Pattern[str], left: ast.AST, right: ast.AST) -> None:
        """Replace the operator between two nodes."""
        between = self._span(left)[1]
        found = pattern.search(self.text, between, self._span(right)[0])
        if found is not None:
            operator = " ".join(found[0].split())
            self.add(rule, found.start(), found.end(), OTHER[operator])

    def _replace(self, rule: str, node: ast.AST, new: str) -> None:
        start, end = self._span(node)
        self.add(rule, start, end, new)

    def _text_of(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.text[start:end]

    def _span(self, node: ast.AST) -> tuple[int, int]:
        """Return the place of a node as offsets. A tree has columns of UTF-8."""
        assert isinstance(node, (ast.expr, ast.keyword))
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._offset(node.lineno, node.col_offset)
        return start, self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        before = self.lines[line - 1].encode()[:column]
        return self._starts[line - 1] + len(before.decode())


def _head(node: ast.stmt) -> tuple[int, int]:
    """Return the first and the last line of a statement, without those in its body."""
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    last = node.end_lineno or node.lineno
    if body:
        first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
        last = max(node.lineno, first.lineno - 1)
    return node.lineno, last


def _is_skipped(node: ast.AST) -> bool:
    """Return whether nothing in a node is changed."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "TYPE_CHECKING")]):
            return True
        case ast.keyword(arg="strict" | "encoding"):
            return True
        case ast.Compare():
            return _is_of_the_machine(node)
    return False


def _is_declaration(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Return whether a function is one of a protocol, for type checkers: its body ends with
    `...`.
    """
    if isinstance(node, ast.Lambda):
        return False
    match node.body[-1]:
        case ast.Expr(value=ast.Constant(value=value)):
            return value is ...
    return False


def _is_text(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr)


def _is_of_the_machine(node: ast.AST) -> bool:
    """Return whether a condition asks for the version of Python or for the system."""
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=ast.Name(id="sys" | "os"), attr=name):
                if name in _OF_THE_MACHINE:
                    return True
            case ast.Name(id="__name__"):
                return True
    return False
