"""The payload of one module: compiled for each architecture, and loaded once on each device."""

from __future__ import annotations

import re
import sys

from devmod.backend import compile_error
from devmod.errors import CompileError
from devmod_cuda._api import CUDA
from devmod_cuda._image_reader import check_payload, read_image
from devmod_runtime.driver_api.images import DriverImages, LoadedImage, load_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod.errors import DevmodError
    from devmod_cuda._device import CudaDevice
    from devmod_runtime.driver_api.errors import DriverError

#: A line of the log of the driver's compiler with an error.
_LOG_ERROR = re.compile(r"\b(error|fatal)\b")


def open_arch() -> str:
    """Return the architecture of the default device, if the devices are open; else "". Nothing is opened."""
    module = sys.modules.get("devmod_cuda._device")
    devices = module.open_devices() if module is not None else []
    return devices[0].arch if devices else ""


class Images(DriverImages):
    """The images of one payload and set of constants, one for each device.

    Parameters
    ----------
    fmt, code, names, constants
        As for the base class.
    archs
        The architectures of the program's target, for a source.
    """

    kind = "cuda"
    source_format = "cuda"
    compiler = "NVRTC"
    check_payload = staticmethod(check_payload)

    def __init__(
        self, fmt: str, code: bytes, names: Sequence[str], constants: Mapping[str, object] | None = None, archs: Sequence[str] = ()
    ) -> None:
        super().__init__(fmt, code, names, constants)
        self.archs = tuple(archs)

    def with_constants(self, constants: Mapping[str, object]) -> Images:
        return Images(self.fmt, self.code, self.names, constants, self.archs)

    @staticmethod
    def is_option(option: str) -> bool:
        from devmod_readers.options.cuda import is_supported

        return is_supported(option)

    def compile_source(self, arch: str) -> tuple[str, bytes]:
        from devmod_cuda._jit import compile_source

        return compile_source(self.text, self.options, arch)

    def load(self, device: CudaDevice) -> LoadedImage:
        from devmod_cuda._jit import choose_arch

        fmt, code = self.compiled(choose_arch(self.archs, device.arch) if self.fmt == "cuda" else "")
        image = read_image(fmt, code, device, self.names)
        return LoadedImage(device, image.data, image.kernels, lambda error: _load_error(device, fmt, error))


def _load_error(device: CudaDevice, fmt: str, error: DriverError) -> DevmodError:
    """Return the error for an image that the driver refuses."""
    if error.log and fmt == "ptx" and error.name not in (CUDA.out_of_memory, *CUDA.sticky):
        lines = [line.strip() for line in error.log.splitlines() if _LOG_ERROR.search(line) and "aborted" not in line]
        return compile_error("cuda", "PTX", lines or [error.log.splitlines()[0]], error.log)
    if error.name == "CUDA_ERROR_JIT_COMPILER_NOT_FOUND":
        return CompileError(
            f"the driver of {device} cannot compile PTX: its compiler, libnvidia-ptxjitcompiler.so.1, is missing. Install the complete "
            f"driver, or use a cubin (cuda -arch={device.arch.partition(':')[0]})",
            kind="cuda",
        )
    return load_error(device, fmt, error)
