"""One call of a program: its arrays are checked, copied and allocated before the first launch."""

from __future__ import annotations

from functools import partial
from itertools import combinations, pairwise
from math import inf
from time import perf_counter

from devmod import Param
from devmod._arrays.empty import in_pages
from devmod.backend import ConversionError, RLock, expression_text, numpy_dtype
from devmod.errors import LaunchError
from devmod_readers.programs import Array, ExpressionError, bind_lengths, evaluate
from devmod_runtime._device.device_array import DeviceArray, share_bytes
from devmod_runtime._device.host import HostView
from devmod_runtime._device.image import Image
from devmod_runtime._device.in_place import InPlace
from devmod_runtime._device.stream import Stream, current_stream
from devmod_runtime._fork import fork_safe
from devmod_runtime._launch.arguments import Argument
from devmod_runtime._launch.call import KernelCall
from devmod_runtime._launch.checks import LONG, CheckedCall, overlap
from devmod_runtime._launch.function import Launch
from devmod_runtime._launch.opening import keep
from devmod_runtime._program.plan import (
    LaunchPlan,
    Shapes,
    clear,
    count_turns,
    launches_of,
    unwritten,
)
from devmod_runtime._program.temporaries import StreamMemory, memory_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy as np

    from devmod_runtime._device.host import Shape
    from devmod_runtime._device.stream import Work
    from devmod_runtime._program.plan import Named, Step, Values

    ProgramFunction = Any  # its module imports this one
else:
    from devmod.backend import np


#: The number of shapes whose lengths and launches a program caches.
_MAX_CACHED = 64

#: The most arrays of which each is compared with all others at once.
_FEW = 16


class ProgramArgument(Argument):
    """An array or an image of a program. The type of its elements is exact, since its shape counts
    them.
    """

    def __init__(self, number: int, declared: Array) -> None:
        if declared.format:
            param = Param(declared.name, "image", "2d", format=declared.format)
        else:
            param = Param(declared.name, "buffer", declared.type)
        super().__init__(number, param, declared.type, declared.role != "input", False, None, None)
        self.label = f"the argument {declared.name!r}"

    @property
    def element(self) -> str:
        return self.type

    def accepts_type(self, dtype: str) -> bool:
        return dtype == self.type


class CheckedProgramCall(CheckedCall):
    """A checked call. The constructor launches nothing.

    Parameters
    ----------
    function
        The program. The call is on its device, or on that of the first device array, if that is
        another one of the kind.
    values
        The arguments by name.
    stream
        The stream that the caller gives, or None.
    bound
        Whether the call is for a prepared launch: it takes no host arrays.
    new
        Whether the outputs that are given are new memory.
    """

    _taker = "program"
    _device_label = "the program"
    _copies_images = True
    #: Whether kernels may use host arrays where they are.
    _uses_in_place = True
    #: What queues the launches of a prepared call.
    _queue: Work

    def __init__(
        self,
        function: ProgramFunction,
        values: dict[str, Any],
        stream: Any,
        *,
        bound: bool = False,
        new: bool = False,
    ) -> None:
        launcher = next(iter(function.functions.values()))._launcher
        super().__init__(function, launcher, function.fixed_device)
        self._given = values
        self._is_new = new
        self._has_views = False
        #: For each input, update and output a device array, an image, the view of a host array, or
        #: None for an output that is not given.
        self._arrays: list[Any] = []
        self._scalars = {
            name: function.scalar(each, values[name]) for name, each in function.scalars.items()
        }
        #: What the checks of images of other libraries depend on.
        self._usages: list[tuple[str, object]] = []
        lengths: list[Shape | None] = []
        is_written = self._has_host_arrays = self._returns_device_arrays = False
        #: Whether an output is not given, and whether a host array is written.
        self._has_new = self._reads_back = False
        for argument, declared in zip(function.arguments, function.arrays.values(), strict=True):
            given = values.get(declared.name)
            taken = None
            shape = None
            if given is not None or declared.role != "output":
                try:
                    taken = self._take(argument, given, bound)
                    shape = taken.shape
                    if type(taken) is HostView:
                        self._has_host_arrays = True
                        self._reads_back |= argument.written
                        if declared.format:
                            shape = self._lengths(declared, taken)
                    else:
                        #: Whether the outputs that the call allocates are device arrays.
                        self._returns_device_arrays |= declared.role != "state"
                        if declared.format:
                            shape = self._take_image(argument, declared, taken)
                        else:
                            self._has_views |= taken._root is not None
                            if taken.read_only or (taken._offset and taken.misaligned):
                                self._memory(argument, given, taken)
                except ConversionError as error:
                    raise self._error(argument, error) from None
                is_written |= argument.written
            else:
                self._has_new = True
            self._arrays.append(taken)
            lengths.append(shape)

        if self._device is None:
            self._device = function.device
        elif self._device is not function.device:
            function = self._function = function.module._function_on(function.name, self._device)
        if is_written:
            self._check_overlaps()
        own_stream = None
        if stream is not None:
            own_stream = self._open_stream(stream)
        self._stream, _ = self._choose_stream(self._device, own_stream, bound)

        sizes = [self._scalars[name] for name in function.sizes]
        self._key = (*lengths, *sizes, *self._usages, self._stream, self._device.generation, new)
        self._plan: LaunchPlan | None = None
        if not bound:
            self._plan = function._plans.get(self._key)
        if self._plan is not None:
            self._shapes = self._plan.shapes
        else:
            self._shapes = self._new_shapes(lengths)

    # -- the arguments

    def _take_image(self, argument: Any, declared: Any, image: Any) -> Shape:
        """Return the height and the width of an image of the device."""
        if (image.format, len(image.shape), image.layers) != (declared.format, 2, 0):
            raise ConversionError(Image.mismatch(image, argument.param, self._taker))
        if image.usage is not None:
            self._usages.append((declared.name, image.usage))
        return image.shape[::-1]  # type: ignore[no-any-return]

    def _lengths(self, declared: Any, view: HostView) -> Shape:
        """Return the height and the width of an image that is given as a host array. Raise
        ConversionError if it cannot be one.
        """
        shape = view.shape
        channels = declared.texel.channels
        if channels > 1:
            fits = len(shape) == 3 and shape[2] == channels
            expected = f"(height, width, {channels})"
        else:
            fits = len(shape) == 2
            expected = "(height, width)"
        if not fits:
            raise ConversionError(
                f"has the shape {shape}; expected {expected} for an image of {declared.format}"
            )
        if not view.nbytes:
            raise ConversionError(f"has the shape {shape}, and an image has lengths of 1 or more")
        return shape[:2]

    def _check_overlaps(self) -> None:
        """Raise ArgumentError if an array that the program writes has memory of another
        argument.
        """
        groups: dict[int, list[tuple[Argument, Any]]] = {}
        for argument, value in zip(self._function.arguments, self._arrays, strict=True):
            if value is None:
                continue
            memory: Any = value
            if isinstance(value, DeviceArray):
                memory = value._base.memory
            elif isinstance(value, HostView):
                memory = None
            # Arrays and images of other libraries have objects of their own for the same memory.
            if self._adopted and memory is not None:
                memory = self
            groups.setdefault(id(memory), []).append((argument, value))
        for group in groups.values():
            if len(group) > _FEW and not _may_overlap(group):
                continue
            for (first, one), (second, two) in combinations(group, 2):
                if not first.written and not second.written:
                    continue
                if isinstance(one, HostView):
                    is_shared = overlap(one, two)
                else:
                    is_shared = share_bytes(one, two)
                if is_shared:
                    raise self._overlap(first, second)

    def _new_shapes(self, given: Sequence[Shape | None]) -> Shapes:
        """Return the lengths of all arrays for those of the call.

        Check those that are expressions.
        """
        function = self._function
        lengths = dict(zip(function.arrays, given, strict=True)) | function.constant_shapes
        values: Values = {name: self._scalars[name] for name in function.sizes}
        shapes_of = []
        for array in function.given:
            shape = lengths[array.name] or ()
            if len(shape) != len(array.shape):
                raise function.error(
                    f"the argument {array.name!r} has {len(shape)} dimensions; expected {len(array.shape)}",
                    array.name,
                )
            shapes_of.append((array, array.shape, shape))
        for array, place, expected, length in bind_lengths(shapes_of, values):
            try:
                number = evaluate(expected, values)
            except ExpressionError as error:
                raise function.error(f"the shape of {array.name!r}: {error}", array.name) from None
            if number != length:
                text = expression_text(expected)
                value = ""
                if text != str(number):
                    value = f", which is {number}"
                elif not place:
                    value = _open_length(function, text)
                got = f"has the shape {lengths[array.name]}; dimension {place + 1} is {length}"
                raise function.error(
                    f"the argument {array.name!r} {got}, and expected is {text}{value}", array.name
                )
        shapes = Shapes(
            function.program,
            function.forms,
            function.lifetimes,
            values,
            function.error,
            self._device.length_unit,
        )
        shapes.turns = count_turns(function.program, values, function.error)
        idle = unwritten(function, shapes)
        for name in function.outputs:
            if lengths[name] is None:
                continue
            if not self._is_new:
                idle.discard(name)
            wanted = shapes.lengths[name]
            if lengths[name] != wanted:
                raise function.error(
                    f"the argument {name!r} has the shape {lengths[name]}, and the program returns {wanted}",
                    name,
                )
        shapes.cleared.update(function.cleared, idle)
        return shapes

    # -- the launches

    def run(self) -> Any:
        """Launch, and return the outputs."""
        start = perf_counter()
        if self._uses_in_place and self._waits():
            with InPlace(self._stream) as in_place:
                results = self._outputs(in_place)
        else:
            results = self._outputs(None)
        if self._plan is not None and (self._has_host_arrays or not self._returns_device_arrays):
            self._plan.is_long = perf_counter() - start > LONG
        if not results:
            return None
        if len(results) == 1:
            return results[0]
        return tuple(results)

    def _waits(self) -> bool:
        """Return whether the call can use host arrays where they are, and returns after the kernels
        have ended however it passes them.
        """
        if self._device.in_place_from == inf:
            return False
        if self._must_wait or self._reads_back:
            return True
        return self._has_new and not self._returns_device_arrays

    def _outputs(self, in_place: InPlace | None) -> list[Any]:
        """Launch, and return the outputs. `in_place` takes the host arrays that kernels use where
        they are.
        """
        function = self._function
        stream = self._stream
        is_long = self._plan is None or self._plan.is_long
        least = self._device.in_place_from
        arrays = []
        slots = []
        results = []
        copies: list[tuple[HostView, Any]] = []
        for argument, declared, value in zip(
            function.arguments, function.arrays.values(), self._arrays, strict=True
        ):
            result = self._given.get(declared.name)
            array = view = value
            if value is None and self._returns_device_arrays:
                array = result = self._new(declared)
            elif value is None:
                view = self._new_on_host(declared)
                result = view.array
            if type(view) is HostView:
                memory = None
                # `take_view` compares the size too: asking it takes a hundredth of a small call.
                is_large = view.nbytes >= least
                if in_place is not None and is_large and not declared.format:
                    memory = in_place.take_view(view, written=argument.written)
                if memory is not None:
                    array = DeviceArray(self._device, memory, view.shape, declared.type)
                elif value is None:
                    array = self._new(declared)
                else:
                    array = self._uploaded(declared, view)
                if memory is None and argument.written:
                    copies.append((view, array))
            arrays.append(array)
            slots.append(array if declared.format else array.memory)
            if declared.role == "output":
                results.append(result)

        self._launch(arrays, slots)
        if in_place:
            if is_long:
                stream.synchronize()  # an interrupt ends it
            in_place.finish()
        for view, array in copies:
            view.read_from(self._read, array, stream)
        if self._must_wait:
            stream.synchronize()
        return results

    def _new_on_host(self, declared: Any) -> HostView:
        """Return the view of the new array of the host for an output."""
        shape = self._shapes.lengths[declared.name]
        dtype = numpy_dtype(declared.type)
        if declared.format:
            if declared.texel.channels > 1:
                shape = (*shape, declared.texel.channels)
        elif self._shapes.nbytes[declared.name] >= self._device.in_place_from:
            return HostView(in_pages(shape, dtype), declared.type)
        return HostView(np.empty(shape, dtype), declared.type)

    def _launch(self, arrays: Sequence[Any], slots: list[Any]) -> None:
        """Queue the launches of a call that is not prepared."""
        function = self._function
        plan = self._plan
        is_checked = plan is not None and not self._has_views and not self._adopted

        def find_plan(buffers: Sequence[Any]) -> LaunchPlan:
            if plan is not None:
                return plan
            plans = function._plans  # taken before `Opening` is asked, as in `KernelCall`
            named = self._named(arrays, buffers)
            new = LaunchPlan(function, self._shapes, self._stream, named)
            keep(plans, self._key, new, _MAX_CACHED)
            return new

        _queue(self._shapes, self._stream, slots, self._scalars, find_plan, is_checked)

    def bound(self) -> Launch:
        """Return the prepared launch, which owns its temporaries."""
        named = self._named(self._arrays, self._own_buffers())
        return Launch(self._function, self, self._stream, named, (), tuple(named.values()))  # type: ignore[arg-type]

    def _own_buffers(self) -> Sequence[Any]:
        """Return the buffers of a prepared launch."""
        return StreamMemory().take(self._shapes, self._stream)

    def prepare(self, stream: Stream, named: Named, values: object) -> Work:
        """As `Kernel.prepare`, for what the names in the steps stand for."""
        queue = self._sequence(named, stream)
        lock = fork_safe(RLock())
        function = self._function  # not the call, which has what is returned
        is_queueing = False

        def locked() -> None:
            nonlocal is_queueing
            # Several threads may call it, and its launches share the temporaries.
            with lock:
                if is_queueing:
                    raise LaunchError(
                        "a handler of a signal launches a prepared program that the signal interrupted; launch another one"
                    )
                try:
                    is_queueing = True
                    queue()
                except LaunchError as error:
                    function.add_name(error)
                    raise
                finally:
                    is_queueing = False

        self._queue = locked
        return locked

    def time(self, stream: Stream, named: Named, values: object) -> float:
        """As `Kernel.time`."""
        before = stream.record()
        self._queue()
        return stream.record().elapsed(before)

    def _sequence(self, named: Named, stream: Stream) -> Work:
        """Return what queues all launches of a prepared one. It has no reference to the call, which
        has it.
        """
        make = partial(_calls, self._function, self._shapes, named)
        if type(stream).prepare is not Stream.prepare:  # one command buffer or graph
            return stream.prepare(lambda each: [call for _, call in make(each)])
        launches = make(stream)

        def queue() -> None:
            with stream.batch():
                try:
                    for step, each in launches:  # noqa: B007 - the error names it
                        each()
                except Exception as error:
                    step.of_step(error)
                    raise

        return queue

    def _named(self, given: Sequence[Any], buffers: Sequence[Any]) -> Named:
        """Return what the names in the steps stand for. `buffers` has the memory of the
        temporaries, and the images.
        """
        function = self._function
        shapes = self._shapes
        result: Named = {**shapes.values, **self._scalars, **function.constants}
        result |= zip(function.arrays, given, strict=True)
        for sampler in function.samplers:
            result[sampler.name] = self._device.sampler(
                filter=sampler.filter, address=sampler.address
            )
        for first, names in function.forms:
            if first.role != "temporary":
                continue
            made: dict[int, Any] = {}
            for name in names:
                # Without buffers each has memory of its own.
                if not buffers:
                    result[name] = self._new(first)
                    continue
                number = shapes.buffers[name]
                if number not in made:
                    made[number] = buffers[number]
                    if not first.format:
                        made[number] = DeviceArray(
                            self._device, buffers[number], shapes.lengths[name], first.type
                        )
                result[name] = made[number]
        return result

    def _new(self, declared: Any) -> Any:
        lengths = self._shapes.lengths[declared.name]
        if declared.format:
            return self._device.image(lengths[::-1], declared.format)
        return DeviceArray(
            self._device,
            self._device.allocate(max(self._shapes.nbytes[declared.name], 1)),
            lengths,
            declared.type,
        )

    def _uploaded(self, declared: Any, view: HostView) -> Any:
        if declared.format:
            image = self._device.image(view.shape[1::-1], declared.format)
            self._device.write_image(image, view.read(), self._stream)
            return image
        return DeviceArray(
            self._device, self._device.upload(view.read(), self._stream), view.shape, declared.type
        )

    def _read(self, value: Any, out: memoryview, stream: Stream) -> None:
        if self._plan is None or self._plan.is_long:
            stream.synchronize()  # an interrupt ends it, and not the wait of a copy
        if isinstance(value, Image):
            self._device.read_image(value, out, stream)
        else:
            self._device.read(value.memory, out, stream)


def _calls(
    function: ProgramFunction, shapes: Shapes, named: Named, stream: Stream
) -> list[tuple[Step, Work]]:
    """Return what queues each launch of a prepared one, with its step."""
    calls: list[tuple[Step, Work]] = []
    for step, own in launches_of(function, shapes, named):
        if own is None:
            for name, nbytes in step.cleared(shapes):
                # An image is none of them: only the output that a call allocates is cleared.
                memory = named[name].memory
                calls.append((step, partial(clear, memory, nbytes, stream)))
            continue
        call = step.call(stream, own, partial(KernelCall, bound=True))
        if call.shape is not None:
            try:
                calls.append((step, call.kernel.prepare(stream, call.shape, call.values)))
            except Exception as error:
                step.of_step(error)
                raise
    return calls


def _queue(
    shapes: Shapes,
    stream: Stream,
    slots: list[Any],
    scalars: Named,
    find_plan: Callable[[Sequence[Any]], LaunchPlan],
    is_checked: bool,
) -> None:
    """Queue the launches of a call. `find_plan` returns its plan for the buffers of temporaries."""
    memory = memory_of(stream)
    with memory.lock:
        is_used = memory.is_used
        memory.is_used = True
        try:
            own_memory = memory
            if is_used:
                own_memory = StreamMemory()
            buffers = own_memory.take(shapes, stream)
            plan = find_plan(buffers)
            slots += buffers
            if not stream.gathers:
                plan.run(slots, scalars, is_checked=is_checked)
                return
            with stream.batch():
                plan.run(slots, scalars, is_checked=is_checked)
        finally:
            memory.is_used = is_used


def repeat(function: ProgramFunction, args: Sequence[Any], given: Any) -> Any:
    """Run a call again whose arguments are plain: whole device arrays of the exact types, and
    numbers, for shapes in a stream that a call had before. Return NotImplemented for another one.

    It takes half of the time of a checked call before the first launch.
    """
    device = function.device
    stream = given
    if given is None:
        stream = current_stream(device) or device.default_stream
    elif not isinstance(given, Stream):
        return NotImplemented
    key: list[Any] = []
    #: The memory of the arrays; None for outputs.
    slots: list[Any] = []
    for place, type_ in function.array_places:
        if place is None:
            key.append(None)
            slots.append(None)
            continue
        array = args[place]
        if type(array) is not DeviceArray or array._root is not None:
            return NotImplemented
        if array.dtype is not type_ or array.device is not device:
            return NotImplemented
        key.append(array.shape)
        slots.append(array.memory)
    scalars = {each.name: function.scalar(each, args[at]) for at, each in function.scalar_places}
    key += [scalars[name] for name in function.sizes]
    plan = function._plans.get((*key, stream, device.generation, False))
    if plan is None:
        return NotImplemented

    shapes = plan.shapes
    results = []
    for slot, declared in enumerate(function.arrays.values()):
        if slots[slot] is None:
            name = declared.name
            memory = slots[slot] = device.allocate(max(shapes.nbytes[name], 1))
            results.append(DeviceArray(device, memory, shapes.lengths[name], declared.type))
    _queue(shapes, stream, slots, scalars, lambda _: plan, True)
    if len(results) == 1:
        return results[0]
    return tuple(results)


def _may_overlap(arrays: Sequence[tuple[Argument, Any]]) -> bool:
    """Return whether two arrays may share bytes, by their first and last ones. Equal inputs are
    one.
    """
    spans = set()
    for number, (argument, value) in enumerate(arrays):
        own_number = number if argument.written else -1
        spans.add((*_span(value), own_number))
    return any(one[0] == two[0] and two[1] < one[2] for one, two in pairwise(sorted(spans)))


def _span(value: Any) -> tuple[int, float, float]:
    """Return a number of the memory of an array, and its first byte and its end there."""
    if isinstance(value, HostView):
        return 0, *getattr(np.lib, "array_utils", np).byte_bounds(value.array)
    span: tuple[int, float, float] = value._span
    return span


def _open_length(function: ProgramFunction, length: str) -> str:
    """Return the option by which `devmod onnx` leaves a length open that it has fixed; "" if it has
    not. The origin of the kernels has its options.
    """
    kernel = next(iter(function.functions.values()))
    origin = kernel._rules.origin
    if callable(origin):
        origin = origin()
    if origin is None:
        return ""
    for option in origin.options:
        name, _, fixed = option.rpartition("=")
        if name.startswith("--dim ") and fixed == length:
            return f". For up to N, make the file by devmod onnx with {name}=1..N"
    return ""
