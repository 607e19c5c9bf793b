"""Events: points in a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod

from devmod._util.pickling import ProcessLocal
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from devmod._device.device import Device

    EventClass = TypeVar("EventClass", bound="Event")


class Event(ProcessLocal, ABC):
    """A point in a stream. `Stream.record` makes one."""

    __slots__ = ()
    _pickle_advice = "record one there"

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has reached this point. Raise LaunchError for a failure that the device reports."""

    @abstractmethod
    def elapsed(self, earlier: Event) -> float:
        """Return the seconds on the device from `earlier` to this event. Waits for both.

        Raises
        ------
        ArgumentError
            `earlier` is an event of another kind of device.
        """


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


def check_earlier_event(earlier: Event, event_class: type[EventClass], device: Device) -> EventClass:
    """Return the event from which the time of another event of `device` is measured.

    Raises
    ------
    ArgumentError
        `earlier` is not an instance of `event_class`, or belongs to another device.
    """
    other: Device | None = getattr(earlier, "device", None) if isinstance(earlier, event_class) else None
    if not isinstance(earlier, event_class) or other is not device:
        got = f"one of {other}" if other else repr(earlier)
        raise ArgumentError(f"elapsed takes an event of {device}, not {got}", kind=device.kind, argument="earlier")
    return earlier
