"""The code objects of one payload, one for each device."""

from __future__ import annotations

from devmod.backend import Once
from devmod_driver_api.images import DriverImages, LoadedImage, load_error
from devmod_rocm._driver import version_text
from devmod_rocm._image_reader import read_image
from devmod_rocm._library import loaded_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod.errors import DevmodError
    from devmod_driver_api.errors import DriverError
    from devmod_rocm._device import RocmDevice
    from devmod_rocm._image_reader import Image

#: By version of code objects, the first HIP whose compiler writes it, and that therefore loads it. Older ones may load it too.
_LOADED_BY = {5: 60000000, 6: 70000000}
#: The errors for a code object that a driver does not support.
_REFUSALS = ("hipErrorNoBinaryForGpu", "hipErrorInvalidImage", "hipErrorInvalidKernelFile", "hipErrorSharedObjectInitFailed")


class RocmImages(DriverImages):
    """The code objects of one payload and set of constants, one for each device. The parameters are those of the base class."""

    kind = "rocm"
    source_format = "hip"

    def __init__(self, fmt: str, code: bytes, names: Sequence[str], constants: Mapping[str, object] | None = None) -> None:
        super().__init__(fmt, code, names, constants)
        self._compiled = Once()
        if fmt == "hip" and self.options:
            from devmod_targets.rocm.options import is_supported

            self.check_options("hiprtc", is_supported)

    def with_constants(self, constants: Mapping[str, object]) -> RocmImages:
        return RocmImages(self.fmt, self.code, self.names, constants)

    def load(self, device: RocmDevice) -> LoadedImage:
        image = read_image(self._compile(device), device, self.names)
        return LoadedImage(device, image.data, image.kernels, lambda error: _refusal(device, image, error))

    def _compile(self, device: RocmDevice) -> bytes:
        """Return the code object for a device. A source is compiled once for each architecture."""
        if self.fmt != "hip":
            return self.code
        from devmod_rocm._hiprtc import compile_source

        code: bytes = self._compiled.get(device.arch, lambda: compile_source(self.text, self.options, device.arch, loaded_library()))
        return code


def _refusal(device: RocmDevice, image: Image, error: DriverError) -> DevmodError:
    """Return the error for a code object that the driver refuses."""
    result = load_error(device, "hsaco", error)
    if error.name in _REFUSALS and device.driver.version < _LOADED_BY.get(image.version, 0):
        result.add_note(
            f"it is a code object of version {image.version}, and the driver is that of HIP {version_text(device.driver.version)}, which "
            f"may not load this version. Update ROCm, or compile for rocm -arch={device.arch.partition(':')[0]} with "
            f"options=['-mcode-object-version={image.version - 1}']"
        )
    return result
