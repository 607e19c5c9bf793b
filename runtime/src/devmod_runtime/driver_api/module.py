"""The runtime module of a kind: its images, its functions and its global variables."""

from __future__ import annotations

from abc import abstractmethod

from devmod.errors import DevmodError
from devmod_runtime import RuntimeModule, global_array, has_compiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod import Array, Device
    from devmod_runtime.driver_api.handles import Memory
    from devmod_runtime.driver_api.images import DriverImages


class DriverModule(RuntimeModule):
    """A module whose image a driver loads. The first get_function on a device loads it, once for all functions."""

    @abstractmethod
    def make_images(self) -> DriverImages:
        """Return the images of the payload, unchecked."""

    def images(self) -> Any:
        """Return the module's images, one for each device. The first call checks the payload, without a driver.

        Raises
        ------
        FormatError
            The payload is not valid for the kind.
        """

        def make() -> DriverImages:
            images = self.make_images()
            try:
                images.check()
            except DevmodError:
                if images.fmt != images.source_format or not has_compiler(self.kind):  # a replaced compiler may take other sources
                    raise
            return images

        return self.once("images", make)

    @property
    def symbols(self) -> list[str]:
        """The symbols of the module's functions."""
        return [info.name for info in self.functions.values()]

    def get_global(self, name: str, device: Device | None = None, *, dtype: str | None = None, **options: Any) -> Array:
        """Return a ``__device__`` or ``__constant__`` variable as an array over its memory. The array keeps the loaded image alive.

        Parameters
        ----------
        name
            The variable's name in the source, with its namespaces, or its symbol.
        device
            The device; None for that of a call that names none. Each device has a variable of its own.
        dtype
            The element type of an array of one dimension. None for the type and the shape in the source, if the compiler has stored them,
            or else for bytes.

        Raises
        ------
        FunctionNotFoundError
            The image has no such variable.
        ArgumentError
            `device` is of another kind, or the variable is not a whole number of elements of `dtype`.
        """

        def find(device: Any) -> tuple[Memory, int, object]:
            from devmod_runtime.driver_api.handles import Memory

            image = self.images().get(device)
            address, nbytes = image.variable(name)
            return Memory(address, image), nbytes, image  # the image owns the memory, so the array keeps it loaded

        return global_array(self.kind, name, device, dtype, options, find, self.functions)
