"""What a program does for given shapes: the lengths of its arrays, the buffers of its temporaries,
and its launches in a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from devmod.backend import (
    ConversionError,
    array_bytes,
    expression_text,
    members_by_value,
    parse_dtype,
)
from devmod.errors import ArgumentError, DevmodError, LaunchError
from devmod_readers.programs import (
    COMPARISONS,
    Array,
    ExpressionError,
    Program,
    Sampler,
    View,
    evaluate,
)
from devmod_runtime._device.device import Device
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.image import Image
from devmod_runtime._device.stream import Stream
from devmod_runtime._launch.arguments import Argument
from devmod_runtime._launch.call import KernelCall
from devmod_runtime._launch.opening import keep
from devmod_runtime._program.temporaries import ImageForm, share

#: The launches that a program caches for its plans, and those for each of its steps.
_MAX_CALLS, _MAX_OF_STEP = 64, 8
Error = Callable[[str, str], ArgumentError]
ProgramFunction = Any  # its module imports this one


class Shapes:
    """The lengths of a program's arrays.

    Parameters
    ----------
    program, lifetimes
        The program, and the first and the last step of each temporary.
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
    padded
        The temporary arrays whose lengths kernels see with padding: they are cleared, so that it
        holds no numbers of others.
    unwritten
        The temporary arrays, and the outputs of new memory, to which no step with threads writes:
        they are cleared.
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
        lifetimes: Mapping[str, tuple[int, int]],
        values: dict[Any, int],
        error: Error,
        unit: int = 0,
    ) -> None:
        self.values = values
        self.unwritten: set[str] = set()
        for name, left, right in program.requires:
            try:
                one, two = evaluate(left, values), evaluate(right, values)
            except ExpressionError as problem:
                raise error(f"requires: {problem}", "") from None
            if not COMPARISONS[name](one, two):
                text = f"{expression_text(left)} {name} {expression_text(right)}"
                raise error(f"it requires {text}, and that is {one} {name} {two}", "")
        self.lengths: dict[str, tuple[int, ...]] = {}
        self.nbytes: dict[str, int] = {}
        self.padded: set[str] = set()
        sizes: dict[str, int] = {}
        textures: dict[ImageForm, dict[str, int]] = {}
        measured: dict[Any, tuple[tuple[int, ...], int]] = {}
        for array in program.arrays("output", "temporary"):
            form = array.type, array.format, array.shape
            if form not in measured:
                measured[form] = measure(array, values, error)
            self.lengths[array.name], nbytes = measured[form]
            self.nbytes[array.name] = nbytes
            if array.role == "temporary" and not array.format:
                self.nbytes[array.name] = sizes[array.name] = (
                    -(-max(nbytes, 1) // unit) * unit if unit else nbytes
                )
                if sizes[array.name] != nbytes:
                    self.padded.add(array.name)
            elif array.role == "temporary":
                textures.setdefault((array.format, self.lengths[array.name]), {})[array.name] = (
                    nbytes
                )
        numbers, self.sizes = share(sizes, lifetimes)
        places: dict[tuple[int, int], int] = {}
        self.buffers = {
            name: places.setdefault((number, sizes[name]), len(places))
            for name, number in numbers.items()
        }
        self.parts = tuple(places)
        self.images: dict[ImageForm, int] = {}
        for image, each in textures.items():
            numbers, found = share(each, lifetimes)
            self.buffers |= {
                name: len(self.parts) + sum(self.images.values()) + number
                for name, number in numbers.items()
            }
            self.images[image] = len(found)

    def parts_of(self, memory: Sequence[Any], device: Device) -> list[Any]:
        """Return the memory of the parts, and the images. A kernel that sees the length of an array
        sees that of the part.
        """
        images = memory[len(self.sizes) :]
        if not device.length_unit:
            return [*[memory[number] for number, _ in self.parts], *images]
        return [
            *[device.slice(memory[number], 0, nbytes) for number, nbytes in self.parts],
            *images,
        ]


def measure(array: Array, values: dict[Any, int], error: Error) -> tuple[tuple[int, ...], int]:
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
        The kernel's arguments, each with what the step gives for it: the name of an array, an
        image, a sampler or a scalar, an expression, a number, the default, or a mapping of these
        for the members of a struct.
    names
        The arrays, images and samplers among them.
    places
        For each argument the key of its slot in a plan: steps with the same key share the slot.
        None for literals: 0.0 is equal to -0.0.
    extent
        The expressions of the grid, the block and the threads.
    form
        The number of the first step of the same form: its kernel, its extent, and the types and the
        shapes of its arrays are the same. The checks of its launch hold for all of them.
    first
        The outputs and temporaries that no step before has.
    """

    form: int

    def __init__(self, function: ProgramFunction, number: int, seen: set[str]) -> None:
        self.program, self._number = function, number
        step = function.program.steps[number]
        self.function = function.functions[step.kernel]
        self.extent = step.grid, step.block, step.threads
        interface = self.function._signature.interface
        assert interface is not None
        self.arguments: list[tuple[Argument, Any]] = []
        self.names: list[str] = []
        self.places: list[Any] = []
        for argument, param in zip(
            self.function._signature.arguments, interface.params, strict=True
        ):
            given: Any
            if param.name in step.arguments:
                given = step.arguments[param.name]
            elif members := members_by_value(param):
                given = {each.name: step.arguments[each.name] for each in members}
            else:
                given = argument.default
            self.arguments.append((argument, given))
            place: Any = (argument, given) if type(given) in (str, tuple) else None
            if isinstance(given, str) and isinstance(
                function.program.declared.get(given), (Array, Sampler)
            ):
                self.names.append(given)
                place = given if argument.packed is None else place
            self.places.append(place)
        given_names = [each for each in step.arguments.values() if isinstance(each, str)]
        self.first = [
            each for each in given_names if each in function.new_arrays and each not in seen
        ]
        seen.update(self.first)

    @property
    def written(self) -> list[Any]:
        """The names among what the step gives, without arrays and images that the kernel only
        reads.
        """
        read = [
            given
            for argument, given in self.arguments
            if argument.kind in ("buffer", "image") and not argument.written
        ]
        return [
            each
            for each in self.program.program.steps[self._number].arguments.values()
            if isinstance(each, str) and each not in read
        ]

    def cleared(self, shapes: Shapes) -> Iterator[tuple[str, int]]:
        """Yield the names and the bytes of the arrays and images that are cleared before the
        step.
        """
        for name in self.first:
            is_cleared = (
                self.program.new_arrays[name].cleared
                or name in shapes.unwritten
                or name in shapes.padded
            )
            if is_cleared and (nbytes := shapes.nbytes[name]):
                yield name, nbytes

    def dims(self, values: dict[Any, int]) -> tuple[tuple[int, ...] | None, ...]:
        """Return the grid, the block and the threads."""
        try:
            return tuple(
                tuple(evaluate(each, values) for each in dims) or None for dims in self.extent
            )
        except ExpressionError as problem:
            raise self._error(problem) from None

    def value(
        self,
        given: Any,
        values: dict[Any, int],
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
    ) -> Any:
        """Return the value of an argument."""
        if type(given) is View:
            return self._viewed(given, arrays[given])
        if type(given) is str:
            return (
                arrays[given]
                if given in arrays
                else scalars[given]
                if given in scalars
                else values[given]
            )
        if type(given) is dict:
            return {name: self.value(each, values, arrays, scalars) for name, each in given.items()}
        if type(given) is not tuple:
            return given
        try:
            return evaluate(given, values)
        except ExpressionError as problem:
            raise self._error(problem) from None

    def _viewed(self, view: View, array: DeviceArray) -> DeviceArray:
        """Return an array as elements of another type. Padding of the device's allocations counts
        as elements.
        """
        unit, size = max(array.device.length_unit, 1), array_bytes(parse_dtype(view.type), (1,))
        nbytes = -(-array.nbytes // unit) * unit
        if nbytes % size:
            text = (
                f"{view[:]!r} has {array.nbytes} bytes, and each {view.type} of '{view}' has {size}"
            )
            raise self.program.error(
                f"step {self._number + 1} ({self.function.name!r}): {text}", view[:]
            )
        return array.viewed((nbytes // size,), view.type)

    def maker(
        self,
        argument: Argument,
        given: Any,
        values: dict[Any, int],
        arrays: Mapping[str, Any],
        numbers: Mapping[Any, int],
    ) -> Callable[[Sequence[Any], Mapping[str, Any]], Any] | None:
        """Return the function that returns a value of the kernel for the slots and the scalars of a
        call; None if it is always the same.
        """
        pack, packed = argument.pack, argument.packed
        if packed is not None:
            array, number = self.value(given, values, arrays, {}), numbers[given]
            device, fields = array.device, packed.fields(array.dtype, array.shape)
            return lambda slots, scalars: (device, slots[number], fields)
        if pack is None:
            return None
        names = [
            each
            for each in (given.values() if type(given) is dict else (given,))
            if isinstance(each, str)
        ]
        # The arrays whose addresses a struct has: as numbers of slots, since a plan keeps no array
        # of a call.
        forms = {
            name: (each.device, numbers[name], each.shape, each.dtype)
            for name in names
            if (each := arrays.get(name)) is not None
        }
        if not forms and not any(
            each in self.program.scalars and each not in self.program.sizes for each in names
        ):
            return None
        if type(given) is str:
            if (
                argument.plain_packer is not None
                and argument.type == self.program.scalars[given].type
            ):
                pack = argument.plain_packer[1]  # `ProgramFunction.scalar` has checked the number
            return lambda slots, scalars: pack(scalars[given])

        def make(slots: Sequence[Any], scalars: Mapping[str, Any]) -> Any:
            members = {
                name: DeviceArray(device, slots[number], *form)
                for name, (device, number, *form) in forms.items()
            }
            return pack(self.value(given, values, members, scalars))

        return make

    def call(
        self,
        stream: Stream,
        values: dict[Any, int],
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
        make: Any = KernelCall,
    ) -> KernelCall:
        """Return the checked launch. `make` is the class of the call."""
        dims = self.dims(values)
        args = [self.value(given, values, arrays, scalars) for _, given in self.arguments]
        try:
            grid, block, threads = dims if self.function._launcher.has_grid else (None, None, None)
            call: KernelCall = make(
                self.function, args, grid, block, threads, stream, None, program=self.program.name
            )
            return call
        except (ArgumentError, LaunchError) as error:
            raise self.of_step(error) from None

    def of_step(self, error: Exception) -> Exception:
        """Return an error with the program, the step, and the program's arrays in its text. An
        error of a driver gets a note.
        """
        place = f"{self.program.label}, step {self._number + 1}"
        if not isinstance(error, DevmodError):
            error.add_note(f"in {place}")
            return error
        text, found = str(error), error.argument
        for argument, given in [
            each for each in self.arguments if type(each[1]) is str and each[1] in self.names
        ]:
            text = (
                text
                if given == argument.name
                else text.replace(argument.label, f"{argument.label} ({given!r} of the program)")
            )
            found = given if error.argument == argument.name else found
        error.args = (f"{place}: {text}", *error.args[1:])
        error.argument, error.function = found, self.program.name
        return error

    def _error(self, problem: ExpressionError) -> ArgumentError:
        error: ArgumentError = self.program.error(
            f"step {self._number + 1} ({self.function.name!r}): {problem}"
        )
        return error


def steps_of(function: ProgramFunction) -> list[Step]:
    """Return the steps of a program."""
    seen: set[str] = set()
    steps = [Step(function, number, seen) for number in range(len(function.program.steps))]
    forms: dict[Any, int] = {}
    for number, step in enumerate(steps):
        declared = [function.program.declared[name] for name in step.names]
        arrays = [
            (getattr(name, "type", each.type), each.shape)
            if isinstance(each, Array) and not each.format
            else each.name
            for name, each in zip(step.names, declared, strict=True)
        ]
        step.form = forms.setdefault((step.function, step.extent, *arrays), number)
    return steps


def unwritten(function: ProgramFunction, values: dict[Any, int]) -> set[str]:
    """Return the outputs and the temporary arrays to which no step with threads writes."""
    extents = {extent: step.dims(values) for extent, step in function.extents.items()}
    idle = {
        extent
        for extent, (grid, _, threads) in extents.items()
        if 0 in (*(grid or ()), *(threads or ()))
    }
    written = (
        {name for step in function.steps if step.extent not in idle for name in step.written}
        if idle
        else {*function.new_arrays}
    )
    return {
        name
        for name, each in function.new_arrays.items()
        if each.role == "output" or not each.format
    } - written


def _form_of(array: Any) -> tuple[Any, Any]:
    """Return what the checks of a launch depend on; the type is that of the step."""
    return getattr(array, "shape", None), getattr(array, "usage", None)


def clear(memory: Any, nbytes: int, stream: Stream) -> None:
    """Queue setting an image, or the first bytes of memory, to zero."""
    if isinstance(memory, Image):
        stream.device.write_image(memory, memoryview(bytes(nbytes)), stream)
    else:
        stream.device.start_clear(memory, nbytes, stream)


class LaunchPlan:
    """The launches of a program for shapes in a stream.

    A launch takes its values from the slots of a call: what `run` receives, then what the plan has,
    then what depends on the scalars.

    Parameters
    ----------
    function, shapes, stream
        The program, the lengths of its arrays and the stream.
    arrays
        The arrays, images and samplers of the first call by name.
    scalars
        The scalars of the first call by name.
    slots
        The numbers of the arrays and images that `run` receives, by name.

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
        arrays: Mapping[str, Any],
        scalars: Mapping[str, Any],
        slots: dict[str, int],
    ) -> None:
        self.shapes, values = shapes, shapes.values
        #: Whether the last call with host arrays took more than `LONG`, or there was none.
        self.is_long = True
        numbers: dict[Any, int] = {**slots}
        start = max(slots.values(), default=-1) + 1
        #: What all calls have: constants, samplers and numbers.
        self._fixed: list[Any] = []
        #: The slots whose values follow from the scalars or from other slots, and the functions
        #: that return these values.
        self._made: list[
            tuple[int, Callable[[Sequence[Any], Mapping[str, Any]], Any], Step, Argument]
        ] = []
        #: The functions that queue a launch of a step, each with the one that takes its values from
        #: the slots.
        self._launches: list[
            tuple[Step, Callable[[Sequence[Any]], object], Callable[[Sequence[Any]], Sequence[Any]]]
        ] = []
        #: Those that ask a kernel whether it takes its buffers.
        self._checks: list[
            tuple[Step, Callable[[Sequence[Any]], object], Callable[[Sequence[Any]], Sequence[Any]]]
        ] = []
        for name, array in arrays.items():
            if name not in slots:
                numbers[name] = start + len(self._fixed)
                self._fixed.append(array.memory if isinstance(array, DeviceArray) else array)

        def number_of(step: Step, argument: Argument, given: Any, place: Any) -> int:
            """Return a new slot of a kernel's value."""
            number = start + len(self._fixed)
            if place is not None:
                numbers[place] = number
            value, make = None, step.maker(argument, given, values, arrays, numbers)
            if make is None:
                value = step.value(given, values, arrays, scalars)
                value = value if argument.pack is None else argument.pack(value)
            else:
                self._made.append((number, make, step, argument))
            self._fixed.append(value)
            return number

        known, place = (
            function._calls,
            (stream, stream.device.generation),
        )  # taken before `Opening` is asked, as in `KernelCall`
        launches: dict[int, Any] = {}
        for step in function.steps:
            for name, nbytes in step.cleared(shapes):
                self._launches.append(
                    (step, partial(clear, nbytes=nbytes, stream=stream), itemgetter(numbers[name]))
                )
            launch = launches.get(step.form)
            if (
                launch is None
            ):  # another position of a text has most launches in common with the last one
                key = (
                    step.form,
                    step.dims(values),
                    *map(_form_of, map(arrays.get, step.names)),
                    *place,
                )
                launch = known.get(key)
            if launch is None:
                call = step.call(stream, values, arrays, scalars)
                launch = (
                    (call.enqueue, call.kernel.check_buffers) if call.shape is not None else ()
                )  # without threads
                keep(known, key, launch, _MAX_CALLS + _MAX_OF_STEP * len(function.steps))
            launches[step.form] = launch
            try:
                taken = [
                    numbers[place] if place in numbers else number_of(step, argument, given, place)
                    for (argument, given), place in zip(step.arguments, step.places, strict=True)
                ]
            except ConversionError:
                step.call(stream, values, arrays, scalars)  # raises the error with its argument
                raise
            if launch:
                self._launches.append((step, launch[0], take := _taker(taken)))
                self._checks.append((step, launch[1], take))

    def run(self, slots: list[Any], scalars: Mapping[str, Any], *, is_checked: bool) -> None:
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
                function._error(f"{function.label}: {argument.label}: {error}", argument.name)
            ) from None
        try:
            for step, check, take in () if is_checked else self._checks:  # noqa: B007 - as above
                check(take(slots))
            for step, queue, take in self._launches:  # noqa: B007 - as above
                queue(take(slots))
        except DevmodError as error:
            step.of_step(error)
            raise


def _taker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return the function that returns the values of some slots."""
    return (
        itemgetter(*numbers)
        if len(numbers) > 1
        else lambda slots: [slots[number] for number in numbers]
    )
