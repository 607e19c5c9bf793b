"""The programs of a module as frameworks see them: what a call takes and returns, and the shapes of
the results. No device is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import devmod
from devmod.backend import expression_text, read_program, walk
from devmod.errors import ArgumentError, FormatError, list_names, pip_install, quote_name
from devmod_readers.programs import (
    COMPARISONS,
    OPERATORS,
    Array,
    ExpressionError,
    Scalar,
    bind_lengths,
    constant_of,
    evaluate,
    gradient_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_readers.programs import Expression, Gradient

#: Raises an error with the text unless the condition is true. A framework's own may record a
#: symbolic condition.
Check = Callable[[Any, Callable[[], str]], None]


class Program:
    """A program of a module.

    Attributes
    ----------
    name, place
        Its name, and the file that it is from, for messages.
    arguments : list
        What a call takes in order: each a `devmod_readers.programs.Array` (role "input" or
        "update") or a Scalar.
    arrays, outputs : list
        The arrays among them, and the outputs.
    scalars : list
        The scalars among the arguments.
    sizes : set of str
        The integer scalars that shapes and launches depend on.
    has_images
        Whether an argument or an output is an image. Its array has the shape (height, width), with
        the channels if it has several.
    definition : devmod_readers.programs.Program
        Its declarations and steps.
    """

    def __init__(self, module: devmod.Module, owner: devmod.Module, name: str) -> None:
        self._module = module
        self.name = name
        self.place = str(getattr(owner, "place", "a module in memory"))
        program = self.definition = read_program(name, owner)
        self.arguments: list[Array | Scalar] = program.arguments
        self.arrays = [each for each in self.arguments if isinstance(each, Array)]
        self.scalars = [each for each in self.arguments if isinstance(each, Scalar)]
        self.outputs: list[Array] = [*program.arrays("output")]
        self.sizes: set[str] = program.size_names
        self.has_images = any(each.format for each in (*self.arrays, *self.outputs))
        if any(program.arrays("state")):
            raise self.format_error(
                "it has a state, which no framework keeps: declare the arrays as updates, or call the program itself"
            )
        self._requires = program.requires
        self._constants = [*program.arrays("constant")]
        self._bound = [*self.arrays, *self._constants]
        self._constant_shapes = [
            constant_of(program, each, owner.imports).shape for each in self._constants
        ]
        names = [each.name for each in (*self.arguments, *self.outputs)]
        for each in (name, *names):
            # `read_program` has refused what is no identifier of Python.
            if not each.isascii() or each.startswith("__"):
                raise self.format_error(
                    f"the name {quote_name(each)} begins with two underscores, or has characters that are not ASCII: no framework takes it"
                )

    def gradient(self, programs: Mapping[str, Program]) -> Gradient | None:
        """Return its gradient among the programs of the module; None without one. FormatError if
        that is none.
        """
        backward = self.definition.backward
        if not backward:
            return None
        definition = None
        if backward in programs:
            definition = programs[backward].definition
        return gradient_of(self.definition, definition)

    def function(self, device: Any = None) -> Any:
        """Return the program on a device; by default, on the one that the file chooses. Call the
        result with arrays and scalars.
        """
        function: Any = self._module[self.name]
        if device is None:
            return function
        return function.on(device)

    def error(self, text: str, argument: str = "") -> ArgumentError:
        """Return the error of a call."""
        return ArgumentError(
            f"the program {self.name!r}: {text}",
            kind="program",
            function=self.name,
            argument=argument,
        )

    def format_error(self, text: str) -> FormatError:
        """Return the error of a program that a framework cannot have."""
        return FormatError(
            f"the program {quote_name(self.name)} of {self.place}: {text}",
            kind="program",
            function=self.name,
        )

    def check_array(self, array: Array, dtype: str, shape: Sequence[Any], advice: str) -> None:
        """Raise ArgumentError unless the element type and the number of dimensions are those that
        an array has.

        Parameters
        ----------
        dtype
            The name of the element type, such as "float32".
        advice
            How to convert an array, for the message: ``"x.to(torch.float32)"``.
        """
        if dtype != array.type:
            raise self.error(
                f"the argument {array.name!r} is an array of {dtype}; expected {array.type}: {advice}",
                array.name,
            )
        if len(shape) != rank_of(array):
            raise self.error(
                f"the argument {array.name!r} has {len(shape)} dimensions; expected {rank_of(array)}",
                array.name,
            )

    def output_shapes(
        self,
        shapes: Sequence[Sequence[Any]],
        scalars: Mapping[str, Any],
        check: Check | None = None,
        operators: Mapping[str, Callable[..., Any]] = OPERATORS,
    ) -> list[tuple[Any, ...]]:
        """Return the shape of each output, and check the shapes of the arguments. The lengths are
        integers or symbols.

        Parameters
        ----------
        shapes
            The shape of each of `arrays`, with the right number of dimensions.
        scalars
            The values of at least `sizes`.
        check
            Checks a condition. Default: raises ArgumentError.
        operators
            The functions of ``+ - * // % min max ceildiv``.
        """
        check = check or self._check
        values: dict[str, Any] = {name: scalars[name] for name in self.sizes}
        bound = zip(
            self._bound, map(_lengths, self._bound), [*shapes, *self._constant_shapes], strict=True
        )
        for array, place, length, given in bind_lengths(bound, values):
            value = self._value(length, values, operators)
            check(
                value == given,
                lambda array=array, place=place, length=length, given=given, value=value: (  # type: ignore[misc]
                    f"dimension {place + 1} of the argument {array.name!r} is {given}, and expected is {expression_text(length)}, "
                    f"which is {value}"
                ),
            )
        for name, one, other in self._requires:
            left = self._value(one, values, operators)
            right = self._value(other, values, operators)
            text = f"it requires {expression_text(one)} {name} {expression_text(other)}"
            check(COMPARISONS[name](left, right), lambda text=text: text)  # type: ignore[misc]
        results = []
        for array in self.outputs:
            lengths = tuple(self._value(each, values, operators) for each in _lengths(array))
            for length, result in zip(array.shape, lengths, strict=False):
                is_of_an_array = isinstance(length, str) and length not in self.sizes
                if not isinstance(length, int) and not is_of_an_array:
                    check(
                        result >= 0,
                        lambda array=array, lengths=lengths: (  # type: ignore[misc]
                            f"the shape of {array.name!r} is {lengths}"
                        ),
                    )
            results.append(lengths)
        return results

    def _check(self, condition: bool, text: Callable[[], str]) -> None:
        if not condition:
            raise self.error(text())

    def _value(
        self,
        expression: Expression,
        values: dict[str, Any],
        operators: Mapping[str, Callable[..., Any]],
    ) -> Any:
        try:
            return evaluate(expression, values, operators)
        except ExpressionError as problem:
            raise self.error(str(problem)) from None


def _device(identity: tuple[Any, ...]) -> str:
    """Return the device in an identity of a file, for messages."""
    if identity[1]:
        return f"the device {identity[1]}"
    return "the default device"


def new_programs(
    known: Mapping[str, tuple[str, object]],
    programs: Mapping[str, Program],
    identity: object,
    exists: Callable[[str], bool],
    where: str,
) -> list[str]:
    """Return the names of the programs that are not registered under a namespace.

    Parameters
    ----------
    known
        The place and the identity of the file of each program that is registered there.
    programs, identity
        The programs of a file; and what two loads of it have in common, the device and the other
        options.
    exists
        Whether the framework has something of a name there.
    where
        The namespace, for messages: "torch.ops.mylib".

    Raises
    ------
    ArgumentError
        Another file, or another library, has such a name there.
    """
    for name, program in programs.items():
        place, other = known.get(name, ("", None))
        if other is not None and other != identity:
            text = f"{program.place} has a program {name!r}, and so has {place}, whose programs, or other options, are registered there"
            if (
                isinstance(other, tuple)
                and isinstance(identity, tuple)
                and other[0] == identity[0]
                and other[1] != identity[1]
            ):
                text = f"the program {name!r} of {place} is registered there for {_device(other)}, and this call has {_device(identity)}"
            raise ArgumentError(
                f"register: {text}. Give the file another namespace than {where!r}",
                argument="namespace",
            )
        if other is None and exists(name):
            text = f"{where} has a {name!r} that is not of devmod"
            raise ArgumentError(
                f"register: {text}. Give {program.place} another namespace", argument="namespace"
            )
    return [name for name in programs if name not in known]


def programs_of(module: devmod.Module) -> dict[str, Program]:
    """Return the programs of a module by name.

    Raises
    ------
    FormatError
        It has none, one is invalid, or one has a name that is not an identifier.
    """
    if not isinstance(module, devmod.Module):
        raise ArgumentError(
            f"expected a module, such as devmod.load(path) returns, got {type(module).__name__}",
            argument="module",
        )
    result: dict[str, Program] = {}
    for owner in walk(module):
        if owner.kind == "program":
            for name in owner.function_names:
                if name not in result:
                    result[name] = Program(module, owner, name)
    if not result:
        kernels = f"it has the kernels {list_names(list(module))}, and " if len(module) else ""
        raise FormatError(
            f"the module has no programs: {kernels}only a program declares its results (devmod.program)",
            kind=module.kind,
        )
    return result


def rank_of(array: Array) -> int:
    """Return the number of dimensions of an array, or of the array with the pixels of an image."""
    return len(_lengths(array))


def identity_of(module: devmod.Module) -> str:
    """Return the digest of the modules of a file, which two loads of it have in common."""
    digest = sha256()
    for each in walk(module):
        if each.kind not in ("bundle", "_lib"):  # nodes without bytes
            digest.update(
                getattr(getattr(each, "entry", None), "digest", b"")
                or sha256(each.save_to_bytes()).digest()
            )
    return digest.hexdigest()


def not_importable(name: str, packages: str, error: ImportError) -> ImportError:
    """Return the error of a module of this package whose framework cannot be imported, with the
    command that installs it.
    """
    text = f"devmod_frameworks.{name} cannot import its framework: {error}. To add it: {pip_install(packages)}"
    return ImportError(text, name=error.name)


def _lengths(array: Array) -> tuple[Expression, ...]:
    channels = array.texel.channels if array.texel is not None else 1
    return (*array.shape, channels) if channels > 1 else array.shape
