"""The calls of one driver: devices, contexts, memory, streams and events. Handles are integers, which `Handles` creates and destroys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from ctypes import byref, c_float, c_int, c_void_p

from devmod_runtime.driver_api.api import RELAXED_CAPTURE
from devmod_runtime.driver_api.errors import DriverError
from devmod_runtime.driver_api.symbols import Symbols

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The kinds of memory that `Calls.locate` returns: page-locked memory of the host, and memory of a device.
HOST, DEVICE = 1, 2


class RelaxedCapture:
    """The relaxed capture mode of the thread for the body of a ``with`` statement. After an interrupt the mode may stay."""

    __slots__ = ("_calls", "_exchange", "_mode")

    def __init__(self, calls: Calls, exchange: Any) -> None:
        self._calls = calls
        self._exchange = exchange

    def __enter__(self) -> None:
        self._mode = byref(c_int(RELAXED_CAPTURE))
        status = self._exchange(self._mode)
        if status:
            raise self._calls.error(self._calls.api.functions["exchange_capture_mode"].name, status)

    def __exit__(self, *_: object) -> None:
        self._exchange(self._mode)  # the driver has written the mode before


class Calls(Symbols, ABC):
    """One opened driver.

    The methods work on the thread's current context, unless they have a parameter `context`. They raise DriverError.

    Attributes
    ----------
    name : str
        The package or the library that calls the driver, such as "cuda-bindings".
    usable : bool
        Whether this process opened the driver. A forked child did not, and calls no function of it.
    no_context : int
        The result of `current_context` for a thread without a context.
    """

    name: str
    usable: bool = True
    no_context: int = 0
    #: ctypes' function of `relaxed`, which most calls use.
    _exchange: Any = None

    # -- implemented by each driver

    @abstractmethod
    def call(self, operation: str, *arguments: Any) -> Any:
        """Call the function of an operation, and return its results: None, an int, or a tuple of ints.

        Parameters
        ----------
        operation
            A key of `Api.functions`.
        arguments
            The input parameters of the function in their order; pointers are addresses.
        """

    @abstractmethod
    def device_name(self, device: int) -> str:
        """Return the name of a device."""

    @abstractmethod
    def locate(self, address: int) -> tuple[int, int, int]:
        """Return the context, the kind (`HOST` or `DEVICE`; another number if it is unknown), and the device's number of an address."""

    @abstractmethod
    def context_functions(self, context: int) -> tuple[Callable[[], object], Callable[[object, object, object], None]]:
        """Return ``__enter__`` and ``__exit__`` of a ``with`` statement whose body runs with a context as the thread's current one."""

    @abstractmethod
    def elapsed_symbol(self) -> str:
        """Return the symbol of the function that returns the time between two events."""

    def relaxed(self) -> RelaxedCapture:
        """Return a context manager whose body may allocate, load and wait while another library captures a stream: it ends no capture."""
        if self._exchange is None:
            self._exchange = self.symbol(self.api.functions["exchange_capture_mode"].name)
        return RelaxedCapture(self, self._exchange)

    # -- process and devices

    def initialize(self) -> None:
        """Initialize the driver API."""
        self.call("initialize", 0)

    @property
    def version(self) -> int:
        """The version of the API that the driver supports, such as 12090 for CUDA 12.9."""
        return int(self.call("version"))

    def device_count(self) -> int:
        """Return the number of devices."""
        return int(self.call("device_count"))

    def device(self, index: int) -> int:
        """Return the handle of a device."""
        return int(self.call("device", index))

    def device_attribute(self, device: int, attribute: int) -> int:
        """Return an attribute of a device by its number."""
        return int(self.call("device_attribute", attribute, device))

    def device_memory(self, device: int) -> int:
        """Return the bytes of a device's memory."""
        return int(self.call("device_memory", device))

    # -- contexts

    def retain_primary_context(self, device: int) -> int:
        """Return the primary context of a device. It is released when the process ends."""
        return int(self.call("retain_primary_context", device))

    def current_context(self) -> int:
        """Return the thread's current context; 0 if there is none."""
        return int(self.call("current_context"))

    def set_context(self, context: int) -> None:
        """Make a context the thread's current one; 0 for none."""
        self.call("set_context", context)

    def synchronize_context(self) -> None:
        """Wait for all work of the current context."""
        self.call("synchronize_context")

    def memory_info(self) -> tuple[int, int]:
        """Return the free and the total bytes of the current context's device."""
        free, total = self.call("memory_info")
        return free, total

    # -- memory

    def memory_range(self, pointer: int) -> tuple[int, int]:
        """Return the start and the bytes of the allocation that an address is in."""
        start, nbytes = self.call("memory_range", pointer)
        return start, nbytes

    def copy_to_device(self, pointer: int, address: int, nbytes: int, stream: int) -> None:
        """Queue a copy from the host's memory to the device's."""
        self.call("copy_to_device", pointer, address, nbytes, stream)

    def copy_to_host(self, address: int, pointer: int, nbytes: int, stream: int) -> None:
        """Queue a copy from the device's memory to the host's."""
        self.call("copy_to_host", address, pointer, nbytes, stream)

    def copy_on_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Queue a copy between two places in the memory of the device."""
        self.call("copy_on_device", target, source, nbytes, stream)

    def fill(self, pointer: int, value: int, nbytes: int, stream: int) -> None:
        """Queue the setting of bytes to `value`."""
        self.call("fill", pointer, value, nbytes, stream)

    # -- streams and events

    def synchronize_stream(self, stream: int) -> None:
        """Wait for all work of a stream."""
        self.call("synchronize_stream", stream)

    def wait_event(self, stream: int, event: int) -> None:
        """Delay the later work of a stream until an event."""
        self.call("wait_event", stream, event, 0)

    @abstractmethod
    def stream_context(self, stream: int) -> int:
        """Return the context of a stream."""

    @abstractmethod
    def context_device(self, context: int) -> int:
        """Return the number of the device of a context."""

    def record_event(self, event: int, stream: int) -> None:
        """Put an event at the end of a stream."""
        self.call("record_event", event, stream)

    def synchronize_event(self, event: int) -> None:
        """Wait for an event."""
        self.call("synchronize_event", event)

    def is_event_done(self, event: int) -> bool:
        """Return whether the device has reached an event."""
        try:
            self.call("is_event_done", event)
        except DriverError as error:
            if error.name == self.api.not_ready:
                return False
            raise
        return True

    def elapsed_time(self, start: int, end: int) -> float:
        """Return the milliseconds between two events."""
        milliseconds = c_float()
        self.check(self.elapsed_symbol(), byref(milliseconds), c_void_p(start), c_void_p(end))
        return milliseconds.value
