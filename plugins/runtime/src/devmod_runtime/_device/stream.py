"""Streams: in-order queues of a device's work. Events: points in a stream."""

from __future__ import annotations

from _weakref import ref
from abc import ABC, abstractmethod
from contextvars import ContextVar

from devmod.backend import ProcessLocal
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Self, TypeVar

    from devmod import Device

    EventClass = TypeVar("EventClass", bound="Event")
    #: What queues work at each call.
    Work = Callable[[], object]


#: The streams that this context has entered and not left, the innermost last. Threads and asyncio's
#: tasks have contexts of their own.
_streams: ContextVar[tuple[Stream, ...]] = ContextVar("devmod_streams", default=())
#: Not empty once any stream was entered: until then, a call does not look for a current stream.
entered: list[bool] = []


def is_in_stream() -> bool:
    """Return whether this context has entered a stream, of any device."""
    return bool(entered and _streams.get())


def current_stream(device: Device) -> Stream | None:
    """Return the stream of `device` that this context has entered last; None if it has entered
    none.
    """
    for stream in reversed(_streams.get()):
        if stream.device is device:
            return stream
    return None


class Stream(ProcessLocal, ABC):
    """An in-order queue of a device's work. `Device.stream` makes one.

    ``with stream:`` makes it the current stream of its device in this context: calls that name no
    stream use it. Leaving the body does not wait. Each thread and each task of asyncio has a
    context of its own.

    Attributes
    ----------
    device : Device
        The device that runs the queued work.
    """

    _pickle_advice = "create one there"

    device: Device
    #: Whether a batch costs less than its launches one by one: a program's call is one batch then.
    gathers: bool = True

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all queued work is done. Raise LaunchError for a failure that the device
        reports.
        """

    @abstractmethod
    def record(self) -> Event:
        """Return an event at the present end of the queue."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Delay work that is queued from now on until the device has reached `event`. The event may
        belong to another stream.

        Raises
        ------
        ArgumentError
            `event` is an event of another kind of device.
        """

    def __enter__(self) -> Self:
        if not entered:
            entered.append(True)
        _streams.set((*_streams.get(), self))
        return self

    def __exit__(self, *details: object) -> None:
        # Not by a token: one stream may be entered several times, and a generator may leave the
        # bodies in another order.
        streams = _streams.get()
        for place in reversed(range(len(streams))):
            if streams[place] is self:
                _streams.set(streams[:place] + streams[place + 1 :])
                break

    def batch(self) -> AbstractContextManager[object]:
        """Submit the launches of a ``with`` body to the driver together, if the kind supports it;
        one by one otherwise.

        The order of the launches does not change. Launches of other threads in the stream may join
        the batch. If the body raises an exception, the launches before it run. An operation in the
        body that waits for the stream (`synchronize`, `record`, an array's ``numpy()``) first
        submits the launches queued so far.
        """
        from contextlib import nullcontext

        return nullcontext()

    def prepare(
        self, make: Callable[[Stream], Sequence[Callable[[], object]]]
    ) -> Callable[[], object]:
        """Return a function that queues several launches together at each call. Several threads may
        call it.

        Parameters
        ----------
        make
            Returns the calls for a stream, each without arguments: prepared launches of this
            stream, and others that queue work in it. It is called for this stream; for a kind whose
            driver has graphs, for another one that records the graph.
        """
        calls = make(self)

        def queue() -> None:
            with self.batch():
                for each in calls:
                    each()

        return queue

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class _Token:
    """Marks a batch as active for as long as it is referenced."""

    __slots__ = ("__weakref__",)


class Batch:
    """A context manager for `Stream.batch`. An interrupt leaves no active batch.

    Parameters
    ----------
    active
        A set of the stream, which is not empty while a batch is active.
    begin, end
        Called after a batch became active, and after it ended. Batches may be nested.
    """

    def __init__(
        self, active: set[Any], begin: Callable[[], object], end: Callable[[], object]
    ) -> None:
        self._active = active
        self._begin = begin
        self._end = end
        # This object owns the tokens, and the ``with`` statement owns it.
        self._tokens: list[_Token] = []

    def __enter__(self) -> None:
        self._tokens.append(_Token())
        self._active.add(ref(self._tokens[-1], self._active.discard))
        try:
            self._begin()
        except BaseException:
            self._tokens.pop()  # the exception may keep this object
            raise

    def __exit__(self, *_: object) -> None:
        self._tokens.pop()
        self._end()


class Event(ProcessLocal, ABC):
    """A point in a stream. `Stream.record` makes one."""

    __slots__ = ()
    _pickle_advice = "record one there"

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has reached this point. Raise LaunchError for a failure that the
        device reports.
        """

    @abstractmethod
    def elapsed(self, earlier: Event) -> float:
        """Return the seconds on the device from `earlier` to this event. Waits for both.

        They contain the time in which the host builds and queues what lies between. `Launch.time`
        has that of one launch alone.

        Raises
        ------
        ArgumentError
            `earlier` is an event of another kind of device.
        """

    def __repr__(self) -> str:
        if not hasattr(self, "device"):
            return super().__repr__()
        return f"<Event of {self.device}>"


def check_event(event: Event, event_class: type[EventClass], device: Device) -> EventClass:
    """Return the event that a stream of `device` will wait for.

    Raises
    ------
    ArgumentError
        `event` is not an instance of `event_class`.
    """
    if not isinstance(event, event_class):
        raise ArgumentError(
            f"a stream of {device} cannot wait for {event!r}, which is not an event of kind {device.kind}",
            kind=device.kind,
            argument="event",
        )
    return event


def check_earlier_event(
    earlier: Event, event_class: type[EventClass], device: Device
) -> EventClass:
    """Return the event from which the time of another event of `device` is measured.

    Raises
    ------
    ArgumentError
        `earlier` is not an instance of `event_class`, or belongs to another device.
    """
    got = repr(earlier)
    if isinstance(earlier, event_class):
        other: Device | None = getattr(earlier, "device", None)
        if other is device:
            return earlier
        if other:
            got = f"one of {other}"
    raise ArgumentError(
        f"elapsed takes an event of {device}, not {got}", kind=device.kind, argument="earlier"
    )
