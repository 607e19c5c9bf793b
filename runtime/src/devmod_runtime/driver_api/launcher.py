"""The functions of a module."""

from __future__ import annotations

from devmod._values.dtypes import describe_value
from devmod.backend import ConversionError
from devmod.errors import ArgumentError, DevmodError, describe_error
from devmod_runtime import Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from devmod import Device, FunctionInfo, Interface, Stream
    from devmod_runtime.driver_api.adoption import Adopted, Adoption
    from devmod_runtime.driver_api.images import DriverImages
    from devmod_runtime.driver_api.kernel import DriverKernel

#: The exceptions of other libraries for a closed object, and of reading an attribute that has another form than its protocol.
_FOREIGN = (AttributeError, BufferError, LookupError, OverflowError, RuntimeError, TypeError, ValueError)


class DriverLauncher(Launcher):
    """One function of a module.

    Parameters
    ----------
    info, images
        The function, and the images of its module.
    interface
        The interface, if it is not that of `info`.

    Attributes
    ----------
    adoption : Adoption
        The arrays and streams of other libraries for the kind.
    kernel_type : type
        The class of the kernels.
    """

    adoption: Adoption
    kernel_type: type[DriverKernel]
    vec3_lanes = 3
    no_shared_memory = ""

    def __init__(self, info: FunctionInfo, images: DriverImages, interface: Interface | None = None) -> None:
        self.info = info
        self.images = images
        self.interface = interface

    @property
    def constants(self) -> Sequence[str]:
        return self.images.constants

    def kernel(self, device: Device) -> DriverKernel:
        return self.kernel_type(self.info, self.images.get(device))

    def default_device(self) -> Device:
        return self.adoption.devices()[0]

    def adopt(self, value: object) -> Adopted | None:
        try:
            return self.adoption.adopt_array(value)
        except (DevmodError, ConversionError):
            raise
        except _FOREIGN as error:
            raise ConversionError(f"is not exported by its library: {describe_error(error)}") from error

    def adopt_stream(self, value: object) -> Stream | None:
        try:
            return self.adoption.adopt_stream(value)
        except DevmodError:
            raise
        except _FOREIGN as error:
            raise ArgumentError(
                f"stream= is {describe_value(value)} that is not exported by its library: {describe_error(error)}",
                kind=self.kind,
                argument="stream",
            ) from error

    def local(self, nbytes: int) -> Any:
        raise ConversionError(
            f"is a Local, and {self.adoption.api.title} kernels take no shared memory as an argument: declare it in the kernel as extern "
            "__shared__, and pass shared_memory="
        )

    def specialize(self, constants: Mapping[str, object]) -> Self:
        images, interface = self.images.specialize(constants), self.info.interface
        if interface is None or interface.block is None:
            return type(self)(self.info, images)
        # The block size in the interface may depend on the constants, so it is read from the kernel that was built with them.
        block = type(self)(self.info, images).kernel(self.default_device()).required_block
        return type(self)(self.info, images, interface.replace(block=block))
