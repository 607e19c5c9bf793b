"""Metal devices: memory that host and device share, and command queues as streams."""

from __future__ import annotations

import weakref
from threading import Lock

from devmod import Device, Event, Stream
from devmod.backend import Once, begun_at, waited_for
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_metal._interface import Refused, metal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: DLPack's kDLMetal.
_DLPACK_METAL = 8
#: How many commands of a stream are remembered before those that are done are looked for.
_REMEMBERED = 32
_once = Once()


class Memory:
    """A buffer that host and device share: `handle` is Metal's, `view` its bytes."""

    __slots__ = ("handle", "view")

    def __init__(self, handle: Any, view: memoryview) -> None:
        self.handle = handle
        self.view = view


class MetalDevice(Device):
    """A GPU of this Mac.

    Parameters
    ----------
    handle
        Metal's device.
    index
        Its number.
    """

    kind = "metal"
    dlpack_type = _DLPACK_METAL

    def __init__(self, handle: Any, index: int) -> None:
        facts = metal().facts(handle)
        self.handle = handle
        self.index = index
        self.name = facts.name
        self.vendor = facts.name.partition(" ")[0]
        self.driver_version = facts.system
        self.memory = facts.memory
        self.limits = {
            **dict(zip((f"maxThreadsPerThreadgroup.{axis}" for axis in ("width", "height", "depth")), facts.threads, strict=True)),
            "maxThreadgroupMemoryLength": facts.threadgroup_memory,
            "maxBufferLength": facts.buffer_length,
        }
        self._made = Once()
        self._streams: list[weakref.ref[MetalStream]] = []
        #: The commands of streams that are gone.
        self._orphans: list[Any] = []
        self._lock = Lock()

    @property
    def default_stream(self) -> MetalStream:
        made: MetalStream = self._made.get("stream", self.stream)
        return made

    def stream(self) -> MetalStream:
        try:
            made = MetalStream(self, metal().queue(self.handle))
        except Refused as error:
            raise LaunchError(f"{self} gives no command queue: {error}", kind="metal") from error
        with self._lock:
            self._streams.append(weakref.ref(made))
        return made

    def orphan(self, commands: list[Any]) -> None:
        """Keep the commands of a stream that is gone until the device is waited for."""
        self._orphans.extend(commands)

    def synchronize(self) -> None:
        with self._lock:
            streams = [stream for stream in (ref() for ref in self._streams) if stream is not None]
            self._streams = [weakref.ref(stream) for stream in streams]
            orphans, self._orphans = self._orphans, []
        failed = settle(orphans)
        for stream in streams:
            failed = stream.settle() or failed
        if failed:
            raise self.failed(failed)

    def failed(self, words: str) -> LaunchError:
        """The LaunchError for commands that went wrong."""
        return LaunchError(f"{self} reports a fault of a launch: {words}", kind="metal")

    def allocate(self, nbytes: int) -> Memory:
        most = self.limits["maxBufferLength"]
        if nbytes > most:
            raise LaunchError(f"{self} cannot hold an array of {nbytes} bytes: its maxBufferLength is {most}", kind="metal")
        try:
            handle = metal().buffer(self.handle, nbytes)
        except Refused as error:
            raise LaunchError(f"{self} gives no memory of {nbytes} bytes: {error}", kind="metal") from error
        return Memory(handle, metal().contents(handle, nbytes))

    def write(self, memory: Memory, data: memoryview, stream: Stream) -> None:
        # The host writes at once: what was queued before must have read.
        stream.synchronize()
        memory.view[: data.nbytes] = data.cast("B")

    def read(self, memory: Memory, out: memoryview, stream: Stream) -> None:
        stream.synchronize()
        out.cast("B")[:] = memory.view[: out.nbytes]

    def view(self, memory: Memory) -> memoryview:
        import ctypes

        # What Metal gives does not hold the buffer; this does.
        shared = (ctypes.c_ubyte * memory.view.nbytes).from_buffer(memory.view)
        shared.owner = memory.handle  # type: ignore[attr-defined]
        return memoryview(shared).cast("B")


class MetalStream(Stream):
    """A command queue. What is committed to it runs in order.

    Attributes
    ----------
    queue
        Metal's command queue.
    """

    device: MetalDevice

    def __init__(self, device: MetalDevice, queue: Any) -> None:
        self.device = device
        self.queue = queue
        #: What is committed and not known to be done, in order; and what went wrong with commands that were found done.
        self._commands: list[Any] = []
        self._failed = ""
        self._last_launch: Any = None
        self._lock = Lock()
        self._event = Once()
        self._count = 0

    def __del__(self) -> None:
        if getattr(self, "_commands", None):
            self.device.orphan(self._commands)

    def launch(self, commit: Callable[[], Any]) -> Any:
        """Commit a launch in the stream's order, and remember it."""
        with self._lock:
            commands = self._last_launch = commit()
            self._remember(commands)
        return commands

    def _remember(self, commands: Any) -> None:
        self._commands.append(commands)
        if len(self._commands) > _REMEMBERED:
            driver, done = metal(), 0
            while done < len(self._commands) and driver.done(self._commands[done]):
                self._failed = self._failed or driver.failure(self._commands[done])
                done += 1
            del self._commands[:done]

    def settle(self) -> str:
        """Wait for all that was queued; what went wrong with it, once."""
        with self._lock:
            commands, self._commands = self._commands, []
            failed, self._failed = self._failed, ""
        return settle(commands) or failed

    def synchronize(self) -> None:
        failed = self.settle()
        if failed:
            raise self.device.failed(failed)

    def record(self) -> MetalEvent:
        driver = metal()
        with self._lock:
            try:
                event = self._event.get("event", lambda: driver.event(self.device.handle))
                self._count += 1
                commands = driver.signal(self.queue, event, self._count)
            except Refused as error:
                raise LaunchError(f"{self.device} gives no event: {error}", kind="metal") from error
            self._remember(commands)
            # Commands that do nothing but signal may have no time of their own.
            return MetalEvent(self.device, event, self._count, commands, self._last_launch or commands)

    def wait(self, event: Event) -> None:
        event = waited_for(event, MetalEvent, self.device)
        with self._lock:
            try:
                self._remember(metal().wait_for(self.queue, event.handle, event.value))
            except Refused as error:
                raise LaunchError(f"{self.device} cannot wait for an event: {error}", kind="metal") from error

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class MetalEvent(Event):
    """A value that a queue sets a shared event to; `timed` are the commands whose end is the event's time."""

    __slots__ = ("commands", "device", "handle", "timed", "value")

    def __init__(self, device: MetalDevice, handle: Any, value: int, commands: Any, timed: Any) -> None:
        self.device, self.handle, self.value = device, handle, value
        self.commands, self.timed = commands, timed

    def synchronize(self) -> None:
        failed = settle([self.timed, self.commands])
        if failed:
            raise self.device.failed(failed)

    def elapsed(self, earlier: Event) -> float:
        earlier = begun_at(earlier, MetalEvent, self.device)
        earlier.synchronize()
        self.synchronize()
        return metal().times(self.timed)[1] - metal().times(earlier.timed)[1]

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def settle(commands: list[Any]) -> str:
    """Wait for commands, and tell what went wrong first; "" where nothing did."""
    driver, failed = metal(), ""
    for each in commands:
        driver.wait(each)
        failed = failed or driver.failure(each)
    return failed


def devices() -> list[MetalDevice]:
    """All devices, the same objects each time; they are looked for until there is one.

    Raises
    ------
    DeviceNotFoundError
        There is none, or no Metal.
    """

    def find() -> list[MetalDevice]:
        handles = metal().devices()
        if not handles:
            raise DeviceNotFoundError(
                "no Metal device was found: this Mac shows no GPU to this process, as in some virtual machines and remote sessions",
                kind="metal",
            )
        return [MetalDevice(handle, index) for index, handle in enumerate(handles)]

    found: list[MetalDevice] = _once.get("devices", find)
    return found
