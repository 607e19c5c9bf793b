"""CUDA devices. They are listed once; the first use of a device retains its primary context."""

from __future__ import annotations

from devmod.backend import Once
from devmod_cuda._api import CUDA
from devmod_cuda._driver import get_driver, version_text
from devmod_cuda._limits import read_arch, read_limits
from devmod_cuda._stream import CudaStream
from devmod_driver_api.device import DriverDevice, list_devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_cuda._calls import CudaDriver

_once = Once()


class CudaDevice(DriverDevice):
    """A CUDA device.

    Parameters
    ----------
    driver
        The driver.
    index
        Its number, as CUDA and the other libraries of the process count.
    """

    api = CUDA
    kind = CUDA.kind
    vendor = "NVIDIA"
    dlpack_type = CUDA.dlpack_type
    stream_type = CudaStream
    driver: CudaDriver

    def __init__(self, driver: CudaDriver, index: int) -> None:
        super().__init__(driver, index)
        self.driver_version = f"CUDA {version_text(driver.version)}"
        self.arch = read_arch(driver, self.handle)

    def read_limits(self) -> dict[str, int]:
        """Return the limits, with CUDA's names of the attributes in lower case."""
        return read_limits(self.driver, self.handle)


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
