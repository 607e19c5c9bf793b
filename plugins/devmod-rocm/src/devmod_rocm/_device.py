"""ROCm devices. They are listed once."""

from __future__ import annotations

from devmod.backend import Once
from devmod_rocm._api import HIP
from devmod_rocm._driver import get_driver
from devmod_runtime.driver_api.device import DriverDevice, list_devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_rocm._calls import HipDriver

_once = Once()


class RocmDevice(DriverDevice):
    """A ROCm device. Its number is that of HIP and of the other libraries of the process."""

    api = HIP
    kind = HIP.kind
    vendor = "AMD"
    dlpack_type = HIP.dlpack_type
    driver: HipDriver


def devices() -> list[RocmDevice]:
    """Return all devices in the driver's order, always the same objects. If there is none, the next call searches again.

    Raises
    ------
    DeviceNotFoundError
        There is no runtime or no device.
    """
    result: list[RocmDevice] = _once.get("devices", lambda: list_devices(get_driver(), RocmDevice, "rocminfo"))
    return result
