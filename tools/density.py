"""Count what Python code holds, and how dense it is.

The weight of code is the number of nodes of its syntax tree, without docstrings, operators and
contexts. No layout changes it, and it is the same on each version of Python. A table in a string
that the code splits or decodes weighs what its items do.

Density is counted for 1,000 nodes: expressions that choose between values, comprehensions,
assignments of several values at once. Each is a decision that a reader meets in the middle of a
line.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS)
_UNCOUNTED = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
#: Fields without a node that counts.
_PLAIN = ("ctx", "op", "ops", "id", "attr", "kind", "type_comment")
#: Most nodes, which have no dense form.
_FORMLESS = {ast.Name, ast.Constant, ast.Attribute, ast.arg, ast.keyword, ast.Expr}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DECISIONS = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.Assert,
    ast.match_case,
)
#: Numbers of decisions above which functions are counted.
_MANY = (10, 15, 25)
#: Functions that decode a table in a string: json.loads, ast.literal_eval and their like.
_DECODERS = {"loads", "literal_eval", "fromhex", "b64decode", "b85decode"}
#: A piece of a string that is decoded: a word or a number, of at most 16 characters of a long one.
_PIECE = r"[\w.+/=-]{1,16}"


@cache  # a run compares densities and weights
def measure(text: str) -> Counter[str]:
    """Count the nodes of a source, and its forms that are dense.

    Returns
    -------
    Counter
        "nodes", "conditional", "comprehension", "parallel", "nothing", "functions", and "over10",
        "over15", "over25": the functions with more decisions than that.
    """
    with parsed(text) as tree:
        return _measure(tree)


def _measure(tree: ast.Module) -> Counter[str]:
    found = _walk(tree)
    counts = Counter(nodes=_weight(tree, found))
    for node in found:
        if node.__class__ in _FORMLESS:
            continue
        counts["conditional"] += _is_conditional(node)
        counts["comprehension"] += _is_comprehension(node)
        counts["parallel"] += _is_parallel(node)
        counts["nothing"] += _adds_nothing(node)
        if isinstance(node, _FUNCTIONS):
            counts["functions"] += 1
            decisions = _decisions(node)
            for many in _MANY:
                counts[f"over{many}"] += decisions > many
    return counts


def nodes(text: str) -> int:
    """Return the weight of a source."""
    with parsed(text) as tree:
        return _weight(tree, _walk(tree))


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


def _walk(*roots: object, without: tuple[type, ...] = ()) -> list[ast.AST]:
    """Return the nodes that count, but those of types in `without` and what is in them. ast.walk
    takes longer.
    """
    results = []
    stack: list[Any] = list(roots)
    while stack:
        node = stack.pop()
        fields = _fields(node.__class__)
        if fields is None or node.__class__ in without:
            continue
        results.append(node)
        for each in fields:
            value = getattr(node, each)
            if value.__class__ is list:
                stack += value
            elif value is not None:
                stack.append(value)
    return results


@cache
def _fields(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a type of nodes in which nodes may be; None for what does not count."""
    if not issubclass(kind, ast.AST) or issubclass(kind, _UNCOUNTED):
        return None
    if kind is ast.Constant:
        return ()
    return tuple(each for each in kind._fields if each not in _PLAIN)


def _weight(tree: ast.Module, found: list[ast.AST]) -> int:
    tables = _strings(tree)
    count = len(found)
    for node in found:
        if isinstance(node, ast.Call):
            count += _items(node, tables)
        elif isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            count -= 2  # the statement and its constant
    return count


def describe(counts: Counter[str]) -> str:
    """Return the densities of counts in a line."""
    thousands = max(counts["nodes"], 1) / 1000
    functions = max(counts["functions"], 1)
    rates = [f"{counts[name] / thousands:.1f} {name}s" for name in ("conditional", "comprehension")]
    rates.append(f"{counts['parallel'] / thousands:.2f} parallel assignments")
    shares = [f"{100 * counts[f'over{many}'] / functions:.1f} % over {many}" for many in _MANY]
    nothing = f"{counts['nothing']} loops over nothing"
    return f"{', '.join(rates)}; {nothing}; functions: {', '.join(shares)} decisions"


def _strings(tree: ast.Module) -> dict[str, str]:
    """Return the strings that names of the module stand for."""
    results = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        text = _text(node.value, {})
        for target in targets:
            if isinstance(target, ast.Name) and text is not None:
                results[target.id] = text
    return results


def _text(node: ast.AST | None, tables: dict[str, str]) -> str | None:
    """Return the string that an expression is; None if it is no constant one."""
    if isinstance(node, ast.Name):
        return tables.get(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _items(call: ast.Call, tables: dict[str, str]) -> int:
    """Return the number of items of a table in a string that a call splits or decodes."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return 0
    if function.attr in ("split", "splitlines"):
        text = _text(function.value, tables)
        if text is None:
            return 0
        separator = _text(call.args[0], tables) if call.args else None
        if function.attr == "splitlines":
            return len(text.splitlines())
        return len(text.split(separator or None))
    if function.attr in _DECODERS and call.args:
        text = _text(call.args[0], tables)
        return len(re.findall(_PIECE, text or ""))
    return 0


def _decisions(function: ast.AST) -> int:
    """Return the number of decisions in a function, without those of functions inside it."""
    count = 0
    for node in _walk(*ast.iter_child_nodes(function), without=(*_FUNCTIONS, ast.ClassDef)):
        if isinstance(node, _DECISIONS):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
    return count


def _is_conditional(node: ast.AST) -> bool:
    """Whether an expression chooses between values.

    `c and x or y` does, and a condition as an index or a factor does too.
    """
    conditions = (ast.Compare, ast.BoolOp)
    if isinstance(node, ast.IfExp):
        return True
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, conditions)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return isinstance(node.left, conditions) or isinstance(node.right, conditions)
    if not isinstance(node, ast.BoolOp) or isinstance(node.op, ast.And):
        return False
    # A last operand of these types is a condition, and the whole asks a question.
    questions = (*conditions, ast.UnaryOp, ast.Call, ast.Name, ast.Attribute)
    if isinstance(node.values[-1], questions):
        return False
    return any(
        isinstance(each, ast.BoolOp) and isinstance(each.op, ast.And) for each in node.values[:-1]
    )


def _is_comprehension(node: ast.AST) -> bool:
    """Whether a node is a comprehension, or `map` or `filter` with a lambda."""
    if isinstance(node, _COMPREHENSIONS):
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id in ("map", "filter") and isinstance(node.args[0], ast.Lambda)


def _is_parallel(node: ast.AST) -> bool:
    """Whether a statement assigns several values at once."""
    if not isinstance(node, ast.Assign):
        return False
    return isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Tuple)


def _adds_nothing(node: ast.AST) -> bool:
    """Whether a loop goes over, or `+=` adds, a conditional with an empty side."""
    source: ast.expr | None = None
    if isinstance(node, ast.For | ast.comprehension):
        source = node.iter
    elif isinstance(node, ast.AugAssign):
        source = node.value
    if not isinstance(source, ast.IfExp):
        return False
    return _is_empty(source.body) or _is_empty(source.orelse)


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple | ast.List) and not node.elts
