"""The places of a launch's arguments on the device."""

from __future__ import annotations

from devmod.errors import FormatError
from devmod_vulkan._driver import vk
from devmod_vulkan._shader import bytes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_vulkan._shader import Shader

STORAGE = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
UNIFORM = vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER


class Places:
    """The places of a launch's arguments: descriptor sets, uniform buffers, push constants.

    Attributes
    ----------
    bindings : dict
        The descriptor type of each (set, binding).
    sets : int
        The number of sets: one more than the highest set number.
    buffers : list of (int, (int, int))
        The number and the (set, binding) of each buffer argument.
    uniforms : list of (int, int, (int, int))
        For each uniform buffer: the number of the argument with its content, or -1 minus the number of the block; its size; its
        (set, binding).
    push : int
        The number of the block of push constants; -1 for none.
    push_size : int
        Its size in bytes, rounded up to a multiple of 4 as Vulkan requires.
    """

    def __init__(self, shader: Shader) -> None:
        interface = shader.interface
        self.buffers: list[tuple[int, tuple[int, int]]] = []
        self.uniforms: list[tuple[int, int, tuple[int, int]]] = []
        self.bindings: dict[tuple[int, int], int] = {}
        self.push, self.push_size = -1, 0
        for number, param in enumerate(interface.params):
            if param.kind in ("buffer", "uniform"):
                at = self._place(shader, param.at, STORAGE if param.kind == "buffer" else UNIFORM)
                if param.kind == "buffer":
                    self.buffers.append((number, at))
                else:
                    self.uniforms.append((number, bytes_of(param.type), at))
        for number, block in enumerate(interface.blocks):
            if block.at == "push":
                self.push, self.push_size = number, -(-block.size // 4) * 4
            else:
                self.uniforms.append((-1 - number, block.size, self._place(shader, block.at, UNIFORM)))
        self.sets = max((number for number, _ in self.bindings), default=-1) + 1

    def _place(self, shader: Shader, at: Any, kind: int) -> tuple[int, int]:
        if not isinstance(at, tuple) or max(at) > 0xFFFF or at in self.bindings:
            problem = "which another argument uses" if at in self.bindings else "expected (set, binding)"
            raise FormatError(
                f"the interface of the vulkan function {shader.name!r} places an argument at {at!r}, {problem}",
                kind="vulkan",
                function=shader.name,
            )
        self.bindings[at] = kind
        return at
