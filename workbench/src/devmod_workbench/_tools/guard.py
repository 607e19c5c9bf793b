"""`devmod.guard`: zones of known bytes around each array, and copies of read-only arguments,
compared after each launch.

A guard replaces what `Opening` answers and three methods of `Device` while it is active, so calls
without one have no instruction for it.

docs/design/runtime.md has the reasons.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager, suppress
from functools import partial, update_wrapper
from itertools import count
from math import prod
from typing import NamedTuple

from devmod import Array
from devmod._arrays.elements import packing_problem, unpack
from devmod._util.text import is_number
from devmod.backend import (
    array_bytes,
    describe_value,
    environment_text,
    escape,
    numpy_dtype,
    parse_dtype,
    scalar_shape,
)
from devmod.errors import ArgumentError, FormatError, GuardError, LaunchError
from devmod_runtime import Device, DeviceArray, ProgramFunction
from devmod_runtime._device.device import _shape_of, _view_to_copy
from devmod_runtime._device.device_array import dtype_of
from devmod_runtime._launch.arguments import BlockBytes
from devmod_runtime._launch.call import KernelCall
from devmod_runtime._launch.opening import Opening
from devmod_runtime._program.call import CheckedProgramCall
from devmod_runtime._program.plan import clear, launches_of
from devmod_workbench._tools.difference import worst_difference
from devmod_workbench._tools.dimensions import warn_of_dimensions
from devmod_workbench._tools.observed import add, replaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Any

    import numpy as np

    from devmod_runtime import Argument, Function, Stream
    from devmod_runtime._device.host import HostView
    from devmod_runtime._program.plan import Named, Step
    from devmod_workbench._tools.checks import SourceChecks
    from devmod_workbench._tools.difference import Difference
    from devmod_workbench._tools.observed import Methods

    #: Arrays on the host by name.
    HostArrays = Mapping[str, Any]
else:
    from devmod.backend import np

#: The value of each byte of a new array: a float32 of it is -4.2e37, an int32 -33686019.
FILL = 0xFD
#: Each part of memory begins and ends at a multiple of this: WebGPU and Vulkan copy whole words.
_UNIT = 16

#: The guard of each launch of `guarded_twice`. A result that alternates by itself, or differs by
#: luck, differs in one of the guards too.
_ORDER = (0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1)
#: The value of each byte of a new array in the two guards: float32 has -4.2e37 and 0.05, so that
#: neither a square nor the sign hides it.
_FILLS = (FILL, 0x3D)


class Zones(NamedTuple):
    """The zones of a guard.

    Attributes
    ----------
    nbytes
        The least size of a zone.
    numbers
        The numbers of the arrays that are made, of which each has zones of its own bytes.
    fill
        The value of each byte of a new array.
    checks
        What calls each launched function on the simulated GPU too; None without `sanitize`.
    """

    nbytes: int
    numbers: Iterator[int]
    fill: int = FILL
    checks: SourceChecks | None = None


#: The numbers of all arrays in guards of a program.
_numbers = count()


@contextmanager
def guard(
    bytes: int = 4096,  # noqa: A002 - a public name
    *,
    sanitize: str | PathLike[str] | None = None,
) -> Iterator[None]:
    """Find writes past the ends of arrays, and to arrays that a kernel declares read-only.

    Each array that is made in the context, and the copy of each host array of a call, has a zone of
    known bytes directly before and after it, other ones than the arrays before and after it. Each
    launch in the context waits, and the zones of its arrays are compared. A new array has 0xFD in
    each byte, so that a read of an element that was never written shows -4.2e37 in float32, or
    -33686019 in int32.

    Parameters
    ----------
    bytes
        The size of a zone in bytes, 1 or more. It is rounded up to the alignment of the device. A
        write farther away is not found, and may still end the process.
    sanitize
        The file of the kernels' source. The source is compiled a second time, and each launch in
        the context is first made on the simulated GPU of devmod-simulators, with copies of its
        arguments and with its checks.

    Raises
    ------
    ArgumentError
        `bytes` is not an int of 1 or more.
    DevmodError
        `sanitize` is given, and devmod-simulators is not installed.

    Warns
    -----
    UserWarning
        A shader of Vulkan or WebGPU uses the run-time length of an array, whose zone it cannot
        reach then.

    Notes
    -----
    A launch in the context raises GuardError if a zone has changed, or an array that the interface
    of the function declares read-only. With `sanitize` it raises SanitizeError for a fault such as
    a race, with the line; CompileError if the source cannot be compiled for the simulated GPU; and
    ArgumentError if the source lacks the function. The steps of a program are launched one by one,
    each temporary has memory of its own, and the error names the step. Arrays that were made
    before, and those of other libraries, are not compared. The environment variable
    ``DEVMOD_GUARD`` is the size of the zones for a whole program.
    """
    if not isinstance(bytes, int) or isinstance(bytes, bool) or bytes < 1:
        raise ArgumentError(
            f"guard: expected a number of bytes of 1 or more, got {describe_value(bytes)}",
            argument="bytes",
        )
    checks = None
    if sanitize is not None:
        from devmod_workbench._tools.checks import SourceChecks

        checks = SourceChecks(sanitize, "guard(sanitize=)")
    with replaced(_methods(Zones(bytes, _numbers, checks=checks)), order=0):
        yield


def guarded_twice(
    function: Any, launch: Callable[[], tuple[Any, HostArrays]], again: bool = True
) -> Any:
    """Launch in two guards with other bytes around arrays and in new ones. Results that differ
    depend on these bytes.

    Parameters
    ----------
    function
        The function that is launched.
    launch
        Makes the arrays and launches. It returns a result, and the arrays that the function has
        written, on the host. It is called more often if these differ, since the order of threads
        may be the cause.
    again
        Whether a second launch has the same arguments. False: one launch.

    Returns
    -------
    object
        The result of the first launch.

    Raises
    ------
    GuardError
        The arrays depend on the bytes.
    """

    def guarded(number: int, fill: int) -> tuple[Any, HostArrays]:
        with replaced(_methods(Zones(4096, count(number), fill)), order=0):
            return launch()

    result, first = guarded(0, _FILLS[0])
    if not again:
        return result
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first launch has given them
        arrays = (first, guarded(1, _FILLS[1])[1])
        found = _differing(arrays[1], first)
        if found is None:
            return result
        for number in _ORDER[2:]:
            if _differing(guarded(number, _FILLS[number])[1], arrays[number]):
                return result
        unwritten = None
        if isinstance(function, ProgramFunction):
            unwritten = _differing(guarded(0, _FILLS[1])[1], first)
    raise _dependence(function, first, found, unwritten)


def _dependence(
    function: Any,
    arrays: HostArrays,
    found: tuple[str, Difference],
    unwritten: tuple[str, Difference] | None,
) -> GuardError:
    """Return the error of results that depend on the bytes of a guard; with `unwritten`, on those
    of new arrays.
    """
    name, difference = unwritten or found
    value = f"{name}{difference.subscript} is {difference.expected!r}"
    other = repr(difference.value)
    if unwritten:
        fault = "unwritten"
        text = (
            f"returns or reads memory that nothing wrote: {value} or {other} by what new outputs "
        )
        text += "and temporaries had before. Write all elements, or declare the array with = 0"
    else:
        fault = "read"
        text = f"has read outside of its arrays: {value}, and {other} with other bytes there. "
        text += "Compare the indices in the kernel with the sizes of the arrays"
    error = GuardError(
        f"{function.label} {text}", kind=function.kind, function=function.name, argument=name
    )
    shape = arrays[name].shape
    place = difference.place[: len(shape)]
    error.index = int(np.ravel_multi_index((*place, 0), (*shape, 1)))
    error.value = difference.expected
    error.fault = fault
    return error


def _differing(arrays: HostArrays, expected: HostArrays) -> tuple[str, Difference] | None:
    """Return the first array that differs by more than the tolerance of its type, and the
    difference.
    """
    for name, array in arrays.items():
        difference = worst_difference(name, array, expected[name], None, None)
        if difference.is_error:
            return name, difference
    return None


def guard_program() -> None:
    """Begin a guard that does not end, with zones of the size in ``DEVMOD_GUARD``.

    Raises
    ------
    ArgumentError
        The variable is no number of bytes.
    """
    text = environment_text("DEVMOD_GUARD")
    digits = text.lstrip("0")
    if not is_number(digits, 10):
        raise ArgumentError(
            f"the environment variable DEVMOD_GUARD is {text!r}; expected a number of bytes such as 4096",
            argument="DEVMOD_GUARD",
        )
    add(_methods(Zones(int(digits), _numbers)), order=0)


# -- Arrays with zones.


class GuardedMemory(DeviceArray):
    """The memory of an array and of the zones around it. The array is a view of it.

    Attributes
    ----------
    number : int
        The number of the array, of which the bytes of the zones follow.
    start, end : int
        The first byte of the array, and the first one after it.
    is_filled : bool
        Whether the zones have their bytes before a launch. After a finding they get them at the
        next launch: a driver whose memory the kernel has changed may end the process at any
        request, and the finding is first.
    """

    __slots__ = ("end", "is_filled", "number", "start")
    number: int
    start: int
    end: int
    is_filled: bool

    def damage(self, size: int) -> tuple[int, bytes, int] | None:
        """Return the number and the bytes of the changed element nearest to the array, with
        elements of `size` bytes, and the number of changed bytes. None without a change.
        """
        low = self[: self.start].numpy()
        high = self[self.end :].numpy()
        changed_low = np.flatnonzero(low != _zone(self.number, low.size))
        changed_high = np.flatnonzero(high != _zone(self.number, high.size))
        # The byte nearest to the array, and the first byte of its zone, counted from the array's.
        if changed_high.size:
            zone = high
            place = int(changed_high[0])
            start = self.end - self.start
        elif changed_low.size:
            zone = low
            place = int(changed_low[-1])
            start = -self.start
        else:
            return None
        index = (start + place) // size
        at = index * size - start
        element = bytes([FILL]) * -at + zone.tobytes()[max(at, 0) : at + size]
        return index, element, changed_low.size + changed_high.size

    def assign(self, values: Any) -> None:
        """Set the bytes of the array. Devices write and clear whole words, which may have bytes of
        a zone.
        """
        low = _zone(self.number, self.start)
        high = _zone(self.number, self.nbytes - self.end)
        own = np.broadcast_to(np.asarray(values, np.uint8), self.end - self.start)
        self.copy_from(np.concatenate([low, own, high]))

    def fill_zones(self) -> None:
        """Fill the zones after a finding."""
        if not self.is_filled:
            for zone in (self[: self.start], self[self.end :]):
                zone.copy_from(_zone(self.number, zone.nbytes))
            self.is_filled = True


def _zone(number: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a zone of the array with a number: those of two arrays in succession
    differ in each byte.

    The last byte of an element has an odd place and is one of four, so that all numbers are of one
    magnitude: a kernel that adds a number of a zone to one of another zone changes it. The sign
    changes from array to array: a kernel may write positive numbers alone.
    """
    places = np.arange(nbytes, dtype=np.uint32)
    codes = (places * np.uint32(0x9E3779B1) >> 24) + np.uint32(number & 0xFFFFFF)
    magnitudes = np.where(places % 2, 0x64 + codes % 4, 0x10 + codes % 96)
    sign = number % 2 << 7
    return (magnitudes | sign).astype(np.uint8)


def _guarded(
    zones: Zones,
    device: Device,
    shape: Sequence[int],
    dtype: str,
    read: Callable[[], memoryview] | None = None,
) -> DeviceArray:
    """Return a new array between two zones, with the bytes that `read` returns, or else the fill
    value.
    """
    unit = max(device.limits.get("view_alignment", 1), _UNIT)
    zone = -(-zones.nbytes // unit) * unit
    nbytes = array_bytes(parse_dtype(dtype), shape)
    total = zone + -(-nbytes // unit) * unit + zone
    # Before memory of the host: if both are too small, the error is that of a program without a
    # guard.
    memory = device.allocate(total)
    root = GuardedMemory(device, memory, (total,), "uint8")
    root.number = next(zones.numbers)
    root.start = zone
    root.end = zone + nbytes
    root.is_filled = True
    if read is None:
        root.assign(zones.fill)
    else:
        root.assign(np.frombuffer(read(), np.uint8))

    # An empty array is bytes of the zone behind it, where a write shows.
    view = DeviceArray(device, device.slice(memory, zone, nbytes or _UNIT), shape, dtype)
    view._root = root
    view._offset = zone
    return view


# -- Calls, whose zones are compared after the launch.


class GuardedCall(KernelCall):
    """A call whose arrays are compared after the launch. The parameters are the zones, and those of
    `KernelCall`.
    """

    def __init__(
        self,
        zones: Zones,
        function: Function,
        args: Any,
        grid: Any,
        block: Any,
        threads: Any,
        *rest: Any,
        **more: Any,
    ) -> None:
        self._zones = zones
        self._arguments = args
        #: What the call gives of its launch. `rest` has the stream and the shared memory.
        launch = {"grid": grid, "block": block, "threads": threads, "shared_memory": rest[1]}
        self._given = {name: value for name, value in launch.items() if value is not None}
        #: The arguments whose arrays have zones, and the memory of these.
        self.guarded: list[tuple[Argument, DeviceArray, GuardedMemory]] = []
        #: The bytes before the launch of those that the kernel declares read-only.
        self._contents: list[tuple[Argument, DeviceArray, bytearray]] = []
        super().__init__(function, args, grid, block, threads, *rest, **more)
        warn_of_dimensions(function, args, grid, block, threads)

    def _memory(self, argument: Argument, value: object, array: DeviceArray) -> object:
        memory = super()._memory(argument, value, array)
        base = array._base
        if not isinstance(base, GuardedMemory):
            return memory
        self.guarded.append((argument, array, base))
        lengths = self._launcher.lengths_read()
        if lengths is None or array._offset + array.nbytes != base.end or argument.is_address:
            return memory
        if argument.number not in lengths:
            # The kernel sees no other bytes: its array and the zone behind it.
            return array.device.slice(base.memory, array._offset, base.nbytes - array._offset)
        text = (
            f"{self.function.label}: guard cannot see writes past {argument.label}: the kernel uses its run-time length, so devmod binds "
            "the array alone"
        )
        warnings.warn(escape(text), stacklevel=5)
        return memory

    def launch(self) -> Any:
        """Launch, and check the arrays. Those of the host are copied to arrays with zones, and
        back.
        """
        checks = self._zones.checks
        if checks is not None and checks.is_running:
            return super().launch()
        self.sanitize()
        transfers = self.transfers
        self.transfers = []
        device = self.stream.device
        arrays = {
            each: _guarded(self._zones, device, (each.source.nbytes,), "uint8", each.source.read)
            for each in transfers
        }
        for argument, view in self._host_views:
            number = argument.number
            typed = arrays[self._transfer_of[number]].viewed(view.shape, view.dtype)
            memory = self._memory(argument, view.array, typed)
            fields = self.values[number]
            if fields is None:
                self.values[number] = memory
            else:
                self.values[number] = (memory, fields)

        self.keep()
        result = super().launch()
        for transfer, array in arrays.items():
            if transfer.back is not None:
                transfer.back.read_from(device.read, array.region, self.stream)
        self.check()
        return result

    def checked(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """Return a prepared launch whose arrays are compared after each call."""

        def checked() -> Any:
            self.sanitize()
            self.keep()
            result = launch()
            self.check()
            return result

        return checked

    def sanitize(self) -> None:
        """Make the launch on the simulated GPU, whose checks raise SanitizeError."""
        checks = self._zones.checks
        if checks is None or self.shape is None:
            return
        function = self.function
        arguments = function._signature.arguments
        if len(self._arguments) > len(arguments) or not all(each.name for each in arguments):
            raise ArgumentError(
                f"{function.label}: guard(sanitize=) calls the source's function by the names of its arguments, and this call has launch "
                "values or arguments without a name",
                kind=function.kind,
                function=function.name,
                argument="sanitize",
            )
        values: dict[str, Any] = dict(self._given)
        for argument, value in zip(arguments, self._arguments, strict=True):
            values[argument.name] = self._host_value(argument, value)
        checks.call(function, values)

    def _host_value(self, argument: Argument, value: Any) -> Any:
        """Return an argument in a form that a function of another device takes."""
        if isinstance(value, BlockBytes):
            place: Any = argument.param.at  # a block, and the byte there
            base, shape, _ = scalar_shape(argument.type, ())
            numbers = np.frombuffer(value, numpy_dtype(base), prod(shape), place[1]).tolist()
            return numbers if shape else numbers[0]
        if argument.kind == "buffer" and not isinstance(value, Array):
            adopted: Any = self._launcher.adopt(value)
            if adopted is not None:
                return adopted[0].numpy()
        return value

    def keep(self) -> None:
        """Fill the zones, and copy the arrays that the kernel declares read-only. One that another
        argument may write to is not copied.
        """
        read_only = []
        written = []
        for argument, array, memory in self.guarded:
            memory.fill_zones()
            if argument.kind == "buffer" and not argument.written:
                read_only.append((argument, array))
            else:
                written.append(array)
        self._contents = []
        for argument, array in read_only:
            if not any(map(array.overlaps, written)):
                self._contents.append((argument, array, _bytes_of(array)))

    def check(self) -> None:
        """Wait for the launch. Raise GuardError if it has changed a zone of one of its arrays, or a
        read-only array.
        """
        for guarded in self.guarded:
            error = self._outside(*guarded)
            if error is not None:
                for _, _, memory in self.guarded:
                    memory.is_filled = False
                raise error
        for argument, array, before in self._contents:
            after = _bytes_of(array)
            if after != before:
                raise self._read_only(argument, array, before, after)

    def _outside(
        self, argument: Argument, array: DeviceArray, base: GuardedMemory
    ) -> GuardError | None:
        dtype = parse_dtype(array.dtype)
        size = max(array_bytes(dtype), 1)  # packed elements have less than a byte
        damage = base.damage(size)
        if damage is None:
            return None
        index, data, changed = damage
        if array.nbytes:
            # The kernel counts from the start of a view.
            index -= (array._offset - base.start) // size
        # A byte of a packed type has several elements.
        index *= max(8 // array_bytes(dtype, (8,)), 1)
        value = _value_of(array, data)
        return self._guard_error(
            argument,
            index,
            value,
            f"has written outside of {argument.label}",
            f"is {value!r}, and the array has {prod(array.shape)} elements of {array.dtype}; changed bytes around it: {changed}",
            "Compare the bound in the kernel with this number of elements, or pass a larger array",
        )

    def _read_only(
        self, argument: Argument, array: DeviceArray, before: bytearray, after: bytearray
    ) -> GuardError:
        elements_before = _elements(array, before)
        elements_after = _elements(array, after)
        changed = (elements_before != elements_after).any(axis=1)
        index = int(np.argmax(changed))
        old = _value_of(array, elements_before[index].tobytes())
        new = _value_of(array, elements_after[index].tobytes())
        return self._guard_error(
            argument,
            index,
            new,
            f"has written to {argument.label}, which its interface declares read-only",
            f"was {old!r} and is {new!r}; changed elements: {np.count_nonzero(changed)} of {prod(array.shape)}",
            "Remove the write, or declare the parameter as one that the kernel writes",
        )

    def _guard_error(
        self, argument: Argument, index: int, value: object, what: str, detail: str, advice: str
    ) -> GuardError:
        name = argument.name or f"argument {argument.number + 1}"
        error = GuardError(
            f"{self.function.label} {what}: {name}[{index}] {detail}. {advice}",
            kind=self._launcher.kind,
            function=self.function.name,
            argument=argument.name or str(argument.number + 1),
        )
        error.index = index
        error.value = value
        return error


def _bytes_of(array: DeviceArray) -> bytearray:
    data = bytearray(array.nbytes)
    array.read(memoryview(data))
    return data


def _elements(array: DeviceArray, data: bytearray) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of each element, a row for each. A packed element has a byte of its own."""
    base, shape, _ = scalar_shape(array.dtype, array.shape)
    if packing_problem(array.dtype):
        separate = unpack(memoryview(data), parse_dtype(base)[1], prod(shape))
    else:
        separate = np.frombuffer(data, np.uint8)
    return separate.reshape(prod(array.shape), -1)


def _value_of(array: DeviceArray, data: bytes) -> object:
    with suppress(TypeError, ValueError, FormatError):  # a type that NumPy does not have
        return np.frombuffer(data, numpy_dtype(array.dtype))[0].tolist()
    return data


class GuardedProgramCall(CheckedProgramCall):
    """A program's call whose steps are calls of their own, with memory of its own for each
    temporary.
    """

    _uses_in_place = False

    def __init__(self, zones: Zones, *args: Any, **keywords: Any) -> None:
        self._zones = zones
        super().__init__(*args, **keywords)

    def _own_buffers(self) -> Sequence[Any]:
        return ()

    def _sequence(self, named: Named, stream: Stream) -> Callable[[], object]:
        calls = self._steps(named, stream)
        return lambda: [each() for each in calls]

    def _launch(self, arrays: Sequence[Any], slots: list[Any]) -> None:
        for each in self._steps(self._named(arrays, ()), self._stream):
            each()

    def _new(self, declared: Any) -> Any:
        if not declared.format:
            return _guarded(
                self._zones, self._device, self._shapes.lengths[declared.name], declared.type
            )
        image = super()._new(declared)
        self._device.write_image(
            image,
            memoryview(bytes([self._zones.fill]) * self._shapes.nbytes[declared.name]),
            self._stream,
        )
        return image

    def _uploaded(self, declared: Any, view: HostView) -> Any:
        if declared.format or declared.role == "output":
            return super()._uploaded(declared, view)
        return _guarded(self._zones, self._device, view.shape, declared.type, view.read)

    def _steps(self, named: Named, stream: Stream) -> list[Callable[[], object]]:
        """Return what launches each step, and compares its arrays."""
        calls: list[Callable[[], object]] = []
        for step, own in launches_of(self._function, self._shapes, named):
            if own is None:
                calls.append(partial(self._clear, step, named, stream))
            else:
                calls.append(partial(self._run, step, own, stream))
        return calls

    def _clear(self, step: Step, named: Named, stream: Stream) -> None:
        for name, nbytes in step.cleared(self._shapes):
            array = named[name]
            base = getattr(array, "_base", None)
            if isinstance(base, GuardedMemory) and array.nbytes == base.end - base.start:
                base.assign(0)
            elif isinstance(array, DeviceArray):
                clear(array.memory, nbytes, stream)
            else:
                clear(array, nbytes, stream)

    def _run(self, step: Step, named: Named, stream: Stream) -> None:
        make = partial(GuardedCall, self._zones)
        launch = step.call(stream, named, make)
        try:
            launch.launch()
        except (ArgumentError, LaunchError) as error:
            raise step.of_step(error) from None


# -- What a guard replaces.


def _methods(zones: Zones) -> Methods:
    """Return what makes arrays with zones, and calls that compare them."""

    def empty(self: Device, shape: int | Sequence[int], dtype: object) -> Array:
        return _guarded(zones, self, _shape_of(shape), dtype_of(dtype))

    def zeros(self: Device, shape: int | Sequence[int], dtype: object) -> Array:
        return _guarded(zones._replace(fill=0), self, _shape_of(shape), dtype_of(dtype))

    def from_numpy(self: Device, array: np.ndarray[Any, Any]) -> Array:
        view = _view_to_copy(array)
        return _guarded(zones, self, view.shape, view.dtype, view.read)

    # With the name of the method, for the TypeError of a wrong call.
    return {
        (Device, "empty"): partial(update_wrapper, empty),
        (Device, "zeros"): partial(update_wrapper, zeros),
        (Device, "from_numpy"): partial(update_wrapper, from_numpy),
        (Opening, "kernel_call"): lambda _: partial(GuardedCall, zones),
        (Opening, "program_call"): lambda _: partial(GuardedProgramCall, zones),
    }
