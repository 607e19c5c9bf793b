"""Assertions that hold where there is nothing to check, which `tests/test_house_checks.py` finds.

`assert all(f(each) for each in found)` holds if `found` is empty, and so does a loop over the files
of a folder that has moved. `some` of `core/tests/each_case.py` fails then.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

#: Functions and methods that list files.
_LISTINGS = {"glob", "rglob", "iglob", "iterdir", "listdir", "scandir"}
_WORDS = re.compile(rf"\b(?:all|{'|'.join(sorted(_LISTINGS))})\(")
#: Functions whose result has items if their first argument has some, and such methods.
_KEEPING = {
    *("sorted", "list", "tuple", "set", "frozenset", "dict", "reversed", "enumerate", "iter"),
    *("fromkeys",),
}
_KEEPING_METHODS = {"items", "values", "keys", "copy", "split"}
#: How many assignments are followed.
_MOST = 8
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def empty_checks(code: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of such assertions and loops in a file of tests, each with the expression
    that may have no items.
    """
    if not _WORDS.search(code):  # it saves nine tenths of the time
        return
    tree = ast.parse(code)
    places: list[tuple[ast.AST, ast.AST]] = []
    functions = [each for each in ast.walk(tree) if isinstance(each, _FUNCTIONS)]
    owners: dict[ast.AST, ast.AST] = {}
    for function in functions:  # an inner one comes later
        owners.update(dict.fromkeys(ast.walk(function), function))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assert, ast.For)):
            places.append((node, owners.get(node, tree)))

    known: dict[ast.AST, _Names] = {}
    for node, owner in places:
        names = known.get(owner)
        if names is None:
            names = known[owner] = _Names(tree, owner)
        for each in _claims(node, owner, names):
            if not names.has_items(each):
                yield each.lineno, ast.unparse(each)


def _claims(node: ast.AST, owner: ast.AST, names: _Names) -> Iterator[ast.expr]:
    """Yield the expressions whose items an assertion or a loop checks."""
    match node:
        case ast.Assert(test=test):
            for each in ast.walk(test):
                match each:
                    case ast.Call(func=ast.Name(id="all"), args=[argument]):
                        yield argument
        case ast.For(iter=listed) if _checks(node, owner) and names.is_listing(listed):
            yield listed


def _checks(loop: ast.For, owner: ast.AST) -> bool:
    """Return whether a loop is one of a test, or has an assertion."""
    if isinstance(owner, _FUNCTIONS) and owner.name.startswith("test_"):
        return True
    return any(isinstance(each, ast.Assert) for each in ast.walk(loop))


class _Names:
    """What the text says of the values that a function, or the file, looks at.

    A value has items if its text shows it, or if an assertion of the function compares it, or asks
    whether it has some.
    """

    def __init__(self, tree: ast.Module, owner: ast.AST) -> None:
        #: The values of the names that are assigned once.
        self._values: dict[str, ast.expr] = {}
        for statement in tree.body:
            if not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
                self._assign([statement])
        if isinstance(owner, _FUNCTIONS):
            self._assign(owner.body)
            for each in ast.walk(owner.args):
                if isinstance(each, ast.arg):
                    self._values.pop(each.arg, None)
        self._checked: set[str] = set()
        for node in ast.walk(owner):
            match node:
                case ast.Assert(test=test):
                    self._checked.update(_checked(test))
                case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value):
                    self._checked.add(ast.unparse(value))  # it has as many items as names

    def _assign(self, body: list[ast.stmt]) -> None:
        values: dict[str, list[ast.expr | None]] = {}
        targets: dict[str, int] = {}
        for statement in body:
            for node in ast.walk(statement):
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        values.setdefault(name, []).append(value)
                    case ast.AnnAssign(target=ast.Name(id=name), value=value):
                        values.setdefault(name, []).append(value)
                    case ast.Name(id=name, ctx=ast.Store()):
                        targets[name] = targets.get(name, 0) + 1
        for name, count in targets.items():
            found = values.get(name, [])
            value = found[0] if found else None
            self._values.pop(name, None)
            if count == 1 and value is not None:
                self._values[name] = value

    def has_items(self, node: ast.expr, depth: int = 0) -> bool:
        """Return whether an expression is known to have items."""
        if ast.unparse(node) in self._checked:
            return True
        if depth == _MOST:
            return False
        match node:
            case ast.Constant(value=str() | bytes() as value):
                return bool(value)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return self._one_is_there(items, depth)
            case ast.Dict(keys=keys, values=values):
                items = [key or ast.Starred(value) for key, value in zip(keys, values, strict=True)]
                return self._one_is_there(items, depth)
            case ast.Name(id=name) if name in self._values:
                return self.has_items(self._values[name], depth + 1)
            case ast.BinOp(left=left, op=ast.Add() | ast.BitOr(), right=right):
                return self.has_items(left, depth + 1) or self.has_items(right, depth + 1)
            case ast.Call():
                return self._call_has_items(node, depth + 1)
        if not isinstance(node, _COMPREHENSIONS):
            return False
        if any(each.ifs for each in node.generators):
            return False
        return all(self.has_items(each.iter, depth + 1) for each in node.generators)

    def _one_is_there(self, items: list[ast.expr], depth: int) -> bool:
        starred = [each.value for each in items if isinstance(each, ast.Starred)]
        if len(starred) < len(items):
            return True
        return any(self.has_items(each, depth + 1) for each in starred)

    def _call_has_items(self, call: ast.Call, depth: int) -> bool:
        match call:
            case ast.Call(func=ast.Name(id="some")):
                return True
            case ast.Call(func=ast.Name(id="range"), args=bounds):
                numbers = [each.value for each in bounds if isinstance(each, ast.Constant)]
                return len(numbers) == len(bounds) and bool(range(*numbers))  # type: ignore[arg-type]
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _KEEPING_METHODS:
                return self.has_items(value, depth)
            case ast.Call(
                func=ast.Name(id="zip" | "product" | "map" as name)
                | ast.Attribute(attr="map" as name),
                args=arguments,
            ):
                if name == "map":
                    arguments = arguments[1:]
                found = [self.has_items(each, depth) for each in arguments]
                if _is_strict(call):
                    return any(found)
                return bool(found) and False not in found
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if (
                name in _KEEPING
            ):
                return self.has_items(first, depth)
        return False

    def is_listing(self, node: ast.expr, depth: int = 0) -> bool:
        """Return whether an expression lists files."""
        if depth == _MOST:
            return False
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=arguments):
                if name in _LISTINGS:
                    return True
                if name not in _KEEPING:
                    return False
                return any(self.is_listing(each, depth + 1) for each in arguments)
            case ast.Name(id=name) if name in self._values:
                return self.is_listing(self._values[name], depth + 1)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return any(self.is_listing(each, depth + 1) for each in items)
            case ast.Starred(value=value):
                return self.is_listing(value, depth + 1)
        if isinstance(node, _COMPREHENSIONS):
            return any(self.is_listing(each.iter, depth + 1) for each in node.generators)
        return False


def _is_strict(call: ast.Call) -> bool:
    for each in call.keywords:
        if each.arg == "strict":
            return ast.unparse(each.value) == "True"
    return False


def _checked(test: ast.expr) -> Iterator[str]:
    """Yield the texts of what an assertion compares, or asks whether it has items."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            for each in values:
                yield from _checked(each)
        case ast.Compare(left=left, comparators=others):
            for each in (left, *others):
                for node in ast.walk(each):
                    if isinstance(node, ast.expr):
                        yield ast.unparse(node)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            yield ast.unparse(test)
        case ast.Call(func=ast.Name(id="len" | "any" | "bool"), args=[argument]):
            yield ast.unparse(argument)
            if isinstance(argument, _COMPREHENSIONS):
                yield ast.unparse(argument.generators[0].iter)
