"""PayloadModule: the base class of modules with one payload, and the checks of a payload.

`PayloadModule` is the common part of fallbacks and runtime modules: kind, format, functions,
source, inspection, bytes, files. The kind's TargetSpec describes the payload. The subclasses differ
in `get_function`.
"""

from __future__ import annotations

from devmod._formats import wire as _wire
from devmod._modules.module import Module
from devmod._util.buffers import read_only_view
from devmod._values.info import FunctionInfo
from devmod.errors import FormatError, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from typing import Any

    from devmod._values.code import Binary, Code, Fields, Functions, Source
    from devmod._values.info import Interface
    from devmod._values.spec import TargetSpec


class PayloadModule(Module):
    """A module with one payload of a kind with a TargetSpec. Abstract in `get_function`.

    Parameters
    ----------
    spec
        The kind's TargetSpec.
    fmt, fmap, code, source
        As for `devmod.create`. The constructor checks them and does not parse `code`.
    wire
        The bytes from which the module was loaded; they are saved unchanged (R19). None for a new
        module.

    Raises
    ------
    FormatError
        The format is not one of the kind's, or an argument has the wrong type.
    """

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
        self._spec = spec
        self._wire_format, self._functions, self._code, self._source = check_payload(
            spec, fmt, fmap, code, source
        )
        self._format = spec.canonical_format(self._wire_format)
        self._wire = wire

    @property
    def kind(self) -> str:
        return self._spec.kind

    @property
    def format(self) -> str:
        return self._format

    @property
    def functions(self) -> Functions:
        return self._functions

    @property
    def source(self) -> Source:
        return self._source

    @property
    def code(self) -> Code:
        """The payload: bytes, or a map of entry name to bytes."""
        return self._code

    def find_function(self, name: str, query_imports: bool = False) -> tuple[Module, FunctionInfo]:
        """Return the module that has the function `name`, this one or one of its imports, and the
        function's info.

        Raises
        ------
        FunctionNotFoundError
            There is no such function.
        FormatError
            The function is damaged, or only a newer devmod reads it.
        """
        owner = self._find_owner(name, query_imports)
        info = owner.functions[name]
        if info.interface is not None and info.interface.newer:
            raise _newer_error(owner.kind, name, info.interface)
        return owner, info

    def inspect_source(self, format: str = "") -> str:  # noqa: A002 - TVM's name
        """Return the text in a format (R26): a source under that key, else the default source, else
        the code if it is text.
        """
        return inspect_payload(self._spec, self.format, self.code, self._source, format)

    def wire_parts(self) -> Sequence[Binary]:
        if self._wire is not None:
            return (self._wire,)
        return _wire.encode(self._spec, self._wire_format, self.functions, self.code)

    def write_to_file(self, path: str | PathLike[str]) -> None:
        from devmod._formats.raw import write_payload

        write_payload(self._spec, self.format, self.functions, self.code, path)


def _newer_error(kind: str, name: str, interface: Interface) -> FormatError:
    """Return the error of a function that only a newer devmod reads."""
    from devmod._values.features import newer_text
    from devmod.targets import PROGRAM

    subject = f"the {kind} function"
    if kind == PROGRAM:
        subject = "the program"
    text = f"{subject} {quote_name(name)} {newer_text(interface.newer)}"
    return FormatError(text, kind=kind, function=name)


def inspect_payload(spec: TargetSpec, fmt: str, code: Code, source: Source, requested: str) -> str:
    """Return the text in the format `requested` (R26): a source under that key, else the default
    source, else the code if it is text.

    A source that is bytes is never returned as text.
    """
    keys = [requested, spec.source_aliases.get(requested, requested)]
    if not requested:
        keys += spec.default_source
    for key in keys:
        text = source.get(key)
        if isinstance(text, str):
            return text

    if requested not in ("", fmt) or fmt not in spec.text_formats:
        return ""
    if isinstance(code, dict):
        return "\n".join(map(_text, code.values()))
    return _text(code)  # type: ignore[arg-type]


def check_payload(
    spec: TargetSpec, fmt: str, fmap: Functions, code: Code, source: Source | None
) -> tuple[str, Functions, Code, Source]:
    """Check the arguments of create, and return copies that the caller cannot change.

    Raises
    ------
    FormatError
        An argument is invalid for the kind.
    """
    kind = spec.kind
    if spec.canonical_format(fmt) not in spec.formats:
        raise FormatError(
            f"{kind} has no format {fmt!r}; its formats: {', '.join(spec.formats)}", kind=kind
        )
    texts = {}
    if source is not None:
        texts = _copy_map(kind, source, "source", "format to text", (str, bytes))
    return fmt, check_fmap(kind, fmap), _check_code(spec, code), texts


def check_fmap(kind: str, fmap: Functions) -> Functions:
    """Return a copy of an fmap, or raise FormatError if it is not a map of str to FunctionInfo."""
    if isinstance(fmap, _wire.StoredFunctions):
        return fmap  # immutable, and each function is checked at its first use
    return _copy_map(kind, fmap, "fmap", "str to FunctionInfo", FunctionInfo)


def _copy_map(
    kind: str, values: Any, subject: str, form: str, types: type | tuple[type, ...]
) -> Fields:
    """Return a copy of a map of str to objects of `types`. Raise FormatError for others."""
    try:
        copy = dict(values)
    except (TypeError, ValueError):
        raise FormatError(
            f"{kind}: the {subject} is a map of {form}, not {type(values).__name__}", kind=kind
        ) from None
    for key, value in copy.items():
        if not isinstance(key, str) or not isinstance(value, types):
            raise FormatError(
                f"{kind}: the {subject} is a map of {form}; it has {key!r}: {type(value).__name__}",
                kind=kind,
            )
    return copy


def _check_code(spec: TargetSpec, code: Code) -> Code:
    kind = spec.kind
    if not spec.shader_map:
        if isinstance(code, (bytes, bytearray, memoryview)):
            return _immutable(code)
        raise FormatError(f"{kind}: the code is bytes, not {type(code).__name__}", kind=kind)
    if not hasattr(code, "items"):
        raise FormatError(
            f"{kind}: the code is a map of entry name to bytes, not {type(code).__name__}",
            kind=kind,
        )
    shaders = {}
    #: By the identity of the first: entries that share a shader still do.
    results = {}
    for name, shader in code.items():
        if not isinstance(name, str) or not isinstance(shader, (bytes, bytearray, memoryview)):
            raise FormatError(
                f"{kind}: the code is a map of str to bytes; it has {name!r}: {type(shader).__name__}",
                kind=kind,
            )
        if id(shader) not in results:
            results[id(shader)] = shader, _immutable(shader)
        shaders[name] = results[id(shader)][1]
    return shaders


def _immutable(data: bytes | bytearray | memoryview) -> Binary:
    """Return `data` unchanged if it is immutable (a payload may be large), else a copy."""
    if type(data) is bytes:
        return data
    if isinstance(data, memoryview):
        return read_only_view(data)
    return bytes(data)


def _text(data: Binary) -> str:
    return str(data, "utf-8", "replace")
