"""The lengths of a program's arrays, for inputs from its declarations: those of the given arrays,
or small ones that it accepts.
"""

from __future__ import annotations

from contextlib import suppress

from devmod_readers.programs import (
    COMPARISONS,
    Array,
    ExpressionError,
    bind_lengths,
    evaluate,
    names_in,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod_readers.programs import Program
    from devmod_runtime import ProgramFunction

    #: A comparison of two expressions, as in `Program.requires`.
    Constraint = tuple[str, Any, Any]

#: The lengths that are tried, in this order.
_LENGTHS = tuple(
    dict.fromkeys(
        (16, 32, 64, 128, 256, 512, 1024, 8, 4, 2, 1, *range(1, 128), *range(128, 2048, 16))
    )
)


def known_lengths(
    function: ProgramFunction, values: Mapping[str, Any], stated: Mapping[str, int]
) -> tuple[dict[str, int], list[Constraint]]:
    """Return the stated lengths, those of given arrays and of constants, and the given integers in
    expressions; and what the other lengths must meet.
    """
    program = function.program
    lengths = dict(stated)
    values = {**function.constants, **values}
    for each in program.scalars:
        number: Any = values.get(each.name, each.default)
        if each.name in function.sizes and hasattr(number, "__index__"):
            lengths[each.name] = int(number)
    shapes = []
    for array in program.arrays():
        value = values.get(array.name)
        if value is not None:
            shapes.append((array, array.shape, _lengths_of(array, value)))
    found = bind_lengths(shapes, lengths)
    return lengths, [("==", expected, length) for _, _, expected, length in found]


def _lengths_of(array: Array, value: Any) -> Sequence[int]:
    shape = tuple(getattr(value, "shape", ()))
    if not array.format:
        return shape
    if hasattr(value, "layers"):
        return shape[::-1]  # an image has its width first, NumPy's array its height
    return shape[:2]


def choose_lengths(
    function: ProgramFunction,
    lengths: dict[str, int],
    constraints: Iterable[Constraint],
    wanted: Mapping[str, float],
) -> dict[str, int] | None:
    """Return lengths, and integers in expressions, that a program accepts; None if none is found.

    All names get one number, the first that meets what the program requires. If none does, a name
    for which the number is wrong alone, such as 16 for ``batch <= 8``, gets the first that is not.
    A name that an equation gives gets that number.

    Parameters
    ----------
    function
        The program.
    lengths, constraints
        The known ones, and those of `known_lengths`.
    wanted
        The lengths to try first, by name.
    """
    program = function.program
    needed = [*program.requires, *constraints, *_positive_lengths(program)]
    names = [each for each in (*program.length_names, *function.sizes) if each not in lengths]
    equations = []
    # The call has the error of what known lengths do not meet.
    open_ = []
    for each in needed:
        operator, left, right = each
        if _names_of(each) & {*names}:
            open_.append(each)
        if operator == "==":
            sides = ((left, right), (right, left))
            equations += [side for side in sides if side[0] in names]
    for numbers in _numbers(names, open_, lengths):
        values = {name: int(wanted.get(name, number)) for name, number in numbers.items()} | lengths
        for name, expression in equations:
            with suppress(ExpressionError):
                values[name] = _value(expression, values) or values[name]
        if all(_holds(each, values) for each in open_):
            return values
    return None


def _numbers(
    names: Sequence[str], constraints: Sequence[Constraint], lengths: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Yield numbers for names: one for all, then those that each name accepts alone."""
    for number in _LENGTHS:
        yield dict.fromkeys(names, number)

    accepted = {}
    for name in names:
        alone = [each for each in constraints if _names_of(each) - lengths.keys() == {name}]
        accepted[name] = [
            number
            for number in _LENGTHS
            if all(_holds(each, {**lengths, name: number}) for each in alone)
        ]
    if not all(accepted.values()):
        return
    for number in _LENGTHS:
        yield {
            name: number if number in numbers else numbers[0] for name, numbers in accepted.items()
        }


def _names_of(constraint: Constraint) -> set[str]:
    _, left, right = constraint
    return {*names_in(left), *names_in(right)}


def _positive_lengths(program: Program) -> Iterator[Constraint]:
    """Yield what the expressions in shapes must meet."""
    for array in program.arrays():
        for each in array.shape:
            if isinstance(each, tuple):
                yield ">=", each, 1


def _holds(constraint: Constraint, values: Mapping[str, int]) -> bool:
    operator, *sides = constraint
    try:
        return COMPARISONS[operator](*(_value(each, values) for each in sides))
    except ExpressionError:
        return False


def _value(expression: Any, values: Mapping[str, int]) -> int:
    return evaluate(expression, dict(values))  # it adds the values of expressions
