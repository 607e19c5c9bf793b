"""The lengths of a program's arrays, for inputs from its declarations: those of the given arrays, or small ones that it accepts."""

from __future__ import annotations

from devmod.backend import expression_text
from devmod.errors import list_names
from devmod_readers.programs import COMPARISONS, Array, ExpressionError, Scalar, evaluate, names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod_readers.programs import Program
    from devmod_runtime._program.function import ProgramFunction

    #: A comparison of two expressions, as in `Program.requires`.
    Constraint = tuple[str, Any, Any]

#: The lengths that are tried, in this order, and how many combinations.
_LENGTHS, _MOST_TRIES = tuple(dict.fromkeys((16, 32, 64, 128, 256, 512, 1024, 8, 4, 2, 1, *range(1, 130)))), 20_000


def length_names(program: Program) -> list[str]:
    """Return the names that stand for lengths in the shapes of a program."""
    names = dict.fromkeys(name for array in program.arrays() for length in array.shape for name in names_in(length))
    return [each for each in names if each not in program.declared]


def shape_text(array: Array) -> str:
    """Return the shape as it is declared: ``[rows, columns + 1]``."""
    return f"[{', '.join(map(expression_text, array.shape))}]"


def bind_lengths(function: ProgramFunction, values: Mapping[str, Any], lengths: dict[str, int]) -> list[Constraint]:
    """Add the lengths of given arrays and of constants, and the given integers in expressions. Return what the other lengths must meet."""
    constraints: list[Constraint] = []
    for name, each in function.program.declared.items():
        if isinstance(each, Scalar) and name in function.sizes and type(number := values.get(name, each.default)) is int:
            lengths[name] = number
        value = values[name] if name in values else function.constants.get(name)
        if isinstance(each, Array) and value is not None:
            for expected, length in zip(each.shape, _lengths_of(each, value), strict=False):  # a call has the error of another rank
                if not isinstance(expected, str) or lengths.setdefault(expected, length) != length:
                    constraints.append(("==", expected, length))
    return constraints


def _lengths_of(array: Array, value: Any) -> Sequence[int]:
    shape: tuple[int, ...] = tuple(getattr(value, "shape", ()))
    if not array.format:
        return shape
    return shape[::-1] if hasattr(value, "layers") else shape[:2]  # an image has its width first, NumPy's array its height


def choose_lengths(
    function: ProgramFunction, lengths: dict[str, int], constraints: Iterable[Constraint], wanted: Mapping[str, float]
) -> dict[str, int] | None:
    """Return lengths, and integers in expressions, that a program accepts; None if none is found.

    Parameters
    ----------
    function
        The program.
    lengths, constraints
        The known ones, and those of `bind_lengths`.
    wanted
        The lengths to try first, by name.
    """
    program = function.program
    shapes = [each for array in program.arrays() for each in array.shape if isinstance(each, tuple)]
    names = [each for each in (*length_names(program), *function.sizes) if each not in lengths]
    pending = [*program.requires, *constraints, *((">=", each, 1) for each in shapes)]
    ready: list[list[Constraint]] = []  # of each name: those that have a value once it has one
    for name in names:
        later = {*names[len(ready) + 1 :]}
        ready.append([each for each in pending if name in (used := {*_names(each)}) and not used & later])
    values, tries = dict(lengths), 0
    choices: list[Iterator[int]] = []
    while len(choices) < len(names):
        name = names[len(choices)]
        first = (*_solutions(name, ready[len(choices)], values), int(wanted.get(name, _LENGTHS[0])))
        choices.append(iter(dict.fromkeys((*first, *_LENGTHS))))
        while choices:  # the next number of this name that the constraints allow, or else of one before
            place, tries = len(choices) - 1, tries + 1
            number = next(choices[-1], None)
            if tries > _MOST_TRIES or number is None:
                values.pop(names[place], None)
                choices.pop()
                continue
            values[names[place]] = number
            if all(_holds(each, values) for each in ready[place]):
                break
        if not choices:
            return None
    return values


def _names(constraint: Constraint) -> Iterator[str]:
    for each in constraint[1:]:
        yield from names_in(each)


def _solutions(name: str, constraints: Iterable[Constraint], values: Mapping[str, int]) -> Iterator[int]:
    """Yield the lengths that equations give to a name."""
    for operator, *sides in constraints:
        for one, two in (sides, sides[::-1]):
            if (
                operator == "=="
                and one == name
                and name not in names_in(two)
                and (number := _value(two, values)) is not None
                and number > 0
            ):
                yield number


def _holds(constraint: Constraint, values: Mapping[str, int]) -> bool:
    operator, *sides = constraint
    one, two = (_value(each, values) for each in sides)
    return one is not None and two is not None and COMPARISONS[operator](one, two)


def _value(expression: Any, values: Mapping[str, int]) -> int | None:
    try:
        return evaluate(expression, dict(values))  # it adds the values of expressions
    except ExpressionError:
        return None


def shape_of(function: ProgramFunction, array: Array, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """Return the lengths of an array.

    Raises
    ------
    ArgumentError
        A length is unknown, or an expression has no value.
    """
    names = dict.fromkeys(name for each in array.shape for name in names_in(each))
    if missing := [each for each in names if each not in lengths]:
        raise function.error(
            f"the shape of {array.name!r} is {shape_text(array)}: give {list_names(missing)}, as in {missing[0]}=1024", missing[0]
        )
    try:
        return tuple(evaluate(each, dict(lengths)) for each in array.shape)
    except ExpressionError as error:
        raise function.error(f"the shape of {array.name!r}: {error}", array.name) from None


def numbers_of(function: ProgramFunction, values: Mapping[str, Any]) -> dict[str, int]:
    """Return the lengths and the integers in expressions of a call."""
    lengths: dict[str, int] = {}
    bind_lengths(function, values, lengths)
    return lengths
