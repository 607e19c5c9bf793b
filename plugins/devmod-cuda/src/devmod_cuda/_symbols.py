"""The driver API by ctypes, on the libcuda that the process has opened. pycuda has no function for most of these calls."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p

from devmod_cuda._calls import CudaDriver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class SymbolsDriver(CudaDriver):
    """The driver by ctypes.

    Parameters
    ----------
    library
        ctypes' CDLL of libcuda.
    """

    def call(self, operation: str, *arguments: Any) -> Any:
        return self.call_symbol(operation, *arguments)

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
