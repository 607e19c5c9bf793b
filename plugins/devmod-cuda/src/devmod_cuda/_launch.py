"""The functions of a CUDA module, and arrays and streams of other libraries as their arguments."""

from __future__ import annotations

from devmod.backend import ConversionError, Launcher
from devmod_cuda._adopt import adopt_array, adopt_stream
from devmod_cuda._device import CudaDevice, devices
from devmod_cuda._kernel import CudaKernel
from devmod_cuda._parameters import tensor_map_interface

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Interface, Stream
    from devmod.backend import DeviceArray
    from devmod_cuda._images import Images


class CudaLauncher(Launcher):
    """One function of a CUDA module."""

    kind = "cuda"
    vec3_lanes = 3
    no_shared_memory = ""

    def __init__(self, info: FunctionInfo, images: Images, interface: Interface | None = None) -> None:
        self._info = info
        self._images = images
        self._interface = interface if interface is not None else tensor_map_interface(info)

    @property
    def interface(self) -> Interface | None:
        return self._interface

    @property
    def constants(self) -> Sequence[str]:
        return self._images.constants

    def default_device(self) -> Device:
        return devices()[0]

    def kernel(self, device: Device) -> CudaKernel:
        assert isinstance(device, CudaDevice)
        return CudaKernel(self._info, self._images.get(device))

    def local(self, nbytes: int) -> Any:
        raise ConversionError(
            "is a Local, and CUDA kernels take no shared memory as an argument: declare it in the kernel as extern __shared__, and pass "
            "shared_memory="
        )

    def specialize(self, constants: Mapping[str, object]) -> CudaLauncher:
        images, interface = self._images.specialize(constants), self._info.interface
        if interface is None or interface.block is None:
            return CudaLauncher(self._info, images)
        # The block size in the interface may depend on the constants, so ask the kernel that was built with them.
        device = self.default_device()
        assert isinstance(device, CudaDevice)
        fixed = CudaKernel(self._info, images.get(device)).fixed
        return CudaLauncher(self._info, images, interface.replace(block=fixed))

    def adopt(self, value: object) -> tuple[DeviceArray, Stream | None] | None:
        return adopt_array(value)

    def adopt_stream(self, value: object) -> Stream | None:
        return adopt_stream(value)
