"""The payload of one module: compiled for each architecture, and loaded once on each device."""

from __future__ import annotations

import re
import sys

from devmod.backend import Once, Programs, compile_error
from devmod.errors import CompileError, FormatError, FunctionNotFoundError
from devmod_cuda._api import CUDA
from devmod_cuda._image import read_image
from devmod_driver_api.errors import DriverError, describe, driver_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod.errors import DevmodError
    from devmod_cuda._device import CudaDevice
    from devmod_cuda._image import Image
    from devmod_targets.nvidia import KernelEntry

#: A line of the log of the driver's compiler with an error.
_LOG_ERROR = re.compile(r"\b(error|fatal)\b")


def open_arch() -> str:
    """Return the architecture of the default device, if the devices are open; else "". Nothing is opened."""
    module = sys.modules.get("devmod_cuda._device")
    devices = module.open_devices() if module is not None else []
    return devices[0].arch if devices else ""


class Images(Programs):
    """The images of one payload and set of constants, one for each device.

    Parameters
    ----------
    fmt, code
        The payload, or the result of a replaced compiler for it.
    names
        The symbols of the kernels that the module declares.
    constants
        Values for constants of the source.
    archs
        The architectures of the program's target, for a source.
    """

    kind = "cuda"
    source_format = "cuda"

    def __init__(
        self, fmt: str, code: bytes, names: Sequence[str], constants: Mapping[str, object] | None = None, archs: Sequence[str] = ()
    ) -> None:
        super().__init__(fmt, code, constants)
        self._code = code
        self._names = names
        self._archs = archs
        self._compiled, self._loaded = Once(), Once()
        if fmt == "cuda":
            from devmod_cuda._jit import check_options

            check_options(self.options)

    def with_constants(self, constants: Mapping[str, object]) -> Images:
        return Images(self.fmt, self._code, self._names, constants, self._archs)

    def compile(self, device_arch: str) -> tuple[str, bytes]:
        """Return the format and the bytes of the image for an architecture. A source is compiled, once for all threads.

        Parameters
        ----------
        device_arch
            The architecture of the device; "" for the program's target alone.

        Raises
        ------
        CompileError, ToolchainNotFoundError
            The source cannot be compiled.
        """
        if self.fmt != "cuda":
            return self.fmt, self._code
        from devmod_cuda._jit import compile_source

        result: tuple[str, bytes] = self._compiled.get(
            device_arch, lambda: compile_source(self.text, self.options, self._archs, device_arch)
        )
        return result

    def get(self, device: CudaDevice) -> LoadedImage:
        """Return the image loaded on a device, once for all threads.

        Raises
        ------
        CompileError, FormatError
            The source does not compile, the device cannot run the image, or the driver refuses it.
        """
        image: LoadedImage = self._loaded.get(device, lambda: self._load(device))
        return image

    def _load(self, device: CudaDevice) -> LoadedImage:
        fmt, code = self.compile(device.arch)
        return LoadedImage(device, read_image(fmt, code, device, self._names))


class LoadedImage:
    """An image that the driver has loaded on a device. It is unloaded after the last reference is gone.

    Parameters
    ----------
    device, image
        The device and the image.

    Attributes
    ----------
    device, context
        The device, and its primary context.

    Raises
    ------
    CompileError, FormatError, LaunchError
        The driver refuses the image.
    """

    def __init__(self, device: CudaDevice, image: Image) -> None:
        self.device, self.context = device, device.context
        self._kernels = image.kernels
        try:
            with self.context:
                self._module = self.context.modules.create(image.data)
        except DriverError as error:
            raise _load_error(device, image.fmt, error) from error

    def entry(self, name: str) -> KernelEntry | None:
        """Return what the image declares about a kernel; None if only the driver can read the image."""
        return None if self._kernels is None else self._kernels[name]

    def function(self, name: str) -> int:
        """Return the driver's handle of a kernel.

        Raises
        ------
        FormatError
            The image has no such kernel.
        """
        try:
            with self.context:
                return self.context.driver.get_function(self._module.value, name)
        except DriverError as error:
            raise FormatError(
                f"the loaded cuda image has no kernel {name!r}, which the payload's fmap names: {describe(error)}", kind="cuda"
            ) from error

    def variable(self, name: str) -> tuple[int, int]:
        """Return the address and the bytes of a variable.

        Raises
        ------
        FunctionNotFoundError
            The image has no such variable.
        """
        try:
            with self.context:
                return self.context.driver.get_global(self._module.value, name)
        except DriverError as error:
            if error.name != "CUDA_ERROR_NOT_FOUND":
                raise driver_error(f"{self.device} cannot return the address of the global {name!r}", error, self.device) from error
            raise FunctionNotFoundError(
                f"the cuda module has no global {name!r}: its image has no variable of that name. Declare it in the source as __device__ "
                "or __constant__, outside of a namespace",
                kind="cuda",
                function=name,
            ) from None


def _load_error(device: CudaDevice, fmt: str, error: DriverError) -> DevmodError:
    """Return the error for an image that the driver refuses."""
    if error.name == CUDA.out_of_memory:
        return device.memory_error(0, f"{describe(error)} in the load of a module")
    if error.name in CUDA.sticky:
        return driver_error(f"{device} loads no module", error, device)
    if error.log and fmt == "ptx":
        lines = [line.strip() for line in error.log.splitlines() if _LOG_ERROR.search(line) and "aborted" not in line]
        return compile_error("cuda", "PTX", lines or [error.log.splitlines()[0]], error.log)
    if error.name == "CUDA_ERROR_JIT_COMPILER_NOT_FOUND":
        return CompileError(
            f"the driver of {device} cannot compile PTX: its compiler, libnvidia-ptxjitcompiler.so.1, is missing. Install the complete "
            f"driver, or use a cubin (cuda -arch={device.arch.partition(':')[0]})",
            kind="cuda",
        )
    log = f": {error.log}" if error.log else ""
    return FormatError(f"the driver of {device} refuses the cuda payload of format {fmt!r}: {describe(error)}{log}", kind="cuda")
