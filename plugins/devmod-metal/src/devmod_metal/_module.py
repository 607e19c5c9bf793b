"""The runtime module of Metal."""

from __future__ import annotations

from devmod_runtime import RuntimeModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_metal._library import Libraries
    from devmod_runtime import Launcher


class MetalModule(RuntimeModule):
    """A map of shaders: source or libraries. The first get_function that needs a shader on a device builds it."""

    target = "metal"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        entry = self.entry(name, info)
        (fmt, code), libraries = self.payload(entry), self._libraries()
        # The functions of a source share one object, which the module keeps, and its text.
        shader = self.once(("shader", id(code)), lambda: libraries.shader(entry, fmt, code))
        from devmod_metal._launch import MetalLauncher

        return MetalLauncher(name, info, shader)

    def _libraries(self) -> Libraries:
        from devmod_metal._library import Libraries

        libraries: Libraries = self.once("libraries", Libraries)
        return libraries
