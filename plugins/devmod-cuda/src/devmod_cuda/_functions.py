"""The functions of libcuda that devmod calls by ctypes: their results and parameters."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from devmod_driver_api.api import Function

_handle, _address, _size, _number = c_void_p, c_uint64, c_size_t, c_uint

#: The function of each operation of `devmod_driver_api.calls` and `driver`.
FUNCTIONS = {
    "initialize": Function("cuInit", (), (_number,)),
    "version": Function("cuDriverGetVersion", (c_int,), ()),
    "device_count": Function("cuDeviceGetCount", (c_int,), ()),
    "device": Function("cuDeviceGet", (c_int,), (c_int,)),
    "device_attribute": Function("cuDeviceGetAttribute", (c_int,), (c_int, c_int)),
    "device_memory": Function("cuDeviceTotalMem", (_size,), (c_int,), "cuDeviceTotalMem_v2"),
    "retain_primary_context": Function("cuDevicePrimaryCtxRetain", (_handle,), (c_int,)),
    "current_context": Function("cuCtxGetCurrent", (_handle,), ()),
    "set_context": Function("cuCtxSetCurrent", (), (_handle,)),
    "push_context": Function("cuCtxPushCurrent", (), (_handle,), "cuCtxPushCurrent_v2"),
    "pop_context": Function("cuCtxPopCurrent", (_handle,), (), "cuCtxPopCurrent_v2"),
    "current_device": Function("cuCtxGetDevice", (c_int,), ()),
    "synchronize_context": Function("cuCtxSynchronize", (), ()),
    "memory_info": Function("cuMemGetInfo", (_size, _size), (), "cuMemGetInfo_v2"),
    "allocate": Function("cuMemAlloc", (_address,), (_size,), "cuMemAlloc_v2"),
    "free": Function("cuMemFree", (), (_address,), "cuMemFree_v2"),
    "allocate_host": Function("cuMemHostAlloc", (_handle,), (_size, _number)),
    "free_host": Function("cuMemFreeHost", (), (_handle,)),
    "memory_range": Function("cuMemGetAddressRange", (_address, _size), (_address,), "cuMemGetAddressRange_v2"),
    "copy_to_device": Function("cuMemcpyHtoDAsync", (), (_address, _handle, _size, _handle), "cuMemcpyHtoDAsync_v2"),
    "copy_to_host": Function("cuMemcpyDtoHAsync", (), (_handle, _address, _size, _handle), "cuMemcpyDtoHAsync_v2"),
    "copy_on_device": Function("cuMemcpyDtoDAsync", (), (_address, _address, _size, _handle), "cuMemcpyDtoDAsync_v2"),
    "fill": Function("cuMemsetD8Async", (), (_address, c_ubyte, _size, _handle)),
    "create_stream": Function("cuStreamCreate", (_handle,), (_number,)),
    "destroy_stream": Function("cuStreamDestroy", (), (_handle,), "cuStreamDestroy_v2"),
    "synchronize_stream": Function("cuStreamSynchronize", (), (_handle,)),
    "is_stream_done": Function("cuStreamQuery", (), (_handle,)),
    "wait_event": Function("cuStreamWaitEvent", (), (_handle, _handle, _number)),
    "create_event": Function("cuEventCreate", (_handle,), (_number,)),
    "destroy_event": Function("cuEventDestroy", (), (_handle,), "cuEventDestroy_v2"),
    "record_event": Function("cuEventRecord", (), (_handle, _handle)),
    "synchronize_event": Function("cuEventSynchronize", (), (_handle,)),
    "is_event_done": Function("cuEventQuery", (), (_handle,)),
    "exchange_capture_mode": Function("cuThreadExchangeStreamCaptureMode"),
    "unload_module": Function("cuModuleUnload", (), (_handle,)),
    "get_function": Function("cuModuleGetFunction", (_handle,), (_handle, ctypes.c_char_p)),
    "get_global": Function("cuModuleGetGlobal", (_address, _size), (_handle, ctypes.c_char_p), "cuModuleGetGlobal_v2"),
    "function_attribute": Function("cuFuncGetAttribute", (c_int,), (c_int, _handle)),
    "set_function_attribute": Function("cuFuncSetAttribute", (), (_handle, c_int, c_int)),
    "max_active_blocks": Function("cuOccupancyMaxActiveBlocksPerMultiprocessor", (c_int,), (_handle, c_int, _size)),
    "preferred_block": Function("cuOccupancyMaxPotentialBlockSize", (c_int, c_int), (_handle, _handle, _size, c_int)),
    "begin_capture": Function("cuStreamBeginCapture", (), (_handle, c_int), "cuStreamBeginCapture_v2"),
    "instantiate_graph": Function("cuGraphInstantiateWithFlags", (_handle,), (_handle, c_uint64)),
    "launch_graph": Function("cuGraphLaunch", (), (_handle, _handle)),
    "destroy_executable": Function("cuGraphExecDestroy", (), (_handle,)),
    "destroy_graph": Function("cuGraphDestroy", (), (_handle,)),
    # Results behind the parameters:
    "stream_context": Function("cuStreamGetCtx", (_handle,), (_handle,), results_last=True),
    "end_capture": Function("cuStreamEndCapture", (_handle,), (_handle,), results_last=True),
    "is_capturing": Function("cuStreamIsCapturing", (c_int,), (_handle,), results_last=True),
    "param_info": Function("cuFuncGetParamInfo", (_size, _size), (_handle, _size), results_last=True),
}
