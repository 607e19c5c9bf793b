"""A payload from the compiler to the file: Origin, Payload, and the module that holds one.

`PayloadModule` is the part that the fallback, the stored and the real modules of all payload kinds have in common: kind,
format, functions, source, inspection, bytes, files. It is driven by the kind's TargetSpec. What differs between the three
states is `get_function` alone.
"""

from __future__ import annotations

from devmod._formats import wire as _wire
from devmod._info import FunctionInfo, _Value
from devmod._module import BINARY_SERIALIZABLE, RUNNABLE, Module
from devmod._tree import owner_of
from devmod.errors import FormatError, function_not_found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from os import PathLike
    from typing import Any

    from devmod.targets import TargetSpec

    Binary = bytes | memoryview
    Code = Binary | Mapping[str, Binary]
    Source = Mapping[str, str | bytes]


class Origin(_Value):
    """Where a payload came from (R42). No times and no paths: the same inputs give the same origin on every host.

    Parameters
    ----------
    target
        The target as `Target` prints it, such as "cuda -arch=sm_90".
    toolchain
        The compiler and its version, such as "libclang 18.1.1"; "" where none was run.
    options
        The build options, in order.
    sources
        Name of each source, as an include has it, to its SHA-256 in hexadecimal.
    extra
        Keys that this version does not know, kept as they came.

    Raises
    ------
    FormatError
        A field is not one of the above.
    """

    __slots__ = ("extra", "options", "sources", "target", "toolchain")
    target: str
    toolchain: str
    options: tuple[str, ...]
    sources: Mapping[str, str]
    extra: Mapping[str, Any]

    def __init__(
        self,
        target: str,
        toolchain: str = "",
        options: Iterable[str] = (),
        sources: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(target, str) or not isinstance(toolchain, str):
            raise FormatError("the target and the toolchain of an origin are strings")
        listed = tuple(options) if hasattr(options, "__iter__") else (options,)
        if isinstance(options, str) or not all(isinstance(option, str) for option in listed):
            raise FormatError("the options of an origin are a list of strings")
        if sources is None:
            sources = {}
        if not hasattr(sources, "items") or not all(isinstance(part, str) for item in sources.items() for part in item):
            raise FormatError("the sources of an origin are a map of strings")
        self._set(target=target, toolchain=toolchain, options=listed, sources=dict(sources), extra=dict(extra or {}))

    def to_dict(self) -> dict[str, Any]:
        """The map that a bundle's index holds."""
        made: dict[str, Any] = {"target": self.target}
        if self.toolchain:
            made["toolchain"] = self.toolchain
        if self.options:
            made["options"] = list(self.options)
        if self.sources:
            made["sources"] = dict(self.sources)
        return made | dict(self.extra)

    @classmethod
    def from_dict(cls, data: object) -> Origin:
        """The origin in a map as `to_dict` makes it; FormatError where it is none."""
        if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
            raise FormatError("an origin is a map with string keys")
        rest = dict(data)
        target, toolchain = rest.pop("target", ""), rest.pop("toolchain", "")
        options, sources = rest.pop("options", []), rest.pop("sources", {})
        if not isinstance(options, list):
            raise FormatError("the options of an origin are a list of strings")
        if not isinstance(sources, dict):
            raise FormatError("the sources of an origin are a map of strings")
        return cls(target, toolchain, options, sources, rest)


class CompileRequest(_Value):
    """What `devmod.compile` hands to a target's compiler, everything resolved.

    Parameters
    ----------
    text
        The source; "" where it is no text.
    name
        The source's name for diagnostics and origins: a file's last part, or "<text>".
    folder
        The folder that relative includes start from; "" for text that came as a string. Never written anywhere.
    stem
        What a shader whose entry is `main` is called.
    target
        The Target.
    language
        As the caller or the suffix says; "" for the target's default.
    fmap
        The functions that the caller declares, or None.
    options, defines, include, name_expressions
        As in `devmod.compile`.
    data
        The source where it is no text (SPIR-V); b"" else.
    """

    __slots__ = (
        "data",
        "defines",
        "fmap",
        "folder",
        "include",
        "language",
        "name",
        "name_expressions",
        "options",
        "stem",
        "target",
        "text",
    )
    text: str
    name: str
    folder: str
    stem: str
    target: Any
    language: str
    fmap: Mapping[str, FunctionInfo] | None
    options: tuple[str, ...]
    defines: Mapping[str, str | None]
    include: tuple[str, ...]
    name_expressions: tuple[str, ...]
    data: bytes

    def __init__(
        self,
        text: str,
        target: Any,
        *,
        name: str = "<text>",
        folder: str = "",
        stem: str = "main",
        language: str = "",
        fmap: Mapping[str, FunctionInfo] | None = None,
        options: Iterable[str] = (),
        defines: Mapping[str, str | None] | None = None,
        include: Iterable[str] = (),
        name_expressions: Iterable[str] = (),
        data: bytes = b"",
    ) -> None:
        self._set(
            text=text,
            target=target,
            name=name,
            folder=folder,
            stem=stem,
            language=language,
            fmap=fmap,
            options=tuple(options),
            defines=dict(defines or {}),
            include=tuple(include),
            name_expressions=tuple(name_expressions),
            data=data,
        )


class Payload(_Value):
    """What a compiler hands to a creator: the arguments of create, and where they came from.

    Parameters
    ----------
    kind, code, fmt, fmap, source
        As for `devmod.create`.
    origin
        An Origin, or None.
    """

    __slots__ = ("code", "fmap", "fmt", "kind", "origin", "source")
    kind: str
    code: Code
    fmt: str
    fmap: Mapping[str, FunctionInfo]
    source: Source
    origin: Origin | None

    def __init__(
        self,
        kind: str,
        code: Code,
        fmt: str,
        fmap: Mapping[str, FunctionInfo],
        source: Source | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._set(kind=kind, code=code, fmt=fmt, fmap=fmap, source=dict(source or {}), origin=origin)


class PayloadModule(Module):
    """A module that holds one payload of a kind whose TargetSpec is given. Abstract in `get_function`.

    Parameters
    ----------
    spec
        The kind's TargetSpec.
    fmt, fmap, code, source
        As for `devmod.create`; they are checked here, and nothing in `code` is parsed.
    wire
        The bytes that the module was loaded from, given back unchanged when it is saved (R19); None for a new one.

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
        self._format, self._functions, self._code, self._source = check_payload(spec, fmt, fmap, code, source)
        self._wire = wire

    @property
    def kind(self) -> str:
        return self._spec.kind

    @property
    def format(self) -> str:
        return self._format

    @property
    def functions(self) -> Mapping[str, FunctionInfo]:
        return self._functions

    @property
    def source(self) -> Source:
        return self._source

    @property
    def code(self) -> Code:
        """The payload: bytes, or a map of entry name to bytes."""
        return self._code

    @property
    def property_mask(self) -> int:
        return BINARY_SERIALIZABLE | RUNNABLE

    def find_function(self, name: str, query_imports: bool = False) -> tuple[Module, FunctionInfo]:
        """The module, this one or one of its imports, that has a function of that name, and its info.

        Raises
        ------
        FunctionNotFoundError
            There is none of that name.
        """
        if name in self.functions:
            return self, self.functions[name]
        owner = owner_of(name, *self.imports) if query_imports else None
        if owner is not None:
            return owner, owner.functions[name]
        raise function_not_found(self.kind, name, self.functions)

    def inspect_source(self, format: str = "") -> str:  # noqa: A002 - TVM's name
        """The text in a format, by R26: a source under that key, else the code where it is text, else the default source."""
        return inspect_payload(self._spec, self.format, self.code, self._source, format)

    def wire_parts(self) -> Sequence[Binary]:
        if self._wire is not None:
            return (self._wire,)
        return _wire.encode(self._spec, self.format, self.functions, self.code)

    def write_to_file(self, path: str | PathLike[str]) -> None:
        from devmod._formats.raw import write_payload

        write_payload(self._spec, self.format, self.functions, self.code, path)


def inspect_payload(spec: TargetSpec, fmt: str, code: Code, source: Source, wanted: str) -> str:
    """The text in the format `wanted`, by R26: a source under that key, else the code where it is text, else the default source."""
    if wanted and wanted in source:
        return _text(source[wanted])
    if wanted in ("", fmt) and fmt in spec.text_formats:
        return "\n".join(map(_text, code.values())) if isinstance(code, dict) else _text(code)  # type: ignore[arg-type]
    if not wanted:
        for key in spec.default_source:
            if key in source:
                return _text(source[key])
    return ""


def check_payload(
    spec: TargetSpec, fmt: str, fmap: Mapping[str, FunctionInfo], code: Code, source: Source | None
) -> tuple[str, Mapping[str, FunctionInfo], Code, Source]:
    """The four arguments of create as a module keeps them: copies that nobody else can change.

    Raises
    ------
    FormatError
        One of them is not what the kind takes.
    """
    kind = spec.kind
    if fmt not in spec.formats:
        raise FormatError(f"{kind} has no format {fmt!r}; its formats: {', '.join(spec.formats)}", kind=kind)
    return fmt, check_fmap(kind, fmap), _check_code(spec, code), _check_source(kind, source)


def check_fmap(kind: str, fmap: Mapping[str, FunctionInfo]) -> dict[str, FunctionInfo]:
    """A copy of an fmap; FormatError where it is not a map of str to FunctionInfo."""
    try:
        copy = dict(fmap)
    except (TypeError, ValueError):
        raise FormatError(f"{kind}: the fmap is a map of name to FunctionInfo, not {type(fmap).__name__}", kind=kind) from None
    for name, info in copy.items():
        if not isinstance(name, str) or not isinstance(info, FunctionInfo):
            raise FormatError(f"{kind}: the fmap is a map of str to FunctionInfo; it has {name!r}: {type(info).__name__}", kind=kind)
    return copy


def _check_code(spec: TargetSpec, code: Code) -> Code:
    kind = spec.kind
    if not spec.shader_map:
        if isinstance(code, (bytes, bytearray, memoryview)):
            return _frozen(code)
        raise FormatError(f"{kind}: the code is bytes, not {type(code).__name__}", kind=kind)
    if isinstance(code, (bytes, bytearray, memoryview, str)) or not hasattr(code, "items"):
        raise FormatError(f"{kind}: the code is a map of entry name to bytes, not {type(code).__name__}", kind=kind)
    shaders: dict[str, Binary] = {}
    for name, shader in code.items():
        if not isinstance(name, str) or not isinstance(shader, (bytes, bytearray, memoryview)):
            raise FormatError(f"{kind}: the code is a map of str to bytes; it has {name!r}: {type(shader).__name__}", kind=kind)
        shaders[name] = _frozen(shader)
    return shaders


def _frozen(data: bytes | bytearray | memoryview) -> Binary:
    """`data` as it is where nobody can write to it (a payload may be large), else a copy."""
    if type(data) is bytes:
        return data
    return _wire.kept(data) if isinstance(data, memoryview) else bytes(data)


def _check_source(kind: str, source: Source | None) -> Source:
    if source is None:
        return {}
    try:
        copy = dict(source)
    except (TypeError, ValueError):
        raise FormatError(f"{kind}: the source is a map of format to text, not {type(source).__name__}", kind=kind) from None
    for key, text in copy.items():
        if not isinstance(key, str) or not isinstance(text, (str, bytes)):
            raise FormatError(f"{kind}: the source is a map of format to text; it has {key!r}: {type(text).__name__}", kind=kind)
    return copy


def _text(data: str | bytes | memoryview) -> str:
    return data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
