"""What a program does for given shapes: the lengths of its arrays, the buffers of its temporaries,
and its launches in a stream.
"""

from __future__ import annotations

from _weakref import proxy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from operator import index, itemgetter
from typing import Any, NamedTuple

from devmod import Param
from devmod.backend import (
    ConversionError,
    array_bytes,
    describe_value,
    expression_text,
    members_by_value,
    parse_dtype,
)
from devmod.errors import ArgumentError, DevmodError, LaunchError
from devmod_readers.programs import (
    COMPARISONS,
    MAX_LAUNCHES,
    Array,
    ExpressionError,
    Program,
    Repeat,
    Sampler,
    View,
    evaluate,
    names_in,
)
from devmod_runtime._device.device import Device
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.image import Image
from devmod_runtime._device.stream import Stream
from devmod_runtime._launch.arguments import Argument
from devmod_runtime._launch.call import KernelCall
from devmod_runtime._launch.launcher import Kernel
from devmod_runtime._launch.opening import Opening, keep
from devmod_runtime._launch.plain_call import MISSING
from devmod_runtime._program.temporaries import ImageForm, share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime._device.host import Shape

#: The launches that a program caches for its plans, and those for each of its steps.
_MAX_CALLS = 64
_MAX_OF_STEP = 8
#: The layouts that it caches: one for each way in which its temporaries share buffers.
_MAX_LAYOUTS = 16
Error = Callable[[str, str], ArgumentError]
ProgramFunction = Any  # its module imports this one
#: The first array of one role, type and shape, and the names of all.
Form = tuple[Array, list[str]]
#: The numbers of names and of expressions.
Values = dict[Any, int]
#: What the names of a call stand for: numbers, arrays, images and samplers. It gets the values of
#: expressions.
Named = dict[Any, Any]
#: What returns a value of a kernel for the slots and the scalars of a call.
Maker = Callable[[Sequence[Any], Named], Any]
#: What takes the values of a kernel from the slots of a call.
Taker = Callable[[Any], Any]


def forms_of(program: Program) -> list[Form]:
    """Return the outputs and the temporaries of a program by role, type and shape."""
    forms: dict[Any, Form] = {}
    for array in program.arrays("output", "temporary"):
        form = array.role, array.type, array.format, array.shape
        forms.setdefault(form, (array, []))[1].append(array.name)
    return list(forms.values())


class Shapes:
    """The lengths of a program's arrays.

    Parameters
    ----------
    program, forms, lifetimes
        The program, what `forms_of` returns for it, and the first and the last step of each
        temporary.
    values
        The values of the bound names and of the integer scalars in expressions. It gets those of
        the expressions.
    error
        Returns the error for a text and an argument.
    unit
        The device's `Device.length_unit`.

    Attributes
    ----------
    values
        The values of names and expressions.
    lengths
        The lengths of each output and temporary.
    nbytes
        The bytes of each output and temporary.
    cleared
        The outputs and temporaries that are cleared before their first step: with the temporary
        arrays whose lengths kernels see with padding, so that it holds no numbers of others.
    turns
        The number of turns of each repeat, which `count_turns` returns.
    buffers, parts
        The number of the part or the image of each temporary, and for each part the number of its
        buffer and its bytes. The images follow.
    sizes, images
        The bytes of the buffers in descending order, and the number of the images of each form.

    Raises
    ------
    ArgumentError
        A requirement is not met, or a length is negative or has no value.
    """

    def __init__(
        self,
        program: Program,
        forms: Sequence[Form],
        lifetimes: Mapping[str, tuple[int, int]],
        values: Values,
        error: Error,
        unit: int = 0,
    ) -> None:
        self.values = values
        self.turns: dict[Repeat, int] = {}
        _check_requirements(program, values, error)
        self.lengths: dict[str, Shape] = {}
        self.nbytes: dict[str, int] = {}
        self.cleared: set[str] = set()
        sizes: dict[str, int] = {}
        textures: dict[ImageForm, dict[str, int]] = {}
        for array, names in forms:
            lengths, nbytes = measure(array, values, error)
            self.lengths |= dict.fromkeys(names, lengths)
            if array.role == "temporary" and array.format:
                textures.setdefault((array.format, lengths), {}).update(
                    dict.fromkeys(names, nbytes)
                )
            elif array.role == "temporary":
                size = nbytes
                if unit:
                    size = -(-max(nbytes, 1) // unit) * unit
                if size != nbytes:
                    self.cleared.update(names)
                nbytes = size
                sizes |= dict.fromkeys(names, size)
            self.nbytes |= dict.fromkeys(names, nbytes)

        self.buffers: dict[str, int] = {}
        numbers, self.sizes = share(sizes, lifetimes)
        places: dict[tuple[int, int], int] = {}
        for name, number in numbers.items():
            self.buffers[name] = places.setdefault((number, sizes[name]), len(places))
        self.parts = tuple(places)

        self.images: dict[ImageForm, int] = {}
        for texture, each in textures.items():
            numbers, found = share(each, lifetimes)
            first = len(self.parts) + sum(self.images.values())
            for name, number in numbers.items():
                self.buffers[name] = first + number
            self.images[texture] = len(found)

    def parts_of(self, memory: Sequence[Any], device: Device) -> list[Any]:
        """Return the memory of the parts, for that of the buffers. A kernel that sees the length of
        an array sees that of the part.
        """
        if not device.length_unit:
            return [memory[number] for number, _ in self.parts]
        return [device.slice(memory[number], 0, nbytes) for number, nbytes in self.parts]


def _check_requirements(program: Program, values: Values, error: Error) -> None:
    for name, left, right in program.requires:
        try:
            one = evaluate(left, values)
            two = evaluate(right, values)
        except ExpressionError as problem:
            raise error(f"requires: {problem}", "") from None
        if not COMPARISONS[name](one, two):
            text = f"{expression_text(left)} {name} {expression_text(right)}"
            numbers = f"{one} {name} {two}{_given_values((left, right), values)}"
            raise error(f"it requires {text}, and that is {numbers}", "")


def _given_values(expressions: Sequence[Any], values: Values) -> str:
    """Return the values of the names inside expressions, for a message: " with columns=6". An
    expression that is a name has its value in the message already.
    """
    inside = [each for each in expressions if not isinstance(each, str)]
    names = dict.fromkeys([name for each in inside for name in names_in(each)])
    if not names:
        return ""
    return " with " + ", ".join([f"{name}={values[name]}" for name in names])


def lengths_of(given: Mapping[str, Any], error: Error) -> dict[str, int]:
    """Return lengths as integers of Python. Raise ArgumentError for one that is no integer."""
    result: dict[str, int] = {}
    for name, value in given.items():
        try:
            result[name] = index(value)
        except TypeError:
            text = f"the length {name!r} is an integer, got {describe_value(value)}"
            raise error(text, name) from None
    return result


def measure(array: Array, values: Values, error: Error) -> tuple[Shape, int]:
    """Return the lengths and the bytes of an array. Raise ArgumentError if it cannot have them."""
    try:
        lengths = tuple([evaluate(each, values) for each in array.shape])
    except ExpressionError as problem:
        raise error(f"the shape of {array.name!r}: {problem}", array.name) from None
    if min(lengths, default=0) < 0:
        raise error(
            f"the shape of {array.name!r} is {lengths}, which has a negative length", array.name
        )
    if array.format and not all(lengths):
        raise error(
            f"the shape of the image {array.name!r} is {lengths}; expected lengths of 1 or more",
            array.name,
        )
    if array.nbytes([max(each, 1) for each in lengths]) >= 2**63:
        raise error(
            f"the array {array.name!r} of shape {lengths} has more bytes than 64 bits can count",
            array.name,
        )
    return lengths, array.nbytes(lengths)


def count_turns(program: Program, values: Values, error: Error) -> dict[Repeat, int]:
    """Return the number of turns of each repeat. Raise ArgumentError for one that is negative, and
    for more launches than a call may have.
    """
    turns: dict[Repeat, int] = {}
    if not program.repeats:
        return turns
    for repeat in program.repeats:
        text = f"the repeat of {repeat.name!r}"
        try:
            turns[repeat] = evaluate(repeat.turns, values)
        except ExpressionError as problem:
            raise error(f"{text}: {problem}", "") from None
        if turns[repeat] < 0:
            expected = expression_text(repeat.turns)
            numbers = f"{turns[repeat]}{_given_values((repeat.turns,), values)}"
            raise error(f"{text} has {expected} turns, and that is {numbers}", "")
    total = 0
    for around in program.repeats_of_steps():
        count = 1
        for repeat in around:
            count *= turns[repeat]
        total += count
    if total > MAX_LAUNCHES:
        raise error(f"its repeats have {total} launches, and a call has at most {MAX_LAUNCHES}", "")
    return turns


class OtherExtent:
    """What `KernelCall` has of a launch whose arguments it has checked for another extent."""

    def __init__(
        self,
        function: Any,
        args: Sequence[Any],
        grid: Any,
        block: Any,
        threads: Any,
        stream: Stream,
        shared_memory: Any,
        *,
        program: str,
    ) -> None:
        request = function.requested(args, grid, block, threads, shared_memory)
        launched, request = function.chosen(stream.device, request, [])
        self.kernel = launched.open(stream.device)
        _, self.shape = launched._config_reader.resolve(request, self.kernel)
        if self.shape is not None:
            queue = self.kernel.caller(stream, self.shape)
            self.enqueue = Opening.queue(queue, f"{program}: {function.name}", stream, args)


class Given(NamedTuple):
    """What a step gives for an argument of its kernel.

    Attributes
    ----------
    argument
        The argument.
    value
        The name of an array, an image, a sampler or a scalar, an expression, a number, the default,
        or a mapping of these for the members of a struct.
    names
        The names in it.
    repeats
        The repeats whose number of the turn it has, the outermost first.
    place
        The key of its slot in a plan: steps with the same key share the slot. None for literals:
        0.0 is equal to -0.0.
    """

    argument: Argument
    value: Any
    names: set[str]
    repeats: list[Repeat]
    place: Any


class Step:
    """A step, and the arguments of its kernel.

    Parameters
    ----------
    function
        The program.
    number
        The number of the step, from 0.

    Attributes
    ----------
    program, function
        The program and the kernel.
    arguments
        What it gives for each argument of the kernel.
    names
        The arrays, images and samplers among them.
    extent
        The expressions of the grid, the block and the threads, and those of the sizes by which a
        tuned kernel chooses its variant and its grid.
    form
        The number of the first step of the same form: its kernel, its extent, and the types and the
        shapes of its arrays are the same. The checks of its launch hold for all of them.
    is_plain
        Whether its launches for all shapes differ in their extents alone: its arguments are
        numbers, and arrays of the types that the kernel declares.
    repeats
        The repeats around the step, the outermost first.
    first_turn
        The numbers of their first turns by name.
    written
        The names among what the step gives, without arrays and images that the kernel only reads.
    first
        The outputs and temporaries that no step before has. Those of steps in a repeat are those of
        its first step.
    """

    form: int

    def __init__(
        self,
        function: ProgramFunction,
        number: int,
        seen: set[str],
        repeats: tuple[Repeat, ...],
    ) -> None:
        self.program = proxy(function)  # which has the step: a cycle is freed late
        self._number = number
        self.repeats = repeats
        self.first_turn: Values = {each.name: 0 for each in repeats}
        step = function.program.steps[number]
        self.function = function.functions[step.kernel]
        interface = self.function._signature.interface
        assert interface is not None
        self.arguments: list[Given] = []
        self.names: list[str] = []
        #: What its form has of them: the type and the shape of an array, the names of others.
        self.array_forms: list[Any] = []
        #: A tuned function may choose by its arguments.
        self.is_plain = not self.function.key_arguments
        sizes = {}
        read = []
        for argument, param in zip(
            self.function._signature.arguments, interface.params, strict=True
        ):
            given = _given(step.arguments, argument, param)
            names = _names_of(given)
            own_repeats = [each for each in repeats if each.name in names]
            if argument.kind in ("buffer", "image") and not argument.written:
                read.append(given)
            if argument in self.function.key_arguments:
                sizes[argument.name] = given
            place: Any = None
            if type(given) in (str, tuple) and not own_repeats:
                place = (argument, given)
            declared = None
            if isinstance(given, str):
                declared = function.program.declared.get(given)
            type_ = None
            if isinstance(declared, Array) and not declared.format:
                # A view has a type of its own.
                type_ = getattr(given, "type", declared.type)
                self.array_forms.append((type_, declared.shape))
            elif isinstance(declared, (Array, Sampler)):
                self.array_forms.append(given)
            if isinstance(declared, (Array, Sampler)):
                self.names.append(given)
                if argument.packed is None:
                    place = given
            self.arguments.append(Given(argument, given, names, own_repeats, place))
            if argument.plain_packer is None:
                self.is_plain &= argument.packed is None and type_ == argument.plain_type

        self.sizes = tuple(sizes)
        self.extent = step.grid, step.block, step.threads, tuple(sizes.values())

        given_names = [each for each in step.arguments.values() if isinstance(each, str)]
        self.written = [each for each in given_names if each not in read]
        self.first = [
            each for each in given_names if each in function.new_arrays and each not in seen
        ]
        seen.update(self.first)

    def has_turns(self, shapes: Shapes) -> bool:
        """Return whether it runs at all."""
        return all(shapes.turns[each] for each in self.repeats)

    def cleared(self, shapes: Shapes) -> Iterator[tuple[str, int]]:
        """Yield the names and the bytes of the arrays and images that are cleared before the
        step.
        """
        for name in self.first:
            if name in shapes.cleared and (nbytes := shapes.nbytes[name]):
                yield name, nbytes

    def dims(self, named: Named) -> tuple[Shape | None, ...]:
        """Return the grid, the block, the threads and the sizes."""
        result = []
        try:
            for dims in self.extent:
                result.append(tuple([evaluate(each, named) for each in dims]) or None)
            return tuple(result)
        except ExpressionError as problem:
            raise self._error(problem) from None

    def is_idle(self, values: Values) -> bool:
        """Return whether the step has no threads."""
        grid, _, threads, sizes = self.dims(values)
        if not grid and not threads and self.function._launcher.has_grid:
            named = dict(zip(self.sizes, sizes or (), strict=True))
            try:
                grid = self.function.launch_config(**named).grid
            except (ArgumentError, LaunchError) as error:
                raise self.of_step(error) from None
        return 0 in (*(grid or ()), *(threads or ()))

    def value(self, given: Any, named: Named) -> Any:
        """Return the value of an argument."""
        if type(given) is View:
            return self._viewed(given, named[given])
        if type(given) is str:
            return named[given]
        if type(given) is dict:
            return {name: self.value(each, named) for name, each in given.items()}
        if type(given) is not tuple:
            return given
        try:
            return evaluate(given, named)
        except ExpressionError as problem:
            raise self._error(problem) from None

    def _viewed(self, view: View, array: DeviceArray) -> DeviceArray:
        """Return an array as elements of another type. Padding of the device's allocations counts
        as elements.
        """
        unit = max(array.device.length_unit, 1)
        size = array_bytes(parse_dtype(view.type), (1,))
        nbytes = -(-array.nbytes // unit) * unit
        if nbytes % size:
            text = (
                f"{view[:]!r} has {array.nbytes} bytes, and each {view.type} of '{view}' has {size}"
            )
            raise self._error(text, view[:])
        return array.viewed((nbytes // size,), view.type)

    def maker(self, each: Given, numbers: Mapping[Any, int], named: Named) -> Maker | None:
        """Return the function that returns a value of the kernel for the slots and the scalars of a
        call; None if it is always the same. `named` has the names in what the step gives.
        """
        argument, given, *_ = each
        pack = argument.pack
        packed = argument.packed
        if packed is not None:
            array = self.value(given, named)
            number = numbers[given]
            fields = packed.fields(array.dtype, array.shape)
            return lambda slots, scalars: (slots[number], fields)
        if pack is None:
            return None

        # The arrays whose addresses a struct has: as numbers of slots, since a plan keeps no array
        # of a call.
        forms: dict[str, Any] = {}
        is_fixed = True
        for name, value in named.items():
            if isinstance(value, DeviceArray):
                forms[name] = (value.device, numbers[name], value.shape, value.dtype)
            if name in self.program.scalars and name not in self.program.sizes:
                is_fixed = False
        if is_fixed and not forms:
            return None
        if type(given) is str:
            plain = argument.plain_packer
            # `ProgramFunction.scalar` has checked the number.
            if plain is not None and argument.type == self.program.scalars[given].type:
                pack = plain[1]
            return lambda slots, scalars: pack(scalars[given])

        known = {**named}
        self.value(given, known)
        for name in forms:
            del known[name]

        def make(slots: Sequence[Any], scalars: Named) -> Any:
            members = {
                name: DeviceArray(device, slots[number], *form)
                for name, (device, number, *form) in forms.items()
            }
            return pack(self.value(given, {**known, **members, **scalars}))

        return make

    def constant(self, given: Given, stream: Stream, named: Named, own: Named) -> Any:
        """Return a value of the kernel that is the same in all calls, for `own` names. Those of the
        plan are `named`.
        """
        value = self.value(given.value, own)
        pack = given.argument.pack
        if pack is None:
            return value
        try:
            return pack(value)
        except ConversionError:
            # Raises the error with its argument.
            self.call(stream, named | self.first_turn | own)
            raise

    def call(self, stream: Stream, named: Named, make: Any = KernelCall) -> Any:
        """Return the checked launch. `make` is the class of the call."""
        grid, block, threads, _ = self.dims(named)
        if not self.function._launcher.has_grid:
            grid = block = threads = None
        args = [self.value(each.value, named) for each in self.arguments]
        program = self.program.name
        try:
            return make(self.function, args, grid, block, threads, stream, None, program=program)
        except (ArgumentError, LaunchError) as error:
            raise self.of_step(error) from None

    def launch(self, stream: Stream, named: Named) -> Any:
        """Return the function that queues the launch with its values, and the kernel's check of
        these, if it has one; None without threads.
        """
        # Taken before `Opening` is asked, as in `KernelCall`.
        known = self.program._calls
        place: Any = (self.form, stream, stream.device.generation)
        if not self.is_plain:
            place += tuple([_form_of(named[name]) for name in self.names])
        # Another position of a text has most launches in common with the last one.
        key = (*place, self.dims(named))
        launch = known.get(key, MISSING)
        if launch is not MISSING:
            return launch
        if self.repeats:
            named = named | self.first_turn
        call = None
        if self.is_plain and place in known:
            with suppress(DevmodError):  # `KernelCall` raises the first of its errors
                call = self.call(stream, named, OtherExtent)
        if call is None:
            call = self.call(stream, named)
            if self.is_plain:
                known[place] = None
        launch = None
        if call.shape is not None:
            check = None
            if type(call.kernel).check_buffers is not Kernel.check_buffers:
                check = call.kernel.check_buffers
            launch = call.enqueue, check
        most = _MAX_CALLS + _MAX_OF_STEP * len(self.program.steps)
        keep(known, key, launch, most)
        return launch

    def of_step(self, error: Exception) -> Exception:
        """Return an error with the program, the step, and the program's arrays in its text. An
        error of a driver gets a note.
        """
        place = f"{self.program.label}, step {self._number + 1}"
        if not isinstance(error, DevmodError):
            error.add_note(f"in {place}")
            return error
        text = str(error)
        found = error.argument
        for argument, given, *_ in self.arguments:
            if type(given) is not str or given not in self.names:
                continue
            if given != argument.name:
                label = f"{argument.label} ({given!r} of the program)"
                text = text.replace(argument.label, label)
            if error.argument == argument.name:
                found = given
        error.args = (f"{place}: {text}", *error.args[1:])
        error.argument = found
        error.function = self.program.name
        error.keywords = ()  # they are those of the step, which its author has written
        return error

    def _error(self, problem: object, argument: str = "") -> ArgumentError:
        error: ArgumentError = self.program.error(
            f"step {self._number + 1} ({self.function.name!r}): {problem}", argument
        )
        return error


def _given(arguments: Mapping[str, Any], argument: Argument, param: Param) -> Any:
    """Return what a step gives for an argument of its kernel."""
    if param.name in arguments:
        return arguments[param.name]
    members = members_by_value(param)
    if members:
        return {each.name: arguments[each.name] for each in members}
    return argument.default


def _names_of(given: Any) -> set[str]:
    """Return the names in what a step gives, and in the members of a struct."""
    parts = given.values() if type(given) is dict else (given,)
    return set(chain.from_iterable(map(names_in, parts)))


def steps_of(function: ProgramFunction) -> list[Step]:
    """Return the steps of a program."""
    seen: set[str] = set()
    steps: list[Step] = []
    for number, repeats in enumerate(function.program.repeats_of_steps()):
        step = Step(function, number, seen, repeats)
        steps.append(step)
        if repeats and repeats[0].first < number:
            steps[repeats[0].first].first += step.first
            step.first = []
    forms: dict[Any, int] = {}
    for number, step in enumerate(steps):
        form = (step.function, step.extent, *step.array_forms)
        step.form = forms.setdefault(form, number)
    return steps


def launches_of(
    function: ProgramFunction, shapes: Shapes, named: Named
) -> Iterator[tuple[Step, Named | None]]:
    """Yield each step, with None where what begins with it is cleared, and with what the names
    stand for in each launch.
    """
    return _launches(function.steps, shapes.turns, (0, len(function.steps)), named)


def _launches(
    steps: Sequence[Step],
    turns: Mapping[Repeat, int],
    part: tuple[int, int],
    named: Named,
    depth: int = 0,
) -> Iterator[tuple[Step, Named | None]]:
    """Yield those of the steps from the first to the one before the last of a part, in `depth`
    repeats.
    """
    number, end = part
    while number < end:
        step = steps[number]
        if depth == 0:
            yield step, None
        if len(step.repeats) == depth:
            yield step, named
            number += 1
            continue
        repeat = step.repeats[depth]
        for turn in range(turns[repeat]):
            own = {**named, repeat.name: turn}
            yield from _launches(steps, turns, (repeat.first, repeat.end), own, depth + 1)
        number = repeat.end


def unwritten(function: ProgramFunction, shapes: Shapes) -> set[str]:
    """Return the outputs to which no step with threads writes, and the temporary arrays that such
    steps read alone.
    """
    idle = set()
    for extent, step in function.extents.items():
        if step.is_idle(shapes.values):
            idle.add(extent)
    if not idle and all(shapes.turns.values()):
        return set()

    running = []
    used: set[str] = set()
    for step in function.steps:
        if step.extent not in idle and step.has_turns(shapes):
            running.append(step)
            used.update(step.names)
    result: set[str] = set()
    for name, each in function.new_arrays.items():
        if each.role == "output" or (name in used and not each.format):
            result.add(name)
    for step in running:
        result.difference_update(step.written)
    return result


def _form_of(array: Any) -> tuple[Any, Any]:
    """Return what the checks of a launch depend on; the type is that of the step."""
    return getattr(array, "shape", None), getattr(array, "usage", None)


def clear(memory: Any, nbytes: int, stream: Stream) -> None:
    """Queue setting an image, or the first bytes of memory, to zero."""
    if isinstance(memory, Image):
        stream.device.write_image(memory, memoryview(bytes(nbytes)), stream)
    else:
        stream.device.start_clear(memory, nbytes, stream)


class Turns:
    """The launches of a repeat, which `run` queues turn by turn."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.launches: list[Any] = []
        #: The slots whose values differ by turn, each with the slot of its values.
        self.slots: list[tuple[int, int]] = []

    def run(self, slots: list[Any]) -> None:
        """Queue the launches."""
        try:
            for turn in range(self._count):
                for number, source in self.slots:
                    slots[number] = slots[source][turn]
                for step, queue, take in self.launches:  # noqa: B007 - the error names it
                    queue(take(slots))
        except DevmodError as problem:
            step.of_step(problem)
            raise

    def of_step(self, error: Exception) -> Exception:
        """Return an error as it is: `run` has added its step."""
        return error


def _by_turn(
    repeats: Sequence[Repeat],
    turns: Mapping[Repeat, int],
    named: Named,
    make: Callable[[Named], Any],
) -> Any:
    """Return what `make` returns for the names of each turn: a list for each repeat, the outermost
    first.
    """
    if not repeats:
        return make(named)
    first, *others = repeats
    result = []
    for turn in range(turns[first]):
        result.append(_by_turn(others, turns, {**named, first.name: turn}, make))
    return result


def _call_each(makers: Any, slots: Sequence[Any], scalars: Named) -> Any:
    """Return what functions in nested lists return."""
    if not isinstance(makers, list):
        return makers(slots, scalars)
    return [_call_each(each, slots, scalars) for each in makers]


def _all(slots: Any) -> Any:
    return slots


class Layout:
    """Where the launches of a program take their values: the same for all shapes whose temporaries
    share buffers in one way, and whose repeats have turns or none.

    A launch takes its values from the slots of a call: what `LaunchPlan.run` receives, then the
    arrays that all calls have, then the other values of kernels.

    Parameters
    ----------
    function, shapes
        The program, and the lengths of its arrays.

    Attributes
    ----------
    arrays
        The arrays, images and samplers that all calls have, in the order of their slots.
    numbers
        The slots of arrays, images and samplers by name, and those of other values by
        `Given.place`.
    values
        For each other slot its number, the first step that takes it, and what this gives. A value
        that differs by turn has a slot for the values of all turns, and one more for each repeat:
        the step takes the last.
    steps
        Each step, and the function that takes its values from the slots; None for one that does not
        run.
    firsts
        The first step of each form that runs.
    """

    def __init__(self, function: ProgramFunction, shapes: Shapes) -> None:
        # Those that `LaunchPlan.run` receives come first.
        self.numbers: dict[Any, int] = {}
        for number, name in enumerate(function.arrays):
            self.numbers[name] = number
        for name, number in shapes.buffers.items():
            self.numbers[name] = len(function.arrays) + number
        after = max(self.numbers.values(), default=-1) + 1
        self.arrays = [*function.constant_shapes]
        self.arrays += [each.name for each in function.samplers]
        self.values: list[tuple[int, Step, Given]] = []
        self.steps: list[tuple[Step, Taker | None]] = []
        firsts: dict[int, Step] = {}
        for number, name in enumerate(self.arrays, after):
            self.numbers[name] = number
        after += len(self.arrays)
        for step in function.steps:
            if not step.has_turns(shapes):
                self.steps.append((step, None))
                continue
            firsts.setdefault(step.form, step)
            taken = []
            for given in step.arguments:
                number = self.numbers.get(given.place, after)
                if number == after:
                    self.values.append((number, step, given))
                    number += len(given.repeats)
                    after = number + 1
                    if given.place is not None:
                        self.numbers[given.place] = number
                taken.append(number)
            self.steps.append((step, _taker(taken)))
        self.firsts = list(firsts.values())


class LaunchPlan:
    """The launches of a program for shapes in a stream.

    Parameters
    ----------
    function, shapes, stream
        The program, the lengths of its arrays and the stream.
    named
        What the names of the first call stand for.

    Raises
    ------
    ArgumentError, LaunchError
        As for a call of the kernel, with the step.
    """

    def __init__(
        self,
        function: ProgramFunction,
        shapes: Shapes,
        stream: Stream,
        named: Named,
    ) -> None:
        self.shapes = shapes
        #: Whether the last call with host arrays took more than `LONG`, or there was none.
        self.is_long = True
        has_turns = [count > 0 for count in shapes.turns.values()]
        key = (*shapes.buffers.items(), *has_turns)
        layout: Layout | None = function._layouts.get(key)
        if layout is None:
            layout = Layout(function, shapes)
            keep(function._layouts, key, layout, _MAX_LAYOUTS)
        numbers = layout.numbers
        #: The functions that queue a launch of a step, each with the one that takes its values from
        #: the slots.
        self._launches: list[tuple[Any, Callable[[Any], object], Taker]] = []
        #: Those that ask a kernel whether it takes its buffers.
        self._checks: list[tuple[Step, Callable[[Any], object], Taker]] = []
        turns = self._add_launches(stream, named, layout)

        #: What all calls have: constants, samplers and numbers.
        self._fixed: list[Any] = []
        for name in layout.arrays:
            array = named[name]
            self._fixed.append(array.memory if isinstance(array, DeviceArray) else array)
        #: The slots whose values follow from the scalars or from other slots, and the functions
        #: that return these values.
        self._made: list[tuple[int, Maker, Step, Argument]] = []
        for source, step, given in layout.values:
            repeats = given.repeats
            own = {each: named[each] for each in given.names if each in named}
            find_maker = partial(step.maker, given, numbers)
            make: Any = find_maker(own | step.first_turn)
            first: Any = None
            if make is None:
                find = partial(step.constant, given, stream, named)
                first = _by_turn(repeats, shapes.turns, own, find)
            elif repeats:
                make = partial(_call_each, _by_turn(repeats, shapes.turns, own, find_maker))
            if make is not None:
                self._made.append((source, make, step, given.argument))
            self._fixed.append(first)
            for number, repeat in enumerate(repeats, source):
                if make is None:
                    first = first[0]
                self._fixed.append(first)
                turns[repeat].slots.append((number + 1, number))

    def _add_launches(self, stream: Stream, named: Named, layout: Layout) -> dict[Repeat, Turns]:
        """Check the launches, add them, and return those of repeats."""
        shapes = self.shapes
        turns: dict[Repeat, Turns] = {}
        launches: dict[int, Any] = {}
        for step in layout.firsts:
            launches[step.form] = step.launch(stream, named)
        for step, take in layout.steps:
            if shapes.cleared:
                for name, nbytes in step.cleared(shapes):
                    start = partial(clear, nbytes=nbytes, stream=stream)
                    self._launches.append((step, start, itemgetter(layout.numbers[name])))
            if take is None:
                continue
            queued = self._launches
            for repeat in step.repeats:
                if repeat not in turns:
                    turns[repeat] = Turns(shapes.turns[repeat])
                    queued.append((turns[repeat], turns[repeat].run, _all))
                queued = turns[repeat].launches

            launch = launches[step.form]
            if launch is None:
                continue
            queue, check = launch
            queued.append((step, queue, take))
            if check is not None:
                self._checks.append((step, check, take))
        return turns

    def run(self, slots: list[Any], scalars: Named, *, is_checked: bool) -> None:
        """Queue the launches. `slots` has the memory of the arrays, and the images. Without
        `is_checked` the kernels are asked before.
        """
        slots += self._fixed
        try:
            for number, make, step, argument in self._made:  # noqa: B007 - the error names them
                slots[number] = make(slots, scalars)
        except ConversionError as error:
            function = step.function
            raise step.of_step(
                function._signature.error(f": {argument.label}: {error}", argument.name)
            ) from None
        try:
            if not is_checked:
                for step, check, take in self._checks:  # noqa: B007 - as above
                    check(take(slots))
            for step, queue, take in self._launches:  # noqa: B007 - as above
                queue(take(slots))
        except DevmodError as error:
            step.of_step(error)
            raise


def _taker(numbers: Sequence[int]) -> Taker:
    """Return the function that returns the values of some slots."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda slots: [slots[number] for number in numbers]
