"""A program: its arrays, scalars and samplers, and its steps."""

from __future__ import annotations

import math
import struct
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from devmod.backend import IMAGE_FORMATS, Expression, array_bytes, names_in, parse_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from devmod.backend import ImageFormat

#: The most steps of a program.
MAX_STEPS = 65_536
#: The most repeats, and the most of them around one step.
MAX_REPEATS = 65_536
MAX_NESTED = 8
#: The most launches of a call, with those of all turns.
MAX_LAUNCHES = 2**20
#: The name in a program's `needs` of repeats.
REPEAT = "repeat"
#: The most arrays, scalars and samplers.
MAX_DECLARED = 65_536
#: The most dimensions of an array.
MAX_RANK = 16
#: The most arguments of a step.
MAX_ARGUMENTS = 1024
#: The most temporaries: each is compared with the others to share their memory.
MAX_TEMPORARIES = 4096
#: The formats of Python's struct for floats.
FLOATS = {"float16": "<e", "float32": "<f", "float64": "<d"}
#: The roles of arrays, each with the access of the program. Those before `temporary` are arguments
#: of a call.
ROLES = {
    "input": "r",
    "output": "w",
    "update": "rw",
    "temporary": "rw",
    "constant": "r",
    "state": "rw",
}
#: The roles whose shapes bind names.
BINDING = ("input", "update", "constant", "state")


#: The lengths of an array, or the numbers of a launch.
Dims: TypeAlias = "tuple[Expression, ...]"
Repeats: TypeAlias = "tuple[Repeat, ...]"


class Array(NamedTuple):
    """An array, or an image of two dimensions.

    Attributes
    ----------
    name, role
        Its name, and "input", "output", "update", "temporary", "constant" or "state".
    type
        The element type; that of the image's NumPy array.
    shape
        The lengths of its dimensions; of an image (height, width).
    format
        The format of an image; "" for an array.
    cleared
        Whether it is zero at the start of each call: an output, also one that the call gives, or a
        temporary.
    initial
        The constant with the first values of a state; "" for zeros.
    original
        The name of a constant in the model from which the program was made; "" if its value was
        computed then, None if it is its name here.
    """

    name: str
    role: str
    type: str
    shape: Dims
    format: str = ""
    cleared: bool = False
    initial: str = ""
    original: str | None = None

    @property
    def texel(self) -> ImageFormat | None:
        """The format of an image; None for an array."""
        if not self.format:
            return None
        return IMAGE_FORMATS[self.format]

    def nbytes(self, lengths: Sequence[int]) -> int:
        """Return its size in bytes for the lengths of its dimensions."""
        if self.texel:
            return math.prod(lengths) * self.texel.texel_bytes
        return array_bytes(parse_dtype(self.type), lengths)


class Scalar(NamedTuple):
    """A number of the call. `default` is None without one."""

    name: str
    type: str
    default: bool | int | float | None = None

    @property
    def is_integer(self) -> bool:
        """Whether it may stand in expressions."""
        return "int" in self.type

    def rounded(self, value: Any) -> Any:
        """Return a number as the value that it has in the type, which is that of a float. Other
        types have the same value. Raise OverflowError for a finite number that is too large.
        """
        if self.type not in FLOATS and self.type != "bfloat16":
            return value
        value = float(value)  # of an int the struct module raises other errors
        if self.type in FLOATS:
            return struct.unpack(FLOATS[self.type], struct.pack(FLOATS[self.type], value))[0]
        if not math.isfinite(value):
            return value
        # The exponent of the last of its eight digits.
        last = max(math.frexp(value)[1], -125) - 8
        result = math.copysign(math.ldexp(round(math.ldexp(value, -last)), last), value)
        if abs(result) >= 2**128:
            raise OverflowError("float too large for bfloat16")
        return result


class Sampler(NamedTuple):
    """A sampler, with the options of `Device.sampler`."""

    name: str
    filter: str
    address: str


class View(str):
    """The name of an array whose bytes a step gives as one dimension of elements of another
    type.
    """

    type: str

    def __new__(cls, name: str, type_: str) -> Self:
        result = super().__new__(cls, name)
        result.type = type_
        return result

    def __str__(self) -> str:
        return f"{self[:]}.view({self.type})"


class Step(NamedTuple):
    """A launch.

    Attributes
    ----------
    kernel
        The kernel's name.
    arguments
        From the name of a parameter to a name of the program, a view, an expression, or a literal
        float or bool.
    grid, threads, block
        The launch in x, y, z; () where it is not given.
    """

    kernel: str
    arguments: dict[str, Any]
    grid: Dims = ()
    threads: Dims = ()
    block: Dims = ()


class Repeat(NamedTuple):
    """Steps that run several times, in turns.

    Attributes
    ----------
    first, end
        The number of its first step, from 0, and that of the step behind its last one.
    turns
        The number of turns.
    name
        The name of the number of the turn, from 0, in the arguments of these steps.
    """

    first: int
    end: int
    turns: Expression
    name: str


Declared = Array | Scalar | Sampler
#: An operator and two expressions.
Comparison = tuple[str, "Expression", "Expression"]


class Program(NamedTuple):
    """A program.

    Attributes
    ----------
    name
        Its name.
    declared
        Its arrays, scalars and samplers by name, in their order.
    requires
        Comparisons, each an operator and two expressions.
    steps
        Its launches.
    backward
        The name of the program of the gradients; "" without one.
    folded
        The digests of constants of the model whose values are in kernels or in computed constants,
        by their names in the model.
    repeats
        The steps that run several times, by their first step. One within another one is behind it.
    """

    name: str
    declared: dict[str, Declared]
    requires: tuple[Comparison, ...]
    steps: tuple[Step, ...]
    backward: str = ""
    folded: Mapping[str, str] = MappingProxyType({})
    repeats: Repeats = ()

    def arrays(self, *roles: str) -> Iterator[Array]:
        """Yield the arrays of some roles, or all, in their order."""
        for each in self.declared.values():
            if isinstance(each, Array) and (not roles or each.role in roles):
                yield each

    @property
    def scalars(self) -> list[Scalar]:
        """The scalars in their order."""
        return [each for each in self.declared.values() if isinstance(each, Scalar)]

    @property
    def arguments(self) -> list[Array | Scalar]:
        """What a call takes, in order: inputs without a default, updates, and scalars with a
        default.
        """
        given: list[Array | Scalar] = []
        defaults = []
        for each in self.declared.values():
            if isinstance(each, Scalar) and each.default is not None:
                defaults.append(each)
            elif isinstance(each, Scalar) or (isinstance(each, Array) and each.role == "input"):
                given.append(each)
        return [*given, *self.arrays("update"), *defaults]

    @property
    def size_names(self) -> set[str]:
        """The names of the integer scalars in its expressions, by which its shapes and its launches
        differ.
        """
        integers = {each.name for each in self.scalars if each.is_integer}
        names: set[str] = set()
        for expression in self._expressions():
            names.update(names_in(expression))
        return integers & names

    def _expressions(self) -> Iterator[Expression]:
        for array in self.arrays():
            yield from array.shape
        for _, left, right in self.requires:
            yield left
            yield right
        for repeat in self.repeats:
            yield repeat.turns
        for step in self.steps:
            yield from step.grid
            yield from step.threads
            yield from step.block
            for value in step.arguments.values():
                if isinstance(value, tuple):
                    yield value

    @property
    def length_names(self) -> list[str]:
        """The names in the shapes of its arrays, without integer scalars."""
        names: dict[str, None] = {}
        for array in self.arrays():
            for length in array.shape:
                names |= dict.fromkeys(names_in(length))
        return [each for each in names if each not in self.declared]

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels, sorted."""
        return sorted({step.kernel for step in self.steps})

    def repeats_of_steps(self) -> list[Repeats]:
        """Return for each step the repeats around it, the outermost first."""
        result: list[Repeats] = []
        around: list[Repeat] = []
        following = list(reversed(self.repeats))
        for number in range(len(self.steps)):
            while around and around[-1].end <= number:
                around.pop()
            while following and following[-1].first <= number:
                around.append(following.pop())
            result.append(tuple(around))
        return result

    def lifetimes(self) -> dict[str, tuple[int, int]]:
        """Return the first and the last step of each temporary, from 0. What a repeat uses lives in
        all of its turns.
        """
        names = {each.name for each in self.arrays("temporary")}
        result: dict[str, tuple[int, int]] = {}
        around = self.repeats_of_steps()
        for number, step in enumerate(self.steps):
            first = last = number
            if around[number]:
                outermost = around[number][0]
                first = outermost.first
                last = outermost.end - 1
            for value in step.arguments.values():
                if isinstance(value, str) and value in names:
                    result[value] = result.get(value, (first, last))[0], last
        return result


def bind_lengths(
    shapes: Iterable[tuple[Array, Sequence[Expression], Sequence[Any]]], values: dict[Any, Any]
) -> list[tuple[Array, int, Expression, Any]]:
    """Give the names that stand alone in shapes a value in `values`, unless they have one.

    Parameters
    ----------
    shapes
        Each an array, its declared lengths and those of a call.
    values
        The values of the names; they may be symbols.

    Returns
    -------
    list
        What is to compare: an array, the place of a dimension, the declared length and that of the
        call.
    """
    result: list[tuple[Array, int, Expression, Any]] = []
    for array, declared, given in shapes:
        # The call has the error of another rank.
        for place, (length, value) in enumerate(zip(declared, given, strict=False)):
            if isinstance(length, str) and length not in values:
                values[length] = value
            else:
                result.append((array, place, length, value))
    return result
