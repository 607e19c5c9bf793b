"""The runtime module of the kind host. The first get_function compiles; creating, loading and
saving a module runs nothing.
"""

from __future__ import annotations

from devmod_runtime import RuntimeModule, source_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_host._program import Program
    from devmod_runtime import Launcher


class HostModule(RuntimeModule):
    """C source. The first get_function compiles it, once for all its functions."""

    target = "host"

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        program = self.program()
        from devmod_host._launch import HostLauncher  # imports cffi

        return HostLauncher(program, list(self.functions).index(name), info.name)

    def program(self) -> Program:
        """Return the module's program. The first call creates it and checks the payload, without a
        compiler.

        Raises
        ------
        FormatError
            The payload is empty, is not UTF-8, or has a zero byte.
        """

        def make() -> Program:
            _, code = (
                self.payload()
            )  # the payload, or what a replaced compiler returned for it (R31)
            text = source_text("host", "the host payload of format 'c'", code)
            from devmod_host._program import Program

            return Program(text, list(self.functions.values()))

        return self.once("program", make)
