"""OpenCL devices. The first use of a device creates its context and an in-order queue."""

from __future__ import annotations

import weakref
from itertools import count
from threading import RLock

from devmod import Device, Event, Stream
from devmod.backend import Once, check_driver, check_earlier_event, check_event, fork_safe, lend, open_driver
from devmod.errors import LaunchError
from devmod_opencl import _driver
from devmod_opencl._driver import cl
from devmod_opencl._pocl import repair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod.backend import Lease

#: DLPack's kDLOpenCL.
_DLPACK_OPENCL = 4
_once = Once()
#: Devices for contexts of other libraries, by (context, device). Each holds its context, so no other context gets its address.
_foreign_devices: weakref.WeakValueDictionary[tuple[int, int], OpenCLDevice] = weakref.WeakValueDictionary()
_foreign_lock = fork_safe(RLock())


class OpenCLDevice(Device):
    """An OpenCL device.

    Parameters
    ----------
    handle
        pyopencl's Device.
    index
        Its index among the devices.
    context
        pyopencl's Context that another library created; None: the first use creates one.

    Attributes
    ----------
    platform : str
        The name of its platform.
    identity : str
        The platform, device and driver that a program binary is for.
    """

    kind = "opencl"
    dlpack_type = _DLPACK_OPENCL

    def __init__(self, handle: Any, index: int, context: Any = None) -> None:
        self.handle = handle
        self.index = index
        self.name = handle.name.strip()
        self.vendor = handle.vendor.strip()
        self.driver_version = handle.driver_version.strip()
        self.memory = handle.global_mem_size
        self.platform = handle.platform.name.strip()
        self.identity = "\n".join((self.platform, handle.platform.version, self.vendor, self.name, self.driver_version, handle.version))
        self.foreign = context is not None
        self._once = Once()
        self._limits: dict[str, int] = {}
        if context is not None:
            self._once.get("context", lambda: context)
        self._number = count()
        #: The lease of each stream that this device created. Its value is the queue, which may have work after the stream is deleted.
        self._streams: dict[int, Lease] = {}
        #: Streams over queues of other libraries, by the driver's pointer. Each stream holds its queue, so the pointer stays valid.
        self._foreign_streams: weakref.WeakValueDictionary[int, OpenCLStream] = weakref.WeakValueDictionary()
        self._lock = fork_safe(RLock())

    @property
    def limits(self) -> Mapping[str, int]:  # type: ignore[override]
        """The limits of the device, with OpenCL's names."""
        if not self._limits:
            handle = self.handle
            sizes = handle.max_work_item_sizes
            self._limits = {
                "max_work_group_size": handle.max_work_group_size,
                **{f"max_work_item_sizes[{axis}]": sizes[axis] for axis in range(min(3, len(sizes)))},
                "local_mem_size": handle.local_mem_size,
                "max_mem_alloc_size": handle.max_mem_alloc_size,
                "max_parameter_size": handle.max_parameter_size,
                "max_compute_units": handle.max_compute_units,
                "address_bits": handle.address_bits,
            }
        return self._limits

    @property
    def context(self) -> Any:
        """pyopencl's Context. A launch takes buffers of this context together with devmod's arrays."""

        def create() -> Any:
            repair(self.handle)
            try:
                return cl.Context([self.handle])
            except _driver.Error as error:
                raise driver_error(f"{self} gives no context", error) from error

        check_driver("opencl")
        return self._once.get("context", create)

    @property
    def default_stream(self) -> OpenCLStream:
        stream: OpenCLStream = self._once.get("stream", self.stream)
        return stream

    def stream(self) -> OpenCLStream:
        try:
            queue = cl.CommandQueue(self.context, self.handle)
        except _driver.Error as error:
            raise driver_error(f"{self} gives no command queue", error) from error
        stream = OpenCLStream(self, queue)
        lease = lend(stream, queue)
        stream.token = lease.token
        self._streams[next(self._number)] = lease
        return stream

    def stream_over(self, queue: Any) -> OpenCLStream:
        """Return the stream over a command queue of another library: the same object for the same queue."""
        with self._lock:
            stream = self._foreign_streams.get(queue.int_ptr)
            if stream is None:
                stream = self._foreign_streams[queue.int_ptr] = OpenCLStream(self, queue)
        return stream

    def synchronize(self) -> None:
        for number, lease in tuple(self._streams.items()):
            is_deleted = lease.expired
            finish(lease.value, self)
            if is_deleted:
                self._streams.pop(number, None)

    def allocate(self, nbytes: int) -> Any:
        limit = self.limits["max_mem_alloc_size"]
        if nbytes > limit:
            raise LaunchError(f"{self} cannot hold an array of {nbytes} bytes: its max_mem_alloc_size is {limit}", kind="opencl")
        try:
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)
        except _driver.Error as error:
            raise driver_error(f"{self} gives no memory of {nbytes} bytes", error) from error

    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        assert isinstance(stream, OpenCLStream)
        check_driver("opencl")
        try:
            cl.enqueue_copy(stream.queue, memory, data, is_blocking=True)
        except _driver.Error as error:
            raise driver_error(f"a copy of {data.nbytes} bytes to {self} failed", error) from error

    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        assert isinstance(stream, OpenCLStream)
        check_driver("opencl")
        try:
            cl.enqueue_copy(stream.queue, out, memory, is_blocking=True)
        except _driver.Error as error:
            raise driver_error(f"a copy of {out.nbytes} bytes from {self} failed", error) from error

    def __repr__(self) -> str:
        return super().__repr__() + (" in another context" if self.foreign else "")


class OpenCLStream(Stream):
    """An in-order command queue.

    Attributes
    ----------
    queue
        pyopencl's CommandQueue. It has no timestamps, which slow down each launch by a fifth, unless another library enabled them.
    """

    device: OpenCLDevice

    def __init__(self, device: OpenCLDevice, queue: Any) -> None:
        self.device = device
        self.queue = queue
        #: The token of the stream's lease; None for a queue of another library.
        self.token: object = None
        self._once = Once()

    @property
    def timed(self) -> Any:
        """The queue for timed commands: `queue` if it has timestamps, else a second one."""

        def create() -> Any:
            profiling = cl.command_queue_properties.PROFILING_ENABLE
            if self.queue.properties & profiling:
                return self.queue
            try:
                return cl.CommandQueue(self.device.context, self.device.handle, profiling)
            except _driver.Error as error:
                raise driver_error(f"{self.device} gives no command queue with timestamps", error) from error

        return self._once.get("timed", create)

    def mark(self) -> Any:
        """Enqueue a marker and return its pyopencl Event."""
        check_driver("opencl")
        marker = cl.enqueue_marker(self.queue)
        self.queue.flush()
        return marker

    def synchronize(self) -> None:
        finish(self.queue, self.device)

    def record(self) -> OpenCLEvent:
        try:
            marker = timer = self.mark()
            if self.timed is not self.queue:
                timer = cl.enqueue_marker(self.timed, wait_for=[marker])
                self.timed.flush()
        except _driver.Error as error:
            raise driver_error(f"{self.device} gives no event", error) from error
        return OpenCLEvent(self.device, marker, timer)

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

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class OpenCLEvent(Event):
    """A marker in a command queue: `handle` is its pyopencl Event, `timer` an Event with timestamps."""

    __slots__ = ("device", "handle", "timer")

    def __init__(self, device: OpenCLDevice, handle: Any, timer: Any) -> None:
        self.device = device
        self.handle = handle
        self.timer = timer

    def synchronize(self) -> None:
        check_driver("opencl")
        try:
            self.handle.wait()
        except _driver.Error as error:
            raise driver_error(f"{self.device} reports a fault of a launch", error) from error

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, OpenCLEvent, self.device)
        check_driver("opencl")
        try:
            cl.wait_for_events([self.timer, earlier.timer])
            return float(self.timer.profile.end - earlier.timer.profile.end) * 1e-9
        except _driver.Error as error:
            raise driver_error(f"{self.device} gives no time of an event", error) from error

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def devices() -> list[OpenCLDevice]:
    """Return all devices, always the same objects. If there is none, the next call searches again.

    Raises
    ------
    DeviceNotFoundError
        There is no device.
    """

    def find() -> list[OpenCLDevice]:
        open_driver("opencl")  # listing devices starts PoCL's threads
        return [OpenCLDevice(handle, index) for index, handle in enumerate(_driver.list_devices())]

    result: list[OpenCLDevice] = _once.get("devices", find)
    return result


def device_of(context: Any, handle: Any) -> OpenCLDevice:
    """Return the device for pyopencl's device in a context: one of `devices` if it created the context."""
    index = -1
    for device in devices():
        if device.handle == handle:
            if device.context == context:
                return device
            index = device.index
    key = (context.int_ptr, handle.int_ptr)
    with _foreign_lock:
        foreign = _foreign_devices.get(key)
        if foreign is None:
            repair(handle)
            foreign = _foreign_devices[key] = OpenCLDevice(handle, index, context)
    return foreign


def finish(queue: Any, device: OpenCLDevice) -> None:
    """Wait for all commands of a queue.

    Raises
    ------
    LaunchError
        The driver reports an error.
    """
    check_driver("opencl")
    try:
        queue.finish()
    except _driver.Error as error:
        raise driver_error(f"{device} reports a fault of a launch", error) from error


def driver_error(what: str, error: Exception) -> LaunchError:
    """Return the LaunchError for an error of the driver."""
    return LaunchError(f"{what}: {_driver.code_name(error)}", kind="opencl")
