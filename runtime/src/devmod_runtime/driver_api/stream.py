"""Streams and events of a driver."""

from __future__ import annotations

from contextlib import nullcontext
from threading import RLock

from devmod import Event, Stream
from devmod_runtime import check_driver, check_earlier_event, check_event, fork_safe
from devmod_runtime.driver_api.errors import DriverError, driver_error
from devmod_runtime.driver_api.graph import Capture, Graph
from devmod_runtime.driver_api.handles import Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from devmod import Launch
    from devmod_runtime.driver_api.device import DriverDevice


class DriverStream(Stream):
    """A stream of a driver.

    Attributes
    ----------
    handle : int
        The driver's handle. The default stream of a device has `Api.legacy_stream`.
    owner
        The object that destroys the stream: a `Handle`, or the stream object of another library. None for a default stream.
    is_default : bool
        Whether it is the default stream, which the driver does not capture.
    is_captured : bool
        Whether the driver captures the stream, or the captured launches are not queued yet. A launch then holds `lock`: a launch of
        another thread would otherwise run before earlier ones of that thread.
    lock
        Held while a capture begins or ends, and for other operations than launches, which the driver refuses during a capture.
    """

    device: DriverDevice

    def __init__(self, device: DriverDevice, handle: int, owner: object = None) -> None:
        self.device = device
        self.handle = handle
        self.owner = owner
        self.is_default = handle in device.api.legacy_handles
        self.lock: AbstractContextManager[object] = nullcontext() if self.is_default else fork_safe(RLock())
        self.is_captured = False
        #: The capture of the stream's batches; None before the first batch.
        self._capture: Capture | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether another library made the stream and may destroy it."""
        return self.owner is not None and not isinstance(self.owner, Handle)

    def batch(self) -> AbstractContextManager[object]:
        """As `Stream.batch`: the launches become one graph of the driver.

        The launches of the default stream, and of a stream that another library captures, are queued one by one.
        """
        check_driver(self.device.kind)
        if self.is_default:
            return nullcontext()
        with self.lock:
            capture = self._capture = self._capture or Capture(self)
            return capture.batch() if capture.is_active or not self._is_captured_elsewhere() else nullcontext()

    def graph(self, launches: Sequence[Launch]) -> Graph:
        """Return prepared launches as one graph of the driver, which a call without arguments queues.

        Parameters
        ----------
        launches
            Results of `Function.bind` with this stream. The graph keeps them alive.

        Raises
        ------
        ArgumentError
            A launch is for another stream, or this is the default stream, which the driver does not capture.
        LaunchError
            The driver refuses the graph.
        """
        return Graph(self, launches)

    def uncaptured(self) -> AbstractContextManager[object]:
        """Return a context manager: an active batch submits its launches and captures none while the body runs. The thread holds `lock`."""
        return self._capture.suspended() if self._capture is not None and self._capture.is_begun else nullcontext()

    def _is_captured_elsewhere(self) -> bool:
        context = self.device.context
        try:
            with context:
                return context.driver.is_capturing(self.handle)
        except DriverError as error:
            raise driver_error(f"{self.device} cannot begin a batch", error, self.device) from error

    def synchronize(self) -> None:
        check_driver(self.device.kind)
        context = self.device.context
        try:
            with self.lock, self.uncaptured(), context, context.driver.relaxed():
                context.driver.synchronize_stream(self.handle)
            self.device.transfers.finish()
        except DriverError as error:
            raise driver_error(f"{self.device} reports a fault of a launch", error, self.device) from error

    def record(self) -> DriverEvent:
        check_driver(self.device.kind)
        context = self.device.context
        try:
            with self.lock, self.uncaptured(), context:
                event = context.events.create(0)
                context.driver.record_event(event.value, self.handle)
        except DriverError as error:
            raise driver_error(f"{self.device} cannot record an event", error, self.device) from error
        return DriverEvent(self.device, event)

    def wait(self, event: Event) -> None:
        event = check_event(event, DriverEvent, self.device)
        check_driver(self.device.kind)
        context = self.device.context
        try:
            with self.lock, self.uncaptured(), context:
                context.driver.wait_event(self.handle, event.handle)
        except DriverError as error:
            raise driver_error(f"{self.device} cannot wait for an event", error, self.device) from error

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


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
        check_driver(self.device.kind)
        context = self.device.context
        try:
            with context, context.driver.relaxed():
                context.driver.synchronize_event(self.handle)
            self.device.transfers.finish()
        except DriverError as error:
            raise driver_error(f"{self.device} reports a fault of a launch", error, self.device) from error

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, DriverEvent, self.device)
        earlier.synchronize()
        self.synchronize()
        context = self.device.context
        try:
            with context:
                return context.driver.elapsed_time(earlier.handle, self.handle) * 1e-3
        except DriverError as error:
            raise driver_error(f"{self.device} cannot return the time of an event", error, self.device) from error

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"
