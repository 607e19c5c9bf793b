"""The Vulkan runtime module. Each shader is parsed and built at the first look-up of its
function.
"""

from __future__ import annotations

from devmod_runtime import RuntimeModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_runtime import Launcher
    from devmod_vulkan._device import VulkanDevice
    from devmod_vulkan._pipeline import Pipeline
    from devmod_vulkan._shader import Shader


class VulkanModule(RuntimeModule):
    """A map of SPIR-V shaders. Looking up a function parses its shader and no other."""

    target = "vulkan"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        from devmod_vulkan._shader import Shader

        shader = Shader(name, info, self.payload(self.entry(name, info))[1])
        from devmod_vulkan._launch import VulkanLauncher

        return VulkanLauncher(shader, self._build)

    def _build(
        self, shader: Shader, device: VulkanDevice, constants: tuple[tuple[int, bytes], ...]
    ) -> Pipeline:
        """Return the pipeline of a shader on a device. Functions with equal shaders and equal
        places of arguments share it.
        """
        from devmod_vulkan import _pipeline

        logical = device.logical
        interface = shader.interface
        layout = (
            tuple(interface.params),
            tuple(interface.blocks),
            interface.subgroup,
        )  # their reprs omit places
        key = ("pipeline", device, shader.words, shader.entry, layout, constants)
        return self.once(key, lambda: _pipeline.Pipeline(shader, logical, constants))
