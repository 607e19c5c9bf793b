"""HIP's runtime API, from HIP 5 to 7: its names in messages, its error codes, its functions, and the limits of a device."""

from __future__ import annotations

from ctypes import c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from devmod_runtime.driver_api.api import Api, DriverFunction

#: The handle of a device's null stream, which PyTorch and CuPy use by default.
NULL_STREAM = 0
#: HIP's numbers of the attributes (hipDeviceAttribute_t), the same from HIP 5 on. The names are HIP's without hipDeviceAttribute, in the
#: spelling of the other kinds.
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
_handle, _address, _size, _number = c_void_p, c_uint64, c_size_t, c_uint
#: The function of each operation of `devmod_runtime.driver_api.driver.Driver`. A context is the number of its device.
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
    "elapsed_time": DriverFunction("hipEventElapsedTime", (c_float,), (_handle, _handle)),
    "exchange_capture_mode": DriverFunction("hipThreadExchangeStreamCaptureMode"),
    "load_module": DriverFunction("hipModuleLoadData", (_handle,), (_handle,)),
    "unload_module": DriverFunction("hipModuleUnload", (), (_handle,)),
    "get_function": DriverFunction("hipModuleGetFunction", (_handle,), (_handle, c_char_p)),
    "get_global": DriverFunction("hipModuleGetGlobal", (_address, _size), (_handle, c_char_p)),
    "function_attribute": DriverFunction("hipFuncGetAttribute", (c_int,), (c_int, _handle)),
    "max_active_blocks": DriverFunction("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", (c_int,), (_handle, c_int, _size)),
    "begin_capture": DriverFunction("hipStreamBeginCapture", (), (_handle, c_int)),
    "end_capture": DriverFunction("hipStreamEndCapture", (_handle,), (_handle,), results_last=True),
    "is_capturing": DriverFunction("hipStreamIsCapturing", (c_int,), (_handle,), results_last=True),
    "instantiate_graph": DriverFunction("hipGraphInstantiateWithFlags", (_handle,), (_handle, c_uint64)),
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
    version_text=lambda version: f"{version // 10_000_000}.{version // 100_000 % 100}",  # 60342134 is "6.3"
    error_name="hipGetErrorName",
    error_text="hipGetErrorString",
    out_of_memory="hipErrorOutOfMemory",
    not_ready="hipErrorNotReady",
    not_supported="hipErrorNotSupported",
    not_found="hipErrorNotFound",
    implicit_capture="hipErrorStreamCaptureImplicit",
    # The stream's device is not the thread's current one (HIP 7), or the function is of another device.
    wrong_context=("hipErrorInvalidHandle", "hipErrorInvalidResourceHandle", "hipErrorInvalidDevice", "hipErrorInvalidContext"),
    sticky=frozenset(
        f"hipError{name}" for name in ("Assert", "ECCNotCorrectable", "IllegalAddress", "IllegalState", "LaunchFailure", "LaunchTimeOut")
    ),
    legacy_stream=NULL_STREAM,
    legacy_handles=(NULL_STREAM, 1),  # 1 is hipStreamLegacy
    dlpack_type=10,  # kDLROCM
    dlpack_types=(10,),
    dlpack_streams={0: NULL_STREAM},
    dlpack_stream_text="None or 0 (the default stream), the handle of a stream, or -1 for no order",
    parameters_end=3,  # HIP_LAUNCH_PARAM_END
)
