"""The runtime module of Metal."""

from __future__ import annotations

from devmod.backend import Once
from devmod_runtime import RuntimeModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_runtime import Launcher


class MetalModule(RuntimeModule):
    """A map of shaders: source or libraries. The first get_function that needs a shader on a device
    builds it.
    """

    target = "metal"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        entry = self.entry(name, info)
        fmt, code = self.payload(entry)
        from devmod_metal._launch import MetalLauncher
        from devmod_metal._library import read_shader

        # The functions of a source share one object, which the module keeps, and its text.
        shader = self.once(
            ("shader", id(code)),
            lambda: read_shader(self.once("libraries", Once), entry, fmt, code),
        )
        return MetalLauncher(name, info, shader)
