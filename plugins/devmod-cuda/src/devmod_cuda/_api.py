"""CUDA's driver API: its names in messages, its error codes, its functions, and the limits of a device."""

from __future__ import annotations

from ctypes import c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from devmod_runtime.driver_api.api import Api, DriverFunction

#: The handle of the legacy default stream (CU_STREAM_LEGACY), which PyTorch and CuPy use by default.
LEGACY_STREAM = 1
#: CUDA's numbers of the attributes (CUdevice_attribute). The names are CUDA's without CU_DEVICE_ATTRIBUTE_, in lower case.
_LIMITS = {
    "max_threads_per_block": 1,
    "max_block_dim_x": 2,
    "max_block_dim_y": 3,
    "max_block_dim_z": 4,
    "max_grid_dim_x": 5,
    "max_grid_dim_y": 6,
    "max_grid_dim_z": 7,
    "max_shared_memory_per_block": 8,
    "warp_size": 10,
    "max_registers_per_block": 12,
    "multiprocessor_count": 16,
    "max_threads_per_multiprocessor": 39,
    "max_shared_memory_per_multiprocessor": 81,
    "cooperative_launch": 95,
    "max_shared_memory_per_block_optin": 97,
    "max_blocks_per_multiprocessor": 106,
    "reserved_shared_memory_per_block": 111,
    "cluster_launch": 120,
    "tensor_map_access_supported": 127,
}
_handle, _address, _size, _number = c_void_p, c_uint64, c_size_t, c_uint
#: The function of each operation of `devmod_runtime.driver_api.driver.Driver`.
FUNCTIONS = {
    "initialize": DriverFunction("cuInit", (), (_number,)),
    "version": DriverFunction("cuDriverGetVersion", (c_int,), ()),
    "device_count": DriverFunction("cuDeviceGetCount", (c_int,), ()),
    "device": DriverFunction("cuDeviceGet", (c_int,), (c_int,)),
    "device_attribute": DriverFunction("cuDeviceGetAttribute", (c_int,), (c_int, c_int)),
    "device_name": DriverFunction("cuDeviceGetName", (), (c_char_p, c_int, c_int)),
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
    "elapsed_time": DriverFunction("cuEventElapsedTime", (c_float,), (_handle, _handle)),
    "elapsed_time_v2": DriverFunction("cuEventElapsedTime_v2", (c_float,), (_handle, _handle)),
    "exchange_capture_mode": DriverFunction("cuThreadExchangeStreamCaptureMode"),
    "unload_module": DriverFunction("cuModuleUnload", (), (_handle,)),
    "get_function": DriverFunction("cuModuleGetFunction", (_handle,), (_handle, c_char_p)),
    "get_global": DriverFunction("cuModuleGetGlobal", (_address, _size), (_handle, c_char_p), "cuModuleGetGlobal_v2"),
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

CUDA = Api(
    kind="cuda",
    title="CUDA",
    name="CUDA",
    functions=FUNCTIONS,
    limits=_LIMITS,
    version_text=lambda version: f"{version // 1000}.{version % 1000 // 10}",  # 12080 is "12.8"
    error_name="cuGetErrorName",
    error_text="cuGetErrorString",
    out_of_memory="CUDA_ERROR_OUT_OF_MEMORY",
    not_ready="CUDA_ERROR_NOT_READY",
    not_supported="CUDA_ERROR_NOT_SUPPORTED",
    not_found="CUDA_ERROR_NOT_FOUND",
    implicit_capture="CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
    wrong_context=("CUDA_ERROR_INVALID_CONTEXT", "CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    sticky=frozenset(
        f"CUDA_ERROR_{name}"
        for name in (
            "ASSERT",
            "CONTAINED",
            "ECC_UNCORRECTABLE",
            "EXTERNAL_DEVICE",
            "HARDWARE_STACK_ERROR",
            "ILLEGAL_ADDRESS",
            "ILLEGAL_INSTRUCTION",
            "INVALID_ADDRESS_SPACE",
            "INVALID_PC",
            "LAUNCH_FAILED",
            "LAUNCH_TIMEOUT",
            "MISALIGNED_ADDRESS",
            "MPS_CLIENT_TERMINATED",
            "NVLINK_UNCORRECTABLE",
            "TENSOR_MEMORY_LEAK",
        )
    ),
    legacy_stream=LEGACY_STREAM,
    legacy_handles=(0, LEGACY_STREAM),
    dlpack_type=2,  # kDLCUDA
    dlpack_types=(2, 13),  # and kDLCUDAManaged
    dlpack_streams={1: LEGACY_STREAM, 2: 2},
    dlpack_stream_text=("None, 1 (the legacy default stream), 2 (the thread's default stream), the handle of a stream, or -1 for no order"),
    parameters_end=0,
)
