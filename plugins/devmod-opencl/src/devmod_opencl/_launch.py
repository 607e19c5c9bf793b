"""Packing arguments and launching: one kernel object for calls, one of its own for each prepared launch."""

from __future__ import annotations

from functools import partial
from operator import itemgetter

from devmod import Interface
from devmod.backend import DeviceArray, Kernel, Launcher, LaunchShape, Unfit, dtype_name_of
from devmod.errors import ArgumentError, FormatError, LaunchError
from devmod_opencl import _driver
from devmod_opencl._device import OpenCLStream, device_of, refused
from devmod_opencl._driver import cl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Stream
    from devmod_opencl._device import OpenCLDevice
    from devmod_opencl._program import Programs

# pyopencl's stubs do not know that the arguments may all be given by place.
_enqueue: Callable[..., Any] = cl.enqueue_nd_range_kernel


class OpenCLLauncher(Launcher):
    """One function of an OpenCL module."""

    kind = "opencl"
    no_shared_memory = "OpenCL takes the memory that a block shares as an argument; pass devmod.Local(nbytes)"

    def __init__(self, info: FunctionInfo, programs: Programs, interface: Interface | None = None) -> None:
        self._info = info
        self._programs = programs
        self._interface = interface

    @property
    def interface(self) -> Interface | None:
        return self._interface

    def default_device(self) -> Device:
        return self._programs.default_device()

    def kernel(self, device: Device) -> OpenCLKernel:
        from devmod_opencl._device import OpenCLDevice

        assert isinstance(device, OpenCLDevice)
        return OpenCLKernel(self._info, self._programs, device)

    def local(self, nbytes: int) -> Any:
        return cl.LocalMemory(nbytes)

    def specialized(self, constants: Mapping[str, object]) -> OpenCLLauncher:
        programs, known = self._programs.specialized(constants), self._info.interface
        if known is None or known.block is None:
            return OpenCLLauncher(self._info, programs)
        # The size of a block that the build found may hang on the constants: what the kernel says now counts.
        device = programs.default_device()
        fixed = OpenCLKernel(self._info, programs, device).fixed
        return OpenCLLauncher(self._info, programs, Interface(known.params, known.blocks, fixed if any(fixed) else None, known.extra))

    def adopt(self, value: object) -> tuple[DeviceArray, Stream | None] | None:
        if isinstance(value, cl.Buffer):
            context = value.context
            return DeviceArray(device_of(context, context.devices[0]), value, (value.size,), "void", value), None
        if isinstance(value, cl.MemoryObjectHolder):
            raise Unfit(f"is a pyopencl {type(value).__name__}, and only buffers and pyopencl.array.Array are taken")
        # A pyopencl Array is known by what it has: importing pyopencl.array to ask would cost 30 ms.
        if type(value).__module__ == "pyopencl.array" and hasattr(value, "base_data"):
            return _adopt_array(value)
        return None

    def adopt_stream(self, value: object) -> Stream | None:
        if isinstance(value, cl.CommandQueue):
            return device_of(value.context, value.device).stream_over(value)
        return None


def _adopt_array(array: Any) -> tuple[DeviceArray, Stream | None]:
    if not array.flags.c_contiguous:
        raise Unfit("is a strided pyopencl Array; pass array.copy()")
    memory = array.base_data
    queue = array.queue
    context = array.context
    device: OpenCLDevice = device_of(context, queue.device if queue is not None else context.devices[0])
    if memory is None:  # an empty Array has no memory at all
        memory = device.allocate(1)
    elif array.offset:
        try:
            memory = memory.get_sub_region(array.offset, max(array.nbytes, 1))
        except _driver.Error as error:
            raise Unfit(
                f"is a pyopencl Array that begins {array.offset} bytes "
                f"into its buffer, which this device cannot take ({_driver.code_name(error)}); pass array.copy()"
            ) from None
    try:
        dtype = dtype_name_of(array.dtype)
    except FormatError as error:
        raise Unfit(f"has elements of a type that no device knows: {error}") from None
    if array.events:
        cl.wait_for_events(array.events)
    return DeviceArray(device, memory, array.shape, dtype, array), device.stream_over(queue) if queue is not None else None


class OpenCLKernel(Kernel):
    """A kernel on one device. clSetKernelArg is not thread-safe, so calls take turns; each prepared launch has its own kernel object."""

    def __init__(self, info: FunctionInfo, programs: Programs, device: OpenCLDevice) -> None:
        self._program = programs.get(device)
        self._device = device
        self._name = info.name
        handle = self._new()
        count = handle.num_args
        if count != len(info.arg_types):
            raise FormatError(
                f"the opencl kernel {info.name!r} takes {count} arguments, and the payload's fmap says {len(info.arg_types)}", kind="opencl"
            )
        kinds = [param.kind for param in info.interface.params] if info.interface is not None else list(info.arg_types)
        # A number where a pointer is due may have its size: the driver would take it for an address, and the process would die.
        for number, (kind, (space, type_name)) in enumerate(zip(kinds, programs.arguments(device, info.name), strict=False)):
            if not _agree(kind, space):
                said = info.arg_types[number] if kind == "scalar" else kind
                raise FormatError(
                    f"the opencl kernel {info.name!r} takes {_TAKEN[space]} ({type_name}) as argument {number + 1}, and the payload's fmap "
                    f"says {said}",
                    kind="opencl",
                )
        # One thread at a time sets arguments of a kernel object and enqueues it. Taking from and putting to a list is atomic.
        self._free = [handle]
        # The driver's objects are set in one call of pyopencl. Bytes go another way: its general one tries every other type first.
        self._object_pairs = _pairs([number for number, kind in enumerate(kinds) if kind in ("buffer", "local", "handle")])
        self._scalars = [number for number, kind in enumerate(kinds) if kind not in ("buffer", "local", "handle")]
        # Without an interface, any pointer may be one to local memory; which is, the built kernel knows, where the driver tells.
        self._has_local = "local" in kinds or "handle" in kinds
        told = programs.arguments(device, info.name)
        self._pointers = [(number, told[number][0] == "LOCAL") for number, kind in enumerate(kinds) if kind == "handle" and told]
        group = cl.kernel_work_group_info
        self._most = min(device.limits["max_work_group_size"], handle.get_work_group_info(group.WORK_GROUP_SIZE, device.handle))
        self.fixed = tuple(handle.get_work_group_info(group.COMPILE_WORK_GROUP_SIZE, device.handle))

    def _new(self) -> Any:
        try:
            return cl.Kernel(self._program, self._name)
        except _driver.Error as error:
            names = _driver.kernel_names(self._program)
            raise FormatError(
                f"the built opencl program has no kernel {self._name!r}, which the payload's fmap names; it has: "
                f"{', '.join(names) or 'none'}",
                kind="opencl",
            ) from error

    def shape(self, launch: LaunchShape) -> tuple[tuple[int, ...], tuple[int, ...]]:
        limits = self._device.limits
        if launch.cluster != (1, 1, 1):
            raise self._over(f"clusters of {launch.cluster} blocks were asked for, and OpenCL has none")
        x, y, z = launch.block
        for axis, count in enumerate(launch.block):
            most = limits.get(f"max_work_item_sizes[{axis}]", 1)
            if count > most:
                raise self._over(f"its max_work_item_sizes[{axis}] is {most}, and block={launch.block} was asked for")
        if x * y * z > self._most:
            name = "max_work_group_size" if self._most == limits["max_work_group_size"] else "CL_KERNEL_WORK_GROUP_SIZE"
            raise self._over(f"its {name} is {self._most}, and block={launch.block} has {x * y * z} threads")
        if any(self.fixed) and self.fixed != launch.block:
            raise self._over(f"the kernel is built for blocks of {self.fixed} threads, and block={launch.block} was asked for")
        size = tuple(blocks * threads for blocks, threads in zip(launch.grid, launch.block, strict=True))
        bits = limits["address_bits"]
        for axis, count in enumerate(size):
            if count >= 1 << bits:
                raise self._over(
                    f"its address_bits are {bits}, and grid={launch.grid} of block={launch.block} has {count} threads in {'xyz'[axis]}"
                )
        # Dimensions that are not used cost the driver time.
        used = 3 if size[2] > 1 else 2 if size[1] > 1 else 1
        return size[:used], launch.block[:used]

    def caller(self, stream: Stream, shape: Any) -> Callable[[Sequence[Any]], None]:
        assert isinstance(stream, OpenCLStream)
        # This is the path of every plain call: what it uses is at hand in local names, and nothing is looked up twice.
        queue, (size, block) = stream.queue, shape
        take, give, new = self._free.pop, self._free.append, self._new
        objects, scalars = self._object_pairs, self._scalars
        # All arguments are given: nanobind takes longer to fill in what is left out.
        enqueue, error_type = _enqueue, _driver.Error

        # The first scalar, the usual only one, is set without a loop.
        first, *others = scalars or [-1]

        def call(values: Sequence[Any]) -> None:
            try:
                handle = take()
            except IndexError:
                handle = new()
            try:
                handle._set_arg_multi(objects(values))
                if first >= 0:
                    handle._set_arg_buf(first, values[first])
                    if others:
                        for number in others:
                            handle._set_arg_buf(number, values[number])
                enqueue(queue, handle, size, block, None, None, False, False)
            except error_type as error:
                raise self._failed(error) from error
            give(handle)

        if not self._has_local:
            return call

        def check_and_call(values: Sequence[Any]) -> None:
            self._check_local(values)
            call(values)

        return check_and_call

    def prepare(self, stream: Stream, shape: Any, values: Sequence[Any]) -> Callable[[], object]:
        assert isinstance(stream, OpenCLStream)
        return partial(_enqueue, stream.queue, self._ready(values), shape[0], shape[1], None, None, False, False)

    def _failed(self, error: Exception) -> LaunchError:
        return refused(f"{self._device} refused a launch of the opencl function {self._name!r}", error)

    def time(self, stream: Stream, shape: Any, values: Sequence[Any]) -> float:
        assert isinstance(stream, OpenCLStream)
        handle = self._ready(values)
        try:
            event = _enqueue(stream.timed, handle, shape[0], shape[1], None, [stream.mark()])
            event.wait()
            return float(event.profile.end - event.profile.start) * 1e-9
        except _driver.Error as error:
            raise self._failed(error) from error

    def _ready(self, values: Sequence[Any]) -> Any:
        """A kernel object of its own, its arguments set."""
        if self._has_local:
            self._check_local(values)
        handle = self._new()
        try:
            handle._set_arg_multi(self._object_pairs(values))
            for number in self._scalars:
                handle._set_arg_buf(number, values[number])
        except _driver.Error as error:
            raise self._failed(error) from error
        return handle

    def _check_local(self, values: Sequence[Any]) -> None:
        for number, local in self._pointers:
            if (type(values[number]) is cl.LocalMemory) is not local:
                given = (
                    "an array, and the kernel takes memory that a block shares: pass devmod.Local(nbytes)"
                    if local
                    else "a Local, and the kernel takes an array"
                )
                raise ArgumentError(
                    f"the opencl function {self._name!r}: argument {number + 1} is {given}",
                    kind="opencl",
                    function=self._name,
                    argument=str(number + 1),
                )
        asked = sum(value.size for value in values if type(value) is cl.LocalMemory)
        most = self._device.limits["local_mem_size"]
        if asked > most:
            raise self._over(f"its local_mem_size is {most}, and devmod.Local arguments of {asked} bytes were given")

    def _over(self, text: str) -> LaunchError:
        return LaunchError(
            f"the opencl function {self._name!r} cannot be launched so on {self._device}: {text}", kind="opencl", function=self._name
        )


#: Where a kernel's argument lies, in a message.
_TAKEN = {"GLOBAL": "a __global pointer", "CONSTANT": "a __constant pointer", "LOCAL": "a __local pointer", "PRIVATE": "a value"}


def _agree(kind: str, space: str) -> bool:
    """Whether what the payload says of an argument can be where the kernel has it; a driver may tell nothing of it."""
    if space not in _TAKEN or kind in ("image", "sampler"):
        return True
    if kind == "handle":  # without an interface: any pointer
        return space != "PRIVATE"
    if kind == "buffer":
        return space in ("GLOBAL", "CONSTANT")
    return space == ("LOCAL" if kind == "local" else "PRIVATE")


def _pairs(numbers: list[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function from a call's values to ``(number, value, number, value, …)`` for those numbers.

    Such a tuple is made in every call, so the usual sizes are written out: that takes a third of the time.
    """
    if not numbers:
        return lambda v: ()
    if len(numbers) == 1:
        (a,) = numbers
        return lambda v: (a, v[a])
    if len(numbers) == 2:
        a, b = numbers
        return lambda v: (a, v[a], b, v[b])
    if len(numbers) == 3:
        a, b, c = numbers
        return lambda v: (a, v[a], b, v[b], c, v[c])
    if len(numbers) == 4:
        a, b, c, d = numbers
        return lambda v: (a, v[a], b, v[b], c, v[c], d, v[d])
    take = itemgetter(*numbers)
    blank = [number for number in numbers for _ in (0, 1)]

    def pairs(values: Sequence[Any]) -> tuple[Any, ...]:
        made = blank.copy()
        made[1::2] = take(values)
        return tuple(made)

    return pairs
