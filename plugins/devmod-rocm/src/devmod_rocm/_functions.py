"""The functions of HIP's runtime that devmod calls by ctypes. The names are the same in HIP 5 to 7."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from devmod_driver_api.api import Function

_handle, _address, _size, _number = c_void_p, c_uint64, c_size_t, c_uint

#: The function of each operation of `devmod_driver_api.calls` and `driver`. A context is the number of its device.
FUNCTIONS = {
    "initialize": Function("hipInit", (), (_number,)),
    "version": Function("hipRuntimeGetVersion", (c_int,), ()),
    "device_count": Function("hipGetDeviceCount", (c_int,), ()),
    "device": Function("hipDeviceGet", (c_int,), (c_int,)),
    "device_attribute": Function("hipDeviceGetAttribute", (c_int,), (c_int, c_int)),
    "device_memory": Function("hipDeviceTotalMem", (_size,), (c_int,)),
    "current_context": Function("hipGetDevice", (c_int,), ()),
    "set_context": Function("hipSetDevice", (), (c_int,)),
    "synchronize_context": Function("hipDeviceSynchronize", (), ()),
    "memory_info": Function("hipMemGetInfo", (_size, _size), ()),
    "allocate": Function("hipMalloc", (_address,), (_size,)),
    "free": Function("hipFree", (), (_address,)),
    "allocate_host": Function("hipHostMalloc", (_handle,), (_size, _number)),
    "free_host": Function("hipHostFree", (), (_handle,)),
    "memory_range": Function("hipMemGetAddressRange", (_address, _size), (_address,)),
    "copy_to_device": Function("hipMemcpyHtoDAsync", (), (_address, _handle, _size, _handle)),
    "copy_to_host": Function("hipMemcpyDtoHAsync", (), (_handle, _address, _size, _handle)),
    "copy_on_device": Function("hipMemcpyDtoDAsync", (), (_address, _address, _size, _handle)),
    "fill": Function("hipMemsetD8Async", (), (_address, c_ubyte, _size, _handle)),
    "create_stream": Function("hipStreamCreateWithFlags", (_handle,), (_number,)),
    "destroy_stream": Function("hipStreamDestroy", (), (_handle,)),
    "synchronize_stream": Function("hipStreamSynchronize", (), (_handle,)),
    "is_stream_done": Function("hipStreamQuery", (), (_handle,)),
    "wait_event": Function("hipStreamWaitEvent", (), (_handle, _handle, _number)),
    "stream_context": Function("hipStreamGetDevice", (c_int,), (_handle,), results_last=True),
    "create_event": Function("hipEventCreateWithFlags", (_handle,), (_number,)),
    "destroy_event": Function("hipEventDestroy", (), (_handle,)),
    "record_event": Function("hipEventRecord", (), (_handle, _handle)),
    "synchronize_event": Function("hipEventSynchronize", (), (_handle,)),
    "is_event_done": Function("hipEventQuery", (), (_handle,)),
    "exchange_capture_mode": Function("hipThreadExchangeStreamCaptureMode"),
    "load_module": Function("hipModuleLoadData", (_handle,), (_handle,)),
    "unload_module": Function("hipModuleUnload", (), (_handle,)),
    "get_function": Function("hipModuleGetFunction", (_handle,), (_handle, ctypes.c_char_p)),
    "get_global": Function("hipModuleGetGlobal", (_address, _size), (_handle, ctypes.c_char_p)),
    "function_attribute": Function("hipFuncGetAttribute", (c_int,), (c_int, _handle)),
    "max_active_blocks": Function("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", (c_int,), (_handle, c_int, _size)),
    "preferred_block": Function("hipModuleOccupancyMaxPotentialBlockSize", (c_int, c_int), (_handle, _size, c_int)),
    "begin_capture": Function("hipStreamBeginCapture", (), (_handle, c_int)),
    "end_capture": Function("hipStreamEndCapture", (_handle,), (_handle,), results_last=True),
    "is_capturing": Function("hipStreamIsCapturing", (c_int,), (_handle,), results_last=True),
    "instantiate_graph": Function("hipGraphInstantiateWithFlags", (_handle,), (_handle, c_uint64)),
    "launch_graph": Function("hipGraphLaunch", (), (_handle, _handle)),
    "destroy_executable": Function("hipGraphExecDestroy", (), (_handle,)),
    "destroy_graph": Function("hipGraphDestroy", (), (_handle,)),
}
