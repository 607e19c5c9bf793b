"""The functions of a CUDA module, and arrays and streams of other libraries as their arguments."""

from __future__ import annotations

from devmod_cuda._adopt import adopt_array, adopt_stream
from devmod_cuda._device import CudaDevice, devices
from devmod_cuda._kernel import CudaKernel
from devmod_cuda._parameters import tensor_map_interface
from devmod_runtime.driver_api.launcher import DriverLauncher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device, FunctionInfo, Interface, Stream
    from devmod_runtime import DeviceArray
    from devmod_runtime.driver_api.images import DriverImages


class CudaLauncher(DriverLauncher):
    """One function of a CUDA module."""

    kind = "cuda"
    title = "CUDA"

    def __init__(self, info: FunctionInfo, images: DriverImages, interface: Interface | None = None) -> None:
        super().__init__(info, images, interface if interface is not None else tensor_map_interface(info))

    def devices(self) -> Sequence[Device]:
        return devices()

    def kernel(self, device: Device) -> CudaKernel:
        assert isinstance(device, CudaDevice)
        return CudaKernel(self.info, self.images.get(device))

    def adopt(self, value: object) -> tuple[DeviceArray, Stream | None] | None:
        return adopt_array(value)

    def adopt_stream(self, value: object) -> Stream | None:
        return adopt_stream(value)
