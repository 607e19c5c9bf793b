"""The driver API by ctypes, on the libcuda that the process has opened. pycuda has no function for most of these calls."""

from __future__ import annotations

import ctypes
from collections import deque
from ctypes import POINTER, byref, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from itertools import starmap

from devmod_cuda._interface import Driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


_handle, _address, _size, _number = c_void_p, c_uint64, c_size_t, c_uint

#: The results and the parameters of each function, and the symbol if it has a version. Results come first, unless the last value says so.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
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


class SymbolsDriver(Driver):
    """The driver by ctypes.

    Parameters
    ----------
    library
        ctypes' CDLL of libcuda.
    """

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self._functions: dict[str, tuple[Any, tuple[Any, ...], bool]] = {}

    def call(self, name: str, *arguments: Any) -> Any:
        call, types, is_last = self._prototype(name)
        results = [each() for each in types]
        places = [byref(each) for each in results]
        status = call(*arguments, *places) if is_last else call(*places, *arguments)
        if status:
            raise self.error(name, status)
        if not results:
            return None
        values = [each.value or 0 for each in results]
        return values[0] if len(values) == 1 else tuple(values)

    def create_into(self, cell: list[Any], name: str, *arguments: Any) -> int:
        call, (result,), is_last = self._prototype(name)
        place = result()
        cell.append(place)
        status = call(*arguments, byref(place)) if is_last else call(byref(place), *arguments)
        if status:
            cell.clear()
            raise self.error(name, status)
        return int(place.value or 0)

    def destroy_from(self, cell: list[Any], name: str) -> None:
        deque(map(self._prototype(name)[0], map(list.pop, (cell,))), 0)

    def launch_graph_of(self, cell: list[Any], executable: int, stream: int) -> None:
        launch = self._prototype("cuGraphLaunch")[0]
        ((status, _),) = list(zip(starmap(launch, ((executable, stream),)), map(list.pop, (cell,)), strict=True))
        if status:
            raise self.error("cuGraphLaunch", status)

    def handle_in(self, cell: Sequence[Any]) -> int:
        place = cell[0]
        return place if type(place) is int else int(place.value or 0)

    def _prototype(self, name: str) -> tuple[Any, tuple[Any, ...], bool]:
        """Return ctypes' function, the types of its results, and whether they are behind the parameters."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._function(name)
        return function

    def _function(self, name: str) -> tuple[Any, tuple[Any, ...], bool]:
        results, parameters, symbol, order = (*_FUNCTIONS[name], name, "first")[:4] if len(_FUNCTIONS[name]) < 4 else _FUNCTIONS[name]
        function = self.symbol(symbol)
        places = tuple(map(POINTER, results))
        function.argtypes = parameters + places if order == "last" else places + parameters
        return function, results, order == "last"

    def device_name(self, device: int) -> str:
        name = ctypes.create_string_buffer(256)
        self.check("cuDeviceGetName", name, c_int(256), c_int(device))
        return name.value.decode(errors="replace")

    def pointer_attributes(self, pointer: int, attributes: Sequence[int]) -> tuple[int, ...]:
        count = len(attributes)
        values = (c_uint64 * count)()
        places = (c_void_p * count)(*(ctypes.addressof(values) + 8 * place for place in range(count)))
        self.check("cuPointerGetAttributes", c_uint(count), (c_int * count)(*attributes), places, c_uint64(pointer))
        return tuple(values)

    def load_image(self, image: int, options: Mapping[int, int | bytes]) -> int:
        module = c_void_p()
        addresses = [ctypes.cast(ctypes.c_char_p(each), c_void_p).value if isinstance(each, bytes) else each for each in options.values()]
        numbers, values = (c_int * len(options))(*options), (c_void_p * len(options))(*addresses)
        self.check("cuModuleLoadDataEx", byref(module), c_void_p(image), c_uint(len(options)), numbers, values)
        return module.value or 0
