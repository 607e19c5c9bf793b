"""Use arrays and streams of PyTorch, CuPy, JAX, Numba, pycuda and cuda.core as devmod's, without a copy.

``__cuda_array_interface__`` names the stream of an array's work. pycuda and cuda.core have objects for untyped memory.
"""

from __future__ import annotations

import numpy as np

from devmod.backend import ConversionError, dtype_name_of
from devmod.errors import FormatError
from devmod_cuda._api import CUDA, LEGACY_STREAM
from devmod_cuda._device import devices
from devmod_runtime.driver_api.adoption import Adoption, is_contiguous, library_of, strided_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod_runtime import DeviceArray
    from devmod_runtime.driver_api.adoption import Adopted

#: pycuda's objects for untyped memory.
_ALLOCATIONS = ("DeviceAllocation", "PooledDeviceAllocation", "ManagedAllocation")


class CudaAdoption(Adoption):
    """The arrays and the streams of other libraries for CUDA."""

    stream_advice = " (pycuda: import pycuda.autoprimaryctx in place of pycuda.autoinit)"
    array_advice = f"; make it in the primary context{stream_advice}"
    stream_attributes: Mapping[str, str] = {**Adoption.stream_attributes, "pycuda": "handle"}

    def adopt_array(self, value: Any) -> Adopted | None:
        library = library_of(value)
        if library == "pycuda" and type(value).__name__ in _ALLOCATIONS:
            return self._adopt_allocation(value)
        if library == "cuda" and type(value).__name__ == "Buffer" and hasattr(value, "handle"):
            return self._adopt_untyped(value, int(value.handle), value.size), None
        if library != "torch":
            interface = getattr(value, "__cuda_array_interface__", None)
            if isinstance(interface, dict) and (interface.get("stream") is not None or library == "pycuda" or not self.has_dlpack(value)):
                return self._adopt_interface(value, interface)
        return super().adopt_array(value)

    def stream_handle(self, value: Any) -> int | None:
        if getattr(type(value), "__cuda_stream__", None) is not None:
            _, handle = value.__cuda_stream__()
            return int(handle)
        return super().stream_handle(value)

    def _adopt_interface(self, value: Any, interface: dict[str, Any]) -> Adopted:
        """Adopt an array by ``__cuda_array_interface__``."""
        version = interface.get("version", 0)
        if version < 2:
            raise ConversionError(f"has a __cuda_array_interface__ of version {version}, expected 2 or 3")
        if interface.get("mask") is not None:
            raise ConversionError("has a mask, which kernels do not take")
        shape, (address, read_only) = tuple(interface["shape"]), interface["data"]
        dtype = np.dtype(interface["typestr"])
        try:
            name = dtype_name_of(dtype)
        except FormatError as error:
            raise ConversionError(f"has elements of a type that devices do not support: {error}") from None
        strides = interface.get("strides")
        if strides is not None and not is_contiguous(shape, tuple(strides), dtype.itemsize):
            raise strided_error(value)
        array = self.array(None, int(address or 0), shape, name, value, read_only=bool(read_only))
        handle = interface.get("stream")
        if handle is None and library_of(value) == "pycuda":
            handle = LEGACY_STREAM  # pycuda's arrays use the default stream, unless each call names another one
        return array, self.stream_over(int(handle), value, array.device) if handle is not None else None  # type: ignore[arg-type]

    def _adopt_allocation(self, value: Any) -> Adopted:
        """Adopt untyped memory of pycuda."""
        address = int(value)
        device = self.check_pointer(address, None)
        if hasattr(value, "__len__"):
            nbytes = len(value)
        else:
            with device.context:
                start, size = device.driver.call("memory_range", address)
            nbytes = start + size - address
        return self._adopt_untyped(value, address, nbytes), device.default_stream

    def _adopt_untyped(self, value: object, address: int, nbytes: int) -> DeviceArray:
        return self.array(None, address, (nbytes,), "void", value)


ADOPTION = CudaAdoption(CUDA, devices)
