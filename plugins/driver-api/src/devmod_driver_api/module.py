"""The runtime module of a kind: its binaries, its functions and its global variables."""

from __future__ import annotations

from abc import abstractmethod

from devmod.backend import usable_functions
from devmod.errors import DevmodError
from devmod_runtime import GlobalsModule, has_compiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod_driver_api.binaries import DriverBinaries
    from devmod_driver_api.handles import Memory


class DriverModule(GlobalsModule):
    """A module whose binary a driver loads. The first get_function on a device loads it, once for
    all functions.
    """

    @abstractmethod
    def make_binaries(self, fmt: str, code: bytes, names: Sequence[str]) -> DriverBinaries:
        """Return the binaries of the payload with kernels of these names, unchecked."""

    def binaries(self) -> Any:
        """Return the module's binaries, one for each device. The first call checks the payload,
        without a driver.

        Raises
        ------
        FormatError
            The payload is not valid for the kind.
        """

        def make() -> DriverBinaries:
            assert isinstance(self.code, (bytes, memoryview))
            names = [info.name for _, info in usable_functions(self.functions)]
            binaries = self.make_binaries(self.format, bytes(self.code), names)
            try:
                binaries.check()
            except DevmodError:
                # A replaced compiler may take other sources.
                if binaries.fmt != binaries.source_format or not has_compiler(self.kind):
                    raise
            return binaries

        return self.once("binaries", make)

    def find_global(self, name: str, device: Any) -> tuple[Memory, int, object]:
        """Return the memory of a ``__device__`` or ``__constant__`` variable in the binary of a
        device, its bytes, and the binary.
        """
        from devmod_driver_api.handles import Memory

        binary = self.binaries().get(device)
        address, nbytes = binary.variable(name)
        return Memory(address, binary), nbytes, binary  # it owns the memory
