"""Metal devices: memory shared by host and device, command queues as streams, and shared events."""

from __future__ import annotations

from itertools import count

from devmod import Device, Event, Stream
from devmod.backend import Capabilities, Once, RLock
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_metal._interface import MetalError
from devmod_runtime import (
    Lease,
    check_driver,
    check_earlier_event,
    check_event,
    fork_safe,
    lend,
    open_driver,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod import Image, Sampler
    from devmod_metal._driver import Framework


#: DLPack's kDLMetal.
_DLPACK_METAL = 8
#: What every device has. None has 64-bit floats, and the atomics of 64-bit integers are two
#: functions alone.
_FEATURES = frozenset(("fp16", "images", "image_writes_3d"))
#: The names in `MetalDevice.limits` of the limits with which functions are compared.
_LIMITS = {
    "block_x": "maxThreadsPerThreadgroup.width",
    "block_y": "maxThreadsPerThreadgroup.height",
    "block_z": "maxThreadsPerThreadgroup.depth",
    "shared_memory": "maxThreadgroupMemoryLength",
    "array": "maxBufferLength",
}
_once = Once()
#: The one Metal of the process: Apple's framework, or a double that a test has set.
_opened: list[Framework] = []

#: The number of recorded commands of a stream above which completed ones are removed.
_MAX_RECORDED = 32


def metal() -> Framework:
    """Return Metal. The first call opens the framework.

    Raises
    ------
    DeviceNotFoundError
        Metal is not available here; the message has the reason. A later call tries again.
    """
    if not _opened:
        from devmod_metal._driver import (
            Framework,
        )  # importing it opens the framework, which exists only on macOS

        _opened.append(Framework())
    return _opened[0]


class Memory:
    """A buffer that host and device share, or a part of one: `handle` is Metal's buffer, `offset`
    the first byte, `view` the bytes.
    """

    __slots__ = ("handle", "offset", "view")

    def __init__(self, handle: Any, view: memoryview, offset: int = 0) -> None:
        self.handle = handle
        self.view = view
        self.offset = offset


class MetalDevice(Device):
    """A GPU of this Mac.

    Parameters
    ----------
    handle
        Metal's device.
    index
        Its index among the devices.
    """

    kind = "metal"
    dlpack_type = _DLPACK_METAL

    def __init__(self, handle: Any, index: int) -> None:
        properties = metal().properties(handle)
        self.handle = handle
        self.index = index
        self.name = properties.name
        self.vendor = properties.name.partition(" ")[0]
        self.driver_version = properties.system
        self.memory = properties.memory
        self.limits = {
            **dict(
                zip((_LIMITS[f"block_{axis}"] for axis in "xyz"), properties.threads, strict=True)
            ),
            _LIMITS["shared_memory"]: properties.threadgroup_memory,
            "maxBufferLength": properties.buffer_length,
            # Apple's table of features: the alignment of buffers in the constant address space is 4
            # or 32 bytes. In the device address space it is that of the type, at most 16.
            "view_alignment": 32,
        }
        self.read_write_tier, self.filters_float32 = (
            properties.read_write_tier,
            properties.filters_float32,
        )
        self.features = _FEATURES | {"subgroups"} if properties.has_simdgroups else _FEATURES
        self._once = Once()
        self._number = count()
        #: The lease of each stream. Its value is the stream's commands, which may still run after
        #: the stream is deleted.
        self._streams: dict[int, Lease] = {}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(self, _LIMITS)

    @property
    def default_stream(self) -> MetalStream:
        return self._once.get("stream", self.stream)

    def stream(self) -> MetalStream:
        check_driver("metal")
        try:
            stream = MetalStream(self, metal().queue(self.handle))
        except MetalError as error:
            raise LaunchError(f"{self} gives no command queue: {error}", kind="metal") from error
        lease = lend(stream, stream.commands)
        stream.token = lease.token
        self._streams[next(self._number)] = lease
        return stream

    def synchronize(self) -> None:
        check_driver("metal")
        failure = ""
        for number, lease in self._streams.copy().items():
            is_deleted = lease.expired
            failure = lease.value.wait() or failure
            if is_deleted:
                self._streams.pop(number, None)
        if failure:
            raise self.launch_error(failure)

    def launch_error(self, text: str) -> LaunchError:
        """Return the LaunchError for a failure of commands."""
        return LaunchError(f"{self} reports a fault of a launch: {text}", kind="metal")

    def allocate(self, nbytes: int) -> Memory:
        check_driver("metal")
        limit = self.limits["maxBufferLength"]
        if nbytes > limit:
            raise self.memory_error(nbytes, f"its maxBufferLength is {limit}")
        try:
            handle = metal().buffer(self.handle, nbytes)
        except MetalError as error:
            raise self.memory_error(nbytes, str(error)) from error
        return Memory(handle, metal().contents(handle, nbytes))

    def write(self, memory: Memory, data: memoryview, stream: MetalStream) -> None:
        # The host writes immediately, so earlier launches must have read the memory.
        stream.synchronize()
        memory.view[: data.nbytes] = data.cast("B")

    def read(self, memory: Memory, out: memoryview, stream: MetalStream) -> None:
        stream.synchronize()
        out.cast("B")[:] = memory.view[: out.nbytes]

    def start_write(self, memory: Memory, data: memoryview, stream: MetalStream) -> None:
        staging = self.allocate(data.nbytes)
        staging.view[: data.nbytes] = data.cast("B")
        self.copy(staging, memory, data.nbytes, stream)

    def copy(self, source: Memory, target: Memory, nbytes: int, stream: MetalStream) -> None:
        check_driver("metal")
        if source.offset % 4 or target.offset % 4 or nbytes % 4:  # Metal copies whole words
            super().copy(source, target, nbytes, stream)
            return
        places = (source.handle, source.offset, target.handle, target.offset)
        try:
            stream.commands.commit(lambda: metal().copy(stream.queue, *places, nbytes))
        except MetalError as error:
            raise LaunchError(
                f"a copy of {nbytes} bytes on {self} failed: {error}", kind="metal"
            ) from error

    def slice(self, memory: Memory, offset: int, nbytes: int) -> Memory:
        return Memory(memory.handle, memory.view[offset : offset + nbytes], offset)

    def clear(self, memory: Memory, nbytes: int, stream: MetalStream) -> None:
        memory.view[:nbytes] = bytes(nbytes)  # nothing queued uses new memory

    def pointer(self, memory: Memory) -> tuple[int, int]:
        return metal().address(memory.handle), memory.offset

    def free_memory(self) -> int:
        return max(self.memory - metal().allocated(self.handle), 0)

    def create_image(self, image: Image) -> Any:
        from devmod_metal._image import LIMITS
        from devmod_runtime import check_extent

        check_driver("metal")
        check_extent(image, LIMITS[len(image.shape)])
        try:
            handle = metal().texture(
                self.handle, image.type, image.format, image.extent, image.layers
            )
        except MetalError as error:
            raise self.memory_error(image.nbytes, str(error)) from error
        zeros = self.allocate(image.nbytes)
        zeros.view[:] = bytes(image.nbytes)
        # Other streams may use the image at once.
        failure = wait_for(
            [self._copy_image(image, handle, zeros, self.default_stream, is_read=False)]
        )
        if failure:
            self.default_stream.wait_for_commands()  # removes the failure, which is raised here
            raise self.launch_error(failure)
        return handle

    def write_image(self, image: Image, data: memoryview, stream: MetalStream) -> None:
        check_driver("metal")
        staging = self.allocate(data.nbytes)
        staging.view[:] = data.cast("B")
        self._copy_image(image, image.handle, staging, stream, is_read=False)
        stream.synchronize()

    def read_image(self, image: Image, out: memoryview, stream: MetalStream) -> None:
        check_driver("metal")
        staging = self.allocate(out.nbytes)
        self._copy_image(image, image.handle, staging, stream, is_read=True)
        stream.synchronize()
        out.cast("B")[:] = staging.view

    def _copy_image(
        self, image: Image, texture: Any, staging: Memory, stream: MetalStream, *, is_read: bool
    ) -> Any:
        extent = image.extent
        layers = image.layers
        row = image.row_bytes
        try:
            return stream.commands.commit(
                lambda: metal().copy_texture(
                    stream.queue, staging.handle, texture, extent, layers, row, is_read=is_read
                )
            )
        except MetalError as error:
            raise LaunchError(
                f"a copy of {image.nbytes} bytes on {self} failed: {error}", kind="metal"
            ) from error

    def create_sampler(self, sampler: Sampler) -> Any:
        check_driver("metal")
        try:
            return metal().sampler(self.handle, sampler.filter, sampler.address, sampler.normalized)
        except MetalError as error:
            raise LaunchError(f"{self} gives no sampler: {error}", kind="metal") from error

    def image_problem(self, format: str, access: str) -> str:  # noqa: A002 - the name in the runtime
        from devmod_metal._image import access_problem

        return access_problem(self, format, access, self.read_write_tier)

    def view(self, memory: Memory) -> memoryview:
        import ctypes

        # Metal's view holds no reference to the buffer; this array does.
        shared_bytes = (ctypes.c_ubyte * memory.view.nbytes).from_buffer(memory.view)
        shared_bytes.owner = memory.handle  # type: ignore[attr-defined]
        return memoryview(shared_bytes).cast("B")


def devices() -> list[MetalDevice]:
    """Return all devices, always the same objects. If there is none, the next call searches again.

    Raises
    ------
    DeviceNotFoundError
        There is no device, or Metal is not available.
    """

    def find() -> list[MetalDevice]:
        open_driver("metal")
        handles = metal().devices()
        if not handles:
            raise DeviceNotFoundError(
                "no Metal device was found: macOS lists no GPU for this process, as in some virtual machines and remote sessions",
                kind="metal",
            )
        return [MetalDevice(handle, index) for index, handle in enumerate(handles)]

    return _once.get("devices", find)


# -- Streams and events: command queues, their commands, and shared events.


class Commands:
    """The commands that were committed to a queue and may still run, in order.

    An interrupt may occur between a commit and its record. `_is_incomplete` is therefore set before
    a commit. If it is set, `wait` commits another command and waits for it, since it runs after all
    others. A command stays recorded until it has completed.
    """

    def __init__(self, queue: Any, device: Any) -> None:
        self._queue = queue
        self._device = device
        self._recorded: dict[int, Any] = {}
        self._number = count()
        self._failure = ""
        self._is_incomplete = False
        self._once = Once()
        self._count = count(1)
        self._lock = fork_safe(RLock())

    def commit(self, commit: Callable[[], Any]) -> Any:
        """Commit a command in the order of the stream, and record it."""
        with self._lock:
            was_incomplete, self._is_incomplete = self._is_incomplete, True
            commands = commit()
            self._recorded[next(self._number)] = commands
            self._is_incomplete = was_incomplete
            if len(self._recorded) > _MAX_RECORDED:
                for number in [*self._recorded]:
                    if not metal().is_complete(self._recorded[number]):
                        break
                    self._remove(number)
        return commands

    def signal(self) -> tuple[Any, int, list[Any]]:
        """Commit a command that sets the stream's event. Return the event, its value, and the
        commands whose last end is its time.
        """
        event = self._once.get("event", lambda: metal().event(self._device))
        # Metal may give commands without work no time, so they copy this.
        scratch = self._once.get("scratch", lambda: metal().buffer(self._device, 8))
        with self._lock:
            value = next(self._count)
            # A GPU may run the copy before the launch ahead of it has ended, since they share no
            # memory.
            last = list(self._recorded.values())[-1:]
            return (
                event,
                value,
                [*last, self.commit(lambda: metal().signal(self._queue, event, value, scratch))],
            )

    def wait(self) -> str:
        """Wait for all commands. Return the first failure since the last call, or ""."""
        if self._is_incomplete:
            with self._lock:
                self.signal()
                self._is_incomplete = False
        for number, commands in self._recorded.copy().items():
            metal().wait(commands)
            self._remove(number)
        failure, self._failure = self._failure, ""
        return failure

    def _remove(self, number: int) -> None:
        commands = self._recorded.get(number)
        if commands is not None:
            self._failure = self._failure or metal().failure(commands)
            self._recorded.pop(number, None)


class MetalStream(Stream):
    """A command queue, which runs commands in order.

    Attributes
    ----------
    queue
        Metal's command queue.
    commands : Commands
        The commands of the queue.
    """

    device: MetalDevice

    def __init__(self, device: MetalDevice, queue: Any) -> None:
        self.device = device
        self.queue = queue
        self.commands = Commands(queue, device.handle)
        #: The token of the stream's lease.
        self.token: object = None

    def wait_for_commands(self) -> str:
        """Wait for all commands. Return the first failure since the last call, or ""."""
        check_driver("metal")
        return self.commands.wait()

    def synchronize(self) -> None:
        failure = self.wait_for_commands()
        if failure:
            raise self.device.launch_error(failure)

    def record(self) -> MetalEvent:
        check_driver("metal")
        try:
            event, value, commands = self.commands.signal()
        except MetalError as error:
            raise LaunchError(f"{self.device} gives no event: {error}", kind="metal") from error
        return MetalEvent(self.device, event, value, commands)

    def wait(self, event: Event) -> None:
        event = check_event(event, MetalEvent, self.device)
        check_driver("metal")
        try:
            self.commands.commit(lambda: metal().wait_for(self.queue, event.handle, event.value))
        except MetalError as error:
            raise LaunchError(
                f"{self.device} cannot wait for an event: {error}", kind="metal"
            ) from error


class MetalEvent(Event):
    """A value that a queue sets a shared event to. The last end of its commands is its time."""

    __slots__ = ("commands", "device", "handle", "value")

    def __init__(self, device: MetalDevice, handle: Any, value: int, commands: list[Any]) -> None:
        self.device = device
        self.handle = handle
        self.value = value
        self.commands = commands

    def synchronize(self) -> None:
        check_driver("metal")
        failure = wait_for(self.commands)
        if failure:
            raise self.device.launch_error(failure)

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, MetalEvent, self.device)
        earlier.synchronize()
        self.synchronize()
        return self._end() - earlier._end()

    def _end(self) -> float:
        return max(metal().times(commands)[1] for commands in self.commands)


def wait_for(commands: list[Any]) -> str:
    """Wait for commands. Return the first failure, or ""."""
    driver = metal()
    failure = ""
    for each in commands:
        driver.wait(each)
        failure = failure or driver.failure(each)
    return failure
