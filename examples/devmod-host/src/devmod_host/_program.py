"""Programs: the source of a module, compiled once, and the cache of the compiled libraries."""

from __future__ import annotations

from devmod.backend import DiskCache, Once
from devmod.errors import FormatError
from devmod_host import _driver
from devmod_host._device import devices
from devmod_host._headers import PRELUDE
from devmod_host._launch import stubs
from devmod_host._options import check_options
from devmod_readers.sources import closed_source, split_options
from devmod_runtime import call_uninterrupted, source_constants, specialize_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import FunctionInfo

_BINARIES = DiskCache("host")


class Program:
    """The program of a source payload with all its functions. `library` compiles it.

    Parameters
    ----------
    text
        The payload's source.
    functions
        The functions in the order of the fmap.
    """

    def __init__(self, text: str, functions: Sequence[FunctionInfo]) -> None:
        self._text = text
        self._functions = functions
        self._once = Once()

    @property
    def constants(self) -> Sequence[str]:
        """The names of the constants that the source defines."""
        return source_constants(self._text)

    def specialize(self, constants: Mapping[str, object]) -> Program:
        """Return the program with values for constants of its source. Equal values give the same object.

        Raises
        ------
        ArgumentError
            The source has no such constant, or C cannot represent a value.
        """
        key = ("specialized", *sorted((name, repr(value)) for name, value in constants.items()))
        program: Program = self._once.get(key, lambda: Program(specialize_source("host", self._text, constants), self._functions))
        return program

    def library(self) -> _driver.Library:
        """Compile the program, once for all threads. The next call after a failure tries again.

        Raises
        ------
        DeviceNotFoundError
            There is no C compiler.
        CompileError, FormatError
            The source has errors, or does not match the fmap.
        """
        # An interrupt of tempfile's clean-up may close the file of another thread.
        library: _driver.Library = self._once.get("library", lambda: call_uninterrupted(self._load))
        return library

    def _load(self) -> _driver.Library:
        options, source = split_options(self._text)
        problem = check_options(options)
        if problem:
            raise FormatError(f"the first line of the host source has {problem}", kind="host")
        body = closed_source("host", source)
        text = f'{PRELUDE}#line 1 "{_driver.SOURCE}"\n{body}\n#line 1 "{_driver.LAUNCH}"\n{stubs(self._functions)}'
        compiler = devices()[0].compiler
        key = _BINARIES.key(compiler.identity, *options, text)
        binary = _BINARIES.read(key)
        if binary is None:
            binary = compiler.build(text, options)
            _BINARIES.write(key, binary)
        return _driver.Library(binary)
