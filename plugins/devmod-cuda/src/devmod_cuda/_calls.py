"""The calls of one driver: devices, contexts, memory, streams and events. Handles are plain integers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from ctypes import POINTER, byref, c_float, c_int, c_void_p, py_object
from functools import partial
from itertools import repeat, starmap

from devmod_cuda._handle_calls import HandleCalls
from devmod_cuda._library import DriverError, Failures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

#: The handle of the legacy default stream (CU_STREAM_LEGACY), which PyTorch and CuPy use by default.
LEGACY_STREAM = 1
#: CU_STREAM_NON_BLOCKING and CU_EVENT_DISABLE_TIMING.
NON_BLOCKING, DISABLE_TIMING = 1, 2
#: CU_MEMHOSTALLOC_PORTABLE: page-locked for all contexts.
PORTABLE = 1


class Calls(HandleCalls, ABC):
    """One opened driver of CUDA.

    The methods work on the thread's current context, unless they have a parameter `context`. They raise DriverError.

    Attributes
    ----------
    name : str
        "cuda-bindings" or "pycuda".
    usable : bool
        Whether this process opened the driver. A forked child did not, and calls no function of it.
    """

    name: str
    usable: bool = True

    # -- implemented by each driver

    @abstractmethod
    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver API, and return its results: None, an int, or a tuple of ints.

        Parameters
        ----------
        name
            The function's name in cuda.h, without the suffix of its version.
        arguments
            Its input parameters in their order; pointers are addresses.
        """

    @abstractmethod
    def device_name(self, device: int) -> str:
        """Return the name of a device."""

    @abstractmethod
    def pointer_attributes(self, pointer: int, attributes: Sequence[int]) -> tuple[int, ...]:
        """Return attributes (CUpointer_attribute) of an address as unsigned numbers. An unknown address has zeros."""

    def exchange_capture_mode(self, mode: int) -> int:
        """Set the thread's capture mode and return the one before. In the relaxed mode, calls do not invalidate captures of others."""
        value = c_int(mode)
        self.check("cuThreadExchangeStreamCaptureMode", byref(value))
        return value.value

    # -- process and devices

    def initialize(self) -> None:
        """Initialize the driver API."""
        self.call("cuInit", 0)

    @property
    def version(self) -> int:
        """The CUDA version that the driver supports, such as 12090."""
        return int(self.call("cuDriverGetVersion"))

    def device_count(self) -> int:
        """Return the number of devices."""
        return int(self.call("cuDeviceGetCount"))

    def device(self, index: int) -> int:
        """Return the handle of a device."""
        return int(self.call("cuDeviceGet", index))

    def device_attribute(self, device: int, attribute: int) -> int:
        """Return an attribute of a device by its number (CUdevice_attribute)."""
        return int(self.call("cuDeviceGetAttribute", attribute, device))

    def device_memory(self, device: int) -> int:
        """Return the bytes of a device's memory."""
        return int(self.call("cuDeviceTotalMem", device))

    # -- contexts

    def retain_primary_context(self, device: int) -> int:
        """Return the primary context of a device. It is never released: the process's end does it."""
        return int(self.call("cuDevicePrimaryCtxRetain", device))

    def current_context(self) -> int:
        """Return the thread's current context; 0 if there is none."""
        return int(self.call("cuCtxGetCurrent"))

    def set_context(self, context: int) -> None:
        """Make a context the thread's current one; 0 for none."""
        self.call("cuCtxSetCurrent", context)

    def context_functions(self, context: int) -> tuple[Callable[[], object], Callable[[object, object, object], None]]:
        """Return two functions of C, for the start and the end of a ``with`` statement: push a context, and pop one."""
        push, pop = self.symbol("cuCtxPushCurrent_v2"), self.symbol("cuCtxPopCurrent_v2")

        def refuse(status: int) -> None:
            raise self.error("cuCtxPushCurrent", status)

        statuses = starmap(push, repeat((c_void_p(context),)))
        # `with` passes the exception: the C calling convention lets a caller pass more arguments than a function has.
        pop.argtypes = (POINTER(c_void_p), py_object, py_object, py_object)
        pop.restype = None
        return map(Failures(0, refuse).__getitem__, statuses).__next__, partial(pop, byref(c_void_p()))

    def push_context(self, context: int) -> None:
        """Make a context the thread's current one until `pop_context`."""
        self.call("cuCtxPushCurrent", context)

    def pop_context(self) -> None:
        """Make the context before the last `push_context` the thread's current one."""
        self.call("cuCtxPopCurrent")

    def context_device(self, context: int) -> int:
        """Return the device of a context."""
        self.push_context(context)
        try:
            return int(self.call("cuCtxGetDevice"))
        finally:
            self.pop_context()

    def synchronize_context(self) -> None:
        """Wait for all work of the current context."""
        self.call("cuCtxSynchronize")

    def memory_info(self) -> tuple[int, int]:
        """Return the free and the total bytes of the current context's device."""
        free, total = self.call("cuMemGetInfo")
        return free, total

    # -- memory

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory of the device."""
        return int(self.call("cuMemAlloc", nbytes))

    def free(self, pointer: int) -> None:
        """Free memory of the device. The driver waits for the work that is queued on it."""
        self.call("cuMemFree", pointer)

    def allocate_host(self, nbytes: int) -> int:
        """Return the address of new page-locked memory of the host, for all contexts."""
        return int(self.call("cuMemHostAlloc", nbytes, PORTABLE))

    def free_host(self, address: int) -> None:
        """Free page-locked memory."""
        self.call("cuMemFreeHost", address)

    def memory_range(self, pointer: int) -> tuple[int, int]:
        """Return the start and the bytes of the allocation that an address is in."""
        start, nbytes = self.call("cuMemGetAddressRange", pointer)
        return start, nbytes

    def copy_to_device(self, pointer: int, address: int, nbytes: int, stream: int) -> None:
        """Queue a copy from the host's memory to the device's."""
        self.call("cuMemcpyHtoDAsync", pointer, address, nbytes, stream)

    def copy_to_host(self, address: int, pointer: int, nbytes: int, stream: int) -> None:
        """Queue a copy from the device's memory to the host's."""
        self.call("cuMemcpyDtoHAsync", address, pointer, nbytes, stream)

    def copy_on_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Queue a copy between two places in the memory of the device."""
        self.call("cuMemcpyDtoDAsync", target, source, nbytes, stream)

    def fill(self, pointer: int, value: int, nbytes: int, stream: int) -> None:
        """Queue the setting of bytes to `value`."""
        self.call("cuMemsetD8Async", pointer, value, nbytes, stream)

    # -- streams and events

    def create_stream(self, flags: int = NON_BLOCKING) -> int:
        """Return a new stream."""
        return int(self.call("cuStreamCreate", flags))

    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream. The driver does it when the stream's work is done."""
        self.call("cuStreamDestroy", stream)

    def synchronize_stream(self, stream: int) -> None:
        """Wait for all work of a stream."""
        self.call("cuStreamSynchronize", stream)

    def is_stream_done(self, stream: int) -> bool:
        """Return whether a stream has no work."""
        return self._is_ready("cuStreamQuery", stream)

    def wait_event(self, stream: int, event: int) -> None:
        """Delay the later work of a stream until an event."""
        self.call("cuStreamWaitEvent", stream, event, 0)

    def stream_context(self, stream: int) -> int:
        """Return the context of a stream."""
        return int(self.call("cuStreamGetCtx", stream))

    def create_event(self, flags: int = 0) -> int:
        """Return a new event."""
        return int(self.call("cuEventCreate", flags))

    def destroy_event(self, event: int) -> None:
        """Destroy an event."""
        self.call("cuEventDestroy", event)

    def record_event(self, event: int, stream: int) -> None:
        """Put an event at the end of a stream."""
        self.call("cuEventRecord", event, stream)

    def synchronize_event(self, event: int) -> None:
        """Wait for an event."""
        self.call("cuEventSynchronize", event)

    def is_event_done(self, event: int) -> bool:
        """Return whether the device has reached an event."""
        return self._is_ready("cuEventQuery", event)

    def elapsed_time(self, start: int, end: int) -> float:
        """Return the milliseconds between two events."""
        milliseconds = c_float()
        name = "cuEventElapsedTime_v2" if self.version >= 12080 else "cuEventElapsedTime"
        self.check(name, byref(milliseconds), c_void_p(start), c_void_p(end))
        return milliseconds.value

    def _is_ready(self, name: str, handle: int) -> bool:
        try:
            self.call(name, handle)
        except DriverError as error:
            if error.name == "CUDA_ERROR_NOT_READY":
                return False
            raise
        return True
