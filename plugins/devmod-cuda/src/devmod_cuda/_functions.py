"""The functions of libcuda that devmod calls by ctypes: their results and parameters."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from devmod_runtime.driver_api.api import DriverFunction

_handle, _address, _size, _number = c_void_p, c_uint64, c_size_t, c_uint

#: The function of each operation of `devmod_runtime.driver_api.calls` and `driver`.
FUNCTIONS = {
    "initialize": DriverFunction("cuInit", (), (_number,)),
    "version": DriverFunction("cuDriverGetVersion", (c_int,), ()),
    "device_count": DriverFunction("cuDeviceGetCount", (c_int,), ()),
    "device": DriverFunction("cuDeviceGet", (c_int,), (c_int,)),
    "device_attribute": DriverFunction("cuDeviceGetAttribute", (c_int,), (c_int, c_int)),
    "device_memory": DriverFunction("cuDeviceTotalMem", (_size,), (c_int,), "cuDeviceTotalMem_v2"),
    "retain_primary_context": DriverFunction("cuDevicePrimaryCtxRetain", (_handle,), (c_int,)),
    "current_context": DriverFunction("cuCtxGetCurrent", (_handle,), ()),
    "set_context": DriverFunction("cuCtxSetCurrent", (), (_handle,)),
    "push_context": DriverFunction("cuCtxPushCurrent", (), (_handle,), "cuCtxPushCurrent_v2"),
    "pop_context": DriverFunction("cuCtxPopCurrent", (_handle,), (), "cuCtxPopCurrent_v2"),
    "current_device": DriverFunction("cuCtxGetDevice", (c_int,), ()),
    "synchronize_context": DriverFunction("cuCtxSynchronize", (), ()),
    "memory_info": DriverFunction("cuMemGetInfo", (_size, _size), (), "cuMemGetInfo_v2"),
    "allocate": DriverFunction("cuMemAlloc", (_address,), (_size,), "cuMemAlloc_v2"),
    "free": DriverFunction("cuMemFree", (), (_address,), "cuMemFree_v2"),
    "allocate_host": DriverFunction("cuMemHostAlloc", (_handle,), (_size, _number)),
    "free_host": DriverFunction("cuMemFreeHost", (), (_handle,)),
    "memory_range": DriverFunction("cuMemGetAddressRange", (_address, _size), (_address,), "cuMemGetAddressRange_v2"),
    "copy_to_device": DriverFunction("cuMemcpyHtoDAsync", (), (_address, _handle, _size, _handle), "cuMemcpyHtoDAsync_v2"),
    "copy_to_host": DriverFunction("cuMemcpyDtoHAsync", (), (_handle, _address, _size, _handle), "cuMemcpyDtoHAsync_v2"),
    "copy_on_device": DriverFunction("cuMemcpyDtoDAsync", (), (_address, _address, _size, _handle), "cuMemcpyDtoDAsync_v2"),
    "fill": DriverFunction("cuMemsetD8Async", (), (_address, c_ubyte, _size, _handle)),
    "create_stream": DriverFunction("cuStreamCreate", (_handle,), (_number,)),
    "destroy_stream": DriverFunction("cuStreamDestroy", (), (_handle,), "cuStreamDestroy_v2"),
    "synchronize_stream": DriverFunction("cuStreamSynchronize", (), (_handle,)),
    "wait_event": DriverFunction("cuStreamWaitEvent", (), (_handle, _handle, _number)),
    "create_event": DriverFunction("cuEventCreate", (_handle,), (_number,)),
    "destroy_event": DriverFunction("cuEventDestroy", (), (_handle,), "cuEventDestroy_v2"),
    "record_event": DriverFunction("cuEventRecord", (), (_handle, _handle)),
    "synchronize_event": DriverFunction("cuEventSynchronize", (), (_handle,)),
    "is_event_done": DriverFunction("cuEventQuery", (), (_handle,)),
    "exchange_capture_mode": DriverFunction("cuThreadExchangeStreamCaptureMode"),
    "unload_module": DriverFunction("cuModuleUnload", (), (_handle,)),
    "get_function": DriverFunction("cuModuleGetFunction", (_handle,), (_handle, ctypes.c_char_p)),
    "get_global": DriverFunction("cuModuleGetGlobal", (_address, _size), (_handle, ctypes.c_char_p), "cuModuleGetGlobal_v2"),
    "function_attribute": DriverFunction("cuFuncGetAttribute", (c_int,), (c_int, _handle)),
    "set_function_attribute": DriverFunction("cuFuncSetAttribute", (), (_handle, c_int, c_int)),
    "max_active_blocks": DriverFunction("cuOccupancyMaxActiveBlocksPerMultiprocessor", (c_int,), (_handle, c_int, _size)),
    "preferred_block": DriverFunction("cuOccupancyMaxPotentialBlockSize", (c_int, c_int), (_handle, _handle, _size, c_int)),
    "begin_capture": DriverFunction("cuStreamBeginCapture", (), (_handle, c_int), "cuStreamBeginCapture_v2"),
    "instantiate_graph": DriverFunction("cuGraphInstantiateWithFlags", (_handle,), (_handle, c_uint64)),
    "launch_graph": DriverFunction("cuGraphLaunch", (), (_handle, _handle)),
    "destroy_executable": DriverFunction("cuGraphExecDestroy", (), (_handle,)),
    "destroy_graph": DriverFunction("cuGraphDestroy", (), (_handle,)),
    # Results behind the parameters:
    "stream_context": DriverFunction("cuStreamGetCtx", (_handle,), (_handle,), results_last=True),
    "end_capture": DriverFunction("cuStreamEndCapture", (_handle,), (_handle,), results_last=True),
    "is_capturing": DriverFunction("cuStreamIsCapturing", (c_int,), (_handle,), results_last=True),
    "param_info": DriverFunction("cuFuncGetParamInfo", (_size, _size), (_handle, _size), results_last=True),
}
