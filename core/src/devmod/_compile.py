"""devmod.compile: from a source and a target to a module. It needs no device, no driver and no runtime wheel."""

from __future__ import annotations

import os
from functools import partial

from devmod._payload import CompileRequest, Payload, check_fmap
from devmod._target import Target
from devmod.errors import CompileError, PluginError, ToolchainNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from devmod._info import FunctionInfo
    from devmod._module import Module
    from devmod.targets import TargetSpec

    Source = str | os.PathLike[str]
    Define = str | int | float | bool | None


def compile(  # noqa: A001 - the public name
    source: Source | bytes | bytearray | memoryview,
    target: str | Target,
    *,
    name: str | None = None,
    language: str | None = None,
    fmap: Mapping[str, FunctionInfo] | None = None,
    options: str | Iterable[str] = (),
    defines: Mapping[str, Define] | None = None,
    include: Source | Iterable[Source] = (),
    name_expressions: Iterable[str] = (),
) -> Module:
    """Compile a source for a target, into a real module where its runtime is installed and a fallback where it is not.

    What the module saves depends on the arguments and the version of the toolchain alone: never on the host, its folders, its
    devices or what else is installed.

    Parameters
    ----------
    source
        The source. A str is always text, an os.PathLike always a file: UTF-8 text (a byte-order mark is dropped), or SPIR-V. Bytes
        are SPIR-V.
    target
        A Target, or a string such as "opencl" or "cuda -arch=sm_80,sm_90". With several architectures the module is a bundle of
        one variant each.
    name
        What a shader whose entry is `main` is called as a function. Default: the file's stem, or "main".
    language
        The source's language, such as "OpenCL C", or the suffix of its files, "cl". Default: by the file's suffix, or the target's first.
    fmap
        Functions that are declared: merged over what reflection finds, and enough where there is no toolchain for reflection. What
        one leaves empty (arg_types, tags, interface) is filled in. Cluster, cooperative and programmatic launch tags come from here.
    options
        Options for the compiler, an item each, or one string that is split at spaces. Those that name a path are refused;
        ``-DNAME=VALUE`` is a define.
    defines
        Macro to value: a str as it stands, a number, True as 1 and False as 0, None as 1 (what ``-DNAME`` does).
    include
        A folder of includes, or several.
    name_expressions
        C++: template instances to make, such as "scale<float>".

    Returns
    -------
    Module
        Its `origin` says the target, the toolchain and its version, the options and the SHA-256 of each source.

    Raises
    ------
    CompileError
        The compiler refuses the source (`log` is all it said), or an argument is not as above.
    ToolchainNotFoundError
        The compiler is not installed; the message has the command that adds it.
    FormatError
        The target or the fmap is malformed.
    NotRegisteredError
        Nobody provides the target's kind.
    OSError
        The file cannot be read.

    Warns
    -----
    UserWarning
        A source has names that its language does not have: a vendor's, or mistyped ones.

    Examples
    --------
    >>> module = devmod.compile("kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }", "opencl")  # doctest: +SKIP
    """
    wanted = Target.parse(target)
    spec, compiler = _compiler(wanted.kind)
    text, data, file_name, folder, suffix = _read(source, spec, language)
    if name is not None and not (isinstance(name, str) and name):
        raise CompileError(f"name= is a function's name, not {name!r}", kind=spec.kind)
    request = partial(
        CompileRequest,
        text,
        data=data or b"",
        name=file_name or ("<text>" if data is None else "<bytes>"),
        folder=folder,
        stem=name or os.path.splitext(file_name)[0] or "main",
        language=_language(spec, language, suffix),
        fmap=None if fmap is None else check_fmap(spec.kind, fmap),
        options=_strings(spec, "options", options.split() if isinstance(options, str) else options),
        defines=_macros(spec, defines),
        include=_folders(spec, include),
        name_expressions=_strings(spec, "name_expressions", name_expressions),
    )
    modules = []
    for variant in wanted.variants():
        modules.append(_build(spec, compiler, request(variant)))
    if len(modules) == 1:
        return modules[0]
    from devmod._formats.bundle import bundle

    return bundle(*modules)


def _build(spec: TargetSpec, compiler: Callable[[CompileRequest], Payload], request: CompileRequest) -> Module:
    from devmod._create import create_with_fallback

    payload = compiler(request)
    if not isinstance(payload, Payload) or payload.kind != spec.kind:
        what = f"a payload of kind {payload.kind!r}" if isinstance(payload, Payload) else type(payload).__name__
        raise PluginError(
            f"the compiler of the target {spec.kind!r} ({spec.compiler}) is broken: it returned {what}, not a devmod Payload of that kind",
            kind=spec.kind,
            key=f"devmod.targets.{spec.kind}",
        )
    module = create_with_fallback(payload.kind, payload.code, payload.fmt, payload.fmap, payload.source)
    # A module's own constructor takes what create takes; where it came from is ours to say.
    module.__dict__["_devmod_origin"] = payload.origin
    return module


def _compiler(kind: str) -> tuple[TargetSpec, Callable[[CompileRequest], Payload]]:
    """The spec of a kind and its compiler."""
    from devmod import _registry
    from devmod.targets import find_spec

    spec = find_spec(kind)
    if spec is None:
        _registry.lookup("devmod.targets", kind)  # raises what is missing, and how to get it
    assert spec is not None
    if not spec.compiler:
        raise CompileError(
            f"this release of devmod has no compiler for {kind}. A payload made elsewhere can be wrapped: "
            f"devmod.create_with_fallback({kind!r}, code, fmt, fmap), with fmt one of {', '.join(spec.formats)}",
            kind=kind,
        )
    from importlib import import_module

    module, _, function = spec.compiler.partition(":")
    try:
        found = getattr(import_module(module), function)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0] and spec.build_extra:
            raise ToolchainNotFoundError(
                f'{kind} cannot be compiled here: its compiler is not installed. To add it: pip install "devmod-core[{spec.build_extra}]"',
                kind=kind,
            ) from None
        raise PluginError(
            f"the compiler of the target {kind!r} ({spec.compiler}) is broken: {type(error).__name__}: {error}",
            kind=kind,
            key=f"devmod.targets.{kind}",
        ) from error
    return spec, found


def _read(
    source: Source | bytes | bytearray | memoryview, spec: TargetSpec, language: str | None
) -> tuple[str, bytes | None, str, str, str]:
    """The text of a source, its bytes where it is no text, and its file's name, folder and suffix, each "" for text."""
    from devmod.targets._includes import checked_text, decode

    binary = _binary_languages(spec)
    if isinstance(source, (bytes, bytearray, memoryview)) and binary:
        if language not in (None, *binary, *binary.values()):
            what = ", ".join(binary.values())
            raise CompileError(f"the source is bytes, which are {what} and no {language}", kind=spec.kind)
        return "", bytes(source), "", "", next(iter(binary))
    if isinstance(source, str):
        if language in (*binary, *binary.values()):
            raise CompileError(f"{language} is no text: give its bytes, or its file as a pathlib.Path", kind=spec.kind)
        suffix = os.path.splitext(source.strip())[1][1:].lower()
        if "\n" not in source.strip() and suffix and suffix in _suffixes(spec):
            raise CompileError(
                f"the source is a str of one line that ends in '.{suffix}': a str is always text. For the file, "
                f"give pathlib.Path({source.strip()!r})",
                kind=spec.kind,
            )
        return checked_text(source, "<text>", spec.kind), None, "", "", ""
    if not isinstance(source, os.PathLike):
        what = f"a str (text){', bytes (' + ', '.join(binary.values()) + ')' if binary else ''} or an os.PathLike (a file)"
        raise CompileError(f"a source is {what}, not {type(source).__name__}", kind=spec.kind)
    path = os.path.abspath(os.fsdecode(source))
    with open(path, "rb") as file:
        data = file.read()
    folder, name = os.path.split(path)
    suffix = os.path.splitext(name)[1][1:].lower()
    if language is None and suffix not in spec.languages:
        _refuse_others(spec, name, suffix)
    if (suffix if language is None else language) in (*binary, *(() if language is None else binary.values())):
        return "", data, name, folder, suffix
    return decode(data, name, spec.kind), None, name, folder, suffix


def _refuse_others(spec: TargetSpec, name: str, suffix: str) -> None:
    """Refuse a file whose suffix says that it is another target's source: the compiler's own words would not say so."""
    from devmod.targets import BUILT_IN, find_spec

    for other in filter(None, map(find_spec, BUILT_IN)):
        if suffix in other.languages and spec.languages:
            own = ", ".join(f"{language} (.{ending})" for ending, language in spec.languages.items())
            default = next(iter(spec.languages.values()))
            raise CompileError(
                f"{name} is {other.languages[suffix]} by its suffix, a source for {other.kind}; {spec.kind} takes {own}. Where the suffix "
                f"is wrong, devmod.compile(…, language={default!r}) says what it is",
                kind=spec.kind,
            )


def _binary_languages(spec: TargetSpec) -> dict[str, str]:
    """The languages that are no text: those whose files are payloads that are none."""
    return {
        suffix: language
        for suffix, language in spec.languages.items()
        if spec.suffixes.get(suffix, "") in set(spec.formats) - spec.text_formats
    }


def _suffixes(spec: TargetSpec) -> set[str]:
    """The suffixes of source and payload files that core and the target know."""
    from devmod.targets import BUILT_IN, find_spec

    specs = [spec, *filter(None, map(find_spec, BUILT_IN))]
    return {suffix for one in specs for suffix in (*one.languages, *one.suffixes)} | {"c", "cc", "cpp", "h", "hpp"}


def _language(spec: TargetSpec, language: str | None, suffix: str) -> str:
    if language is None:
        return spec.languages.get(suffix, "")
    known = {**spec.languages, **{name: name for name in spec.languages.values()}}
    if language not in known:
        names = ", ".join(map(repr, dict.fromkeys(spec.languages.values()))) or "none"
        raise CompileError(f"{spec.kind} has no language {language!r}; its languages: {names}", kind=spec.kind)
    return known[language]


def _strings(spec: TargetSpec, what: str, values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise CompileError(f"{what}= is a sequence of strings, not {values!r}", kind=spec.kind)
    strings = tuple(values)
    for value in strings:
        if not isinstance(value, str):
            raise CompileError(f"{what}= has {value!r}; each is a string", kind=spec.kind)
    return strings


def _macros(spec: TargetSpec, defines: Mapping[str, Define] | None) -> dict[str, str | None]:
    if defines is not None and not hasattr(defines, "items"):
        raise CompileError(f"defines= is a map of name to value, not {defines!r}", kind=spec.kind)
    return {_macro(spec, macro): _value(spec, macro, value) for macro, value in (defines or {}).items()}


def _macro(spec: TargetSpec, macro: object) -> str:
    if not isinstance(macro, str):
        raise CompileError(f"defines= has the name {macro!r}; a name is a string", kind=spec.kind)
    return macro


def _value(spec: TargetSpec, macro: str, value: object) -> str | None:
    """A define's value as C has it."""
    import operator
    from math import isfinite

    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and isfinite(value):
        return float.__repr__(value)
    if not isinstance(value, float):
        try:
            return str(operator.index(value))  # type: ignore[arg-type]
        except TypeError:
            pass
    raise CompileError(
        f"the define {macro} has the value {value!r}; a value is a str, an int, a finite float, a bool or None", kind=spec.kind
    )


def _folders(spec: TargetSpec, include: Source | Iterable[Source]) -> tuple[str, ...]:
    if not isinstance(include, (str, os.PathLike)) and not hasattr(include, "__iter__"):
        raise CompileError(f"include= is a folder's path, or a sequence of them, not {include!r}", kind=spec.kind)
    given = [include] if isinstance(include, (str, os.PathLike)) else list(include)
    folders = []
    for folder in given:
        if not isinstance(folder, (str, os.PathLike)):
            raise CompileError(f"include= has {folder!r}; each is a folder's path", kind=spec.kind)
        path = os.path.abspath(os.fsdecode(folder))
        if not os.path.isdir(path):
            raise CompileError(f"include= has {os.fsdecode(folder)!r}, which is not a folder", kind=spec.kind)
        folders.append(path)
    return tuple(folders)
