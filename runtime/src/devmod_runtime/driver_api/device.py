"""Devices of a driver. The first use of a device retains its primary context."""

from __future__ import annotations

import weakref
from _weakref import ref
from threading import RLock

from devmod import Device, Stream
from devmod.backend import Once
from devmod.errors import DeviceNotFoundError
from devmod_runtime import check_driver, fork_safe
from devmod_runtime.driver_api.api import DISABLE_TIMING, NON_BLOCKING, PORTABLE
from devmod_runtime.driver_api.copies import Transfers, address_of
from devmod_runtime.driver_api.errors import DriverError, describe, driver_error
from devmod_runtime.driver_api.graph import uncaptured
from devmod_runtime.driver_api.handles import Handles, Memories, Modules, Streams
from devmod_runtime.driver_api.memory import Memory
from devmod_runtime.driver_api.stream import DriverStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from devmod.errors import LaunchError
    from devmod_runtime.driver_api.api import Api
    from devmod_runtime.driver_api.driver import Driver

    DriverT = TypeVar("DriverT", bound=Driver)
    DeviceT = TypeVar("DeviceT", bound="DriverDevice")
    from devmod_runtime.driver_api.graph import Capture
    from devmod_runtime.driver_api.handles import Handle


#: The number of the legacy default stream in ``__cuda_array_interface__``, where 0 is not allowed.
_INTERFACE_LEGACY = 1
#: The last number that DLPack reserves for special streams.
_LAST_SPECIAL = 2


class DriverDevice(Device):
    """A device of a driver.

    Parameters
    ----------
    driver
        The driver.
    index
        Its number, as the driver and the other libraries of the process count.

    Attributes
    ----------
    api : Api
        The API of the driver.
    stream_type : type
        The class of the streams.
    """

    api: Api
    stream_type: type[DriverStream] = DriverStream

    def __init__(self, driver: Driver, index: int) -> None:
        self.driver = driver
        self.index = index
        self.handle = driver.device(index)
        self.arch = driver.device_arch(self.handle)
        self.name = driver.device_name(self.handle) or self.arch.partition(":")[0]  # some cards have no name in an older HIP
        self.memory = driver.device_memory(self.handle)
        self.driver_version = f"{driver.api.name} {driver.api.version_text(driver.version)}"
        self._limits: dict[str, int] = {}
        self._once = Once()
        #: Streams over streams of other libraries, by handle. Each holds its owner, so the handle stays valid.
        self._foreign_streams: weakref.WeakValueDictionary[int, DriverStream] = weakref.WeakValueDictionary()
        self._lock = fork_safe(RLock())

    @property
    def limits(self) -> Mapping[str, int]:  # type: ignore[override]
        """The limits of the device by the vendor's names. Element types are aligned, so views may begin at every element."""
        if not self._limits:
            check_driver(self.kind)
            try:
                limits = {name: self.driver.device_attribute(self.handle, number) for name, number in self.api.limits.items()}
                self._limits = limits | {"view_alignment": 1}
            except DriverError as error:
                raise driver_error(f"the limits of {self} cannot be read", error, self) from error
        return self._limits

    @property
    def context(self) -> Context:
        """The primary context.

        Raises
        ------
        LaunchError
            The driver refuses it.
        """

        def retain() -> Context:
            check_driver(self.kind)
            try:
                return Context(self.driver, self.handle)
            except DriverError as error:
                raise driver_error(f"{self} cannot retain its primary context", error, self) from error

        context: Context = self._once.get("context", retain)
        return context

    @property
    def transfers(self) -> Transfers:
        """The copies that are not finished."""
        transfers: Transfers = self._once.get("transfers", lambda: Transfers(self.context))
        return transfers

    @property
    def default_stream(self) -> DriverStream:
        stream: DriverStream = self._once.get("stream", lambda: self.stream_type(self, self.api.legacy_stream))
        return stream

    def stream(self) -> DriverStream:
        check_driver(self.kind)
        context = self.context
        try:
            with context:
                handle = context.streams.create()
        except DriverError as error:
            raise driver_error(f"{self} cannot create a stream", error, self) from error
        return self.stream_type(self, handle.value, handle)

    def foreign_stream(self, handle: int, owner: object) -> DriverStream:
        """Return the stream over a stream of another library, which `owner` keeps alive: the same object for the same handle."""
        with self._lock:
            stream = self._foreign_streams.get(handle)
            if stream is None:
                stream = self._foreign_streams[handle] = self.stream_type(self, handle, owner)
        return stream

    @property
    def is_open(self) -> bool:
        """Whether the primary context was retained."""
        return "context" in self._once

    def synchronize(self) -> None:
        if not self.is_open:
            return
        check_driver(self.kind)
        context = self.context
        try:
            with uncaptured(self), context, context.driver.relaxed():
                context.driver.synchronize_context()
                context.drain()
            self.transfers.finish()
        except DriverError as error:
            raise driver_error(f"{self} reports a fault of a launch", error, self) from error

    # -- memory

    def allocate(self, nbytes: int) -> Memory:
        check_driver(self.kind)
        context = self.context
        try:
            with context:
                handle = context.memory.create(nbytes)
        except DriverError as error:
            if error.name == self.api.out_of_memory:
                raise self.memory_error(nbytes, describe(error)) from error
            raise driver_error(f"{self} cannot allocate {nbytes} bytes", error, self) from error
        return Memory(handle.value, handle)

    def free_memory(self) -> int | None:
        check_driver(self.kind)
        context = self.context
        try:
            with context:
                return context.driver.memory_info()[0]
        except DriverError:
            return None

    def slice(self, memory: Any, offset: int, nbytes: int) -> Memory:
        check_driver(self.kind)
        return Memory(memory + offset, memory.owner)

    def pointer(self, memory: Any) -> tuple[int, int]:
        return int(memory), 0

    def share(self, stream: object) -> int | None:
        """Order the later work of a consumer's stream after the present work of all streams.

        Parameters
        ----------
        stream
            The number of the stream in DLPack. None: the legacy default stream. -1: the consumer orders the work.

        Returns
        -------
        int or None
            The number of the stream in ``__cuda_array_interface__``; None if the consumer orders the work.

        Raises
        ------
        BufferError
            `stream` is not a number of a stream in DLPack.
        """
        check_driver(self.kind)
        api = self.api
        if stream is None:
            consumer = api.legacy_stream
        elif type(stream) is not int or stream < -1 or (0 <= stream <= _LAST_SPECIAL and stream not in api.dlpack_streams):
            raise BufferError(f"stream={stream!r} is no stream of {api.name} in DLPack: expected {api.dlpack_stream_text}")
        elif stream == -1:
            return None
        else:
            consumer = api.dlpack_streams.get(stream, stream)
        context = self.context
        try:
            with context:
                context.streams.settle()
                foreign = [stream for each in self._foreign_streams.valuerefs() if (stream := each()) is not None]
                own = context.streams_in_use()  # with the objects that keep the handles valid
                for handle in {*own, *(each.handle for each in foreign)} - {consumer}:
                    context.order(consumer, handle)
        except DriverError as error:
            raise driver_error(f"{self} cannot order its work before that of another library", error, self) from error
        return _INTERFACE_LEGACY if consumer == api.legacy_stream else consumer

    # -- copies

    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        self._queue(
            f"a copy of {data.nbytes} bytes to {self} failed",
            lambda driver, handle: driver.copy_to_device(memory, address_of(data), data.nbytes, handle),
            stream,
            wait=True,
        )

    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        self._queue(
            f"a copy of {out.nbytes} bytes from {self} failed",
            lambda driver, handle: driver.copy_to_host(address_of(out), memory, out.nbytes, handle),
            stream,
            wait=True,
        )

    def copy(self, source: Any, target: Any, nbytes: int, stream: Stream) -> None:
        self._queue(
            f"a copy of {nbytes} bytes on {self} failed",
            lambda driver, handle: driver.copy_on_device(target, source, nbytes, handle),
            stream,
        )

    def clear(self, memory: Any, nbytes: int, stream: Stream) -> None:
        self._queue(f"{self} cannot fill {nbytes} bytes", lambda driver, handle: driver.fill(memory, 0, nbytes, handle), stream, wait=True)

    def start_write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        assert isinstance(stream, DriverStream)
        check_driver(self.kind)
        try:
            with stream.lock, stream.uncaptured():
                self.transfers.start_write(memory, data, stream.handle)
        except DriverError as error:
            raise self._copy_error(f"a copy of {data.nbytes} bytes to {self} failed", error) from error

    def start_read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        assert isinstance(stream, DriverStream)
        check_driver(self.kind)
        try:
            with stream.lock, stream.uncaptured():
                self.transfers.start_read(memory, out, stream.handle)
        except DriverError as error:
            raise self._copy_error(f"a copy of {out.nbytes} bytes from {self} failed", error) from error

    def _queue(self, what: str, copy: Callable[[Driver, int], None], stream: Stream, *, wait: bool = False) -> None:
        """Queue a copy, and wait for it if `wait` is true."""
        assert isinstance(stream, DriverStream)
        check_driver(self.kind)
        context = self.context
        try:
            with stream.lock, stream.uncaptured(), context, context.driver.relaxed():
                try:
                    copy(context.driver, stream.handle)
                finally:
                    if wait:  # after an interrupt too: a driver may still access the host's memory
                        context.driver.synchronize_stream(stream.handle)
        except DriverError as error:
            raise self._copy_error(what, error) from error

    def _copy_error(self, what: str, error: DriverError) -> LaunchError:
        if error.name == self.api.out_of_memory:
            return self.memory_error(0, describe(error))
        return driver_error(what, error, self)


def list_devices(driver: DriverT, make: Callable[[DriverT, int], DeviceT], command: str) -> list[DeviceT]:
    """Return the devices of a driver in its order.

    Parameters
    ----------
    driver
        The driver.
    make
        The class of the devices.
    command
        The vendor's command that tests the driver, for the message.

    Raises
    ------
    DeviceNotFoundError
        The driver does not describe them.
    """
    try:
        return [make(driver, index) for index in range(driver.device_count())]
    except DriverError as error:
        raise DeviceNotFoundError(
            f"no {driver.api.title} device can be used: the devices cannot be listed: {error}. Run {command} to test the driver",
            kind=driver.api.kind,
        ) from error


# -- A device's primary context, which devmod shares with PyTorch, CuPy and the other libraries of the process.


class Context:
    """The primary context of a device. ``with context:`` makes it the thread's current one, and restores the previous one.

    It is retained at the first use and never released: at exit the driver may be gone before Python's objects.

    Parameters
    ----------
    driver
        The driver.
    device
        The driver's handle of the device.

    Attributes
    ----------
    handle : int
        The driver's handle.
    memory, host_memory, streams, events, modules, graphs
        The handles of each kind. Graphs are executable.
    captures : dict
        The active captures of batches, as keys. While there is one, no handle is destroyed: a captured launch may use it.
    waits : set
        Not empty while a thread waits for streams of the context, which the driver refuses during a capture: no batch is captured then.
    """

    def __new__(cls, driver: Driver, device: int) -> Context:
        """Return an object of a new subclass whose ``__enter__`` and ``__exit__`` are the driver's functions.

        CUDA's are functions of C. An interrupt at the start or the end of a Python function would leave the context current.
        """
        handle = driver.retain_primary_context(device)
        push, pop = driver.context_functions(handle)
        context: Context = object.__new__(type(cls.__name__, (cls,), {"__enter__": push, "__exit__": pop}))
        context.handle = handle
        return context

    handle: int

    def __init__(self, driver: Driver, device: int) -> None:
        self.driver = driver
        self.memory = Memories(self, "allocate", "free")
        self.host_memory = Handles(self, "allocate_host", "free_host", PORTABLE)
        self.streams = Streams(self, "create_stream", "destroy_stream", NON_BLOCKING)
        self.events = Handles(self, "create_event", "destroy_event")
        self.modules = Modules(self, "load_module", "unload_module")
        self.graphs = Handles(self, "instantiate_graph", "destroy_executable", 0)
        self.captures: dict[Capture, None] = {}
        self.waits: set[object] = set()

    @property
    def usable(self) -> bool:
        """Whether this process has opened the driver."""
        return self.driver.usable

    if TYPE_CHECKING:
        # The driver keeps a stack for each thread, so nested bodies and several threads need no state here.
        def __enter__(self) -> None: ...

        def __exit__(self, *details: object) -> None: ...

    def begin_wait(self) -> object:
        """Return an object that marks a wait in `waits` for as long as it is referenced."""
        wait = _Wait()
        self.waits.add(ref(wait, self.waits.discard))
        return wait

    def order(self, later: int, earlier: int) -> None:
        """Delay the later work of a stream until the present end of another one. The thread has the context as its current one."""
        event: Handle = self.events.create(DISABLE_TIMING)
        self.driver.record_event(event.value, earlier)
        self.driver.wait_event(later, event.value)

    def streams_in_use(self) -> dict[int, Handle | None]:
        """Return the handles of the legacy default stream and of devmod's streams, each with the object that keeps it valid.

        Streams of other libraries are not in it: their owners may have destroyed them.
        """
        return {self.driver.api.legacy_stream: None, **{handle.value: handle for handle in self.streams.referenced()}}

    def is_captured(self) -> bool:
        """Return whether one of these streams, or one that the legacy default stream waits for, is captured. The context is current."""
        streams = self.streams_in_use()
        try:
            return any(map(self.driver.is_capturing, streams))
        except DriverError as error:
            if error.name == self.driver.api.implicit_capture:
                return True
            raise

    def synchronize_streams(self) -> None:
        """Wait for the work of these streams. The context is current. A wait for the context would end the capture of any stream in it."""
        self.streams.settle()
        streams = self.streams_in_use()
        for handle in streams:
            self.driver.synchronize_stream(handle)

    def end_capture(self, capture: Capture) -> None:
        """Remove a capture from `captures`, and destroy the handles whose users were collected meanwhile."""
        self.captures.pop(capture, None)
        self.drain()

    def drain(self) -> None:
        """Destroy the handles whose end a capture has delayed, if none is active."""
        if not self.captures:
            for handles in (self.memory, self.host_memory, self.streams, self.events, self.modules, self.graphs):
                handles.drain()


class _Wait:
    """Marks a wait. An interrupt that ends the function with the reference removes the mark."""

    __slots__ = ("__weakref__",)
