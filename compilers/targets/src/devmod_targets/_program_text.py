"""Parse the text of programs: declarations, steps and comparisons are Python's expressions, of
which a few forms are allowed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from devmod.backend import IMAGE_FORMATS, parse_dtype
from devmod.errors import FormatError, quote_name
from devmod_readers.programs import (
    COMPARISONS,
    MAX_EXPRESSION,
    Array,
    Expression,
    ExpressionError,
    Program,
    Repeat,
    Sampler,
    Scalar,
    Step,
    View,
    read_expression,
)

Declared = Array | Scalar | Sampler
#: Gets the key, the index and the text of a mistake.
_Report = Callable[[str, int, str], None]
KIND = "program"
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARISONS = dict(
    zip((ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE), COMPARISONS, strict=True)
)
_LAUNCH = ("grid", "threads", "block")
#: A comparison with its operands.
Comparison = tuple[str, Expression, Expression]
# Where to change: a key of programs
#   here: `_ROLES` parses it; `compilers/readers/src/devmod_readers/programs/` (`_model.py`,
#     `_wire.py`, `_check.py`)
#   also: `core/src/devmod/_modules/compile.py` (`program`): the parameter; `docs/programs.md`,
#     `docs/formats.md`; `plugins/runtime/src/devmod_runtime/_program/plan.py`: what a call does
#     with it
#   tests: `tests/test_two_places.py`, `compilers/targets/tests/test_programs.py`,
#     `tests/test_program_calls.py`
#: The roles of the declared arrays by their key.
_ROLES = {
    "inputs": "input",
    "outputs": "output",
    "updates": "update",
    "temporaries": "temporary",
    "constants": "constant",
    "states": "state",
}
#: The most characters of a declaration or a step.
_MAX_TEXT = 100_000
#: What a list of steps has, for errors.
STEPS = "text, a devmod.step or a devmod.repeat"


class Problem(ValueError):
    """What is wrong with a text, as the end of a sentence that begins with it."""


class Repeated(NamedTuple):
    """Steps that run several times.

    Attributes
    ----------
    count
        The number of turns: an int, or an expression as text.
    name
        The name of the number of the turn.
    steps
        The steps: texts, `Step` and `Repeated`.
    """

    count: Any
    name: str
    steps: tuple[Any, ...]


def parse_program(
    name: str,
    steps: Iterable[str | Step | Repeated],
    declared: Mapping[str, Iterable[str]],
    backward: str,
    report: _Report,
) -> Program:
    """Return the program of a text. `report` gets the key, the index and the text of each mistake;
    the index of a step counts those in repeats. The names are not checked.
    """
    if not isinstance(name, str):
        raise FormatError(
            f"the name of a program is a string, not {type(name).__name__}", kind=KIND
        )
    if not isinstance(backward, str):
        raise program_error(
            name, f"backward: expected the name of a program, got {type(backward).__name__}"
        )
    names = {}
    requires = []
    for key, texts in declared.items():
        for number, text in enumerate(_texts(name, key, texts)):
            try:
                if key == "requires":
                    requires += parse_comparisons(text)
                    continue
                each: Declared
                if key == "samplers":
                    each = _sampler(text)
                else:
                    each = _declaration(text, _ROLES[key])
            except Problem as problem:
                report(key, number, f"{quote_name(text)} {problem}")
                continue
            if each.name in names:
                report(key, number, f"{quote_name(each.name)} is declared twice")
            names[each.name] = each
    given = _texts(name, "steps", steps, (str, Step, Repeated), STEPS)
    result: list[Step] = []
    repeats: list[Repeat] = []
    _add_steps(given, result, repeats, report)
    return Program(name, names, tuple(requires), tuple(result), backward, repeats=tuple(repeats))


def _add_steps(
    given: Iterable[Any],
    steps: list[Step],
    repeats: list[Repeat],
    report: _Report,
) -> None:
    """Add the steps of a text, with those of its repeats."""
    for each in given:
        number = len(steps)
        if isinstance(each, Repeated):
            place = len(repeats)  # one within it is behind it
            repeats.append(Repeat(number, number, 0, each.name))
            _add_steps(each.steps, steps, repeats, report)
            try:
                count = parse_integer(each.count)
            except Problem as problem:
                report("steps", number, f"the count of its repeat: {problem}")
                continue
            if len(steps) == number:
                report("steps", number, f"the repeat of {quote_name(each.name)} has no steps")
            repeats[place] = Repeat(number, len(steps), count, each.name)
            continue
        step = Step("", {})
        try:
            step = each if isinstance(each, Step) else _step(each)
        except Problem as problem:
            report("steps", number, f"{quote_name(each)} {problem}")
        steps.append(step)


def _texts(
    name: str, key: str, texts: Any, types: tuple[type, ...] = (str,), expected: str = "text"
) -> list[Any]:
    try:
        return list_of(texts, types, expected)
    except Problem as problem:
        raise program_error(name, f"{key}: {problem}") from None


def list_of(values: Any, types: tuple[type, ...], expected: str) -> list[Any]:
    """Return values of some types; one alone is a list of it."""
    if isinstance(values, (str, Repeated, Step)):
        values = [values]
    if not isinstance(values, Iterable):
        raise Problem(f"expected a list of texts, got {type(values).__name__}")
    result = list(values)
    for each in result:
        if not isinstance(each, types):
            raise Problem(f"expected {expected}, got {type(each).__name__}")
    return result


def _tree(text: str, mode: str) -> Any:
    if len(text) > _MAX_TEXT:
        raise Problem(f"has {len(text)} characters, and the maximum is {_MAX_TEXT}")
    try:
        return ast.parse(text.strip(), mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = getattr(error, "msg", "") or str(error) or "it is nested too deep"
        raise Problem(f"cannot be read: {why}") from None


def _declaration(text: str, role: str) -> Array | Scalar:
    expected = "is no declaration; expected one such as 'x: float32[rows, columns]'"
    body = _tree(text, "exec").body
    node = body[0] if len(body) == 1 else None
    if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
        raise Problem(expected)
    name = node.target.id
    annotation = node.annotation
    default, initial = _first_value(node.value, role)
    if isinstance(annotation, ast.Name):
        if role != "input":
            raise Problem("has no shape; only an input is a number")
        return Scalar(name, annotation.id, default)
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.value, ast.Name):
        raise Problem(expected)
    if default is not None:
        _check_first_value(role, default)
    elif role == "state" and not initial:
        raise Problem(
            "has no first value; a state begins as = 0, or as a constant of its type and shape"
        )

    lengths = [annotation.slice]
    if isinstance(annotation.slice, ast.Tuple):
        lengths = annotation.slice.elts
    shape = tuple(map(_expression, lengths))
    type_ = annotation.value.id
    is_cleared = default is not None and role != "state"
    if type_ in IMAGE_FORMATS:
        return Array(name, role, IMAGE_FORMATS[type_].dtype, shape, type_, is_cleared)
    _check_type(type_)
    return Array(name, role, type_, shape, cleared=is_cleared, initial=initial)


def _check_type(type_: str) -> None:
    try:
        parse_dtype(type_)
    except FormatError:
        raise Problem(
            f"has the type {type_!r}, which is neither an element type nor the format of an image"
        ) from None


def _first_value(node: Any, role: str) -> tuple[bool | int | float | None, str]:
    """Return the number, or the name of a constant, in a declaration."""
    if role == "state" and isinstance(node, ast.Name):
        return None, node.id
    if node is None:
        return None, ""
    return _literal(node), ""


def _check_first_value(role: str, value: bool | int | float) -> None:
    """Raise Problem for an array whose first value is not 0."""
    is_zero = value == 0 and not isinstance(value, bool)
    if role not in ("output", "temporary", "state") or not is_zero:
        raise Problem(
            "has a value; of the arrays, only outputs, temporaries and states have one, which is 0"
        )


def _sampler(text: str) -> Sampler:
    name, mark, options = text.partition(":")
    words = options.split()
    if not mark or len(words) != 2:
        raise Problem("is no sampler; expected one such as 'linear: linear clamp'")
    return Sampler(name.strip(), *words)


def parse_comparisons(text: str) -> list[Comparison]:
    """Return the comparisons in a text, each with its operands. Raise ValueError with the end of a
    sentence for another text.
    """
    node = _tree(text, "eval").body
    if not isinstance(node, ast.Compare) or not _COMPARISONS.keys() >= set(map(type, node.ops)):
        raise Problem("is no comparison; expected one such as 'columns % 4 == 0'")
    operands = list(map(_expression, (node.left, *node.comparators)))
    names = [_COMPARISONS[type(each)] for each in node.ops]
    return list(zip(names, operands, operands[1:], strict=False))


def _step(text: str) -> Step:
    node = _tree(text, "eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        expected = "expected a call such as 'scale(x=x, y=y, threads=n)', or devmod.step(…) for a kernel whose name is no identifier"
        raise Problem(f"is no step; {expected}")
    if node.args:
        raise Problem("gives an argument by position; give all by name")
    arguments = {}
    launch = {}
    for each in node.keywords:
        if each.arg is None:
            raise Problem("has **, which a step cannot have")
        if each.arg in launch or each.arg in arguments:
            raise Problem(f"gives {each.arg!r} twice")
        if each.arg in _LAUNCH:
            dims = [each.value]
            if isinstance(each.value, ast.Tuple):
                dims = each.value.elts
            launch[each.arg] = tuple(map(_expression, launch_dims(each.arg, dims)))
        else:
            arguments[each.arg] = _value(each.value)
    return Step(node.func.id, arguments, **launch)


def _value(node: Any) -> Any:
    """Return the argument of a step: a name, a view, an expression, or a literal."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if is_method and node.func.attr == "view":
        names = [each.id for each in (node.func.value, *node.args) if isinstance(each, ast.Name)]
        if len(names) != 2 or node.keywords or len(node.args) > 1:
            raise Problem(
                f"has {_text_of(node)!r}; a view is of an array, as one type of elements, such as x.view(uint32)"
            )
        return View(*names)
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        try:
            return _literal(node)
        except Problem:
            pass
    return _expression(node)


def _literal(node: Any) -> bool | int | float:
    is_negative = False
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        is_negative = isinstance(node.op, ast.USub)
        node = node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = -node.value if is_negative else node.value
        if type(value) is not int or _is_integer(value):
            return value
    raise Problem("has a value that is no number of 64 bits, True or False")


def _is_integer(value: Any) -> bool:
    try:
        return type(value) is int and read_expression(value) == value
    except ExpressionError:
        return False


def _expression(node: Any, depth: int = 0) -> Expression:
    if depth > MAX_EXPRESSION:
        raise Problem(f"has an expression that is nested more than {MAX_EXPRESSION} deep")
    if isinstance(node, ast.Name):
        return node.id
    result: Any = None
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        try:
            result = _literal(node)
        except Problem:
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                result = ("-", 0, _expression(node.operand, depth + 1))
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left = _expression(node.left, depth + 1)
        right = _expression(node.right, depth + 1)
        result = (_BINARY[type(node.op)], left, right)
    elif _called(node) in ("min", "max", "ceildiv"):
        result = (node.func.id, *(_expression(each, depth + 1) for each in node.args))
    try:
        return read_expression(result, depth)
    except ExpressionError:
        known = "integers of 64 bits, names, + - * // %, min, max and ceildiv"
        raise Problem(
            f"has {_text_of(node)!r}, which no expression has; expected {known}"
        ) from None


def _called(node: Any) -> str:
    """Return the name in a call without keywords; "" for another node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return node.func.id
    return ""


def _text_of(node: Any) -> str:
    try:
        return ast.unparse(node)[:60]
    except RecursionError:
        return type(node).__name__


def argument_value(value: Any) -> Any:
    """Return the argument of a `devmod.step`."""
    if isinstance(value, str):
        try:
            return _value(_tree(value, "eval").body)
        except Problem as problem:
            raise Problem(f"{quote_name(value)} {problem}") from None
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()  # a number of NumPy
    if type(value) in (bool, float) or _is_integer(value):
        return value
    raise Problem(
        f"expected a number of 64 bits, or a name or an expression as text, got {value!r:.60}"
    )


def launch_dims(word: str, value: Any) -> Sequence[Any]:
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    if not 1 <= len(values) <= 3:
        raise Problem(f"has {word}= with {len(values)} values; expected one to three")
    return values


def parse_integer(value: Any) -> Expression:
    """Return the expression that a text or an int is. Raise ValueError with a sentence or its end
    for another value.
    """
    result = argument_value(value)
    if type(result) in (bool, float):
        raise Problem(f"expected an integer or an expression, got {value!r}")
    expression: Expression = result
    return expression


def program_error(name: str, text: str, place: str = "") -> FormatError:
    subject = f"the program {quote_name(name)}"
    if place:
        subject += f", {place}"
    return FormatError(f"{subject}: {text}", kind=KIND, function=name)
