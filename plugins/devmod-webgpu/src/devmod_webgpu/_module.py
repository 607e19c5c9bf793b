"""The real WebGPU module, and the shaders that it compiles."""

from __future__ import annotations

from devmod.backend import RealModule, source_text
from devmod.errors import FormatError
from devmod_targets.webgpu import check_for_naga

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod import FunctionInfo
    from devmod.backend import Launcher
    from devmod_webgpu._device import WebGPUDevice


class WebGPUModule(RealModule):
    """A map of entry name to WGSL text. A shader is compiled for a device at the first get_function on it, equal texts once."""

    target = "webgpu"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        text = self.text(name, info)
        from devmod_webgpu._launch import WebGPULauncher

        return WebGPULauncher(name, info, text, self)

    def text(self, name: str, info: FunctionInfo) -> str:
        """The shader of a function.

        Raises
        ------
        FormatError
            The map has none, or it is no text with a compute entry.
        CompileError
            naga would end the process on it.
        """
        entry = self.entry(name, info)
        text = source_text("webgpu", f"the webgpu shader {entry!r}", self.payload(entry)[1])
        # What is no WGSL never gets to wgpu, which takes GLSL too.
        if "@compute" not in text.replace(" ", ""):
            raise FormatError(f"the webgpu shader {entry!r} has no compute entry: no function in it is marked @compute", kind="webgpu")
        self.once(("for naga", text), lambda: check_for_naga(text, entry))  # functions of one file have one text
        return text

    def shader(self, device: WebGPUDevice, text: str) -> Any:
        """wgpu's shader module of a text, one for all functions with the same.

        Raises
        ------
        CompileError
            wgpu refuses it; `log` has naga's words.
        """
        from devmod_webgpu._kernel import compile_shader

        return self.once(("shader", device, text), lambda: compile_shader(device, text))
