"""The functions of a ROCm module, and arrays and streams of other libraries as their arguments."""

from __future__ import annotations

from devmod_rocm._adopt import adopt_array, adopt_stream
from devmod_rocm._device import RocmDevice, devices
from devmod_rocm._kernel import RocmKernel
from devmod_runtime.driver_api.launcher import DriverLauncher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device, Stream
    from devmod_runtime import DeviceArray


class RocmLauncher(DriverLauncher):
    """One function of a ROCm module."""

    kind = "rocm"
    title = "ROCm"

    def devices(self) -> Sequence[Device]:
        return devices()

    def kernel(self, device: Device) -> RocmKernel:
        assert isinstance(device, RocmDevice)
        return RocmKernel(self.info, self.images.get(device))

    def adopt(self, value: object) -> tuple[DeviceArray, Stream | None] | None:
        return adopt_array(value)

    def adopt_stream(self, value: object) -> Stream | None:
        return adopt_stream(value)
