"""CUDA devices and streams. The devices are listed once; the first use of a device retains its primary context."""

from __future__ import annotations

from devmod.backend import Once
from devmod_cuda._api import CUDA
from devmod_cuda._driver import get_driver
from devmod_runtime.driver_api.device import DriverDevice, DriverStream, list_devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_cuda._calls import CudaDriver

_once = Once()


class CudaStream(DriverStream):
    """A stream of CUDA."""

    device: CudaDevice

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of this protocol, and the handle. Other libraries make streams of their own from it."""
        return 0, self.handle


class CudaDevice(DriverDevice):
    """A CUDA device. Its number is that of CUDA and of the other libraries of the process."""

    api = CUDA
    kind = CUDA.kind
    vendor = "NVIDIA"
    dlpack_type = CUDA.dlpack_type
    stream_type = CudaStream
    driver: CudaDriver


def devices() -> list[CudaDevice]:
    """Return all devices in the driver's order, always the same objects. If there is none, the next call searches again.

    Raises
    ------
    DeviceNotFoundError
        There is no driver or no device.
    """
    result: list[CudaDevice] = _once.get("devices", lambda: list_devices(get_driver(), CudaDevice, "nvidia-smi"))
    return result


def open_devices() -> list[CudaDevice]:
    """Return the devices if they have been listed, else []. Nothing is opened."""
    return devices() if "devices" in _once else []
