"""What the real modules of all payload kinds share: functions made once, and the compile step that a receiver may replace."""

from __future__ import annotations

from abc import abstractmethod

from devmod._once import Once
from devmod._payload import PayloadModule
from devmod.errors import FormatError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from typing import Any, Self

    from devmod._info import FunctionInfo
    from devmod._launch.function import Function
    from devmod._launch.launcher import Launcher
    from devmod._payload import Binary, Code, Source
    from devmod.targets import TargetSpec


def source_text(kind: str, what: str, code: Binary) -> str:
    """A payload that is source, as text.

    Parameters
    ----------
    kind, what
        The kind, and what it is in a message, such as "the opencl payload of format 'cl'".
    code
        The payload.

    Raises
    ------
    FormatError
        It is empty, no UTF-8, or has a zero byte, which ends a source.
    """
    if not len(code):
        raise FormatError(f"{what} is empty", kind=kind)
    try:
        text = str(code, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{what} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}", kind=kind) from None
    if "\0" in text:
        raise FormatError(f"{what} has a zero byte at {text.index(chr(0))}, which ends a source", kind=kind)
    return text


class RealModule(PayloadModule):
    """A module that can run. A backend gives `launcher`; nothing here opens a driver before the first get_function.

    The parameters are those of `PayloadModule`.

    Attributes
    ----------
    target : str
        The kind whose spec `create`, `load` and `read` take. A backend sets it, and its entry points are then one call each.
    """

    target: str = ""

    def __init__(
        self,
        spec: TargetSpec,
        fmt: str,
        fmap: Mapping[str, FunctionInfo],
        code: Code,
        source: Source | None = None,
        *,
        wire: Binary | None = None,
    ) -> None:
        super().__init__(spec, fmt, fmap, code, source, wire=wire)
        self._made = Once()

    @classmethod
    def create(cls, code: Code, fmt: str, fmap: Mapping[str, FunctionInfo], source: Source | None = None) -> Self:
        """The module of a payload; the arguments are those of `devmod.create`."""
        return cls(cls._own_spec(), fmt, fmap, code, source)

    @classmethod
    def load(cls, data: Binary) -> Self:
        """The module in the bytes that `save_to_bytes` gave, as `from_wire` reads them."""
        return cls.from_wire(cls._own_spec(), data)

    @classmethod
    def read(cls, path: str, fmt: str) -> Self:
        """The module of a payload file and the metadata file beside it, as `devmod.backend.read_payload` reads them."""
        from devmod._formats.raw import read_payload

        spec = cls._own_spec()
        fmt, fmap, code = read_payload(spec, path, fmt)
        return cls(spec, fmt, fmap, code)

    @classmethod
    def _own_spec(cls) -> TargetSpec:
        from devmod.targets import find_spec

        spec = find_spec(cls.target)
        assert spec is not None, f"{cls.__name__}.target is {cls.target!r}, which no spec is of"
        return spec

    @classmethod
    def from_wire(cls, spec: TargetSpec, data: Binary) -> Self:
        """The module in the bytes that `save_to_bytes` gave; it gives those very bytes back (R19).

        Raises
        ------
        FormatError
            `data` is no such bytes.
        """
        from devmod._formats.wire import decode, kept

        data = kept(data)  # what is compiled at the first use is what was loaded, also where the caller reads the next file into its buffer
        fmt, fmap, code = decode(spec, data)
        return cls(spec, fmt, fmap, code, wire=data)

    @abstractmethod
    def launcher(self, name: str, info: FunctionInfo) -> Launcher:
        """The launcher of one of the module's functions. It may open the driver."""

    def get_function(self, name: str, query_imports: bool = False) -> Function:
        """The function of that name, built for the first device, once for all threads that ask.

        Raises
        ------
        FunctionNotFoundError
            There is none of that name; no driver was opened to find out.
        DeviceNotFoundError, CompileError, FormatError
            There is one, and why it cannot run here.
        """
        owner, info = self.find_function(name, query_imports)
        if owner is not self:
            found: Function = owner.get_function(name)
            return found
        made: Function = self._made.get(("function", name), lambda: self._make(name, info))
        return made

    def payload(self, entry: str = "") -> tuple[str, Binary]:
        """What this receiver runs: the format and the bytes of the payload, or what a replaced compiler made of it (R31).

        The compiler is asked once a module, and once a shader for map kinds. What the module saves does not change.

        Parameters
        ----------
        entry
            The shader, for map kinds.

        Raises
        ------
        Exception
            What the replaced compiler raises; the next call asks it again.
        """
        made: tuple[str, Binary] = self._made.get(("payload", entry), lambda: self._compile(entry))
        return made

    def entry(self, name: str, info: FunctionInfo) -> str:
        """For map kinds, under which name the function's shader stands: the one that callers use (R11), or that of its entry point.

        Raises
        ------
        FormatError
            There is none.
        """
        shaders = self.code
        for each in (name, info.name):
            if each in shaders:
                return each
        raise FormatError(
            f"the {self.kind} module has no shader for its function {name!r}; it has those of {quoted(shaders)}",  # type: ignore[arg-type]
            kind=self.kind,
            function=name,
        )

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What ``make()`` makes, once for all threads that ask for `key`; a failure goes to every thread that waited, and is not kept."""
        return self._made.get(("own", key), make)

    def _make(self, name: str, info: FunctionInfo) -> Function:
        from devmod._launch.function import Function

        function = Function(name, info, self.launcher(name, info))
        function.open()
        return function

    def _compile(self, entry: str) -> tuple[str, Binary]:
        code = self.code if isinstance(self.code, (bytes, memoryview)) else self.code[entry]
        if self.format in self._spec.source_formats:
            from devmod._hooks import run_compiler

            replaced = run_compiler(self.kind, code)
            if replaced is not None:
                return replaced
        return self.format, code
