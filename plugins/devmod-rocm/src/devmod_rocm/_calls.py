"""The calls of HIP's runtime. Handles (device, context, stream, event, module, function, pointer)
are plain integers.

HIP has a current device for each thread in place of contexts, so a context is here the number of
its device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import (
    Structure,
    byref,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_void_p,
)
from threading import local
from typing import Any

from devmod_driver_api.api import (
    COOPERATIVE,
    DEVICE,
    HOST,
    Api,
    DriverError,
    DriverFunction,
)
from devmod_driver_api.driver import Driver, DriverLaunchConfig, LaunchCall

# -- HIP's runtime API, from HIP 5 to 7: its names in messages, its error codes, its functions, and
# the limits of a device.


#: The handle of a device's null stream, which PyTorch and CuPy use by default.
NULL_STREAM = 0
#: HIP's numbers of the attributes (hipDeviceAttribute_t), the same from HIP 5 on. The names are
#: HIP's without hipDeviceAttribute, in the spelling of the other kinds.
_LIMITS = {
    "max_threads_per_block": 56,
    "max_block_dim_x": 26,
    "max_block_dim_y": 27,
    "max_block_dim_z": 28,
    "max_grid_dim_x": 29,
    "max_grid_dim_y": 30,
    "max_grid_dim_z": 31,
    "max_shared_memory_per_block": 74,
    "warp_size": 87,
    "max_registers_per_block": 71,
    "multiprocessor_count": 63,
    "max_threads_per_multiprocessor": 57,
    "cooperative_launch": 10,
}
_handle = c_void_p
_address = c_uint64
_size = c_size_t
_number = c_uint
#: The function of each operation of `devmod_driver_api.driver.Driver`. A context is the
#: number of its device.
FUNCTIONS = {
    "initialize": DriverFunction("hipInit", (), (_number,)),
    "version": DriverFunction("hipRuntimeGetVersion", (c_int,), ()),
    "device_count": DriverFunction("hipGetDeviceCount", (c_int,), ()),
    "device": DriverFunction("hipDeviceGet", (c_int,), (c_int,)),
    "device_attribute": DriverFunction("hipDeviceGetAttribute", (c_int,), (c_int, c_int)),
    "device_name": DriverFunction("hipDeviceGetName", (), (c_char_p, c_int, c_int)),
    "device_memory": DriverFunction("hipDeviceTotalMem", (_size,), (c_int,)),
    "current_context": DriverFunction("hipGetDevice", (c_int,), ()),
    "set_context": DriverFunction("hipSetDevice", (), (c_int,)),
    "synchronize_context": DriverFunction("hipDeviceSynchronize", (), ()),
    "memory_info": DriverFunction("hipMemGetInfo", (_size, _size), ()),
    "allocate": DriverFunction("hipMalloc", (_address,), (_size,)),
    "free": DriverFunction("hipFree", (), (_address,)),
    "allocate_host": DriverFunction("hipHostMalloc", (_handle,), (_size, _number)),
    "free_host": DriverFunction("hipHostFree", (), (_handle,)),
    "pointer_attributes": DriverFunction("hipPointerGetAttributes", (), (_handle, _address)),
    "memory_range": DriverFunction("hipMemGetAddressRange", (_address, _size), (_address,)),
    "copy_to_device": DriverFunction("hipMemcpyHtoDAsync", (), (_address, _handle, _size, _handle)),
    "copy_to_host": DriverFunction("hipMemcpyDtoHAsync", (), (_handle, _address, _size, _handle)),
    "copy_on_device": DriverFunction(
        "hipMemcpyDtoDAsync", (), (_address, _address, _size, _handle)
    ),
    "fill": DriverFunction("hipMemsetD8Async", (), (_address, c_ubyte, _size, _handle)),
    "create_stream": DriverFunction("hipStreamCreateWithFlags", (_handle,), (_number,)),
    "destroy_stream": DriverFunction("hipStreamDestroy", (), (_handle,)),
    "synchronize_stream": DriverFunction("hipStreamSynchronize", (), (_handle,)),
    "is_stream_done": DriverFunction("hipStreamQuery", (), (_handle,)),
    "wait_event": DriverFunction("hipStreamWaitEvent", (), (_handle, _handle, _number)),
    "stream_context": DriverFunction("hipStreamGetDevice", (c_int,), (_handle,), results_last=True),
    "stream_id": DriverFunction("hipStreamGetId", (c_uint64,), (_handle,), results_last=True),
    "create_event": DriverFunction("hipEventCreateWithFlags", (_handle,), (_number,)),
    "destroy_event": DriverFunction("hipEventDestroy", (), (_handle,)),
    "record_event": DriverFunction("hipEventRecord", (), (_handle, _handle)),
    "synchronize_event": DriverFunction("hipEventSynchronize", (), (_handle,)),
    "is_event_done": DriverFunction("hipEventQuery", (), (_handle,)),
    "elapsed_time": DriverFunction("hipEventElapsedTime", (c_float,), (_handle, _handle)),
    "exchange_capture_mode": DriverFunction("hipThreadExchangeStreamCaptureMode"),
    "load_module": DriverFunction("hipModuleLoadData", (_handle,), (_handle,)),
    "unload_module": DriverFunction("hipModuleUnload", (), (_handle,)),
    "get_function": DriverFunction("hipModuleGetFunction", (_handle,), (_handle, c_char_p)),
    "get_global": DriverFunction("hipModuleGetGlobal", (_address, _size), (_handle, c_char_p)),
    "function_attribute": DriverFunction("hipFuncGetAttribute", (c_int,), (c_int, _handle)),
    "max_active_blocks": DriverFunction(
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", (c_int,), (_handle, c_int, _size)
    ),
    "begin_capture": DriverFunction("hipStreamBeginCapture", (), (_handle, c_int)),
    "end_capture": DriverFunction("hipStreamEndCapture", (_handle,), (_handle,), results_last=True),
    "is_capturing": DriverFunction("hipStreamIsCapturing", (c_int,), (_handle,), results_last=True),
    "instantiate_graph": DriverFunction(
        "hipGraphInstantiateWithFlags", (_handle,), (_handle, c_uint64)
    ),
    "launch_graph": DriverFunction("hipGraphLaunch", (), (_handle, _handle)),
    "destroy_executable": DriverFunction("hipGraphExecDestroy", (), (_handle,)),
    "destroy_graph": DriverFunction("hipGraphDestroy", (), (_handle,)),
}

HIP = Api(
    kind="rocm",
    title="ROCm",
    name="HIP",
    functions=FUNCTIONS,
    limits=_LIMITS,
    version_text=lambda version: (
        f"{version // 10_000_000}.{version // 100_000 % 100}"
    ),  # 60342134 is "6.3"
    error_name="hipGetErrorName",
    error_text="hipGetErrorString",
    out_of_memory="hipErrorOutOfMemory",
    not_ready="hipErrorNotReady",
    not_supported="hipErrorNotSupported",
    not_found="hipErrorNotFound",
    implicit_capture="hipErrorStreamCaptureImplicit",
    # The stream's device is not the thread's current one (HIP 7), or the function is of another
    # device.
    wrong_context=(
        "hipErrorInvalidHandle",
        "hipErrorInvalidResourceHandle",
        "hipErrorInvalidDevice",
        "hipErrorInvalidContext",
    ),
    refusals=frozenset(("hipErrorNoBinaryForGpu",)),
    sticky=frozenset(
        f"hipError{name}"
        for name in (
            "Assert",
            "ECCNotCorrectable",
            "IllegalAddress",
            "IllegalState",
            "LaunchFailure",
            "LaunchTimeOut",
        )
    ),
    legacy_stream=NULL_STREAM,
    legacy_handles=(NULL_STREAM, 1),  # 1 is hipStreamLegacy
    dlpack_types=(10,),
    dlpack_streams={0: NULL_STREAM},
    dlpack_stream_text="None or 0 (the default stream), the handle of a stream, or -1 for no order",
)


#: The first version with the structures and enumerations of HIP 6.
_HIP_6 = 60000000
#: The function with the properties of a device, and the offset of gcnArchName in its result, from
#: HIP 6 on and before.
_PROPERTIES, _OLD_PROPERTIES = (
    ("hipGetDevicePropertiesR0600", 1160),
    ("hipGetDeviceProperties", 396),
)
#: More bytes than the properties of any version have.
_PROPERTIES_BYTES = 8192
_ARCH_BYTES = 256


class _PointerAttributes(Structure):
    """hipPointerAttribute_t."""

    _fields_ = (
        ("type", c_int),
        ("device", c_int),
        ("device_pointer", c_void_p),
        ("host_pointer", c_void_p),
        ("is_managed", c_int),
        ("flags", c_uint),
        ("reserved", c_void_p * 8),
    )


class HipDriver(Driver):
    """One opened HIP runtime."""

    api = HIP
    no_context = -1

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        #: It has no parameter types, because the prepared arguments of a launch are ctypes objects.
        self._launch = self.symbol("hipModuleLaunchKernel")
        #: The memory of the binaries: the runtime may read it until the module is unloaded.
        self._binaries: dict[int, object] = {}
        self._count = 0

    # -- errors

    def error(self, call: str, status: int) -> DriverError:
        """Return the error for a status. The thread's last error is cleared: PyTorch would report
        it as its own.
        """
        error = super().error(call, status)
        self.symbol("hipGetLastError")()
        return error

    def status_text(self, symbol: str, status: int) -> str:
        function = self.symbol(symbol)
        function.restype = ctypes.c_char_p
        return (function(c_int(status)) or b"").decode()

    # -- devices and contexts

    def device_count(self) -> int:
        """Return the number of devices, which does not change."""
        self._count = self._count or super().device_count()
        return self._count

    def device_arch(self, device: int) -> str:
        """Return the processor of a device with its features, such as "gfx90a:sramecc+:xnack-"."""
        name, offset = _PROPERTIES
        try:
            function = self.symbol(name)
        except DriverError:
            name, offset = _OLD_PROPERTIES
            function = self.symbol(name)
        data = ctypes.create_string_buffer(_PROPERTIES_BYTES)
        status = function(data, c_int(device))
        if status:
            raise self.error(name, status)
        return data.raw[offset : offset + _ARCH_BYTES].partition(b"\0")[0].decode(errors="replace")

    def retain_primary_context(self, device: int) -> int:
        return device

    def context_device(self, context: int) -> int:
        return context

    def context_id(self, context: int) -> int:
        return context

    def has_primary_context(self, device: int) -> bool:
        return True

    def stream_id(self, stream: int) -> int:
        try:
            return super().stream_id(stream)
        except DriverError as error:
            if error.name == HIP.not_supported:
                return 0  # HIP before 7.1
            raise

    def context_functions(
        self, context: int
    ) -> tuple[Callable[[], object], Callable[[object, object, object], None]]:
        """Return functions that set the thread's current device and restore it. With one device
        they do nothing, in C.
        """
        if self.device_count() == 1:
            return _nothing, _nothing  # type: ignore[return-value]  # "" is false, so `with` suppresses no exception
        current = _CurrentDevice(self, context)
        return current.enter, current.leave

    # -- memory

    def locate(self, address: int) -> tuple[int, int, int]:
        attributes = _PointerAttributes()
        try:
            self.call("pointer_attributes", byref(attributes), address)
        except DriverError as error:
            # HIP 5 has no memory type for an unknown address.
            if error.name == "hipErrorInvalidValue":
                return 0, 0, 0
            raise
        # hipMemoryType: in HIP 6, 0 is unknown memory and 1 the host's; in HIP 5, 0 is the host's.
        # Managed memory is 3 or 4.
        kind = attributes.type if self.version >= _HIP_6 else attributes.type + 1
        if attributes.is_managed:
            kind = DEVICE
        return 0, kind if kind in (HOST, DEVICE) else 0, attributes.device

    # -- modules

    def load_module(self, data: bytes | memoryview) -> int:
        """Load a code object into the current device.

        The runtime reads the length of a code object from its headers, so the caller checks them.
        """
        binary = ctypes.create_string_buffer(bytes(data), len(data) + 1)
        module = int(self.call("load_module", ctypes.addressof(binary)))
        self._binaries[module] = binary
        return module

    def unload_module(self, module: int) -> None:
        super().unload_module(module)
        self._binaries.pop(module, None)

    # -- launches

    def launch_call(
        self,
        config: DriverLaunchConfig,
        stream: int,
        function: int,
        block: Any,
        offsets: Sequence[int],
    ) -> LaunchCall:
        """Return a launch. A cooperative one has the attribute `COOPERATIVE`, with any value."""
        grid, threads, shared_memory, attributes = config
        start = ctypes.addressof(block)
        # Not `extra`: a cooperative launch takes the addresses of the parameters alone.
        pointers: Any = (c_void_p * len(offsets))(*(start + offset for offset in offsets))
        pointers.memory = block
        arguments = (
            c_void_p(function),
            *map(c_uint, (*grid, *threads, shared_memory)),
            c_void_p(stream),
            pointers,
        )
        if any(number == COOPERATIVE for number, _ in attributes):
            name = "hipModuleLaunchCooperativeKernel"
            return name, self.symbol(name), arguments
        return "hipModuleLaunchKernel", self._launch, (*arguments, None)

    def prepare_launch(
        self,
        context: int,
        launch: LaunchCall,
        explain: Callable[[DriverError], Exception],
        *,
        stays: bool = True,
    ) -> Callable[[], object]:
        launch_here = super().prepare_launch(context, launch, explain, stays=stays)
        if self.device_count() == 1:
            return launch_here
        # The null stream is that of the current device, and HIP 7 refuses a stream of another
        # device.
        enter, leave = self.context_functions(context)

        def launch_on_device() -> None:
            try:
                enter()
                try:
                    launch_here()
                finally:
                    leave(None, None, None)
            except DriverError as error:
                raise explain(error) from error

        return launch_on_device


#: A function of C that takes every argument and returns a false value.
_nothing = "".format


class _CurrentDevice:
    """Sets a device as the thread's current one, and restores the previous device. Bodies may be
    nested.
    """

    _saved = local()

    def __init__(self, driver: HipDriver, device: int) -> None:
        self._driver = driver
        self._device = device

    def enter(self) -> None:
        """Set the device."""
        previous = self._driver.call("current_context")
        try:
            stack = self._saved.stack
        except AttributeError:
            stack = self._saved.stack = []
        if previous != self._device:
            self._driver.call("set_context", self._device)
        stack.append(previous)

    def leave(self, *_: object) -> None:
        """Restore the previous device."""
        previous = self._saved.stack.pop()
        if previous != self._device:
            self._driver.call("set_context", previous)
