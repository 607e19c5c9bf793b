"""Programs: a module's source compiled once, and the folder that keeps what the compiler made."""

from __future__ import annotations

from devmod.backend import Kept, Once, specialize_source, split_options
from devmod.errors import FormatError
from devmod_host import _driver
from devmod_host._device import devices
from devmod_host._headers import PRELUDE
from devmod_host._launch import stubs
from devmod_host._options import check_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import FunctionInfo


class Program:
    """The program of a source payload with all its functions. Nothing is compiled before `library` is asked for.

    Parameters
    ----------
    text
        The payload's source.
    functions
        Its functions, in the order of the fmap.
    """

    def __init__(self, text: str, functions: Sequence[FunctionInfo]) -> None:
        self._text = text
        self._functions = functions
        self._made = Once()

    def specialized(self, constants: Mapping[str, object]) -> Program:
        """The program with constants of its source set; the same object for the same constants.

        Raises
        ------
        ArgumentError
            The source has no such constant, or a value has no form in C.
        """
        key = ("specialized", *sorted((name, repr(value)) for name, value in constants.items()))
        made: Program = self._made.get(key, lambda: Program(specialize_source("host", self._text, constants), self._functions))
        return made

    def library(self) -> _driver.Library:
        """The compiled program, once for all threads. A failure is not kept.

        Raises
        ------
        DeviceNotFoundError
            There is no C compiler.
        CompileError, FormatError
            The source does not compile, or is not what the payload says.
        """
        made: _driver.Library = self._made.get("library", self._load)
        return made

    def _load(self) -> _driver.Library:
        options, body = split_options(self._text)
        wrong = check_options(options)
        if wrong:
            raise FormatError(f"the host source's first line has {wrong}", kind="host")
        text = f'{PRELUDE}#line 1 "{_driver.SOURCE}"\n{body}\n#line 1 "{_driver.LAUNCH}"\n{stubs(self._functions)}'
        compiler = devices()[0].compiler
        kept = Kept("host", compiler.identity, *options, text)
        binary = kept.read()
        if not binary:
            binary = compiler.build(text, options)
            kept.write(binary)
        return _driver.Library(binary)
