"""Use arrays and streams of PyTorch for ROCm, CuPy for ROCm, JAX and hip-python as devmod's, without a copy."""

from __future__ import annotations

from devmod.errors import ArgumentError
from devmod_rocm._api import HIP
from devmod_rocm._device import devices
from devmod_runtime.driver_api.adoption import Adoption, library_of
from devmod_runtime.driver_api.errors import DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_runtime.driver_api.device import DriverDevice

#: hip-python's class of streams. Its package is hip, and rocm from version 10 on.
_HIP_PYTHON, _HIP_PYTHON_STREAM = ("hip", "rocm"), "ihipStream_t"


class RocmAdoption(Adoption):
    """The arrays and the streams of other libraries for ROCm."""

    def stream_handle(self, value: Any) -> int | None:
        if type(value).__name__ == _HIP_PYTHON_STREAM and library_of(value) in _HIP_PYTHON:
            return int(value)
        return super().stream_handle(value)

    def device_of_stream(self, value: Any, handle: int) -> DriverDevice:
        items = self.devices()
        if len(items) == 1:
            return items[0]
        try:
            return super().device_of_stream(value, handle)
        except ArgumentError as error:
            # HIP 5 cannot return the device of a stream. PyTorch's and CuPy's objects have it.
            cause = error.__cause__
            device = self.device_attribute(value) if isinstance(cause, DriverError) and cause.name == HIP.not_supported else None
            if device is None:
                raise
            return device


ADOPTION = RocmAdoption(HIP, devices)
