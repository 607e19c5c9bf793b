"""One call of a program: its arrays are checked, copied and allocated before the first launch."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import combinations, pairwise
from math import inf
from threading import RLock

from devmod._arrays.elements import bytes_of
from devmod._values.dtypes import describe_value
from devmod._values.param import numpy_dtype
from devmod.backend import ConversionError, expression_text
from devmod.errors import LaunchError
from devmod_readers.programs import Array, ExpressionError, Sampler, bind_lengths, evaluate
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.host import HostView, host_view
from devmod_runtime._device.image import Image
from devmod_runtime._device.stream import Stream, current_stream
from devmod_runtime._fork import fork_safe
from devmod_runtime._launch.call import choose_stream, overlap
from devmod_runtime._launch.function import Launch
from devmod_runtime._launch.opening import keep
from devmod_runtime._program.plan import LaunchPlan, Shapes, clear, unwritten
from devmod_runtime._program.temporaries import StreamMemory, memory_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod_runtime._program.plan import Step

    ProgramFunction = Any  # its module imports this one
else:
    from devmod._util.numpy import np


#: The number of shapes whose lengths and launches a program caches.
_MAX_CACHED = 64


class CheckedProgramCall:
    """A checked call. The constructor launches nothing.

    Parameters
    ----------
    function
        The program. The call is on its device, or on that of the first device array, if that is another one of the kind.
    values
        The arguments by name.
    stream
        The stream that the caller gives, or None.
    bound
        Whether the call is for a prepared launch: it takes no host arrays.
    new
        Whether the outputs that are given are new memory.
    """

    def __init__(self, function: ProgramFunction, values: dict[str, Any], stream: Any, *, bound: bool = False, new: bool = False) -> None:
        self._is_new, self._has_views = new, False
        self._function, self._device, self._given, self._is_chosen = function, function.device, values, function.fixed
        self._launcher = next(iter(function.functions.values()))._launcher
        self._adopted: list[Stream | None] = []
        #: For each input, update and output a device array, an image, the view of a host array, or None for an output that is not given.
        self._arrays: list[Any] = []
        self._scalars = {name: function.scalar(each, values[name]) for name, each in function.scalars.items()}
        #: What the checks of images of other libraries depend on.
        self._usages: list[tuple[str, object]] = []
        lengths: list[tuple[int, ...] | None] = []
        is_written = self._has_host_arrays = self._returns_device_arrays = False
        for name, declared in function.arrays.items():
            value, shape = values.get(name), None
            if value is not None or declared.role != "output":
                try:
                    value, shape = self._take(declared, value, bound)
                except ConversionError as error:
                    raise function.error(f"the argument {name!r} {error}", name) from None
                if type(value) is HostView:
                    self._has_host_arrays = True
                else:
                    #: Whether the outputs that the call allocates are device arrays.
                    self._returns_device_arrays = True
                if declared.role != "input":
                    is_written = True
            self._arrays.append(value)
            lengths.append(shape)
        if is_written:
            self._check_overlaps()
        function = self._function
        self._stream = self._choose_stream(stream, bound)
        sizes = [self._scalars[name] for name in function.sizes]
        self._key = (*lengths, *sizes, *self._usages, self._stream, self._device.generation, new)
        self._plan = None if bound else function._plans.get(self._key)
        self._shapes = self._plan.shapes if self._plan is not None else self._new_shapes(lengths)

    # -- the arguments

    def _take(self, declared: Array, value: Any, bound: bool) -> tuple[DeviceArray | Image | HostView, tuple[int, ...]]:
        """Return an array or an image of the call, and its lengths. Raise ConversionError with the end of a sentence."""
        if type(value) is not DeviceArray and not isinstance(value, Image):
            adopted = self._launcher.adopt(value)
            if adopted is None:
                return self._take_host(declared, value, bound)
            value, stream = adopted
            self._adopted.append(stream)
            if isinstance(value, Image):
                self._usages.append((declared.name, value.usage))
        if isinstance(value, Image) is not bool(declared.format):
            raise ConversionError(f"is {describe_value(value)}; expected {'an image' if declared.format else 'an array'}")
        if value.device is not self._device and not self._is_chosen and value.device.kind == self._function.kind:
            self._function, self._device = self._function.module._function_on(self._function.name, value.device), value.device
        self._is_chosen = True
        if value.device is not self._device:
            advice = "call f.on(array.device), or copy it through the host: pass array.numpy()"
            raise ConversionError(f"is on {value.device}, and the program runs on {self._device}; {advice}")
        if isinstance(value, Image):
            if (value.format, len(value.shape), value.layers) != (declared.format, 2, 0):
                raise ConversionError(f"is an image of {value.format}; expected one of {declared.format} with two dimensions")
            lengths: tuple[int, ...] = (value.shape[1], value.shape[0])
        else:
            self._has_views |= value._root is not None
            if value.dtype != declared.type:
                raise ConversionError(f"is an array of {value.dtype}; expected {declared.type}")
            if value.misaligned:
                raise ConversionError(value.misaligned)
            if value.read_only and declared.role != "input":
                raise ConversionError("is read-only, and the program writes to it")
            lengths = value.shape
        return value, lengths

    def _take_host(self, declared: Array, value: Any, bound: bool) -> tuple[HostView, tuple[int, ...]]:
        view = host_view(value)
        if view is None:
            raise ConversionError(f"is {describe_value(value)}; expected an array of {declared.type}")
        if bound:
            raise ConversionError("is in the host's memory, and bind takes device arrays: pass device.from_numpy(array)")
        if view.dtype != declared.type or view.packed:
            advice = f": array.astype(np.{declared.type})" if hasattr(value, "astype") else ""
            if type(value).__module__ == "torch":
                advice = f": array.to(torch.{declared.type})"
            raise ConversionError(f"is an array of {view.dtype}; expected {declared.type}{advice}")
        if declared.role != "input" and (problem := view.write_problem):
            raise ConversionError(f"{problem}, and the program writes to it")
        shape = view.shape
        if declared.texel is not None:
            channels = declared.texel.channels
            if len(shape) != 2 + (channels > 1) or (channels > 1 and shape[2] != channels):
                expected = f"(height, width, {channels})" if channels > 1 else "(height, width)"
                raise ConversionError(f"has the shape {shape}; expected {expected} for an image of {declared.format}")
            shape = shape[:2]
            if not view.nbytes:
                raise ConversionError(f"has the shape {view.shape}, and an image has lengths of 1 or more")
        return view, shape

    def _check_overlaps(self) -> None:
        """Raise ArgumentError if an array that the program writes has memory of another argument."""
        groups: dict[int, list[tuple[Array, Any]]] = {}
        for declared, value in zip(self._function.arrays.values(), self._arrays, strict=True):
            if value is None:
                continue
            memory = value._base.memory if isinstance(value, DeviceArray) else None if isinstance(value, HostView) else value
            if self._adopted and memory is not None:
                memory = self  # arrays and images of other libraries have objects of their own for the same memory
            groups.setdefault(id(memory), []).append((declared, value))
        for group in groups.values():
            if len(group) > _FEW and not _may_overlap(group):
                continue
            for (other, second), (declared, value) in combinations(group, 2):
                if (declared.role, other.role) == ("input", "input"):
                    continue
                if overlap(value, second) if isinstance(value, HostView) else _share_bytes(value, second):
                    text = f"the arguments {other.name!r} and {declared.name!r} overlap, and the program writes to one of them"
                    raise self._function.error(text, declared.name)

    def _new_shapes(self, given: Sequence[tuple[int, ...] | None]) -> Shapes:
        """Return the lengths of all arrays for those of the call. Check those that are expressions."""
        function = self._function
        lengths = dict(zip(function.arrays, given, strict=True))
        lengths |= {name: each.shape for name, each in function.constants.items()}
        values: dict[Any, int] = {name: self._scalars[name] for name in function.sizes}
        arrays = [*function.program.arrays("input", "update"), *function.program.arrays("constant")]
        for array in arrays:
            if len(shape := lengths[array.name] or ()) != len(array.shape):
                raise function.error(f"the argument {array.name!r} has {len(shape)} dimensions; expected {len(array.shape)}", array.name)
        for array, place, expected, length in bind_lengths([(each, each.shape, lengths[each.name] or ()) for each in arrays], values):
            try:
                number = evaluate(expected, values)
            except ExpressionError as error:
                raise function.error(f"the shape of {array.name!r}: {error}", array.name) from None
            if number != length:
                text = expression_text(expected)
                value = "" if text == str(number) else f", which is {number}"
                got = f"has the shape {lengths[array.name]}; dimension {place + 1} is {length}"
                raise function.error(f"the argument {array.name!r} {got}, and expected is {text}{value}", array.name)
        shapes = Shapes(function.program, function.lifetimes, values, function.error, self._device.length_unit)
        shapes.unwritten = unwritten(function, values)
        for name in function.outputs:
            if lengths[name] is not None and not self._is_new:
                shapes.unwritten.discard(name)
            if lengths[name] not in (None, wanted := shapes.lengths[name]):
                raise function.error(f"the argument {name!r} has the shape {lengths[name]}, and the program returns {wanted}", name)
        return shapes

    def _choose_stream(self, given: Any, bound: bool) -> Stream:
        function, device = self._function, self._device
        stream = given
        if given is not None and not isinstance(given, Stream):
            stream = self._launcher.adopt_stream(given)
        if given is not None and (stream is None or stream.device is not device):
            got = describe_value(given) if stream is None else f"a stream of {stream.device}"
            raise function.error(f"stream= is {got}; expected one of {device}", "stream")
        current = current_stream(device) if given is None else stream
        chosen, self._must_wait = choose_stream(device, current, self._adopted, is_given=given is not None, bound=bound)
        return chosen

    # -- the launches

    def run(self) -> Any:
        """Launch, and return the outputs."""
        function, stream = self._function, self._stream
        arrays, slots, results = [], [], []
        for declared, value in zip(function.arrays.values(), self._arrays, strict=True):
            array = self._new(declared) if value is None else self._uploaded(declared, value) if type(value) is HostView else value
            arrays.append(array)
            slots.append(array if declared.format else array.memory)
            if declared.role == "output":
                results.append(array if value is None else self._given[declared.name])
        self._launch(arrays, slots)
        if self._has_host_arrays:
            self._copy_back(arrays)
        if self._must_wait:
            stream.synchronize()
        if not self._returns_device_arrays:
            results = [self._to_numpy(each) if isinstance(each, (DeviceArray, Image)) else each for each in results]
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def _launch(self, arrays: Sequence[Any], slots: list[Any]) -> None:
        """Queue the launches of a call that is not prepared."""
        stream = self._stream
        with memory_of(stream).of_call() as memory:
            buffers = self._shapes.parts_of(memory.take(self._shapes.sizes, self._shapes.images, stream), self._device)
            is_checked = self._plan is not None and not self._has_views and not self._adopted
            plan = self._plan or self._new_plan(arrays, buffers)
            slots += buffers
            with stream.batch() if stream.gathers else nullcontext():
                plan.run(slots, self._scalars, is_checked=is_checked)

    def _new_plan(self, arrays: Sequence[Any], buffers: Sequence[Any]) -> LaunchPlan:
        plans = self._function._plans  # taken before `Opening` is asked, as in `KernelCall`
        named = self._named(arrays, buffers)
        numbers = {name: number for number, name in enumerate(self._function.arrays)}
        numbers |= {name: len(arrays) + number for name, number in self._shapes.buffers.items()}
        plan = LaunchPlan(self._function, self._shapes, self._stream, named, self._scalars, numbers)
        keep(plans, self._key, plan, _MAX_CACHED)
        return plan

    def bound(self) -> Launch:
        """Return the prepared launch, which owns its temporaries."""
        buffers = StreamMemory().take(self._shapes.sizes, self._shapes.images, self._stream)
        arrays = self._named(self._arrays, self._shapes.parts_of(buffers, self._device))
        make = partial(self._calls, arrays)
        return Launch(self._function, PreparedProgram(self._function), self._stream, make, (), tuple(arrays.values()))  # type: ignore[arg-type]

    def _calls(self, arrays: Mapping[str, Any], stream: Stream) -> list[tuple[Step, Callable[[], object]]]:
        """Return what queues each launch of a prepared one, with its step."""
        calls: list[tuple[Step, Callable[[], object]]] = []
        values = self._shapes.values
        for step in self._function.steps:
            for name, nbytes in step.cleared(self._shapes):
                calls.append((step, partial(clear, getattr(arrays[name], "memory", arrays[name]), nbytes, stream)))
            call = step.call(stream, step.dims(values), values, arrays, self._scalars, bound=True)
            if call.shape is not None:
                try:
                    calls.append((step, call.kernel.prepare(stream, call.shape, call.values)))
                except Exception as error:
                    step.of_step(error)
                    raise
        return calls

    def _named(self, given: Sequence[Any], buffers: Sequence[Any]) -> dict[str, Any]:
        """Return the arrays, images and samplers of the steps by name. `buffers` has the memory of the temporaries, and the images."""
        function, shapes = self._function, self._shapes
        result: dict[str, Any] = dict(zip(function.arrays, given, strict=True)) | function.constants
        made: dict[Any, Any] = {}
        for each in function.program.declared.values():
            if isinstance(each, Sampler):
                result[each.name] = self._device.sampler(filter=each.filter, address=each.address)
            elif isinstance(each, Array) and each.role == "temporary":
                number = shapes.buffers.get(each.name) if buffers else None  # without buffers each has memory of its own
                form = number, each.type, each.shape
                if number is None:
                    made[form] = self._new(each)
                elif form not in made:
                    made[form] = buffers[number]
                    if not each.format:
                        made[form] = DeviceArray(self._device, buffers[number], shapes.lengths[each.name], each.type)
                result[each.name] = made[form]
        return result

    def _new(self, declared: Any) -> Any:
        lengths = self._shapes.lengths[declared.name]
        if declared.format:
            return self._device.image(lengths[::-1], declared.format)
        return DeviceArray(self._device, self._device.allocate(max(self._shapes.nbytes[declared.name], 1)), lengths, declared.type)

    def _uploaded(self, declared: Any, view: HostView) -> Any:
        if declared.format:
            image = self._device.image(view.shape[1::-1], declared.format)
            self._device.write_image(image, view.read(), self._stream)
            return image
        return DeviceArray(self._device, self._device.upload(view.read(), self._stream), view.shape, declared.type)

    def _copy_back(self, arrays: Sequence[Any]) -> None:
        for declared, view, array in zip(self._function.arrays.values(), self._arrays, arrays, strict=True):
            if isinstance(view, HostView) and declared.role != "input" and view.nbytes:
                self._read(array, view.write_target())
                view.finish()

    def _read(self, value: Any, out: memoryview) -> None:
        if isinstance(value, Image):
            self._device.read_image(value, out, self._stream)
        else:
            self._device.read(value.memory, out, self._stream)

    def _to_numpy(self, value: DeviceArray | Image) -> np.ndarray[Any, Any]:
        result = (
            np.empty(value.array_shape, value.texel.dtype) if isinstance(value, Image) else np.empty(value.shape, numpy_dtype(value.dtype))
        )
        if result.nbytes:
            self._read(value, bytes_of(result))
        return result


def _share_bytes(one: DeviceArray | Image, other: DeviceArray | Image) -> bool:
    """Return whether arrays and images of one device share memory. An image has all of its allocation."""
    if isinstance(one, DeviceArray) and isinstance(other, DeviceArray):
        return one.overlaps(other)
    first, second = (each.device.place(each.memory if isinstance(each, Image) else each._base.memory) for each in (one, other))
    return first[0] == second[0]


#: The most arrays of which each is compared with all others at once.
_FEW = 16


def _may_overlap(arrays: Sequence[tuple[Array, Any]]) -> bool:
    """Return whether two arrays may share bytes, by their first and last ones. Equal inputs are one."""
    spans = sorted({(*_span(value), -1 if declared.role == "input" else number) for number, (declared, value) in enumerate(arrays)})
    return any(one[0] == two[0] and two[1] < one[2] for one, two in pairwise(spans))


def _span(value: Any) -> tuple[int, float, float]:
    """Return a number of the memory of an array, and its first and last byte there. An image has all of its memory."""
    if isinstance(value, HostView):
        return 0, *getattr(np.lib, "array_utils", np).byte_bounds(value.array)
    if isinstance(value, Image):
        return value.device.place(value.memory)[0], 0, inf
    memory, first = value.device.place(value._base.memory)
    return memory, first + value._offset, first + value._offset + value.nbytes


class PreparedProgram:
    """The kernel of a program's prepared launch. The shape is the function that makes the launches for a stream."""

    _queue: Callable[[], object]
    _is_queueing = False

    def __init__(self, function: ProgramFunction) -> None:
        self._function = function

    def prepare(self, stream: Stream, shape: Any, values: object) -> Callable[[], object]:
        queue, lock = self._sequence(stream, shape), fork_safe(RLock())

        def locked() -> None:
            with lock:  # several threads may call it, and its launches share the temporaries
                if self._is_queueing:
                    raise LaunchError("a handler of a signal launches a prepared program that the signal interrupted; launch another one")
                try:
                    self._is_queueing = True
                    queue()
                except LaunchError as error:
                    self._function.add_name(error)
                    raise
                finally:
                    self._is_queueing = False

        self._queue = locked
        return locked

    def _sequence(self, stream: Stream, make: Callable[[Stream], Sequence[Any]]) -> Callable[[], object]:
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

    def time(self, stream: Stream, shape: Any, values: object) -> float:
        before = stream.record()
        self._queue()
        return stream.record().elapsed(before)
