"""Devices, streams, events and graphs of a driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, cached_property, partial
from time import sleep
from typing import Any, Self, TypeVar

from devmod import Device, Event, Launch, Stream
from devmod.backend import Capabilities, Once, RLock
from devmod.errors import ArgumentError, DeviceNotFoundError, LaunchError
from devmod_driver_api.api import RELAXED_CAPTURE, Api, DriverError, describe
from devmod_driver_api.copies import Transfers
from devmod_driver_api.driver import Driver
from devmod_driver_api.handles import Context, Handle, Memory
from devmod_runtime import (
    Batch,
    address_of,
    check_driver,
    check_earlier_event,
    check_event,
    fork_safe,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    Work = Callable[[], object]

DeviceT = TypeVar("DeviceT", bound="DriverDevice")

#: Seconds between two looks of a graph that is to be captured at the waits of other threads.
_CAPTURE_DELAY = 0.001

#: The names in `DriverDevice.limits` of the limits with which functions are compared. Static shared
#: memory has no opt-in limit.
_LIMITS = {
    "block_x": "max_block_dim_x",
    "block_y": "max_block_dim_y",
    "block_z": "max_block_dim_z",
    "block": "max_threads_per_block",
    "shared_memory": "max_shared_memory_per_block",
}
#: The number of the legacy default stream in ``__cuda_array_interface__``, where 0 is not allowed.
_INTERFACE_LEGACY = 1
#: The last number that DLPack reserves for special streams.
_LAST_SPECIAL = 2


# -- Streams and events of a driver.


def _keeps_stream(owner: object, handle: int) -> bool:
    """Return whether the object of another library keeps the stream.

    PyTorch's, CuPy's, cuda.core's and pycuda's class is named so; ExternalStream and numba's
    external streams do not keep one. PyTorch's current stream is a Stream also if an ExternalStream
    is current, whose number is then its handle (c10/cuda/CUDAStream.cpp).
    """
    if type(owner).__name__ != "Stream" or getattr(owner, "external", False):
        return False
    return getattr(owner, "stream_id", None) != handle


class DriverStream(Stream):
    """A stream of a driver.

    Attributes
    ----------
    handle : int
        The driver's handle. The default stream of a device has `Api.legacy_stream`.
    owner
        The object that destroys the stream: a `Handle`, or the stream object of another library.
        None for a default stream.
    last_owner
        The object of another library that was given last for the stream: `owner` may be one that
        does not keep it alive.
    is_default : bool
        Whether it is the default stream, which the driver does not capture.
    is_captured : bool
        Whether the driver captures the stream, or the captured launches are not queued yet. A
        launch then holds `lock`: a launch of another thread would otherwise run before earlier ones
        of that thread. After an interrupt the driver may capture nothing yet.
    lock
        Held while a capture begins or ends, and for other operations than launches, which the
        driver refuses during a capture.
    """

    device: DriverDevice
    gathers = False  # a graph costs more than its launches, if it is launched once

    def __init__(self, device: DriverDevice, handle: int, owner: object = None) -> None:
        self.device = device
        self.handle = handle
        self.owner = owner
        self.last_owner = owner
        self.is_default = handle in device.api.legacy_handles
        #: Whether `owner` keeps a stream of another library.
        self.is_kept = _keeps_stream(owner, handle)
        self.lock: AbstractContextManager[object] = nullcontext()
        if not self.is_default:
            self.lock = fork_safe(RLock())
        self.is_captured = False
        #: The active batches.
        self._batches: set[object] = set()
        #: The driver's result with a graph that is not queued, as `Driver.create_into` has it. An
        #: interrupt may leave one.
        self._graphs: list[Any] = []
        #: The driver's number of a stream of another library, as `Driver.stream_id` returns it.
        self.number = 0
        #: Whether a wait for all work of the context came after its library closed it.
        self.has_ended = False

    def __del__(self) -> None:
        if getattr(self, "is_kept", False) and not self.has_ended:
            self.device.context.note_end(self)

    def batch(self) -> AbstractContextManager[object]:
        """As `Stream.batch`: the launches become one graph of the driver.

        The launches of the default stream, and of a stream that another library captures, are
        queued one by one.
        """
        check_driver(self.device.kind)
        if self.is_default:
            return nullcontext()
        with self.lock:
            if self._batches or not self._is_captured_elsewhere():
                return Batch(self._batches, self._resume, self._end_batch)
            return nullcontext()

    def graph(self, launches: Sequence[Launch]) -> Graph:
        """Return prepared launches as one graph of the driver, which a call without arguments
        queues.

        Parameters
        ----------
        launches
            Results of `Function.bind` with this stream. The graph keeps them alive.

        Raises
        ------
        ArgumentError
            A launch is for another stream, or this is the default stream, which the driver does not
            capture.
        LaunchError
            The driver refuses the graph.
        """
        for number, each in enumerate(launches, 1):
            if not isinstance(each, Launch) or each.stream is not self:
                got = repr(each)
                if isinstance(each, Launch):
                    got = f"one for {each.stream!r}"
                raise ArgumentError(
                    f"a graph of {self!r} takes launches that were bound with stream= this stream; launch {number} is {got}",
                    kind=self.device.kind,
                    argument="launches",
                )
        return Graph(self, launches, self)

    def prepare(self, make: Callable[[Stream], Sequence[Work]]) -> Work:
        """As `Stream.prepare`: the calls are one graph, captured once in a stream of its own.
        `devmod.guard` does not see its launches.

        While another library captures this stream, the calls are queued one by one.
        """
        side = self.device.stream()
        graph = Graph(side, make(side), self)
        calls = cache(lambda: make(self))

        def queue() -> None:
            if self.is_default or self._is_begun or not self._is_captured_elsewhere():
                graph()
                return
            for each in calls():
                each()

        return queue

    def uncaptured(self) -> AbstractContextManager[object]:
        """Return a context manager: an active batch submits its launches and captures none while
        the body runs. The thread holds `lock`.
        """
        self.check_open()
        if self._is_begun:
            return _suspended([], [self])
        return nullcontext()

    @property
    def is_closed(self) -> bool:
        """Whether its library has closed the stream, while its object lives (cuda.core)."""
        return getattr(self.owner, "is_closed", False) is True

    def check_open(self) -> None:
        """Raise LaunchError if the library of the stream has closed it."""
        if self.is_closed:
            raise LaunchError(
                f"{self} cannot be used: its library has closed it. Pass an open one to devmod.device, or as stream=",
                kind=self.device.kind,
            )

    def _is_captured_elsewhere(self) -> bool:
        with self.device.calls("{} cannot begin a batch") as context, context:
            return bool(context.driver.call("is_capturing", self.handle))

    def synchronize(self) -> None:
        with self.device.calls("{} reports a fault of a launch") as context:
            with self.lock, self.uncaptured(), context, context.driver.relaxed():
                context.wait("synchronize_stream", self.handle)
            self.device.transfers.finish()

    def record(self) -> DriverEvent:
        with (
            self.device.calls("{} cannot record an event") as context,
            self.lock,
            self.uncaptured(),
            context,
        ):
            event = context.events.create(0)
            context.driver.call("record_event", event.value, self.handle)
        return DriverEvent(self.device, event)

    def wait(self, event: Event) -> None:
        event = check_event(event, DriverEvent, self.device)
        with (
            self.device.calls("{} cannot wait for an event") as context,
            self.lock,
            self.uncaptured(),
            context,
        ):
            context.driver.call("wait_event", self.handle, event.handle, 0)

    # -- batches: the driver captures their launches into a graph

    @property
    def _is_begun(self) -> bool:
        """Whether a capture of batches was begun by `_resume`, and not completed by `_pause`."""
        return self.is_captured and self in self.device.context.captures

    def _pause(self) -> None:
        """Submit the launches captured so far, and capture no more. After an interrupt, the next
        call completes both.
        """
        with self.device.calls("{} refused the launches of a batch") as context, self.lock:
            if not self._is_begun:
                return
            try:
                with context:
                    self._submit(context)
            except DriverError:
                self._end_capture()
                raise
            self._end_capture()

    def _resume(self) -> None:
        """Capture the following launches, if a batch is active."""
        with self.device.calls("{} cannot begin a batch") as context, self.lock:
            if self._is_begun or not self._batches:
                return
            # Registered before it begins, so that memory of captured launches is not freed. The
            # next operation ends an interrupted capture.
            self.is_captured = True
            context.captures[self] = None
            if context.waits:
                self._end_capture()
                return  # the launches are queued one by one
            try:
                with context:
                    context.driver.call("begin_capture", self.handle, RELAXED_CAPTURE)
            except DriverError:
                self._end_capture()
                raise

    def _end_batch(self) -> None:
        """Submit the captured launches, if the outermost batch has ended."""
        with self.lock:
            if not self._batches:
                self._pause()

    def _end_capture(self) -> None:
        self.device.context.end_capture(self)
        self.is_captured = False

    def _submit(self, context: Context) -> None:
        """End the capture and queue its graph once."""
        driver = context.driver
        graphs = self._graphs
        if driver.call("is_capturing", self.handle):
            graphs.clear()  # an interrupt came before the end of the capture
            driver.create_into(graphs, "end_capture", self.handle)
        if not graphs or not graphs[0].value:
            return
        destroyed = list(graphs)
        try:
            executable = context.graphs.create(graphs[0].value)
            driver.launch_graph_of(graphs, executable.value, self.handle)
        except DriverError:
            graphs.clear()
            raise
        finally:
            if not graphs:
                driver.destroy_from(destroyed, "destroy_graph")


class DriverEvent(Event):
    """A point in a stream, with its time."""

    __slots__ = ("_event", "device")

    def __init__(self, device: DriverDevice, event: Handle) -> None:
        self.device = device
        self._event = event

    @property
    def handle(self) -> int:
        """The driver's handle."""
        return self._event.value

    def synchronize(self) -> None:
        with self.device.calls("{} reports a fault of a launch") as context:
            with context, context.driver.relaxed():
                context.wait("synchronize_event", self.handle)
            self.device.transfers.finish()

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, DriverEvent, self.device)
        earlier.synchronize()
        self.synchronize()
        with self.device.calls("{} cannot return the time of an event") as context, context:
            milliseconds: float = context.driver.call("elapsed_time", earlier.handle, self.handle)
            return milliseconds * 1e-3


# -- Graphs: prepared launches that are submitted together again and again.


@contextmanager
def _suspended(waits: list[object], captures: Sequence[Any]) -> Iterator[None]:
    """Submit what is captured so far, and capture nothing while the body runs, until the end of
    which the `waits` are marked.
    """
    for each in captures:
        each._pause()
    try:
        yield
    finally:
        waits.clear()
        for each in captures:
            each._resume()


class Graph:
    """Prepared launches as one graph of the driver. `DriverStream.graph` returns one; a call queues
    all of them in their order.

    It keeps the launches and their arrays alive.

    Parameters
    ----------
    stream
        The stream in which the launches are captured.
    launches
        The prepared launches, and other calls without arguments that queue work in this stream.
    target
        The stream of the graph.
    """

    def __init__(
        self, stream: DriverStream, launches: Sequence[Work], target: DriverStream
    ) -> None:
        self._stream = target
        self._launches = tuple(launches)
        #: CUDA and HIP forbid calls of several threads at once with one graph. A wait for the
        #: device waits for the capture, which holds it.
        self._lock = fork_safe(RLock())
        api = stream.device.api
        if stream.is_default:
            raise ArgumentError(
                f"the default stream of a {api.kind} device has no graphs: {api.name} does not capture it. Create a stream with "
                "device.stream(), and bind the launches with stream= it",
                kind=api.kind,
                argument="stream",
            )
        failure = f"{{}} cannot create a graph of {len(launches)} launches"
        with (
            stream.device.calls(failure) as context,
            stream.lock,
            stream.uncaptured(),
            self._captured(context),
            context,
        ):
            driver = context.driver
            stream.is_captured = True
            driver.call("begin_capture", stream.handle, RELAXED_CAPTURE)
            try:
                for each in self._launches:
                    if not isinstance(each, Launch):
                        each()
                    elif each._shape is not None:
                        # Not each(): a guard or a profile would wait for the launch, which only the
                        # graph runs.
                        each._kernel.prepare(stream, each._shape, each._values[0])()
            except BaseException:
                with suppress(DriverError):  # the error of the launch says more
                    driver.call("destroy_graph", driver.call("end_capture", stream.handle))
                raise
            finally:
                stream.is_captured = False
            graph = driver.call("end_capture", stream.handle)
            try:
                self._executable = context.graphs.create(graph)
            finally:
                driver.call("destroy_graph", graph)

    @contextmanager
    def _captured(self, context: Context) -> Iterator[None]:
        """Let no thread wait for the device or destroy a handle while the body runs. Begin it
        between such waits.
        """
        while True:
            with self._lock:
                context.captures[self] = None
                try:
                    if not context.waits:
                        yield
                        return
                finally:
                    context.end_capture(self)
            sleep(_CAPTURE_DELAY)

    def _pause(self) -> None:
        """Wait for the end of the capture."""
        with self._lock:
            pass

    def _resume(self) -> None:
        """Do nothing: a graph is captured once."""

    def __call__(self) -> None:
        """Queue all launches.

        Raises
        ------
        LaunchError
            The driver refuses them.
        """
        stream = self._stream
        with (
            stream.device.calls(
                f"{{}} refused a graph of {len(self._launches)} launches"
            ) as context,
            stream.lock,
            self._lock,
            context,
        ):
            context.driver.call("launch_graph", self._executable.value, stream.handle)

    def __repr__(self) -> str:
        return f"<Graph of {len(self._launches)} launches on {self._stream.device}>"


# -- Devices. The first use of a device retains its primary context.


class Calls:
    """The context manager of calls of the driver. Its value is the device's context, and an error
    of the driver becomes a LaunchError.

    A class, because a generator takes 1 µs more. It holds nothing, so an interrupt may come
    anywhere in it.

    Parameters
    ----------
    device
        The device.
    failure
        What failed, for the message of an error. "{}" stands for the device.
    nbytes
        The bytes that the body allocates.
    """

    __slots__ = ("_device", "_failure", "_nbytes")

    def __init__(self, device: DriverDevice, failure: str, nbytes: int = 0) -> None:
        self._device = device
        self._failure = failure
        self._nbytes = nbytes

    def __enter__(self) -> Context:
        check_driver(self._device.kind)
        context = self._device.context
        if not context.is_primary:
            self._device.check_context()
        return context

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, DriverError):
            raise self._device.driver_error(
                self._failure.format(self._device), error, self._nbytes
            ) from error


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
    adopted : str
        What the device is over, as "a Stream of torch"; "" for a device of the driver's list.
    calls : callable
        Returns `Calls` of the device.
    """

    api: Api
    stream_type: type[DriverStream] = DriverStream
    adopted = ""

    def __init__(self, driver: Driver, index: int) -> None:
        self.driver = driver
        self.index = index
        self.handle = driver.call("device", index)
        self.arch = driver.device_arch(self.handle)
        # Some cards have no name in an older HIP.
        self.name = driver.device_name(self.handle) or self.arch.partition(":")[0]
        self.memory = driver.call("device_memory", self.handle)
        self.driver_version = f"{driver.api.name} {driver.api.version_text(driver.version)}"
        self.calls = partial(Calls, self)
        self._once = Once()
        self._space: DriverDevice = self

    def over_context(self, context: Context, adopted: str) -> Self:
        """Return a new device of the same hardware over a context of another library.

        Parameters
        ----------
        context
            The context.
        adopted
            The object in words, to which the attribute adds the driver's handle.
        """
        device = type(self)(self.driver, self.index)
        device.is_adopted = True
        device.adopted = f"{adopted} 0x{context.handle:x}"
        device._once.get("context", lambda: context)
        return device

    def over_stream(self, handle: int, owner: object, adopted: str) -> Self:
        """Return a new device over the context of this one, whose default stream is one of another
        library.

        Parameters
        ----------
        handle, owner
            The driver's handle of the stream, and the object that keeps it valid.
        adopted
            The object in words, to which the attribute adds the driver's handle.
        """
        device = self.over_context(self.context, adopted)
        device.adopted = f"{adopted} 0x{handle:x}"
        device.is_callers_queue = True
        device._space = self
        device._once.get("stream", lambda: device.foreign_stream(handle, owner))
        return device

    @property
    def memory_space(self) -> Device:
        return self._space

    @property
    def has_queues(self) -> bool:
        """Whether there is a device over a stream of the context."""
        streams = self.context.referenced_foreign_streams()
        return any(each.device.is_callers_queue for each in streams)

    def check_context(self) -> None:
        """Raise LaunchError if the context of another library was destroyed."""
        if not self.context.is_alive():
            raise LaunchError(
                f"{self} cannot be used: its context was destroyed. Its arrays are lost. Pass another context to devmod.device",
                kind=self.kind,
            )

    @cached_property
    def limits(self) -> Mapping[str, int]:  # type: ignore[override]
        """The limits of the device by the vendor's names. Element types are aligned, so views may
        begin at every element.
        """
        return self.read_limits(self.api.limits) | {"view_alignment": 1}

    def read_limits(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Return attributes of the device, by the names of their numbers. No context is opened."""
        check_driver(self.kind)
        try:
            return {
                name: self.driver.call("device_attribute", number, self.handle)
                for name, number in numbers.items()
            }
        except DriverError as error:
            raise self.driver_error(f"the limits of {self} cannot be read", error) from error

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(self, _LIMITS)

    @property
    def context(self) -> Context:
        """The context: by default the primary one.

        Raises
        ------
        LaunchError
            The driver refuses it.
        """

        def retain() -> Context:
            check_driver(self.kind)
            try:
                return Context(self.driver, self.driver.retain_primary_context(self.handle))
            except DriverError as error:
                raise self.driver_error(
                    f"{self} cannot retain its primary context", error
                ) from error

        return self._once.get("context", retain)

    @property
    def transfers(self) -> Transfers:
        """The copies that are not finished, of all devices over the context."""
        context = self.context
        return context.once.get("transfers", lambda: Transfers(context))

    @property
    def default_stream(self) -> DriverStream:
        return self._once.get("stream", lambda: self.stream_type(self, self.api.legacy_stream))

    def stream(self) -> DriverStream:
        with self.calls("{} cannot create a stream") as context, context:
            handle = context.streams.create()
        return self.stream_type(self, handle.value, handle)

    def foreign_stream(self, handle: int, owner: object) -> DriverStream:
        """Return the stream over a stream of another library, which `owner` keeps alive: the same
        object for the same stream. A library may destroy one, and the driver use its handle again.

        It is that of the device over the stream, if there is one.
        """
        with self.calls("{} cannot use a stream of another library") as context, context:
            key = (handle, context.driver.stream_id(handle))
        with context.lock:
            stream: DriverStream | None = context.foreign_streams.get(key)
            if stream is None or (self.is_callers_queue and stream.device is not self):
                stream = self.stream_type(self, handle, owner)
                stream.number = key[1]
                context.foreign_streams[key] = stream
            stream.last_owner = owner
        return stream

    def order_queues(self, earlier: int) -> None:
        """Delay the later work of the callers' streams of the context, which have devices, until
        the present end of a stream.
        """
        with self.calls("{} cannot order work of another library") as context:
            if not context.foreign_streams:
                return
            with context:
                for each in context.callers_streams():
                    context.order(each.handle, earlier)

    @property
    def is_open(self) -> bool:
        """Whether the context is in use."""
        return "context" in self._once

    def synchronize(self) -> None:
        if not self.is_open:
            return
        with self.calls("{} reports a fault of a launch") as context:
            # The driver refuses to wait for the device during a capture.
            with (
                _suspended([context.begin_wait()], [*context.captures]),
                context,
                context.driver.relaxed(),
            ):
                context.wait("synchronize_context")
                context.drain()
            self.transfers.finish()

    # -- memory

    def allocate(self, nbytes: int) -> Memory:
        with self.calls(f"{{}} cannot allocate {nbytes} bytes", nbytes) as context, context:
            handle = context.memory.create(nbytes)
        return Memory(handle.value, handle)

    def free_memory(self) -> int | None:
        check_driver(self.kind)
        context = self.context
        try:
            with context:
                return int(context.driver.call("memory_info")[0])
        except DriverError:
            return None

    def slice(self, memory: Any, offset: int, nbytes: int) -> Memory:
        check_driver(self.kind)
        return Memory(memory + offset, memory.owner)

    def pointer(self, memory: Any) -> tuple[int, int]:
        return int(memory), 0

    def place(self, memory: Any) -> tuple[int, int]:
        if isinstance(memory, int):
            return 0, int(memory)
        return memory.handle, 0  # the array of an image is at no address

    def address(self, memory: Any) -> int:
        return int(memory)

    def share(self, stream: object) -> int | None:
        """Order the later work of a consumer's stream after the present work of all streams.

        Parameters
        ----------
        stream
            The number of the stream in DLPack. None: the legacy default stream. -1: the consumer
            orders the work.

        Returns
        -------
        int or None
            The number of the stream in ``__cuda_array_interface__``; None if the consumer orders
            the work.

        Raises
        ------
        BufferError
            `stream` is not a number of a stream in DLPack.
        """
        check_driver(self.kind)
        api = self.api
        if type(stream) is int and stream == -1:
            return None
        consumer = self._consumer(stream)
        with (
            self.calls("{} cannot order its work before that of another library") as context,
            context,
        ):
            context.streams.settle()
            # Both hold the objects that keep the handles valid.
            own = context.streams_in_use()
            foreign = [each for each in context.referenced_foreign_streams() if not each.is_closed]
            for handle in {*own, *(each.handle for each in foreign)} - {consumer}:
                context.order(consumer, handle)
        if consumer == api.legacy_stream:
            return _INTERFACE_LEGACY
        return consumer

    def _consumer(self, stream: object) -> int:
        """Return the driver's handle of a consumer's stream by its number in DLPack."""
        api = self.api
        if stream is None:
            return api.legacy_stream
        if type(stream) is int and stream >= 0:
            if stream in api.dlpack_streams:
                return api.dlpack_streams[stream]
            if stream > _LAST_SPECIAL:
                return stream
        raise BufferError(
            f"stream={stream!r} is no stream of {api.name} in DLPack: expected {api.dlpack_stream_text}"
        )

    # -- copies

    def write(self, memory: Any, data: memoryview, stream: DriverStream) -> None:
        failure = f"a copy of {data.nbytes} bytes to {{}} failed"
        self._queue(failure, stream, "copy_to_device", memory, address_of(data), data.nbytes)

    def read(self, memory: Any, out: memoryview, stream: DriverStream) -> None:
        failure = f"a copy of {out.nbytes} bytes from {{}} failed"
        self._queue(failure, stream, "copy_to_host", address_of(out), memory, out.nbytes)

    def copy(self, source: Any, target: Any, nbytes: int, stream: DriverStream) -> None:
        failure = f"a copy of {nbytes} bytes on {{}} failed"
        self._queue(failure, stream, "copy_on_device", target, source, nbytes, wait=False)

    def clear(self, memory: Any, nbytes: int, stream: DriverStream) -> None:
        self._queue(f"{{}} cannot fill {nbytes} bytes", stream, "fill", memory, 0, nbytes)

    def start_clear(self, memory: Any, nbytes: int, stream: DriverStream) -> None:
        self._queue(
            f"{{}} cannot fill {nbytes} bytes", stream, "fill", memory, 0, nbytes, wait=False
        )

    def start_write(self, memory: Any, data: memoryview, stream: DriverStream) -> None:
        self._start(memory, data, stream, to_device=True)

    def start_read(self, memory: Any, out: memoryview, stream: DriverStream) -> None:
        self._start(memory, out, stream, to_device=False)

    def _start(
        self, memory: Any, data: memoryview, stream: DriverStream, *, to_device: bool
    ) -> None:
        direction = "from"
        if to_device:
            direction = "to"
        failure = f"a copy of {data.nbytes} bytes {direction} {{}} failed"
        with self.calls(failure), stream.lock, stream.uncaptured():
            self.transfers.start(memory, data, stream.handle, to_device=to_device)

    def _queue(
        self, failure: str, stream: DriverStream, operation: str, *arguments: Any, wait: bool = True
    ) -> None:
        """Queue an operation of the driver whose last parameter is the stream, and wait for it if
        `wait` is true.
        """
        with (
            self.calls(failure) as context,
            stream.lock,
            stream.uncaptured(),
            context,
            context.driver.relaxed(),
        ):
            try:
                context.driver.call(operation, *arguments, stream.handle)
            finally:
                if wait:  # after an interrupt too: a driver may still access the host's memory
                    context.driver.call("synchronize_stream", stream.handle)

    # -- errors of the driver

    def driver_error(self, what: str, error: DriverError, nbytes: int = 0) -> LaunchError:
        """Return the LaunchError for an error of the driver. `what` failed, and begins the message.

        Without free memory it is a DeviceMemoryError; `nbytes` are the requested bytes.
        """
        reason = describe(error)
        if error.name == self.api.out_of_memory:
            if not nbytes:
                reason = f"{what}: {reason}"
            return self.memory_error(nbytes, reason)
        text = f"{what}: {reason}"
        if error.name in self.api.sticky:
            text += (
                f". A kernel has failed on {self}: {self.api.name} refuses every later call of this process on it, also of other "
                "libraries. Its arrays are lost. Start a new process"
            )
        return LaunchError(text, kind=self.kind)

    def __repr__(self) -> str:
        text = super().__repr__()
        if self.adopted:
            text += f" over {self.adopted}"
        return text


def list_devices(
    once: Once, open_driver: Callable[[], Any], make: type[DeviceT], command: str
) -> list[DeviceT]:
    """Return the devices of a driver in its order, always the same objects. If there is none, the
    next call searches again.

    Parameters
    ----------
    once
        Keeps the driver and its devices.
    open_driver
        The function that opens the driver. If it raises, the next call tries again.
    make
        The class of the devices.
    command
        The vendor's command that tests the driver, for the message.

    Raises
    ------
    DeviceNotFoundError
        `open_driver` raised it, or the driver does not describe its devices.
    LaunchError
        This process was forked after the driver was opened.
    """

    def find() -> list[DeviceT]:
        check_driver(make.kind)
        driver: Driver = once.get("driver", open_driver)
        try:
            return [make(driver, index) for index in range(driver.device_count())]
        except DriverError as error:
            raise DeviceNotFoundError(
                f"no {driver.api.title} device can be used: the devices cannot be listed: {error}. Run {command} to test the driver",
                kind=driver.api.kind,
            ) from error

    return once.get("devices", find)
