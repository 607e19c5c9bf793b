"""Integer expressions of shapes and scalars, and their values in 64 bits."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from devmod._values.param import MAX_EXPRESSION, expression_text

#: An int, a name, or a tuple of an operator and its operands.
Expression = int | str | tuple[Any, ...]

COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: The most operands of an operator.
MAX_OPERANDS = 16
#: The bounds of each value.
LEAST = -(2**63)
MOST = 2**63 - 1


def _ceildiv(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


# Where to change: an operator of programs
#   also: the other readers: `extras/browser/js/src/expressions.js`, `tests/spec_reader.py`
#     (`OPERATORS`), `compilers/readers/c/devmod_reader.c`; for a word
#     `compilers/readers/src/devmod_readers/programs/_check.py` (`RESERVED`) and its copies in
#     `extras/browser/js/src/programchecks.js` and `tests/spec_reader.py`;
#     `compilers/targets/src/devmod_targets/_program_text.py` (`_BINARY`): how it is
#     written; `core/src/devmod/_values/param.py` (`INFIX`): how it is printed; `docs/formats.md`;
#     `extras/frameworks/src/devmod_frameworks/torch.py` (`_SYMBOLIC`), if PyTorch has another one
#     for symbols
#   tests: `tests/test_two_places.py`
#: The operators, as in Python. `min` and `max` take two to `MAX_OPERANDS` operands, the others two.
OPERATORS: Mapping[str, Callable[..., int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
    "ceildiv": _ceildiv,
}


class ExpressionError(ValueError):
    """An expression is invalid or has no value. The text is the reason, as a clause."""


def read_expression(value: object, depth: int = 0) -> Expression:
    """Return the expression that lists, texts and integers have.

    Raises
    ------
    ExpressionError
        They are no expression, or one that is nested too deep. The text is the end of a sentence.
    """
    if (type(value) is int and LEAST <= value <= MOST) or (type(value) is str and value):
        return value
    if (
        isinstance(value, (list, tuple))
        and len(value) > 2
        and type(value[0]) is str
        and value[0] in OPERATORS
    ):
        if depth >= MAX_EXPRESSION:
            raise ExpressionError(
                f"has an expression that is nested more than {MAX_EXPRESSION} deep"
            )
        if len(value) == 3 or (value[0] in ("min", "max") and len(value) <= 1 + MAX_OPERANDS):
            return (value[0], *[read_expression(each, depth + 1) for each in value[1:]])
    raise ExpressionError("has a value that is no integer expression")


def evaluate(
    expression: Expression,
    values: dict[Any, int],
    operators: Mapping[str, Callable[..., int]] = OPERATORS,
) -> int:
    """Return the value of an expression. `values` has those of the names, and gets that of each
    expression.

    With `operators` of a framework the values may be its symbols.

    Raises
    ------
    ExpressionError
        It divides by zero, or a value needs more than 64 bits.
    """
    if type(expression) is int:
        return expression
    known = values.get(expression)
    if known is not None:
        return known
    name, *operands = expression  # type: ignore[misc, str-unpack]  # a name always has a value
    numbers = [evaluate(each, values, operators) for each in operands]
    try:
        result = operators[name](*numbers)
    except ZeroDivisionError:
        raise ExpressionError(f"{expression_text(expression)} divides by zero") from None
    if isinstance(result, int) and not LEAST <= result <= MOST:
        raise ExpressionError(
            f"{expression_text(expression)} is {result}, which needs more than 64 bits"
        )
    values[expression] = result
    return result


def names_in(expression: Any) -> Iterator[str]:
    """Yield the names in an expression; none for another value."""
    if isinstance(expression, str):
        yield expression
    elif isinstance(expression, tuple):
        for each in expression[1:]:
            yield from names_in(each)
