"""The runtime module of a kind: its images, its functions and its global variables."""

from __future__ import annotations

from abc import abstractmethod

from devmod.errors import DevmodError
from devmod_runtime import GlobalsModule, has_compiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_runtime.driver_api.handles import Memory
    from devmod_runtime.driver_api.images import DriverImages


class DriverModule(GlobalsModule):
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

    def find_global(self, name: str, device: Any) -> tuple[Memory, int, object]:
        """Return the memory of a ``__device__`` or ``__constant__`` variable in the image of a device, its bytes, and the image."""
        from devmod_runtime.driver_api.handles import Memory

        image = self.images().get(device)
        address, nbytes = image.variable(name)
        return Memory(address, image), nbytes, image  # it owns the memory
