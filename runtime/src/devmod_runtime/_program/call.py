"""One call of a program: its arrays are checked, copied and allocated before the first launch."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import combinations

from devmod._arrays.elements import bytes_of
from devmod._values.dtypes import describe_value
from devmod._values.param import numpy_dtype
from devmod.backend import ConversionError, expression_text
from devmod_readers.programs import Array, ExpressionError, Sampler, Scalar, evaluate
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.host import host_view
from devmod_runtime._device.image import Image
from devmod_runtime._device.stream import Stream, current_stream
from devmod_runtime._launch.call import overlap
from devmod_runtime._launch.function import Launch
from devmod_runtime._program.plan import Plan, each_step
from devmod_runtime._program.temporaries import memory_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod_runtime._device.device import Device
    from devmod_runtime._device.host import HostView
    from devmod_runtime._program.function import ProgramFunction
    from devmod_runtime._program.plan import StepCall
else:
    from devmod._util.numpy import np


class ProgramCall:
    """A checked call. The constructor launches nothing.

    Parameters
    ----------
    function
        The program on the device of the call.
    values
        The arguments by name.
    stream
        The stream that the caller gives, or None.
    bound
        Whether the call is for a prepared launch: it takes no host arrays.
    """

    def __init__(self, function: ProgramFunction, values: dict[str, Any], stream: Any, *, bound: bool = False) -> None:
        self._function, self._device, self._given = function, function.device, values
        self._launcher = next(iter(function.functions.values()))._launcher
        self._adopted: list[Stream | None] = []
        #: The arrays, images and samplers of the steps by name; None for a host array until its upload.
        self._slots: dict[str, Any] = {}
        self._host: dict[str, HostView] = {}
        self._scalars: dict[str, Any] = {}
        on_device = False
        lengths: dict[str, tuple[int, ...]] = {}
        for each in function.program.declared.values():
            if isinstance(each, Scalar):
                self._scalars[each.name] = function.scalar(each, values[each.name])
            elif isinstance(each, Array) and values.get(each.name) is not None:
                try:
                    lengths[each.name] = self._take(each, values[each.name], bound)
                except ConversionError as error:
                    raise function.error(f"the argument {each.name!r} {error}", each.name) from None
                on_device = on_device or each.name in self._slots
        self._check_overlaps()
        self._slots |= function.constants
        key = (*[(name, lengths[name]) for name in lengths], *[self._scalars[name] for name in function.sizes])
        self._shapes = function.shapes(key, lambda: self._bind(lengths))
        self._key = key
        for name in function.outputs:
            if name in lengths and lengths[name] != (wanted := self._shapes.lengths[name]):
                raise function.error(f"the argument {name!r} has the shape {lengths[name]}, and the program returns {wanted}", name)
        #: Whether the outputs that the call allocates are device arrays.
        self._returns_device_arrays = on_device
        self._stream = self._choose_stream(stream, bound)

    # -- the arguments

    def _take(self, declared: Array, value: Any, bound: bool) -> tuple[int, ...]:
        """Check an array or an image of the call, and return its lengths. Raise ConversionError with the end of a sentence."""
        if type(value) is not DeviceArray and not isinstance(value, Image):
            adopted = self._launcher.adopt(value)
            if adopted is None:
                return self._take_host(declared, value, bound)
            value, stream = adopted
            self._adopted.append(stream)
        if isinstance(value, Image) is not bool(declared.format):
            raise ConversionError(f"is {describe_value(value)}; expected {'an image' if declared.format else 'an array'}")
        if value.device is not self._device:
            raise ConversionError(f"is on {value.device}, and the program runs on {self._device}; copy it through the host")
        if isinstance(value, Image):
            if (value.format, len(value.shape), value.layers) != (declared.format, 2, 0):
                raise ConversionError(f"is an image of {value.format}; expected one of {declared.format} with two dimensions")
            lengths: tuple[int, ...] = (value.shape[1], value.shape[0])
        else:
            if value.dtype != declared.type:
                raise ConversionError(f"is an array of {value.dtype}; expected {declared.type}")
            if value.misaligned:
                raise ConversionError(value.misaligned)
            if value.read_only and declared.role != "input":
                raise ConversionError("is read-only, and the program writes to it")
            lengths = value.shape
        self._slots[declared.name] = value
        return lengths

    def _take_host(self, declared: Array, value: Any, bound: bool) -> tuple[int, ...]:
        view = host_view(value)
        if view is None:
            raise ConversionError(f"is {describe_value(value)}; expected an array of {declared.type}")
        if bound:
            raise ConversionError("is in the host's memory, and bind takes device arrays: pass device.from_numpy(array)")
        if view.dtype != declared.type or view.packed:
            advice = f": array.astype(np.{declared.type})" if hasattr(value, "astype") else ""
            raise ConversionError(f"is an array of {view.dtype}; expected {declared.type}{advice}")
        if declared.role != "input" and not view.array.flags.writeable:
            raise ConversionError("is read-only, and the program writes to it")
        shape = view.shape
        if declared.texel is not None:
            channels = declared.texel.channels
            if len(shape) != 2 + (channels > 1) or (channels > 1 and shape[2] != channels):
                expected = f"(height, width, {channels})" if channels > 1 else "(height, width)"
                raise ConversionError(f"has the shape {shape}; expected {expected} for an image of {declared.format}")
            shape = shape[:2]
        self._host[declared.name] = view
        return shape

    def _check_overlaps(self) -> None:
        """Raise ArgumentError if an array that the program writes has memory of another argument."""
        declared = self._function.program.declared
        given = [*self._slots.items(), *self._host.items()]
        for (one, first), (two, second) in combinations(given, 2):
            if all(declared[name].role == "input" for name in (one, two)):  # type: ignore[union-attr]
                continue
            if isinstance(first, DeviceArray) and isinstance(second, DeviceArray):
                shared = first.overlaps(second)
            else:
                shared = first is second or (one in self._host and two in self._host and overlap(first, second))
            if shared:
                raise self._function.error(f"the arguments {one!r} and {two!r} overlap, and the program writes to one of them", two)

    def _bind(self, lengths: dict[str, tuple[int, ...]]) -> dict[Any, int]:
        """Return the values of the names in shapes, and check the lengths that are expressions of them."""
        function = self._function
        values: dict[Any, int] = {name: self._scalars[name] for name in function.sizes}
        arrays = [*function.program.arrays("input", "update"), *function.program.arrays("constant")]
        checks = []
        for array in arrays:
            shape = lengths[array.name] if array.name in lengths else self._slots[array.name].shape
            if len(shape) != len(array.shape):
                raise function.error(f"the argument {array.name!r} has {len(shape)} dimensions; expected {len(array.shape)}", array.name)
            for place, (expected, length) in enumerate(zip(array.shape, shape, strict=True)):
                if isinstance(expected, str) and expected not in values:
                    values[expected] = length
                else:
                    checks.append((array, place, expected, length, shape))
        for array, place, expected, length, shape in checks:
            try:
                number = evaluate(expected, values)
            except ExpressionError as error:
                raise function.error(f"the shape of {array.name!r}: {error}", array.name) from None
            if number != length:
                text = expression_text(expected)
                value = "" if text == str(number) else f", which is {number}"
                raise function.error(
                    f"the argument {array.name!r} has the shape {shape}; dimension {place + 1} is {length}, and expected is {text}{value}",
                    array.name,
                )
        return values

    def _choose_stream(self, given: Any, bound: bool) -> Stream:
        function, device = self._function, self._device
        stream = given
        if given is not None and not isinstance(given, Stream):
            stream = self._launcher.adopt_stream(given)
        if given is not None and (stream is None or stream.device is not device):
            got = describe_value(given) if stream is None else f"a stream of {stream.device}"
            raise function.error(f"stream= is {got}; expected one of {device}", "stream")
        current = current_stream(device) if given is None else stream
        chosen: Stream = current or next((each for each in self._adopted if each is not None), None) or device.default_stream
        self._must_wait = any(each is not chosen if each is not None else given is None for each in self._adopted)
        if given is None and not bound:
            for each in dict.fromkeys(self._adopted):
                if each is not None and each is not chosen:
                    chosen.wait(each.record())
        return chosen

    # -- the launches

    def run(self) -> Any:
        """Launch, and return the outputs."""
        function, stream, slots = self._function, self._stream, self._slots
        for name, view in self._host.items():
            slots[name] = self._uploaded(function.program.declared[name], view)
        results = []
        for name in function.outputs:
            if name not in slots:
                slots[name] = self._new(function.program.declared[name])
            results.append(slots[name])
        self._launch(stream, slots)
        self._copy_back()
        if self._must_wait:
            stream.synchronize()
        if not self._returns_device_arrays:
            results = [self._to_numpy(name, each) for name, each in zip(function.outputs, results, strict=True)]
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def _launch(self, stream: Stream, slots: Mapping[str, Any]) -> None:
        """Queue the launches of a call that is not prepared."""
        shapes = self._shapes
        pool = memory_of(stream)
        with pool.lock:
            buffers = pool.take(shapes.sizes, stream) if shapes.sizes else ()
            memories = {name: each.memory if type(each) is DeviceArray else each for name, each in slots.items()}
            for name, number in shapes.buffers.items():
                memories[name] = buffers[number]
            plan = self._function.plan((self._key, stream), lambda: self._plan(stream, buffers))
            memories |= plan.owned
            with stream.batch() if stream.gathers else nullcontext():
                plan.run(memories, self._scalars)

    def _plan(self, stream: Stream, buffers: Sequence[Any]) -> Plan:
        owned = self._own_slots()
        arrays = self._temporaries(buffers)
        plan = Plan(self._function, stream, self._shapes.values, self._slots | owned | arrays, self._scalars)
        plan.owned = owned
        return plan

    def bound(self) -> Launch:
        """Return the prepared launch, which owns its temporaries."""
        slots = self._slots | self._own_slots() | self._own_temporaries()
        make = partial(self._calls, slots)
        return Launch(self._function, PreparedProgram(), self._stream, make, (), tuple(slots.values()))  # type: ignore[arg-type]

    def _calls(self, slots: Mapping[str, Any], stream: Stream) -> list[Callable[[], object]]:
        """Return what queues each launch of a prepared one."""
        calls: list[Callable[[], object]] = []
        for step in self._steps(slots):
            calls += [partial(_clear, self._device, slots[name].memory, nbytes, stream) for name, nbytes in step.cleared]
            calls.append(step.launch(stream))
        return calls

    def _steps(self, slots: Mapping[str, Any]) -> Iterator[StepCall]:
        return each_step(self._function, self._shapes.values, slots, self._scalars)

    def _own_slots(self) -> dict[str, Any]:
        """Return the samplers, and the temporary images, which share no memory."""
        result: dict[str, Any] = {}
        for each in self._function.program.declared.values():
            if isinstance(each, Sampler):
                result[each.name] = self._device.sampler(filter=each.filter, address=each.address)
            elif isinstance(each, Array) and each.role == "temporary" and each.format:
                result[each.name] = self._new(each)
        return result

    def _own_temporaries(self) -> dict[str, DeviceArray]:
        """Return temporary arrays of new memory."""
        return self._temporaries([self._device.allocate(max(size, 1)) for size in self._shapes.sizes])

    def _temporaries(self, buffers: Sequence[Any]) -> dict[str, DeviceArray]:
        shapes, declared = self._shapes, self._function.program.declared
        return {
            name: DeviceArray(self._device, buffers[number], shapes.lengths[name], declared[name].type)  # type: ignore[union-attr]
            for name, number in shapes.buffers.items()
        }

    def _new(self, declared: Any) -> Any:
        lengths = self._shapes.lengths[declared.name]
        if declared.format:
            return self._device.image(lengths[::-1], declared.format)
        return self._device.empty(lengths, declared.type)

    def _uploaded(self, declared: Any, view: HostView) -> Any:
        if declared.format:
            image = self._device.image(view.shape[1::-1], declared.format)
            self._device.write_image(image, view.read(), self._stream)
            return image
        if declared.role == "output":
            return self._device.empty(view.shape, declared.type)
        return DeviceArray(self._device, self._device.upload(view.read(), self._stream), view.shape, declared.type)

    def _copy_back(self) -> None:
        for name, view in self._host.items():
            if self._function.program.declared[name].role != "input" and view.nbytes:  # type: ignore[union-attr]
                self._read(self._slots[name], view.write_target())
                view.finish()

    def _read(self, value: Any, out: memoryview) -> None:
        if isinstance(value, Image):
            self._device.read_image(value, out, self._stream)
        else:
            self._device.read(value.memory, out, self._stream)

    def _to_numpy(self, name: str, value: Any) -> Any:
        """Return a host array of an output: the caller's, or a new one."""
        if name in self._host:
            return self._given[name]
        result = (
            np.empty(value.array_shape, value.texel.dtype) if isinstance(value, Image) else np.empty(value.shape, numpy_dtype(value.dtype))
        )
        if result.nbytes:
            self._read(value, bytes_of(result))
        return result


def _clear(device: Device, memory: object, nbytes: int, stream: Stream) -> None:
    device.start_clear(memory, nbytes, stream)


class PreparedProgram:
    """The kernel of a program's prepared launch. The shape is the function that makes the launches for a stream."""

    _queue: Callable[[], object]

    def prepare(self, stream: Stream, shape: Any, values: object) -> Callable[[], object]:
        self._queue = stream.prepare(shape)
        return self._queue

    def time(self, stream: Stream, shape: Any, values: object) -> float:
        before = stream.record()
        self._queue()
        return stream.record().elapsed(before)
