"""ROCm devices. They are listed once."""

from __future__ import annotations

from devmod.backend import Once
from devmod_driver_api.device import DriverDevice, list_devices
from devmod_rocm._api import HIP
from devmod_rocm._driver import get_driver, version_text
from devmod_rocm._limits import read_limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_rocm._calls import HipDriver

_once = Once()


class RocmDevice(DriverDevice):
    """A ROCm device.

    Parameters
    ----------
    driver
        The driver.
    index
        Its number, as HIP and the other libraries of the process count.
    """

    api = HIP
    kind = HIP.kind
    vendor = "AMD"
    dlpack_type = HIP.dlpack_type
    driver: HipDriver

    def __init__(self, driver: HipDriver, index: int) -> None:
        super().__init__(driver, index)
        self.driver_version = f"HIP {version_text(driver.version)}"
        #: The processor with its features, such as "gfx90a:sramecc+:xnack-".
        self.arch = driver.device_arch(self.handle)
        self.name = self.name or self.arch.partition(":")[0]  # some cards have no name in an older runtime

    def read_limits(self) -> dict[str, int]:
        """Return the limits by HIP's attributes."""
        return read_limits(self.driver, self.handle)


def devices() -> list[RocmDevice]:
    """Return all devices in the driver's order, always the same objects. If there is none, the next call searches again.

    Raises
    ------
    DeviceNotFoundError
        There is no runtime or no device.
    """
    result: list[RocmDevice] = _once.get("devices", lambda: list_devices(get_driver(), RocmDevice, "rocminfo"))
    return result
