"""OpenCL devices, streams and events. The first use of a device creates its context and an in-order
queue.
"""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections import deque
from contextlib import suppress
from functools import cached_property, partial
from itertools import count

from devmod import Device, Event, Stream
from devmod.backend import FEATURES, Capabilities, Once, RLock
from devmod.errors import DeviceNotFoundError, LaunchError, pip_install
from devmod_opencl import _driver
from devmod_opencl._driver import cl, driver_error
from devmod_opencl._intel import INTEL_CPU
from devmod_opencl._pocl import name_processor
from devmod_runtime import (
    check_driver,
    check_earlier_event,
    check_event,
    fork_safe,
    lend,
    open_driver,
    wait_interruptibly,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod_runtime import Image, Lease, Sampler


#: The bytes behind each copied array. Who has all arrays copied looks for a kernel that writes
#: outside of one. With a device in the host's memory, the next bytes are the driver's or Python's.
_ROOM = 4096
#: DLPack's kDLOpenCL.
_DLPACK_OPENCL = 4


# -- Streams and events: in-order command queues, and markers in them.


class OpenCLStream(Stream):
    """A command queue, whose commands run in order. If the caller's queue is out of order, barriers
    order devmod's commands among the caller's.

    Attributes
    ----------
    queue
        pyopencl's CommandQueue. It has timestamps, unless another library created it without them.
    is_unordered
        Whether the queue runs commands out of order.
    """

    device: OpenCLDevice
    gathers = False

    def __init__(self, device: OpenCLDevice, queue: Any) -> None:
        self.device = device
        self.queue = queue
        mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.is_unordered = bool(queue.properties & mode)
        #: The token of the lease of the stream.
        self.token: object = None

    def synchronize(self) -> None:
        finish(self.queue, self.device)

    def record(self) -> OpenCLEvent:
        check_driver("opencl")
        try:
            marker = cl.enqueue_marker(self.queue)
            self.queue.flush()
        except _driver.Error as error:
            raise driver_error(f"{self.device} gives no event", error) from error
        return OpenCLEvent(self.device, marker)

    def wait(self, event: Event) -> None:
        event = check_event(event, OpenCLEvent, self.device)
        check_driver("opencl")
        if event.device.context != self.device.context:
            event.synchronize()  # a queue cannot wait for an event of another context
            return
        try:
            cl.enqueue_barrier(self.queue, wait_for=[event.handle])
        except _driver.Error as error:
            raise driver_error(f"{self.device} cannot wait for an event", error) from error

    def begin_command(self) -> Any:
        """Return the queue for a command, which runs after those before it."""
        check_driver("opencl")
        if self.is_unordered:
            cl.enqueue_barrier(self.queue)
        return self.queue

    def end_command(self) -> None:
        """Let the commands after this one run after it."""
        if self.is_unordered:
            cl.enqueue_barrier(self.queue)


class OpenCLEvent(Event):
    """A marker in a command queue: `handle` is its pyopencl Event."""

    __slots__ = ("device", "handle")

    def __init__(self, device: OpenCLDevice, handle: Any) -> None:
        self.device = device
        self.handle = handle

    def synchronize(self) -> None:
        check_driver("opencl")
        try:
            wait_interruptibly(
                lambda: _driver.wait_for_event(self.handle),
                lambda: is_complete(self.handle),
                self.device.short_wait,
            )
        except _driver.Error as error:
            raise driver_error(f"{self.device} reports a fault of a launch", error) from error

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, OpenCLEvent, self.device)
        earlier.synchronize()
        self.synchronize()
        try:
            # A marker in another queue could get its time while later commands of this queue
            # already run.
            return float(self.handle.profile.end - earlier.handle.profile.end) * 1e-9
        except _driver.Error as error:
            raise no_time(f"{self.device} gives no time of an event", error) from error


def finish(queue: Any, device: OpenCLDevice) -> None:
    """Wait for all commands of a queue.

    Raises
    ------
    LaunchError
        The driver reports an error.
    """
    check_driver("opencl")
    # A queue has no state. The marker is made where it is asked for, and so not while Python ends.
    markers: list[Any] = []

    def is_done() -> bool:
        if not markers:
            markers.append(cl.enqueue_marker(queue))
            queue.flush()
        return is_complete(markers[0])

    try:
        wait_interruptibly(lambda: _driver.finish_queue(queue), is_done, device.short_wait)
    except _driver.Error as error:
        raise driver_error(f"{device} reports a fault of a launch", error) from error


def is_complete(event: Any) -> bool:
    """Return whether the command of pyopencl's event has ended, also by an error, which its `wait`
    raises. Its queue was flushed.
    """
    return bool(event.command_execution_status <= cl.command_execution_status.COMPLETE)


def no_time(subject: str, error: Exception) -> LaunchError:
    """Return the LaunchError for a command without timestamps."""
    if getattr(error, "code", None) != cl.status_code.PROFILING_INFO_NOT_AVAILABLE:
        return driver_error(subject, error)
    return LaunchError(
        f"{subject}: its queue has no timestamps. Create it with pyopencl.CommandQueue(context, "
        "properties=pyopencl.command_queue_properties.PROFILING_ENABLE), or use device.stream()",
        kind="opencl",
    )


#: The names in `OpenCLDevice.limits` of the limits with which functions are compared.
_LIMITS = {
    "block_x": "max_work_item_sizes[0]",
    "block_y": "max_work_item_sizes[1]",
    "block_z": "max_work_item_sizes[2]",
    "block": "max_work_group_size",
    "shared_memory": "local_mem_size",
    "array": "max_mem_alloc_size",
}
#: For each format of a vendor, the words in the names of platforms and vendors that support it, in
#: lower case.
_VENDORS = {
    "xclbin": ("xilinx", "amd fpga"),
    "awsxclbin": ("xilinx", "amd fpga"),
    "aocx": ("altera", "fpga"),
}
# pyopencl's stubs do not allow the name of a dtype, and this file imports no NumPy.
_map: Callable[..., Any] = cl.enqueue_map_buffer
_once = Once()
#: The devices over objects of pyopencl (`_adopt.py`), by the type of the object and the addresses
#: of what it stands for. A device references its object, so an address is of no other one.
adopted: weakref.WeakValueDictionary[tuple[object, ...], OpenCLDevice] = (
    weakref.WeakValueDictionary()
)


class OpenCLDevice(Device):
    """An OpenCL device.

    Parameters
    ----------
    handle
        pyopencl's Device.
    index
        Its index among the devices.

    Attributes
    ----------
    platform : str
        The name of its platform.
    identity : str
        The platform, device and driver that a program binary is for.
    """

    kind = "opencl"
    dlpack_type = _DLPACK_OPENCL
    upload_errors = (_driver.Error,)

    def __init__(self, handle: Any, index: int) -> None:
        self.handle = handle
        self.index = index
        self.name = handle.name.strip()
        self.vendor = handle.vendor.strip()
        self.driver_version = handle.driver_version.strip()
        self.memory = handle.global_mem_size
        self.platform = handle.platform.name.strip()
        # Where to change: by what a cache of built programs knows a device
        #   here: this; `plugins/devmod-vulkan/src/devmod_vulkan/_physical.py` (`identity`); without
        #     a device's identity:
        #     `plugins/devmod-webgpu/src/devmod_webgpu/_trial.py` (`try_shader`);
        #     `plugins/devmod-cuda/src/devmod_cuda/_jit.py` and
        #     `plugins/devmod-rocm/src/devmod_rocm/_hiprtc.py` (`_CACHE`), which know the toolchain
        #     and the architecture
        #   tests: `plugins/devmod-opencl/tests/test_module.py`,
        #     `plugins/devmod-vulkan/tests/test_module.py`
        self.identity = "\n".join(
            (
                self.platform,
                handle.platform.version,
                self.vendor,
                self.name,
                self.driver_version,
                handle.version,
            )
        )
        self.buffer_flags: Any = cl.mem_flags.READ_WRITE
        #: The seconds for which a wait asks whether it is over. A thread that waits in the driver
        #: of a CPU executes kernels meanwhile.
        self.short_wait = None
        if handle.type & cl.device_type.CPU:
            self.short_wait = 10e-6
            # PoCL allocates at the first use of a buffer, and ends the process there if it has no
            # memory. With this flag it allocates at once.
            self.buffer_flags |= cl.mem_flags.ALLOC_HOST_PTR
        self._upload_flags = self.buffer_flags | cl.mem_flags.COPY_HOST_PTR
        self._max_bytes = handle.max_mem_alloc_size
        if handle.host_unified_memory:
            # With PoCL, a load of a vector that begins elsewhere ends the process.
            self.in_place_unit = handle.mem_base_addr_align // 8
            # The bytes from which on a map takes less time than two copies.
            self.in_place_from = 256 << 10
            if self.platform == INTEL_CPU:
                # Intel's runtime copies such an array, once. Its copies take five times as long as
                # PoCL's.
                self.in_place_unit = 1
                self.in_place_from = 64 << 10
        self._once = Once()
        self._context: Any = None
        self._number = count()
        #: The events of copies that may not be done.
        self._copies: deque[Any] = deque()
        #: The lease of each stream of this device. Its value is the queue, which may have work
        #: after the stream is deleted.
        self._streams: dict[int, Lease] = {}
        #: Streams over queues of other libraries, by the driver's pointer. Each stream holds its
        #: queue, so the pointer stays valid.
        self._foreign_streams: weakref.WeakValueDictionary[int, OpenCLStream] = (
            weakref.WeakValueDictionary()
        )
        self._lock = fork_safe(RLock())

    @cached_property
    def limits(self) -> Mapping[str, int]:  # type: ignore[override]
        """The limits of the device, with OpenCL's names."""
        handle = self.handle
        sizes = handle.max_work_item_sizes
        return {
            "max_work_group_size": handle.max_work_group_size,
            **{f"max_work_item_sizes[{axis}]": sizes[axis] for axis in range(min(3, len(sizes)))},
            "local_mem_size": handle.local_mem_size,
            "max_mem_alloc_size": self._max_bytes,
            "max_parameter_size": handle.max_parameter_size,
            "max_compute_units": handle.max_compute_units,
            "address_bits": handle.address_bits,
            "view_alignment": max(handle.mem_base_addr_align // 8, 1),
        }

    @cached_property
    def features(self) -> frozenset[str]:  # type: ignore[override]
        """What the device has of what kernels may need, by the names in
        `devmod.Interface.needs`.
        """
        return _features(self.handle)

    @cached_property
    def subgroup_sizes(self) -> Sequence[int]:  # type: ignore[override]
        """The sizes that the attribute ``intel_reqd_sub_group_size`` may have; () if the driver
        does not provide them.
        """
        return _driver.subgroup_sizes(self.handle)

    @property
    def capabilities(self) -> Capabilities:
        problem = ""
        try:
            name_processor(self.handle)
        except DeviceNotFoundError as error:
            problem = f"cannot be built: {error}"
        return Capabilities(self, _LIMITS, problem=problem, format_problem=self._format_problem)

    def _format_problem(self, fmt: str) -> str | None:
        """Return why the device takes no payload of a format, as a clause; "" if it does; None if
        only its driver knows.
        """
        if fmt == "il" and not _driver.takes_il(self.handle):
            return (
                "it does not support the format 'il' (SPIR-V). Install an OpenCL driver with the extension cl_khr_il_program (for a CPU "
                f"with Linux: {pip_install('devmod-opencl[intel]')}), or use the source (format 'cl')"
            )
        names = f"{self.platform} {self.vendor}".lower()
        if fmt in _VENDORS and not any(word in names for word in _VENDORS[fmt]):
            return (
                f"it does not support the format {fmt!r}, a vendor's binary for its FPGAs. Install that vendor's OpenCL platform, or use "
                "the source (format 'cl')"
            )
        if fmt == "clbin" or fmt in _VENDORS:
            return None
        return ""

    @property
    def context(self) -> Any:
        """pyopencl's Context. A launch takes buffers of this context together with devmod's
        arrays.
        """

        check_driver("opencl")
        if self._context is not None:
            return self._context
        return self._once.get("context", self._create_context)

    @cached_property
    def context_pointer(self) -> int:
        """The driver's pointer of the context, which it has as long as the device exists."""
        pointer: int = self.context.int_ptr
        return pointer

    def _create_context(self) -> Any:
        try:
            with _driver.kept_signals():
                self._context = cl.Context([self.handle])
        except _driver.Error as error:
            raise driver_error(f"{self} gives no context", error) from error
        return self._context

    @property
    def default_stream(self) -> OpenCLStream:
        return self._once.get("stream", self.stream)

    def stream(self) -> OpenCLStream:
        try:
            queue = cl.CommandQueue(
                self.context, self.handle, cl.command_queue_properties.PROFILING_ENABLE
            )
        except _driver.Error as error:
            raise driver_error(f"{self} gives no command queue", error) from error
        return self._stream_of(queue)

    def _stream_of(self, queue: Any) -> OpenCLStream:
        stream = OpenCLStream(self, queue)
        lease = lend(stream, queue)
        stream.token = lease.token
        self._streams[next(self._number)] = lease
        return stream

    def stream_over(self, queue: Any) -> OpenCLStream:
        """Return the stream over a command queue of another library: the same object for the same
        queue.
        """
        with self._lock:
            stream = self._foreign_streams.get(queue.int_ptr)
            if stream is None:
                stream = self._foreign_streams[queue.int_ptr] = self._stream_of(queue)
        return stream

    def synchronize(self) -> None:
        for number, lease in self._streams.copy().items():
            is_deleted = lease.expired
            finish(lease.value, self)
            if is_deleted:
                self._streams.pop(number, None)

    def allocate(self, nbytes: int) -> Any:
        return self._create_buffer(nbytes, self.buffer_flags, None)

    def upload(self, data: memoryview, stream: OpenCLStream) -> Any:
        # The driver copies when it creates the buffer, which takes a third of the time of a command
        # in the queue.
        nbytes = data.nbytes
        if not nbytes:
            return self.allocate(1)
        if self.copies_all and self.handle.host_unified_memory:
            memory = self._create_buffer(nbytes + _ROOM, self.buffer_flags, None)
            self.write(memory, data, stream)
            return memory
        return self._create_buffer(nbytes, self._upload_flags, data)

    def uploader(self, stream: OpenCLStream) -> Callable[[memoryview], Any]:
        if self.copies_all or stream.is_unordered:
            return super().uploader(stream)
        create: Callable[..., Any] = cl.Buffer
        return partial(create, self.context, self._upload_flags, 0)  # the data gives the size

    def reader(self, stream: OpenCLStream) -> Callable[[Any, memoryview], None]:
        if stream.is_unordered:
            return super().reader(stream)
        queue = stream.queue
        enqueue = cl._cl._enqueue_read_buffer

        def read(memory: Any, out: memoryview) -> None:
            try:
                enqueue(queue, memory, out, 0, None, True)
            except _driver.Error as error:
                raise self._read_error(error, memory, out) from error

        return read

    def use_in_place(self, data: memoryview, address: int, *, written: bool) -> Any:
        flags = cl.mem_flags.READ_ONLY
        if written:
            flags = cl.mem_flags.READ_WRITE
        try:
            return cl.Buffer(self.context, flags | cl.mem_flags.USE_HOST_PTR, data.nbytes, data)
        except _driver.Error:
            return None  # for the copy, `upload` has the error

    def finish_in_place(self, memory: Any, stream: OpenCLStream) -> None:
        queue = stream.begin_command()
        try:
            mapped, _ = _map(queue, memory, cl.map_flags.READ, 0, (memory.size,), "u1")
            mapped.base.release(queue)
        except _driver.Error as error:
            raise self._copy_error(
                f"{self} gives the host no access to an array of {memory.size} bytes", error, memory
            ) from error

    def _create_buffer(self, nbytes: int, flags: int, data: memoryview | None) -> Any:
        if nbytes > self._max_bytes:
            raise self.memory_error(nbytes, f"its max_mem_alloc_size is {self._max_bytes}")
        try:
            return cl.Buffer(self.context, flags, nbytes, data)
        except _driver.Error as error:
            raise self.memory_error(nbytes, _driver.code_name(error)) from error

    def free_memory(self) -> int | None:
        try:
            return int(self.handle.global_free_memory_amd[0]) << 10  # only AMD reports it
        except (_driver.Error, AttributeError):
            return None

    def slice(self, memory: Any, offset: int, nbytes: int) -> Any:
        check_driver("opencl")
        if offset % self.limits["view_alignment"]:
            return Region(memory, offset)
        try:
            return memory.get_sub_region(offset, nbytes)
        except _driver.Error as error:
            raise driver_error(f"{self} gives no part of a buffer", error) from error

    def place(self, memory: Any) -> tuple[int, int]:
        whole = memory.associated_memobject  # of a sub-buffer
        if whole is None:
            return memory.int_ptr, 0
        return whole.int_ptr, memory.offset

    def clear(self, memory: Any, nbytes: int, stream: OpenCLStream) -> None:
        try:
            self.start_clear(memory, nbytes, stream).wait()
        except _driver.Error as error:
            raise self._copy_error(f"{self} cannot fill {nbytes} bytes", error, memory) from error

    def start_clear(self, memory: Any, nbytes: int, stream: OpenCLStream) -> Any:
        memory, offset = _place(memory)
        try:
            event = cl.enqueue_fill_buffer(stream.begin_command(), memory, b"\0", offset, nbytes)
            stream.end_command()
            return event
        except _driver.Error as error:
            raise self._copy_error(f"{self} cannot fill {nbytes} bytes", error, memory) from error

    def copy(self, source: Any, target: Any, nbytes: int, stream: OpenCLStream) -> None:
        source, start = _place(source)
        target, offset = _place(target)
        try:
            cl.enqueue_copy(
                stream.begin_command(),
                target,
                source,
                byte_count=nbytes,
                src_offset=start,
                dst_offset=offset,
            )
            stream.end_command()
        except _driver.Error as error:
            raise self._copy_error(
                f"a copy of {nbytes} bytes on {self} failed", error, source, target
            ) from error

    def write(
        self, memory: Any, data: memoryview, stream: OpenCLStream, *, wait: bool = True
    ) -> Any:
        memory, offset = _place(memory)
        try:
            queue = stream.begin_command()
            event = cl._cl._enqueue_write_buffer(queue, memory, data, offset, None, wait)
            stream.end_command()
            return event
        except _driver.Error as error:
            raise self._copy_error(
                f"a copy of {data.nbytes} bytes to {self} failed", error, memory
            ) from error

    def read(self, memory: Any, out: memoryview, stream: OpenCLStream, *, wait: bool = True) -> Any:
        memory, offset = _place(memory)
        try:
            event = cl._cl._enqueue_read_buffer(
                stream.begin_command(), memory, out, offset, None, wait
            )
            stream.end_command()
            return event
        except _driver.Error as error:
            raise self._read_error(error, memory, out) from error

    def _read_error(self, error: Exception, memory: Any, out: memoryview) -> LaunchError:
        return self._copy_error(f"a copy of {out.nbytes} bytes from {self} failed", error, memory)

    def start_write(self, memory: Any, data: memoryview, stream: OpenCLStream) -> None:
        self._keep(self.write(memory, data, stream, wait=False), stream)

    def start_read(self, memory: Any, out: memoryview, stream: OpenCLStream) -> None:
        self._keep(self.read(memory, out, stream, wait=False), stream)

    def create_image(self, image: Image) -> Any:
        return _images().create_image(self, image)

    def create_sampler(self, sampler: Sampler) -> Any:
        # One object for equal samplers, which is never released: PoCL destroys a released sampler
        # that queued kernels use.
        return self._once.get(
            (sampler.filter, sampler.address, sampler.normalized),
            lambda: _images().create_sampler(self, sampler),
        )

    def write_image(self, image: Image, data: memoryview, stream: OpenCLStream) -> None:
        _images().copy(image, data, stream, write=True)

    def read_image(self, image: Image, out: memoryview, stream: OpenCLStream) -> None:
        _images().copy(image, out, stream, write=False)

    def image_problem(self, format: str, access: str) -> str:  # noqa: A002 - the name in the base class
        return str(_images().image_problem(self, format, access))

    def image_formats(self, flags: str, type: str) -> frozenset[str]:  # noqa: A002 - the name in the interface
        """Return the formats of images of a type for an access, such as "READ_ONLY", as the driver
        lists them.
        """
        return self._once.get((flags, type), lambda: _images().supported_formats(self, flags, type))

    def _copy_error(self, subject: str, error: Exception, *memories: Any) -> LaunchError:
        """Return the error for a failed copy. The driver may allocate the memories only now."""
        if _driver.is_memory_error(error):
            return self.memory_error(max(each.size for each in memories), _driver.code_name(error))
        return driver_error(subject, error)

    def _keep(self, event: Any, stream: OpenCLStream) -> None:
        """Keep the event of a copy until the copy is done. The event references the host's memory,
        and its deletion waits for the copy.
        """
        self._copies.append(event)
        stream.queue.flush()
        with suppress(IndexError):
            while is_complete(self._copies[0]):
                self._copies.popleft()


def _images() -> Any:
    """Return the module of images, which most programs do not use."""
    from devmod_opencl import _image

    return _image


def _features(handle: Any) -> frozenset[str]:
    extensions = set(handle.extensions.split())
    features = {
        name for name, feature in FEATURES.items() if not extensions.isdisjoint(feature.opencl)
    }
    if handle.image_support:
        features.add("images")
    if handle.type & cl.device_type.CPU:
        features.add("processor")
    if handle.version.startswith("OpenCL 2."):
        features.add("image_writes_3d")  # not optional in this version
    with suppress(_driver.Error, AttributeError):  # before OpenCL 2.1
        if handle.max_num_sub_groups:
            features.add("subgroups")
    return frozenset(features)


class Region:
    """A part of a buffer for copies, which begins where no sub-buffer can."""

    __slots__ = ("buffer", "offset")

    def __init__(self, buffer: Any, offset: int) -> None:
        self.buffer = buffer
        self.offset = offset


def _place(memory: Any) -> tuple[Any, int]:
    """Return the buffer of a memory object, and the first byte in it."""
    if type(memory) is Region:
        return memory.buffer, memory.offset
    return memory, 0


def devices() -> list[OpenCLDevice]:
    """Return all devices, always the same objects. If there is none, the next call searches again.

    Raises
    ------
    DeviceNotFoundError
        There is no device.
    """

    def find() -> list[OpenCLDevice]:
        open_driver("opencl", _keep_in_child)  # listing devices starts PoCL's threads
        with _driver.kept_signals():
            handles = _driver.list_devices()
        return [OpenCLDevice(handle, index) for index, handle in enumerate(handles)]

    return _once.get("devices", find)


def all_devices() -> list[OpenCLDevice]:
    """Return the devices of `devices`, and those over objects of the caller."""
    found = [reference() for reference in adopted.valuerefs()]  # other threads may add some
    return [*devices(), *(device for device in found if device is not None)]


def _keep_in_child() -> None:
    """Never delete an event: in a forked child the deletion would wait for threads of the parent,
    or for a lock that they had.
    """
    events = [each for each in gc.get_objects() if type(each) is OpenCLEvent]
    if "devices" in _once:
        for device in all_devices():
            events += device._copies
    for event in events:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(event))
