"""The lengths of a program's arrays, for inputs from its declarations: those of the given arrays,
or small ones that it accepts.
"""

from __future__ import annotations

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
    from devmod_runtime._program.function import ProgramFunction

    #: A comparison of two expressions, as in `Program.requires`.
    Constraint = tuple[str, Any, Any]

#: The lengths that are tried, in this order.
_LENGTHS = tuple(
    dict.fromkeys(
        (16, 32, 64, 128, 256, 512, 1024, 8, 4, 2, 1, *range(1, 128), *range(128, 2048, 16))
    )
)


def known_lengths(
    function: ProgramFunction, values: Mapping[str, Any], lengths: dict[str, int]
) -> list[Constraint]:
    """Add the lengths of given arrays and of constants, and the given integers in expressions.
    Return what the other lengths must meet.
    """
    program = function.program
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
    return [("==", expected, length) for _, _, expected, length in bind_lengths(shapes, lengths)]


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

    All names get one number, the first that meets what the program requires. A name that an
    equation gives gets that number.

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
        if {*names_in(left), *names_in(right)} & {*names}:
            open_.append(each)
        if operator == "==":
            sides = ((left, right), (right, left))
            equations += [side for side in sides if side[0] in names]
    for number in _LENGTHS:
        values = {name: int(wanted.get(name, number)) for name in names} | lengths
        for name, expression in equations:
            values[name] = _value(expression, values) or values[name]
        if all(_holds(each, values) for each in open_):
            return values
    return None


def _positive_lengths(program: Program) -> Iterator[Constraint]:
    """Yield what the expressions in shapes must meet."""
    for array in program.arrays():
        for each in array.shape:
            if isinstance(each, tuple):
                yield ">=", each, 1


def _holds(constraint: Constraint, values: Mapping[str, int]) -> bool:
    operator, *sides = constraint
    one, two = (_value(each, values) for each in sides)
    return one is not None and two is not None and COMPARISONS[operator](one, two)


def _value(expression: Any, values: Mapping[str, int]) -> int | None:
    try:
        return evaluate(expression, dict(values))  # it adds the values of expressions
    except ExpressionError:
        return None
