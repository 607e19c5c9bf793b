"""The real host module. Making one, loading one and saving one run nothing; the first get_function compiles."""

from __future__ import annotations

from devmod.backend import RealModule
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod.backend import Launcher
    from devmod_host._program import Program


class HostModule(RealModule):
    """C source. It is compiled at the first get_function, once for all its functions."""

    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        program = self.program()
        # Here, not above: this is what imports cffi.
        from devmod_host._launch import HostLauncher

        return HostLauncher(program, list(self.functions).index(name), info.name)

    def program(self) -> Program:
        """The module's program: made once, after a look at the payload that needs no compiler.

        Raises
        ------
        FormatError
            The payload is no text that a C compiler takes.
        """

        def make() -> Program:
            _, code = self.payload()  # what a replaced compiler made of it, where there is one (R31)
            text = checked(bytes(code))
            from devmod_host._program import Program

            return Program(text, list(self.functions.values()))

        made: Program = self.once("program", make)
        return made


def checked(code: bytes) -> str:
    """The text of a payload; FormatError for one that is none."""
    if not code:
        raise FormatError("the host payload of format 'c' is empty", kind="host")
    try:
        text = code.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the host payload of format 'c' is not UTF-8 text: byte {error.start} is {code[error.start]:#04x}", kind="host"
        ) from None
    if "\0" in text:
        raise FormatError(f"the host payload of format 'c' has a zero byte at {text.index(chr(0))}, which ends a source", kind="host")
    return text
