"""The code objects of one payload, one for each device."""

from __future__ import annotations

from devmod_rocm._api import HIP
from devmod_rocm._image_reader import check_payload, read_image
from devmod_rocm._library import loaded_library
from devmod_runtime.driver_api.images import DriverImages, LoadedImage, load_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod.errors import DevmodError
    from devmod_rocm._device import RocmDevice
    from devmod_rocm._image_reader import Image
    from devmod_runtime.driver_api.api import DriverError

#: By version of code objects, the first HIP whose compiler writes it, and that therefore loads it. Older ones may load it too.
_LOADED_BY = {5: 60000000, 6: 70000000}
#: The errors for a code object that a driver does not support.
_REFUSALS = ("hipErrorNoBinaryForGpu", "hipErrorInvalidImage", "hipErrorInvalidKernelFile", "hipErrorSharedObjectInitFailed")


class RocmImages(DriverImages):
    """The code objects of one payload and set of constants, one for each device. The parameters are those of the base class."""

    kind = "rocm"
    source_format = "hip"
    compiler = "hiprtc"
    check_payload = staticmethod(check_payload)

    def with_constants(self, constants: Mapping[str, object]) -> RocmImages:
        return RocmImages(self.fmt, self.code, self.names, constants)

    @staticmethod
    def is_option(option: str) -> bool:
        from devmod_readers.options.rocm import is_supported

        return is_supported(option)

    def compile_source(self, arch: str) -> tuple[str, bytes]:
        from devmod_rocm._hiprtc import compile_source

        return "hsaco", compile_source(self.text, self.options, arch, loaded_library())

    def load(self, device: RocmDevice) -> LoadedImage:
        image = read_image(self.compiled(device.arch)[1], device, self.names)
        return LoadedImage(device, image.data, image.kernels, lambda error: _refusal(device, image, error))


def _refusal(device: RocmDevice, image: Image, error: DriverError) -> DevmodError:
    """Return the error for a code object that the driver refuses."""
    result = load_error(device, "hsaco", error)
    version = device.driver.version
    if error.name in _REFUSALS and version < _LOADED_BY.get(image.version, 0):
        result.add_note(
            f"it is a code object of version {image.version}, and the driver is that of HIP {HIP.version_text(version)}, which "
            f"may not load this version. Update ROCm, or compile for rocm -arch={device.arch.partition(':')[0]} with "
            f"options=['-mcode-object-version={image.version - 1}']"
        )
    return result
