"""The WebGPU runtime module, and the shaders that it compiles."""

from __future__ import annotations

import sys

from devmod.errors import CompileError, FormatError
from devmod_runtime import DeviceCache, RuntimeModule, source_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_readers.reflection import ReflectedFunction
    from devmod_runtime import Launcher


class WebGPUModule(RuntimeModule):
    """A map of WGSL texts by entry name. The first `get_function` for a device compiles the shader.
    Equal texts are compiled once.
    """

    target = "webgpu"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        text = self.text(name, info)
        if "devmod_webgpu._driver" not in sys.modules:
            from devmod_webgpu import _trial

            _trial.expect(text)
        from devmod_webgpu._launch import WebGPULauncher

        return WebGPULauncher(
            name, info, text, self.reflected(text), self.once("shaders", DeviceCache)
        )

    def text(self, name: str, info: FunctionInfo) -> str:
        """Return the shader of a function.

        Raises
        ------
        FormatError
            The map has no such shader, or it is not text with a compute entry point.
        CompileError
            The text would make naga end the process.
        """
        entry = self.entry(name, info)
        code = self.payload(entry)[1]
        # The functions of a source share one object, which the module keeps, and its text.
        return self.once(("text", id(code)), lambda: self._read_text(entry, code))

    def _read_text(self, entry: str, code: bytes | memoryview) -> str:
        from devmod_wgsl import check_for_naga

        text = source_text("webgpu", f"the webgpu shader {entry!r}", code)
        # wgpu also accepts GLSL. Only WGSL may reach it.
        if "@compute" not in text.replace(" ", ""):
            raise FormatError(
                f"the webgpu shader {entry!r} has no compute entry point: expected a function with @compute",
                kind="webgpu",
            )
        # Equal texts may be several objects.
        self.once(("for naga", text), lambda: check_for_naga(text, entry))
        return text

    def reflected(self, text: str) -> dict[str, ReflectedFunction]:
        """Return the compute entry points of a text; none if devmod's reader refuses it, and the
        device's compiler decides.
        """
        from devmod_wgsl import read_wgsl

        def read() -> dict[str, ReflectedFunction]:
            try:
                return read_wgsl(text, "")
            except CompileError:
                return {}

        return self.once(("reflected", text), read)
