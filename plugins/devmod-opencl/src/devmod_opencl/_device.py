"""OpenCL devices: a context and an in-order queue each, opened when first used."""

from __future__ import annotations

import weakref
from threading import Lock

from devmod import Device, Event, Stream
from devmod.backend import Once, begun_at, waited_for
from devmod.errors import LaunchError
from devmod_opencl import _driver
from devmod_opencl._driver import cl
from devmod_opencl._pocl import repair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: DLPack's kDLOpenCL.
_DLPACK_OPENCL = 4
_once = Once()
#: Devices for contexts that other libraries made, by (context, device); each holds its context, so the numbers stay its own.
_guests: weakref.WeakValueDictionary[tuple[int, int], OpenCLDevice] = weakref.WeakValueDictionary()
_guests_lock = Lock()


class OpenCLDevice(Device):
    """An OpenCL device.

    Parameters
    ----------
    handle
        pyopencl's Device.
    index
        Its number.
    context
        pyopencl's Context where another library made it; None: one of its own, made when it is first used.

    Attributes
    ----------
    platform : str
        The name of its platform.
    identity : str
        What a program's binary depends on.
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
        self._made = Once()
        self._limits: dict[str, int] = {}
        if context is not None:
            self._made.get("context", lambda: context)
        self._streams: list[weakref.ref[OpenCLStream]] = []
        #: By the driver's pointer; the stream holds the queue, so the pointer stays its own.
        self._over: weakref.WeakValueDictionary[int, OpenCLStream] = weakref.WeakValueDictionary()
        self._orphans: list[Any] = []
        self._lock = Lock()

    @property
    def limits(self) -> Mapping[str, int]:  # type: ignore[override]
        """The device's limits, named as in OpenCL."""
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
        """pyopencl's Context; buffers made in it can be arguments beside devmod's arrays."""

        def make() -> Any:
            repair(self.handle)
            try:
                return cl.Context([self.handle])
            except _driver.Error as error:
                raise refused(f"{self} gives no context", error) from error

        return self._made.get("context", make)

    @property
    def default_stream(self) -> OpenCLStream:
        made: OpenCLStream = self._made.get("stream", self.stream)
        return made

    def stream(self) -> OpenCLStream:
        try:
            queue = cl.CommandQueue(self.context, self.handle)
        except _driver.Error as error:
            raise refused(f"{self} gives no command queue", error) from error
        return self._opened(OpenCLStream(self, queue))

    def stream_over(self, queue: Any) -> OpenCLStream:
        """The stream over a command queue of another library; the same object for the same queue."""
        with self._lock:
            found = self._over.get(queue.int_ptr)
            if found is None:
                found = self._over[queue.int_ptr] = OpenCLStream(self, queue, foreign=True)
        return found

    def _opened(self, stream: OpenCLStream) -> OpenCLStream:
        with self._lock:
            self._streams.append(weakref.ref(stream))
        return stream

    def orphan(self, queue: Any) -> None:
        """Keep the queue of a stream that is gone until the device is waited for: it may still have work."""
        self._orphans.append(queue)

    def synchronize(self) -> None:
        with self._lock:
            streams = [stream for stream in (ref() for ref in self._streams) if stream is not None]
            self._streams = [weakref.ref(stream) for stream in streams]
            orphans, self._orphans = self._orphans, []
        for queue in orphans:
            finish(queue, self)
        for stream in streams:
            stream.synchronize()

    def allocate(self, nbytes: int) -> Any:
        most = self.limits["max_mem_alloc_size"]
        if nbytes > most:
            raise LaunchError(f"{self} cannot hold an array of {nbytes} bytes: its max_mem_alloc_size is {most}", kind="opencl")
        try:
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)
        except _driver.Error as error:
            raise refused(f"{self} gives no memory of {nbytes} bytes", error) from error

    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        assert isinstance(stream, OpenCLStream)
        try:
            cl.enqueue_copy(stream.queue, memory, data, is_blocking=True)
        except _driver.Error as error:
            raise refused(f"a copy of {data.nbytes} bytes to {self} failed", error) from error

    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        assert isinstance(stream, OpenCLStream)
        try:
            cl.enqueue_copy(stream.queue, out, memory, is_blocking=True)
        except _driver.Error as error:
            raise refused(f"a copy of {out.nbytes} bytes from {self} failed", error) from error

    def __repr__(self) -> str:
        return super().__repr__() + (" in another context" if self.foreign else "")


class OpenCLStream(Stream):
    """An in-order command queue.

    Attributes
    ----------
    queue
        pyopencl's CommandQueue. It keeps no timestamps unless another library made it so: they cost every launch a fifth.
    """

    device: OpenCLDevice

    def __init__(self, device: OpenCLDevice, queue: Any, *, foreign: bool = False) -> None:
        self.device = device
        self.queue = queue
        self._foreign = foreign
        self._made = Once()

    def __del__(self) -> None:
        if hasattr(self, "_foreign") and not self._foreign:
            self.device.orphan(self.queue)

    @property
    def timed(self) -> Any:
        """The queue for what is timed: this one where it keeps timestamps, else one beside it."""

        def make() -> Any:
            profiling = cl.command_queue_properties.PROFILING_ENABLE
            if self.queue.properties & profiling:
                return self.queue
            try:
                return cl.CommandQueue(self.device.context, self.device.handle, profiling)
            except _driver.Error as error:
                raise refused(f"{self.device} gives no command queue with timestamps", error) from error

        return self._made.get("timed", make)

    def mark(self) -> Any:
        """pyopencl's Event at the present end of the queue."""
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
            raise refused(f"{self.device} gives no event", error) from error
        return OpenCLEvent(self.device, marker, timer)

    def wait(self, event: Event) -> None:
        event = waited_for(event, OpenCLEvent, self.device)
        if event.device.context != self.device.context:
            event.synchronize()  # queues of two contexts cannot wait for each other
            return
        try:
            cl.enqueue_barrier(self.queue, wait_for=[event.handle])
        except _driver.Error as error:
            raise refused(f"{self.device} cannot wait for an event", error) from error

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class OpenCLEvent(Event):
    """A marker in a command queue: `handle` is pyopencl's Event of it, `timer` one with its time."""

    __slots__ = ("device", "handle", "timer")

    def __init__(self, device: OpenCLDevice, handle: Any, timer: Any) -> None:
        self.device = device
        self.handle = handle
        self.timer = timer

    def synchronize(self) -> None:
        try:
            self.handle.wait()
        except _driver.Error as error:
            raise refused(f"{self.device} reports a fault of a launch", error) from error

    def elapsed(self, earlier: Event) -> float:
        earlier = begun_at(earlier, OpenCLEvent, self.device)
        try:
            cl.wait_for_events([self.timer, earlier.timer])
            return float(self.timer.profile.end - earlier.timer.profile.end) * 1e-9
        except _driver.Error as error:
            raise refused(f"{self.device} gives no time of an event", error) from error

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def devices() -> list[OpenCLDevice]:
    """All devices, the same objects each time; they are looked for until there is one.

    Raises
    ------
    DeviceNotFoundError
        There is none.
    """
    found: list[OpenCLDevice] = _once.get(
        "devices", lambda: [OpenCLDevice(handle, index) for index, handle in enumerate(_driver.list_devices())]
    )
    return found


def device_of(context: Any, handle: Any) -> OpenCLDevice:
    """The device that stands for pyopencl's device in a context: ours where the context is ours."""
    index = -1
    for device in devices():
        if device.handle == handle:
            if device.context == context:
                return device
            index = device.index
    key = (context.int_ptr, handle.int_ptr)
    with _guests_lock:
        found = _guests.get(key)
        if found is None:
            repair(handle)
            found = _guests[key] = OpenCLDevice(handle, index, context)
    return found


def finish(queue: Any, device: OpenCLDevice) -> None:
    """Wait for all that a queue holds; LaunchError for what the driver reports."""
    try:
        queue.finish()
    except _driver.Error as error:
        raise refused(f"{device} reports a fault of a launch", error) from error


def refused(what: str, error: Exception) -> LaunchError:
    """The LaunchError for a call that the driver refused."""
    return LaunchError(f"{what}: {_driver.code_name(error)}", kind="opencl")
