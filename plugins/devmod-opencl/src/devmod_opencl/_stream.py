"""Streams and events: in-order command queues, and markers in them."""

from __future__ import annotations

from devmod import Event, Stream
from devmod.errors import LaunchError
from devmod_opencl import _driver
from devmod_opencl._driver import cl
from devmod_runtime import check_driver, check_earlier_event, check_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_opencl._device import OpenCLDevice


class OpenCLStream(Stream):
    """An in-order command queue.

    Attributes
    ----------
    queue
        pyopencl's CommandQueue. It has timestamps, unless another library created it without them.
    """

    device: OpenCLDevice

    def __init__(self, device: OpenCLDevice, queue: Any) -> None:
        self.device = device
        self.queue = queue
        #: The token of the stream's lease; None for a queue of another library.
        self.token: object = None

    def synchronize(self) -> None:
        finish(self.queue, self.device)

    def record(self) -> OpenCLEvent:
        check_driver("opencl")
        try:
            marker = cl.enqueue_marker(self.queue)
            self.queue.flush()
        except _driver.Error as error:
            raise driver_error(f"{self.device} gives no event", error) from error
        return OpenCLEvent(self.device, marker)

    def wait(self, event: Event) -> None:
        event = check_event(event, OpenCLEvent, self.device)
        check_driver("opencl")
        if event.device.context != self.device.context:
            event.synchronize()  # a queue cannot wait for an event of another context
            return
        try:
            cl.enqueue_barrier(self.queue, wait_for=[event.handle])
        except _driver.Error as error:
            raise driver_error(f"{self.device} cannot wait for an event", error) from error

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class OpenCLEvent(Event):
    """A marker in a command queue: `handle` is its pyopencl Event."""

    __slots__ = ("device", "handle")

    def __init__(self, device: OpenCLDevice, handle: Any) -> None:
        self.device = device
        self.handle = handle

    def synchronize(self) -> None:
        check_driver("opencl")
        try:
            self.handle.wait()
        except _driver.Error as error:
            raise driver_error(f"{self.device} reports a fault of a launch", error) from error

    def elapsed(self, earlier: Event) -> float:
        earlier = check_earlier_event(earlier, OpenCLEvent, self.device)
        earlier.synchronize()
        self.synchronize()
        try:
            # A marker in another queue could get its time while later commands of this queue already run.
            return float(self.handle.profile.end - earlier.handle.profile.end) * 1e-9
        except _driver.Error as error:
            raise no_time(f"{self.device} gives no time of an event", error) from error

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def finish(queue: Any, device: OpenCLDevice) -> None:
    """Wait for all commands of a queue.

    Raises
    ------
    LaunchError
        The driver reports an error.
    """
    check_driver("opencl")
    try:
        queue.finish()
    except _driver.Error as error:
        raise driver_error(f"{device} reports a fault of a launch", error) from error


def no_time(subject: str, error: Exception) -> LaunchError:
    """Return the LaunchError for a command without timestamps."""
    if getattr(error, "code", None) != cl.status_code.PROFILING_INFO_NOT_AVAILABLE:
        return driver_error(subject, error)
    return LaunchError(
        f"{subject}: its queue has no timestamps. Create it with pyopencl.CommandQueue(context, "
        "properties=pyopencl.command_queue_properties.PROFILING_ENABLE), or use device.stream()",
        kind="opencl",
    )


def driver_error(subject: str, error: Exception) -> LaunchError:
    """Return the LaunchError for an error of the driver."""
    return LaunchError(f"{subject}: {_driver.code_name(error)}", kind="opencl")
