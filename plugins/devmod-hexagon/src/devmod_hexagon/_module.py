"""The Hexagon runtime module. A runner loads the shared object when one of its functions is first
used there.
"""

from __future__ import annotations

from devmod.errors import FormatError, FunctionNotFoundError, did_you_mean, list_names
from devmod_readers.variables import read_variables
from devmod_runtime import GlobalsModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod import FunctionInfo
    from devmod_hexagon._launch import LoadedBinaries
    from devmod_hexagon._runner import Memory
    from devmod_runtime import Launcher


class HexagonModule(GlobalsModule):
    """A shared object for Hexagon."""

    target = "hexagon"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        from devmod_hexagon._binary import PACKED, is_packed

        if is_packed(info, self.payload()[1]):
            raise FormatError(PACKED, kind="hexagon", function=name)
        from devmod_hexagon._launch import HexagonLauncher

        return HexagonLauncher(name, info, self._binaries())

    def find_global(self, name: str, device: Any) -> tuple[Memory, int, None]:
        from devmod_hexagon._runner import Memory, Runner

        runner = device.runner()
        binary = self._binaries().get(runner, device)
        address, nbytes = runner.request(Runner.symbol, binary, name)
        if not nbytes:
            variables = read_variables(bytes(self.payload()[1]))
            if name not in variables:
                raise FunctionNotFoundError(
                    f"the hexagon module has no global {name!r}: it exports the variables of its source that are not static, "
                    f"{list_names(variables)}{did_you_mean(name, variables)}",
                    kind="hexagon",
                    function=name,
                )
            address, nbytes = runner.request(Runner.symbol, binary, variables[name])
        return Memory(runner, address, nbytes, binary), nbytes, None

    def _binaries(self) -> LoadedBinaries:
        from devmod_hexagon._launch import LoadedBinaries

        return self.once("binaries", lambda: LoadedBinaries(*self.payload()))
