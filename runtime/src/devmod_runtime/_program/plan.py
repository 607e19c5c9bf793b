"""What a program does for given shapes: the lengths of its arrays, the buffers of its temporaries, and its launches in a stream."""

from __future__ import annotations

from operator import itemgetter

from devmod.backend import expression_text, members_by_value
from devmod.errors import ArgumentError, LaunchError
from devmod_readers.programs import COMPARISONS, Array, ExpressionError, Scalar, evaluate
from devmod_runtime._launch.call import Call
from devmod_runtime._launch.function import _launch_nothing as launch_nothing
from devmod_runtime._program.temporaries import share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from devmod.errors import DevmodError
    from devmod_readers.programs import Program
    from devmod_runtime._device.stream import Stream
    from devmod_runtime._program.function import ProgramFunction

    Error = Callable[[str, str], ArgumentError]


class Shapes:
    """The lengths of a program's arrays.

    Parameters
    ----------
    program
        The program.
    values
        The values of the bound names and of the integer scalars in expressions. It gets those of the expressions.
    error
        Returns the error for a text and an argument.

    Attributes
    ----------
    values
        The values of names and expressions.
    lengths
        The lengths of each output and temporary.
    buffers, sizes
        The number of the buffer of each temporary array, and the bytes of the buffers in descending order.

    Raises
    ------
    ArgumentError
        A requirement is not met, or a length is negative or has no value.
    """

    def __init__(self, program: Program, values: dict[Any, int], error: Error) -> None:
        self.values = values
        for name, left, right in program.requires:
            one, two = (_value(each, values, "requires", error) for each in (left, right))
            if not COMPARISONS[name](one, two):
                text = f"{expression_text(left)} {name} {expression_text(right)}"
                raise error(f"it requires {text}, and that is {one} {name} {two}", "")
        self.lengths: dict[str, tuple[int, ...]] = {}
        sizes: dict[str, int] = {}
        for array in program.arrays("output", "temporary"):
            lengths = tuple(_value(each, values, f"the shape of {array.name!r}", error) for each in array.shape)
            if min(lengths) < 0:
                raise error(f"the shape of {array.name!r} is {lengths}, which has a negative length", array.name)
            self.lengths[array.name] = lengths
            if array.nbytes(lengths) >= 2**63:
                raise error(f"the array {array.name!r} of shape {lengths} has more bytes than 64 bits can count", array.name)
            if array.role == "temporary" and not array.format:
                sizes[array.name] = array.nbytes(lengths)
        self.buffers, self.sizes = share(sizes, program.lifetimes())

    @property
    def temporary_bytes(self) -> int:
        """The bytes of all buffers of temporaries."""
        return sum(self.sizes)


def _value(expression: Any, values: dict[Any, int], place: str, error: Error) -> int:
    try:
        return evaluate(expression, values)
    except ExpressionError as problem:
        raise error(f"{place}: {problem}", "") from None


class Plan:
    """The launches of a program for shapes in a stream.

    Parameters
    ----------
    function, stream
        The program and the stream.
    values
        The values of names and expressions.
    slots
        The arrays, images and samplers of the first call by name.
    scalars
        The scalars of the first call by name.

    Raises
    ------
    ArgumentError, LaunchError
        As for a call of the kernel, with the step.
    """

    def __init__(
        self, function: ProgramFunction, stream: Stream, values: dict[Any, int], slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> None:
        self._device, self._stream = stream.device, stream
        #: The samplers and the temporary images.
        self.owned: Mapping[str, Any] = {}
        #: For each launch: the function that queues it, the kernel's values, and the arrays and the scalars with their places.
        #: For a cleared temporary: None, its bytes, its name, and nothing.
        self._steps: list[tuple[Any, Any, Any, Any]] = []
        for step in each_step(function, values, slots, scalars):
            if step.cleared:
                self._steps += [(None, nbytes, name, ()) for name, nbytes in step.cleared]
            call = step.call(stream)
            if call.shape is None:
                continue
            template, places, dynamics = [*call.values], [], []
            for argument, name, get in zip(call.function._signature.arguments, step.names, step.getters, strict=True):
                if name:
                    fields = None if argument.packed is None else template[argument.number][2]
                    places.append((argument.number, name, fields))
                    template[argument.number] = None
                elif get is not None:
                    dynamics.append((argument.number, argument.pack, get))
            self._steps.append((call.enqueue, template, places, dynamics))

    def run(self, memories: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
        """Queue the launches with the memory of the arrays by name."""
        device = self._device
        for enqueue, template, places, dynamics in self._steps:
            if enqueue is None:
                device.start_clear(memories[places], template, self._stream)
                continue
            values = template.copy()
            for number, name, fields in places:
                memory = memories[name]
                values[number] = memory if fields is None else (device, memory, fields)
            for number, pack, get in dynamics:
                values[number] = pack(get(scalars))
            enqueue(values)


class StepCall:
    """A step with its values.

    Attributes
    ----------
    names
        For each argument of the kernel the name of the array, image or sampler; "" for others.
    getters
        For each argument the function that returns its value for the scalars of a call; None for those that do not depend on them.
    cleared
        The temporaries that are cleared before it, with their bytes.
    program, args
        The program, and the arguments of the kernel in its order.
    """

    def __init__(
        self, function: ProgramFunction, number: int, values: dict[Any, int], slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> None:
        self.program, self._number = function, number
        step = function.program.steps[number]
        self._step, self._function = step, function.functions[step.kernel]
        declared, sizes = function.program.declared, function.sizes
        self.names: list[str] = []
        self.getters: list[Callable[[Mapping[str, Any]], Any] | None] = []
        self.cleared: list[tuple[str, int]] = []
        self.args: list[Any] = []
        self._dims: dict[str, Any] = {}

        def value_of(value: Any) -> tuple[Any, str, Any]:
            """Return the value of an argument, the name of an array, and how to get the value from the scalars of another call."""
            if isinstance(value, str) and value in declared:
                if not isinstance(declared[value], Scalar):
                    return slots[value], value, None
                return scalars[value], "", None if value in sizes else itemgetter(value)
            return (value if type(value) in (float, bool) else evaluate(value, values)), "", None

        try:
            interface = self._function._signature.interface
            assert interface is not None
            for argument, param in zip(self._function._signature.arguments, interface.params, strict=True):
                members = members_by_value(param) if param.name not in step.arguments else ()
                if members:
                    parts = {each.name: value_of(step.arguments[each.name]) for each in members}
                    dynamic = any(get is not None for _, _, get in parts.values())
                    value, name, get = {each: part for each, (part, _, _) in parts.items()}, "", _record_getter(parts) if dynamic else None
                elif param.name in step.arguments:
                    value, name, get = value_of(step.arguments[param.name])
                else:
                    value, name, get = argument.default, "", None
                self.args.append(value)
                self.names.append(name)
                self.getters.append(get)
            if self._function._launcher.has_grid:
                for word in ("grid", "threads", "block"):
                    dims = tuple(evaluate(each, values) for each in getattr(step, word))
                    self._dims[word] = dims or None
        except ExpressionError as problem:
            raise function.error(f"step {number + 1} ({step.kernel!r}): {problem}") from None

    def call(self, stream: Stream, *, bound: bool = False, make: Callable[..., Call] = Call) -> Call:
        """Return the checked launch in a stream. `make` is the class of the call."""
        dims = self._dims
        try:
            return make(self._function, self.args, dims.get("grid"), dims.get("block"), dims.get("threads"), stream, 0, bound=bound)
        except (ArgumentError, LaunchError) as error:
            raise self.of_step(error) from None

    def launch(self, stream: Stream) -> Callable[[], object]:
        """Return the function that queues the prepared launch in a stream. The arrays are those of the program's launch."""
        call = self.call(stream, bound=True)
        return launch_nothing if call.shape is None else call.kernel.prepare(stream, call.shape, call.values)

    def of_step(self, error: DevmodError) -> DevmodError:
        """Return an error with the program and the step in its text."""
        error.args = (f"{self.program.label}, step {self._number + 1}: {error}", *error.args[1:])
        return error


def _record_getter(parts: Mapping[str, tuple[Any, str, Any]]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda scalars: {name: value if get is None else get(scalars) for name, (value, _, get) in parts.items()}


def each_step(
    function: ProgramFunction, values: dict[Any, int], slots: Mapping[str, Any], scalars: Mapping[str, Any]
) -> Iterator[StepCall]:
    """Yield the steps with their values."""
    cleared: dict[int, list[str]] = {}
    for name, (first, _) in function.program.lifetimes().items():
        array = function.program.declared[name]
        if isinstance(array, Array) and array.cleared:
            cleared.setdefault(first, []).append(name)
    for number in range(len(function.program.steps)):
        step = StepCall(function, number, values, slots, scalars)
        step.cleared = [(name, slots[name].nbytes) for name in cleared.get(number, ()) if slots[name].nbytes]
        yield step
