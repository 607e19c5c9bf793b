"""The real Metal module."""

from __future__ import annotations

from devmod.backend import RealModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod.backend import Launcher
    from devmod_metal._library import Libraries


class MetalModule(RealModule):
    """A map of shaders, source or libraries. Each is built for a device at the first get_function that needs it there."""

    target = "metal"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        entry = self.entry(name, info)
        shader = self._libraries().shader(entry, *self.payload(entry))
        from devmod_metal._launch import MetalLauncher

        return MetalLauncher(name, info, shader)

    def _libraries(self) -> Libraries:
        from devmod_metal._library import Libraries

        made: Libraries = self.once("libraries", Libraries)
        return made
