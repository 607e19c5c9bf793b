"""The interface of the two drivers. Handles (device, context, stream, event, module, function, pointer) are plain integers.

`_driver` makes one object of a subclass: cuda-bindings (`_bindings`) or pycuda (`_pycuda`). The methods here name the calls of CUDA's
driver API, and a subclass implements `call` for all of them and a few special ones.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod

from devmod_cuda._library import DriverError as DriverError
from devmod_cuda._library import Symbols

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Dims = tuple[int, int, int]

#: The handle of the legacy default stream (CU_STREAM_LEGACY), which PyTorch and CuPy use by default.
LEGACY_STREAM = 1
#: CU_STREAM_NON_BLOCKING and CU_EVENT_DISABLE_TIMING.
NON_BLOCKING, DISABLE_TIMING = 1, 2
#: CU_MEMHOSTALLOC_PORTABLE: page-locked for all contexts.
PORTABLE = 1
#: CU_STREAM_CAPTURE_MODE_RELAXED: other calls of the process, such as a free by the garbage collector, do not end the capture.
RELAXED_CAPTURE = 2

#: Numbers of CUjit_option.
JIT_MAX_REGISTERS, JIT_INFO_LOG, JIT_INFO_LOG_SIZE, JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE, JIT_OPTIMIZATION_LEVEL = 0, 3, 4, 5, 6, 7
#: The largest log of the driver's compiler.
_LOG_BYTES = 16384

#: Errors of a call whose thread has no current context, or the context of another device or library.
WRONG_CONTEXT = ("CUDA_ERROR_INVALID_CONTEXT", "CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_CONTEXT_IS_DESTROYED")


class Driver(Symbols, ABC):
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
    def create_into(self, cell: list[Any], name: str, *arguments: Any) -> int:
        """Call a function that creates a handle, and return the handle. No interrupt comes between the creation and its place in `cell`.

        Parameters
        ----------
        cell
            An empty list, which gets the driver's result. It stays empty if the call fails.
        name, arguments
            As for `call`.
        """

    @abstractmethod
    def destroy_from(self, cell: list[Any], name: str) -> None:
        """Remove the result of `create_into` from `cell` and destroy its handle with one call of C. The driver's error is ignored.

        Raises
        ------
        IndexError
            The cell is empty.
        """

    @abstractmethod
    def handle_in(self, cell: Sequence[Any]) -> int:
        """Return the handle of a result of `create_into`; also of a list with a plain handle."""

    @abstractmethod
    def device_name(self, device: int) -> str:
        """Return the name of a device."""

    @abstractmethod
    def pointer_attributes(self, pointer: int, attributes: Sequence[int]) -> tuple[int, ...]:
        """Return attributes (CUpointer_attribute) of an address as unsigned numbers. An unknown address has zeros."""

    @abstractmethod
    def load_image(self, image: int, options: Mapping[int, int | bytes]) -> int:
        """Return the module of an image in memory.

        Parameters
        ----------
        image
            The address of the image.
        options
            Values by number of CUjit_option. The driver writes its logs to the bytes objects, which is what cuda-bindings asks for.
        """

    @abstractmethod
    def launch_config(self, grid: Dims, block: Dims, shared_memory: int, stream: int, attributes: Sequence[tuple[int, bytes]] = ()) -> Any:
        """Return a launch configuration (CUlaunchConfig) as `launch` takes it.

        Parameters
        ----------
        grid, block
            Blocks, and threads of a block.
        shared_memory
            Dynamic shared memory in bytes.
        stream
            The stream's handle.
        attributes
            The number (CUlaunchAttributeID) and the value of each attribute: up to 64 bytes as in CUlaunchAttributeValue.
        """

    @abstractmethod
    def launch(self, context: int, config: Any, function: int, extra: int) -> None:
        """Launch once. The thread's current context is not queried: if it is the wrong one, the launch is repeated with `context`.

        Parameters
        ----------
        context
            The context of the function and the stream.
        config
            A result of `launch_config`.
        function
            The function's handle.
        extra
            The address of a `ParameterBlock.extra`.
        """

    @abstractmethod
    def prepare_launch(self, context: int, config: Any, function: int, block: ParameterBlock) -> Callable[[], object]:
        """Return a function of C without parameters that does what `launch` does with ``block.extra``. It keeps `block` alive."""

    @abstractmethod
    def max_active_clusters(self, function: int, config: Any) -> int:
        """Return the most clusters of a launch that the device runs at once."""

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

    @abstractmethod
    def elapsed_time(self, start: int, end: int) -> float:
        """Return the milliseconds between two events."""

    def _is_ready(self, name: str, handle: int) -> bool:
        try:
            self.call(name, handle)
        except DriverError as error:
            if error.name == "CUDA_ERROR_NOT_READY":
                return False
            raise
        return True

    # -- modules and functions

    def load_module(self, data: bytes | memoryview, options: Mapping[int, int] | None = None) -> tuple[int, str]:
        """Load PTX, a cubin or a fatbin into the current context. Return the module and the information log of the driver's compiler.

        Parameters
        ----------
        data
            The image. A zero byte is appended, which ends PTX.
        options
            Values by number of CUjit_option, such as ``{JIT_MAX_REGISTERS: 32}``.

        Raises
        ------
        DriverError
            `log` is the error log.
        """
        image = ctypes.create_string_buffer(bytes(data), len(data) + 1)
        info, errors = bytes(_LOG_BYTES), bytes(_LOG_BYTES)
        logs: dict[int, int | bytes] = {
            JIT_INFO_LOG: info,
            JIT_INFO_LOG_SIZE: _LOG_BYTES,
            JIT_ERROR_LOG: errors,
            JIT_ERROR_LOG_SIZE: _LOG_BYTES,
        }
        try:
            module = self.load_image(ctypes.addressof(image), {**(options or {}), **logs})
        except DriverError as error:
            error.log = _text_of(errors)
            raise
        return module, _text_of(info)

    def unload_module(self, module: int) -> None:
        """Unload a module. Its functions become invalid."""
        self.call("cuModuleUnload", module)

    @abstractmethod
    def get_function(self, module: int, name: str) -> int:
        """Return a kernel of a module; CUDA_ERROR_NOT_FOUND if there is none of that name."""

    @abstractmethod
    def get_global(self, module: int, name: str) -> tuple[int, int]:
        """Return the address and the bytes of a variable of a module; CUDA_ERROR_NOT_FOUND if there is none of that name."""

    def function_attribute(self, function: int, attribute: int) -> int:
        """Return an attribute of a function by its number (CUfunction_attribute)."""
        return int(self.call("cuFuncGetAttribute", attribute, function))

    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        """Set an attribute of a function by its number (CUfunction_attribute)."""
        self.call("cuFuncSetAttribute", function, attribute, value)

    def param_places(self, function: int) -> list[tuple[int, int]] | None:
        """Return the offset and size of each parameter of a function; None if the driver is older than CUDA 12.4."""
        if self.version < 12040:
            return None
        places: list[tuple[int, int]] = []
        while True:
            try:
                offset, size = self.call("cuFuncGetParamInfo", function, len(places))
            except DriverError as error:
                if error.name == "CUDA_ERROR_INVALID_VALUE":  # the index is past the last parameter
                    return places
                raise
            places.append((offset, size))

    def max_active_blocks(self, function: int, threads: int, shared_memory: int) -> int:
        """Return the blocks of `threads` threads that one multiprocessor runs at once."""
        return int(self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared_memory))

    def preferred_block(self, function: int, shared_memory: int = 0, limit: int = 0) -> tuple[int, int]:
        """Return the fewest blocks, and the threads of a block, with which a launch occupies the device best."""
        blocks, threads = self.call("cuOccupancyMaxPotentialBlockSize", function, 0, shared_memory, limit)
        return blocks, threads

    # -- graphs

    def begin_capture(self, stream: int, mode: int = RELAXED_CAPTURE) -> None:
        """Capture the later work of a stream into a graph. The legacy default stream has no capture."""
        self.call("cuStreamBeginCapture", stream, mode)

    def end_capture(self, stream: int) -> int:
        """End a capture, and return its graph."""
        return int(self.call("cuStreamEndCapture", stream))

    def is_capturing(self, stream: int) -> bool:
        """Return whether a stream is being captured."""
        return int(self.call("cuStreamIsCapturing", stream)) != 0

    def instantiate_graph(self, graph: int, flags: int = 0) -> int:
        """Return an executable graph of the current context."""
        return int(self.call("cuGraphInstantiateWithFlags", graph, flags))

    def launch_graph(self, executable: int, stream: int) -> None:
        """Queue an executable graph."""
        self.call("cuGraphLaunch", executable, stream)

    def destroy_executable(self, executable: int) -> None:
        """Destroy an executable graph. The driver does it when its launches are done."""
        self.call("cuGraphExecDestroy", executable)

    def destroy_graph(self, graph: int) -> None:
        """Destroy a graph. Its executable graphs stay valid."""
        self.call("cuGraphDestroy", graph)


def _text_of(log: bytes) -> str:
    return log[: log.find(b"\0")].decode(errors="replace").strip()


class ParameterBlock:
    """The packed parameters of a launch, and the array by which the driver finds them (``extra`` of cuLaunchKernel).

    A launch reads the block before it returns. Launches of several threads at once need a block each.

    Attributes
    ----------
    buffer
        The bytes, for ``struct.pack_into``.
    extra : int
        The address of the array.
    """

    __slots__ = ("_extra", "_size", "buffer", "extra")

    def __init__(self, nbytes: int) -> None:
        self.buffer = ctypes.create_string_buffer(max(nbytes, 1))
        self._size = ctypes.c_size_t(nbytes)
        # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE and CU_LAUNCH_PARAM_END
        self._extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(self.buffer), 2, ctypes.addressof(self._size), None)
        self.extra = ctypes.addressof(self._extra)


class Failures(dict):  # type: ignore[type-arg]
    """A function of C for the result of a launch: its ``__getitem__`` returns for a success, and calls a Python function otherwise.

    Parameters
    ----------
    success
        The result of a success.
    handle
        The function for other results. It repeats the launch or raises DriverError.
    """

    def __init__(self, success: object, handle: Callable[[Any], None]) -> None:
        super().__init__({success: None})
        self._handle = handle

    def __missing__(self, result: Any) -> None:
        self._handle(result)


def repeat_in_context(driver: Driver, context: int, error: DriverError, call: Callable[[], None]) -> None:
    """Repeat a call that failed with `error`, with `context` current. Another context of the thread is current again afterwards.

    Raises
    ------
    DriverError
        `error`, if `context` was current, or if the error has another cause; else the error of the second call.
    """
    if error.name not in WRONG_CONTEXT:
        raise error
    current = driver.current_context()
    if current == context:
        raise error
    driver.set_context(context)
    try:
        call()
    finally:
        if current:
            driver.set_context(current)
