"""Devices over contexts and streams of other libraries (`devmod.device`).

The device of a context or a stream is cached while it is alive. The key has the driver's number of
the context and the stream: a driver uses handles again.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from devmod.backend import RLock
from devmod_driver_api.handles import Context
from devmod_runtime import fork_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devmod_driver_api.device import DriverDevice
    from devmod_driver_api.driver import Driver


class AdoptedDevices:
    """The devices of one kind over contexts and streams of other libraries.

    Parameters
    ----------
    devices
        The function that returns the devices of the driver's list.
    """

    def __init__(self, devices: Callable[[], Sequence[DriverDevice]]) -> None:
        self._devices = devices
        #: The contexts that are no primary ones, by their numbers.
        self._contexts: WeakValueDictionary[tuple[Driver, int], Context] = WeakValueDictionary()
        #: The devices by `_key`.
        self._adopted: WeakValueDictionary[tuple[object, ...], DriverDevice] = WeakValueDictionary()
        self._lock = fork_safe(RLock())

    def find(self, handle: int, ordinal: int) -> DriverDevice | None:
        """Return the device over a context, which the device with a number has; None if it is
        neither the primary one nor a context that was adopted.

        Raises
        ------
        DriverError
            The context was destroyed.
        """
        device = self._devices()[ordinal]
        if device.is_open and device.context.handle == handle:
            return device
        with self._lock:
            if self._contexts:
                number = device.driver.context_id(handle)
                context = self._contexts.get((device.driver, number))
                if context is not None:
                    return self._over(context, device)
        # Its first use takes memory of the device.
        if device.is_open or not device.driver.has_primary_context(device.handle):
            return None
        if device.context.handle == handle:
            return device
        return None

    def over_context(self, handle: int, owner: object, title: str) -> DriverDevice:
        """Return the device over a context, the same one for the same context.

        Parameters
        ----------
        handle, owner
            The driver's handle of the context, and the object that keeps it; None without one.
        title
            What the device is over, for messages.

        Raises
        ------
        DriverError
            The context was destroyed.
        """
        driver = self._devices()[0].driver
        number = driver.context_id(handle)  # before a call that uses a context without a check
        ordinal = driver.context_device(handle)
        with self._lock:
            device = self.find(handle, ordinal)
            if device is None:
                context = Context(driver, handle, number, owner, title)
                self._contexts[driver, number] = context
                return self._over(context, self._devices()[ordinal])
            context = device.context
            if not context.is_primary and context.owner is None:
                context.owner = owner
            return device

    def over_stream(
        self, handle: int, owner: object, device: DriverDevice, title: str
    ) -> DriverDevice:
        """Return the device over a stream of the context of `device`, the same one for the same
        stream. The parameters are those of `over_context`.
        """
        with device.calls("{} cannot use a stream of another library") as context, context:
            number = context.driver.stream_id(handle)
        key = _key(context, handle, number)
        with self._lock:
            adopted = self._adopted.get(key)
            if adopted is None:
                adopted = self._adopted[key] = device.over_stream(handle, owner, title)
            return adopted

    def _over(self, context: Context, listed: DriverDevice) -> DriverDevice:
        """Return the device over an adopted context on the hardware of a listed one."""
        key = _key(context)
        device = self._adopted.get(key)
        if device is None:
            device = self._adopted[key] = listed.over_context(context, context.title)
        return device


def _key(context: Context, stream: int = 0, number: int = 0) -> tuple[object, ...]:
    """Return the key of the device over a context, or over a stream of it with this handle and
    number. It does not keep the context.
    """
    return context.driver, context.handle, context.number, stream, number
