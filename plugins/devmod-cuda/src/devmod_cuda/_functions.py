"""The functions of libcuda that devmod calls by ctypes: their results and parameters."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_handle, _address, _size, _number = c_void_p, c_uint64, c_size_t, c_uint

#: The results and the parameters of each function, and the symbol if it has a version. Results come first, unless the last value says so.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": ((), (_number,)),
    "cuDriverGetVersion": ((c_int,), ()),
    "cuDeviceGetCount": ((c_int,), ()),
    "cuDeviceGet": ((c_int,), (c_int,)),
    "cuDeviceGetAttribute": ((c_int,), (c_int, c_int)),
    "cuDeviceTotalMem": ((_size,), (c_int,), "cuDeviceTotalMem_v2"),
    "cuDevicePrimaryCtxRetain": ((_handle,), (c_int,)),
    "cuCtxGetCurrent": ((_handle,), ()),
    "cuCtxSetCurrent": ((), (_handle,)),
    "cuCtxPushCurrent": ((), (_handle,), "cuCtxPushCurrent_v2"),
    "cuCtxPopCurrent": ((_handle,), (), "cuCtxPopCurrent_v2"),
    "cuCtxGetDevice": ((c_int,), ()),
    "cuCtxSynchronize": ((), ()),
    "cuMemGetInfo": ((_size, _size), (), "cuMemGetInfo_v2"),
    "cuMemAlloc": ((_address,), (_size,), "cuMemAlloc_v2"),
    "cuMemFree": ((), (_address,), "cuMemFree_v2"),
    "cuMemHostAlloc": ((_handle,), (_size, _number)),
    "cuMemFreeHost": ((), (_handle,)),
    "cuMemGetAddressRange": ((_address, _size), (_address,), "cuMemGetAddressRange_v2"),
    "cuMemcpyHtoDAsync": ((), (_address, _handle, _size, _handle), "cuMemcpyHtoDAsync_v2"),
    "cuMemcpyDtoHAsync": ((), (_handle, _address, _size, _handle), "cuMemcpyDtoHAsync_v2"),
    "cuMemcpyDtoDAsync": ((), (_address, _address, _size, _handle), "cuMemcpyDtoDAsync_v2"),
    "cuMemsetD8Async": ((), (_address, c_ubyte, _size, _handle)),
    "cuStreamCreate": ((_handle,), (_number,)),
    "cuStreamDestroy": ((), (_handle,), "cuStreamDestroy_v2"),
    "cuStreamSynchronize": ((), (_handle,)),
    "cuStreamQuery": ((), (_handle,)),
    "cuStreamWaitEvent": ((), (_handle, _handle, _number)),
    "cuEventCreate": ((_handle,), (_number,)),
    "cuEventDestroy": ((), (_handle,), "cuEventDestroy_v2"),
    "cuEventRecord": ((), (_handle, _handle)),
    "cuEventSynchronize": ((), (_handle,)),
    "cuEventQuery": ((), (_handle,)),
    "cuModuleUnload": ((), (_handle,)),
    "cuModuleGetFunction": ((_handle,), (_handle, ctypes.c_char_p)),
    "cuModuleGetGlobal": ((_address, _size), (_handle, ctypes.c_char_p), "cuModuleGetGlobal_v2"),
    "cuFuncGetAttribute": ((c_int,), (c_int, _handle)),
    "cuFuncSetAttribute": ((), (_handle, c_int, c_int)),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": ((c_int,), (_handle, c_int, _size)),
    "cuOccupancyMaxPotentialBlockSize": ((c_int, c_int), (_handle, _handle, _size, c_int)),
    "cuStreamBeginCapture": ((), (_handle, c_int), "cuStreamBeginCapture_v2"),
    "cuGraphInstantiateWithFlags": ((_handle,), (_handle, c_uint64)),
    "cuGraphLaunch": ((), (_handle, _handle)),
    "cuGraphExecDestroy": ((), (_handle,)),
    "cuGraphDestroy": ((), (_handle,)),
    # Results behind the parameters:
    "cuStreamGetCtx": ((_handle,), (_handle,), "cuStreamGetCtx", "last"),
    "cuStreamEndCapture": ((_handle,), (_handle,), "cuStreamEndCapture", "last"),
    "cuStreamIsCapturing": ((c_int,), (_handle,), "cuStreamIsCapturing", "last"),
    "cuFuncGetParamInfo": ((_size, _size), (_handle, _size), "cuFuncGetParamInfo", "last"),
}
