"""The functions of HIP's runtime that devmod calls by ctypes. The names are the same in HIP 5 to 7."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from devmod_runtime.driver_api.api import DriverFunction

_handle, _address, _size, _number = c_void_p, c_uint64, c_size_t, c_uint

#: The function of each operation of `devmod_runtime.driver_api.calls` and `driver`. A context is the number of its device.
FUNCTIONS = {
    "initialize": DriverFunction("hipInit", (), (_number,)),
    "version": DriverFunction("hipRuntimeGetVersion", (c_int,), ()),
    "device_count": DriverFunction("hipGetDeviceCount", (c_int,), ()),
    "device": DriverFunction("hipDeviceGet", (c_int,), (c_int,)),
    "device_attribute": DriverFunction("hipDeviceGetAttribute", (c_int,), (c_int, c_int)),
    "device_memory": DriverFunction("hipDeviceTotalMem", (_size,), (c_int,)),
    "current_context": DriverFunction("hipGetDevice", (c_int,), ()),
    "set_context": DriverFunction("hipSetDevice", (), (c_int,)),
    "synchronize_context": DriverFunction("hipDeviceSynchronize", (), ()),
    "memory_info": DriverFunction("hipMemGetInfo", (_size, _size), ()),
    "allocate": DriverFunction("hipMalloc", (_address,), (_size,)),
    "free": DriverFunction("hipFree", (), (_address,)),
    "allocate_host": DriverFunction("hipHostMalloc", (_handle,), (_size, _number)),
    "free_host": DriverFunction("hipHostFree", (), (_handle,)),
    "memory_range": DriverFunction("hipMemGetAddressRange", (_address, _size), (_address,)),
    "copy_to_device": DriverFunction("hipMemcpyHtoDAsync", (), (_address, _handle, _size, _handle)),
    "copy_to_host": DriverFunction("hipMemcpyDtoHAsync", (), (_handle, _address, _size, _handle)),
    "copy_on_device": DriverFunction("hipMemcpyDtoDAsync", (), (_address, _address, _size, _handle)),
    "fill": DriverFunction("hipMemsetD8Async", (), (_address, c_ubyte, _size, _handle)),
    "create_stream": DriverFunction("hipStreamCreateWithFlags", (_handle,), (_number,)),
    "destroy_stream": DriverFunction("hipStreamDestroy", (), (_handle,)),
    "synchronize_stream": DriverFunction("hipStreamSynchronize", (), (_handle,)),
    "wait_event": DriverFunction("hipStreamWaitEvent", (), (_handle, _handle, _number)),
    "stream_context": DriverFunction("hipStreamGetDevice", (c_int,), (_handle,), results_last=True),
    "create_event": DriverFunction("hipEventCreateWithFlags", (_handle,), (_number,)),
    "destroy_event": DriverFunction("hipEventDestroy", (), (_handle,)),
    "record_event": DriverFunction("hipEventRecord", (), (_handle, _handle)),
    "synchronize_event": DriverFunction("hipEventSynchronize", (), (_handle,)),
    "is_event_done": DriverFunction("hipEventQuery", (), (_handle,)),
    "exchange_capture_mode": DriverFunction("hipThreadExchangeStreamCaptureMode"),
    "load_module": DriverFunction("hipModuleLoadData", (_handle,), (_handle,)),
    "unload_module": DriverFunction("hipModuleUnload", (), (_handle,)),
    "get_function": DriverFunction("hipModuleGetFunction", (_handle,), (_handle, ctypes.c_char_p)),
    "get_global": DriverFunction("hipModuleGetGlobal", (_address, _size), (_handle, ctypes.c_char_p)),
    "function_attribute": DriverFunction("hipFuncGetAttribute", (c_int,), (c_int, _handle)),
    "max_active_blocks": DriverFunction("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", (c_int,), (_handle, c_int, _size)),
    "preferred_block": DriverFunction("hipModuleOccupancyMaxPotentialBlockSize", (c_int, c_int), (_handle, _size, c_int)),
    "begin_capture": DriverFunction("hipStreamBeginCapture", (), (_handle, c_int)),
    "end_capture": DriverFunction("hipStreamEndCapture", (_handle,), (_handle,), results_last=True),
    "is_capturing": DriverFunction("hipStreamIsCapturing", (c_int,), (_handle,), results_last=True),
    "instantiate_graph": DriverFunction("hipGraphInstantiateWithFlags", (_handle,), (_handle, c_uint64)),
    "launch_graph": DriverFunction("hipGraphLaunch", (), (_handle, _handle)),
    "destroy_executable": DriverFunction("hipGraphExecDestroy", (), (_handle,)),
    "destroy_graph": DriverFunction("hipGraphDestroy", (), (_handle,)),
}
