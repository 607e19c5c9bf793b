"""The Vulkan runtime module. Each shader is parsed and built at the first look-up of its
function.
"""

from __future__ import annotations

from devmod_runtime import DeviceCache, RuntimeModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_runtime import Launcher


class VulkanModule(RuntimeModule):
    """A map of SPIR-V shaders. Looking up a function parses its shader and no other."""

    target = "vulkan"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        from devmod_vulkan._shader import Shader

        shader = Shader(name, info, self.payload(self.entry(name, info))[1])
        from devmod_vulkan._launch import VulkanLauncher

        return VulkanLauncher(shader, self.once("pipelines", DeviceCache))
