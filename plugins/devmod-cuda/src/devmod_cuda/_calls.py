"""The calls of CUDA's driver. Handles (device, context, stream, event, module, function, pointer)
are plain integers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_void_p,
    py_object,
)
from functools import partial
from itertools import repeat, starmap
from typing import Any

from devmod_driver_api.api import Api, DriverError, DriverFunction
from devmod_driver_api.driver import Driver, DriverLaunchConfig, Failures, LaunchCall

# -- CUDA's driver API: its names in messages, its error codes, its functions, and the limits of a
# device.


#: The handle of the legacy default stream (CU_STREAM_LEGACY), which PyTorch and CuPy use by
#: default.
LEGACY_STREAM = 1
#: CUDA's numbers of the attributes (CUdevice_attribute). The names are CUDA's without
#: CU_DEVICE_ATTRIBUTE_, in lower case.
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
_handle = c_void_p
_address = c_uint64
_size = c_size_t
_number = c_uint
# Where to change: a function of a driver of CUDA's model
#   here: `_calls.py` of devmod-cuda and of devmod-rocm (`FUNCTIONS`): the vendor's function by the
#     name of the operation
#   also: `plugins/driver-api/src/devmod_driver_api/driver.py` (`Driver.call`): how it is
#     called
#   tests: `tests/test_two_places.py`, `plugins/devmod-cuda/tests/test_real_libcuda.py`
#: The function of each operation of `devmod_driver_api.driver.Driver`.
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
    "context_id": DriverFunction("cuCtxGetId", (c_uint64,), (_handle,), results_last=True),
    "primary_state": DriverFunction(
        "cuDevicePrimaryCtxGetState", (_number, c_int), (c_int,), results_last=True
    ),
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
    "pointer_attributes": DriverFunction(
        "cuPointerGetAttributes", (), (_number, _handle, _handle, _address)
    ),
    "memory_range": DriverFunction(
        "cuMemGetAddressRange", (_address, _size), (_address,), "cuMemGetAddressRange_v2"
    ),
    "copy_to_device": DriverFunction(
        "cuMemcpyHtoDAsync", (), (_address, _handle, _size, _handle), "cuMemcpyHtoDAsync_v2"
    ),
    "copy_to_host": DriverFunction(
        "cuMemcpyDtoHAsync", (), (_handle, _address, _size, _handle), "cuMemcpyDtoHAsync_v2"
    ),
    "copy_on_device": DriverFunction(
        "cuMemcpyDtoDAsync", (), (_address, _address, _size, _handle), "cuMemcpyDtoDAsync_v2"
    ),
    "fill": DriverFunction("cuMemsetD8Async", (), (_address, c_ubyte, _size, _handle)),
    "create_array": DriverFunction("cuArray3DCreate", (_handle,), (_handle,), "cuArray3DCreate_v2"),
    "destroy_array": DriverFunction("cuArrayDestroy", (), (_handle,)),
    "array_form": DriverFunction(
        "cuArray3DGetDescriptor", (), (_handle, _handle), "cuArray3DGetDescriptor_v2"
    ),
    "copy_array": DriverFunction("cuMemcpy3DAsync", (), (_handle, _handle), "cuMemcpy3DAsync_v2"),
    "create_texture": DriverFunction("cuTexObjectCreate", (_address,), (_handle, _handle, _handle)),
    "destroy_texture": DriverFunction("cuTexObjectDestroy", (), (_address,)),
    "create_surface": DriverFunction("cuSurfObjectCreate", (_address,), (_handle,)),
    "destroy_surface": DriverFunction("cuSurfObjectDestroy", (), (_address,)),
    "create_stream": DriverFunction("cuStreamCreate", (_handle,), (_number,)),
    "destroy_stream": DriverFunction("cuStreamDestroy", (), (_handle,), "cuStreamDestroy_v2"),
    "synchronize_stream": DriverFunction("cuStreamSynchronize", (), (_handle,)),
    "is_stream_done": DriverFunction("cuStreamQuery", (), (_handle,)),
    "wait_event": DriverFunction("cuStreamWaitEvent", (), (_handle, _handle, _number)),
    "create_event": DriverFunction("cuEventCreate", (_handle,), (_number,)),
    "destroy_event": DriverFunction("cuEventDestroy", (), (_handle,), "cuEventDestroy_v2"),
    "record_event": DriverFunction("cuEventRecord", (), (_handle, _handle)),
    "synchronize_event": DriverFunction("cuEventSynchronize", (), (_handle,)),
    "is_event_done": DriverFunction("cuEventQuery", (), (_handle,)),
    "elapsed_time": DriverFunction("cuEventElapsedTime", (c_float,), (_handle, _handle)),
    "exchange_capture_mode": DriverFunction("cuThreadExchangeStreamCaptureMode"),
    "load_module": DriverFunction(
        "cuModuleLoadDataEx", (_handle,), (c_char_p, _number, _handle, _handle)
    ),
    "unload_module": DriverFunction("cuModuleUnload", (), (_handle,)),
    "get_function": DriverFunction("cuModuleGetFunction", (_handle,), (_handle, c_char_p)),
    "get_global": DriverFunction(
        "cuModuleGetGlobal", (_address, _size), (_handle, c_char_p), "cuModuleGetGlobal_v2"
    ),
    "function_attribute": DriverFunction("cuFuncGetAttribute", (c_int,), (c_int, _handle)),
    "set_function_attribute": DriverFunction("cuFuncSetAttribute", (), (_handle, c_int, c_int)),
    "max_active_blocks": DriverFunction(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor", (c_int,), (_handle, c_int, _size)
    ),
    "max_active_clusters": DriverFunction(
        "cuOccupancyMaxActiveClusters", (c_int,), (_handle, _handle)
    ),
    "encode_tensor_map": DriverFunction(
        "cuTensorMapEncodeTiled", (), (_handle, c_int, _number, *(_handle,) * 5, *(c_int,) * 4)
    ),
    "preferred_block": DriverFunction(
        "cuOccupancyMaxPotentialBlockSize", (c_int, c_int), (_handle, _handle, _size, c_int)
    ),
    "begin_capture": DriverFunction(
        "cuStreamBeginCapture", (), (_handle, c_int), "cuStreamBeginCapture_v2"
    ),
    "instantiate_graph": DriverFunction(
        "cuGraphInstantiateWithFlags", (_handle,), (_handle, c_uint64)
    ),
    "launch_graph": DriverFunction("cuGraphLaunch", (), (_handle, _handle)),
    "destroy_executable": DriverFunction("cuGraphExecDestroy", (), (_handle,)),
    "destroy_graph": DriverFunction("cuGraphDestroy", (), (_handle,)),
    # Results behind the parameters:
    "stream_context": DriverFunction("cuStreamGetCtx", (_handle,), (_handle,), results_last=True),
    "stream_id": DriverFunction("cuStreamGetId", (c_uint64,), (_handle,), results_last=True),
    "end_capture": DriverFunction("cuStreamEndCapture", (_handle,), (_handle,), results_last=True),
    "is_capturing": DriverFunction("cuStreamIsCapturing", (c_int,), (_handle,), results_last=True),
    "param_info": DriverFunction(
        "cuFuncGetParamInfo", (_size, _size), (_handle, _size), results_last=True
    ),
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
    wrong_context=(
        "CUDA_ERROR_INVALID_CONTEXT",
        "CUDA_ERROR_INVALID_HANDLE",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    ),
    refusals=frozenset(
        (
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
            "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
        )
    ),
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
    dlpack_types=(2, 13),  # kDLCUDA and kDLCUDAManaged
    dlpack_streams={1: LEGACY_STREAM, 2: 2},
    dlpack_stream_text=(
        "None, 1 (the legacy default stream), 2 (the thread's default stream), the handle of a stream, or -1 for no order"
    ),
)


#: CUjit_option: ERROR_LOG_BUFFER and ERROR_LOG_BUFFER_SIZE_BYTES.
_JIT_ERROR_LOG = (5, 6)
#: The largest log of the driver's compiler.
_LOG_BYTES = 16384
#: CUdevice_attribute: COMPUTE_CAPABILITY_MAJOR and COMPUTE_CAPABILITY_MINOR.
_CAPABILITY = (75, 76)
#: The PTX version of each driver version of CUDA 12. From 13.0 on, CUDA 13.x reads PTX 9.x.
_PTX_OF_12 = ("8.0", "8.1", "8.2", "8.3", "8.4", "8.5", "8.5", "8.6", "8.7", "8.8")
#: CUpointer_attribute: CONTEXT, MEMORY_TYPE and DEVICE_ORDINAL. CU_MEMORYTYPE_HOST and
#: CU_MEMORYTYPE_DEVICE are 1 and 2.
_ATTRIBUTES = (1, 2, 9)


class _Attribute(Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", c_uint), ("padding", c_uint), ("value", c_char * 64))


class _Config(Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_memory", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(_Attribute)),
        ("count", c_uint),
    )


class CudaDriver(Driver):
    """One opened driver of CUDA."""

    api = CUDA

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        #: It has no parameter types, because the prepared arguments of a launch are ctypes objects.
        self._launch = self.symbol("cuLaunchKernelEx")

    def device_arch(self, device: int) -> str:
        """Return the architecture of a device with the PTX version of the driver:
        ``sm_90:ptx8.7``.
        """
        major, minor = (self.call("device_attribute", each, device) for each in _CAPABILITY)
        ptx = ptx_version(self.version)
        return f"sm_{major}{minor}" + (f":ptx{ptx}" if ptx else "")

    # -- contexts

    def context_functions(
        self, context: int
    ) -> tuple[Callable[[], object], Callable[[object, object, object], None]]:
        """Return two functions of C: push a context, and pop one."""
        push = self.symbol("cuCtxPushCurrent_v2")
        pop = self.symbol("cuCtxPopCurrent_v2")

        def refuse(status: int) -> None:
            raise self.error("cuCtxPushCurrent", status)

        statuses = starmap(push, repeat((c_void_p(context),)))
        # `with` passes the exception: the C calling convention lets a caller pass more arguments
        # than a function has.
        pop.argtypes = (POINTER(c_void_p), py_object, py_object, py_object)
        pop.restype = None
        return map(Failures(refuse).__getitem__, statuses).__next__, partial(pop, byref(c_void_p()))

    def context_device(self, context: int) -> int:
        self.call("push_context", context)
        try:
            return int(self.call("current_device"))
        finally:
            self.call("pop_context")

    def context_id(self, context: int) -> int:
        return int(self.call("context_id", context))

    def has_primary_context(self, device: int) -> bool:
        _, is_active = self.call("primary_state", device)
        return bool(is_active)

    # -- memory

    def locate(self, address: int) -> tuple[int, int, int]:
        count = len(_ATTRIBUTES)
        values = (c_uint64 * count)()
        places = (c_void_p * count)(
            *(ctypes.addressof(values) + 8 * place for place in range(count))
        )
        attributes = (c_int * count)(*_ATTRIBUTES)
        self.call("pointer_attributes", count, attributes, places, address)
        context, kind, ordinal = values
        return context, kind, ordinal

    # -- launches

    def launch_config(self, shape: DriverLaunchConfig, stream: int) -> _Config:
        """Return the configuration of a launch in a stream, which has this handle."""
        grid, block, shared_memory, attributes = shape
        items = (_Attribute * len(attributes))()
        for item, (number, value) in zip(items, attributes, strict=True):
            item.id = number
            ctypes.memmove(
                ctypes.addressof(item) + 8, value, len(value)
            )  # an assignment ends at the first zero byte
        return _Config(
            (c_uint * 3)(*grid), (c_uint * 3)(*block), shared_memory, stream, items, len(attributes)
        )

    def launch_call(
        self,
        config: DriverLaunchConfig,
        stream: int,
        function: int,
        block: Any,
        offsets: Sequence[int],
    ) -> LaunchCall:
        size = c_size_t(len(block))
        # The marks of the block's address, of the address of its size, and of the end.
        extra: Any = (c_void_p * 5)(1, ctypes.addressof(block), 2, ctypes.addressof(size), 0)
        extra.memory = block, size
        driver_config = byref(self.launch_config(config, stream))
        return "cuLaunchKernelEx", self._launch, (driver_config, c_void_p(function), None, extra)

    # -- modules and functions

    def load_module(self, data: bytes | memoryview) -> int:
        """Load PTX, a cubin or a fatbin into the current context. PTX ends with the zero byte
        behind it, which every bytes object has.
        """
        log = ctypes.create_string_buffer(_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        try:
            return int(
                self.call("load_module", bytes(data), 2, (c_int * 2)(*_JIT_ERROR_LOG), values)
            )
        except DriverError as error:
            error.log = log.value.decode(errors="replace").strip()
            raise

    def param_places(self, function: int) -> list[tuple[int, int]] | None:
        """Return the offset and size of each parameter of a function; None if the driver is older
        than CUDA 12.4.
        """
        if self.version < 12040:
            return None
        places: list[tuple[int, int]] = []
        while True:
            try:
                offset, size = self.call("param_info", function, len(places))
            except DriverError as error:
                if error.name == "CUDA_ERROR_INVALID_VALUE":  # the index is past the last parameter
                    return places
                raise
            places.append((offset, size))

    def encode_tensor_map(
        self,
        dtype: int,
        pointer: int,
        shape: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        element_strides: Sequence[int],
        interleave: int = 0,
        swizzle: int = 0,
        l2_promotion: int = 0,
        fill: int = 0,
    ) -> bytes:
        """Return the 128 bytes of a tensor map. The numbers are those of
        ``cuTensorMapEncodeTiled``; `strides` has one fewer, in bytes.
        """
        rank = len(shape)
        memory = ctypes.create_string_buffer(128 + 63)
        start = -ctypes.addressof(memory) % 64  # a CUtensorMap is aligned to 64 bytes
        self.call(
            "encode_tensor_map",
            ctypes.addressof(memory) + start,
            dtype,
            rank,
            pointer,
            (c_uint64 * rank)(*shape),
            (c_uint64 * rank)(*strides),
            (c_uint * rank)(*box),
            (c_uint * rank)(*element_strides),
            interleave,
            swizzle,
            l2_promotion,
            fill,
        )
        return memory.raw[start : start + 128]


def ptx_version(cuda: int) -> str:
    """Return the newest PTX version that a driver reads; "" for a driver newer than this table.

    Parameters
    ----------
    cuda
        The version of CUDA that the driver supports, such as 12080.
    """
    major = cuda // 1000
    minor = cuda % 1000 // 10
    if major == 12:
        return _PTX_OF_12[min(minor, len(_PTX_OF_12) - 1)]
    return f"9.{minor}" if major == 13 else ""
