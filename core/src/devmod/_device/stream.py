"""Streams: in-order queues of a device's work."""

from __future__ import annotations

from abc import ABC, abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from devmod._device.device import Device
    from devmod._device.event import Event


class Stream(ABC):
    """An in-order queue of a device's work. `Device.stream` makes one.

    Attributes
    ----------
    device : Device
        The device that runs the queued work.
    """

    device: Device

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all queued work is done. Raise LaunchError for a failure that the device reports."""

    @abstractmethod
    def record(self) -> Event:
        """Return an event at the present end of the queue."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Delay work that is queued from now on until the device has reached `event`. The event may belong to another stream.

        Raises
        ------
        ArgumentError
            `event` is an event of another kind of device.
        """

    def batch(self) -> AbstractContextManager[object]:
        """Submit the launches of a ``with`` body to the driver together, if the kind supports it; one by one otherwise.

        The order of the launches does not change. If the body raises an exception, the launches before it run. An operation in the body
        that waits for the stream (`synchronize`, `record`, an array's ``numpy()``) first submits the launches queued so far.
        """
        from contextlib import nullcontext

        return nullcontext()
