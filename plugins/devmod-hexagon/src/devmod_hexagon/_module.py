"""The Hexagon runtime module. A runner loads the shared object when one of its functions is first
used there.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from devmod.backend import find_spec
from devmod.errors import FormatError, FunctionNotFoundError, did_you_mean, list_names
from devmod_readers.variables import read_variables
from devmod_runtime import GlobalsModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod import FunctionInfo
    from devmod.backend import Binary
    from devmod_hexagon._device import HexagonDevice
    from devmod_hexagon._runner import LoadedBinary, Memory, RunnerThread
    from devmod_runtime import Launcher


class HexagonModule(GlobalsModule):
    """A shared object for Hexagon."""

    target = "hexagon"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        from devmod_hexagon._binary import PACKED, is_packed

        if is_packed(info, self.payload()[1]):
            raise FormatError(PACKED, kind="hexagon", function=name)
        from devmod_hexagon._launch import HexagonLauncher

        return HexagonLauncher(name, info, self.binary)

    def find_global(self, name: str, device: Any) -> tuple[Memory, int, None]:
        from devmod_hexagon._runner import Memory, Runner

        runner = device.runner()
        binary = self.binary(runner, device)
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

    def binary(self, runner: RunnerThread, device: HexagonDevice) -> LoadedBinary:
        """Return the binary of the module in a runner. It is loaded once for all threads."""
        binaries: WeakKeyDictionary[RunnerThread, LoadedBinary] = self.once(
            "binaries", WeakKeyDictionary
        )
        with runner.lock:
            binary = binaries.get(runner)
            if binary is None:
                code = self._checked_code(device)
                from devmod_hexagon._binary import read_extent
                from devmod_hexagon._runner import Runner

                binary = binaries[runner] = runner.request(Runner.load, code, *read_extent(code))
            return binary

    def _checked_code(self, device: HexagonDevice) -> Binary:
        """Return the payload, if the device can run its architecture."""
        spec = find_spec("hexagon")
        assert spec is not None
        assert spec.architecture is not None
        assert spec.rank is not None
        fmt, code = self.payload()
        variant = spec.architecture(fmt, code)
        if not variant:
            raise FormatError(
                "the hexagon payload of format 'so' has no readable architecture, so it is not a shared object for Hexagon",
                kind="hexagon",
            )
        if spec.rank(variant, device.arch) is None:
            raise FormatError(
                f"the hexagon module is built for {variant}, and {device} is a {device.arch}: a core runs code for its own version and for "
                f"older ones. Compile it with the target 'hexagon -arch={device.arch}'",
                kind="hexagon",
            )
        return code
