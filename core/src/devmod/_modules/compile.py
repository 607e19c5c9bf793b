"""devmod.compile: compile a source for a target. It needs no device, no driver and no runtime wheel."""

from __future__ import annotations

import os
from functools import partial

from devmod._modules.defaults import with_defaults
from devmod._modules.payload import check_fmap
from devmod._modules.source import file_hint, language_of, read_source, resembles_path
from devmod._values.request import CompileRequest, Payload
from devmod._values.target import Target
from devmod.errors import CompileError, PluginError, ToolchainNotFoundError, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from devmod._modules.defaults import Blocks, Locals
    from devmod._modules.module import Module
    from devmod._values.info import FunctionInfo
    from devmod._values.spec import TargetSpec

    Source = str | os.PathLike[str]
    Define = str | int | float | bool | None

#: The option of devmod itself, for every target.
_WERROR = "--werror"


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
    block: Blocks | None = None,
    local: Locals | None = None,
) -> Module:
    """Compile a source for a target. The result is the runtime's module if the runtime is installed, and a fallback otherwise.

    The saved bytes depend on the arguments and the version of the toolchain alone. They never depend on the host, its folders, its devices
    or other installed packages.

    Parameters
    ----------
    source
        The source. A str is always text, an os.PathLike always a file: UTF-8 text (a byte-order mark is dropped), or SPIR-V. Bytes
        are SPIR-V.
    target
        A Target, or a string such as "opencl" or "cuda -arch=sm_80,sm_90". With several architectures the module is a bundle of
        one variant each.
    name
        The function name of a shader whose entry is `main`. Default: the file's stem, or "main".
    language
        The source's language, such as "OpenCL C", or the suffix of its files, "cl". Default: by the file's suffix, or
        the target's first.
    fmap
        Declared functions. They override the results of reflection, and suffice without a toolchain for reflection. Reflection fills in
        empty parts (arg_types, tags, interface). Cluster, cooperative and programmatic launch tags must be declared here.
    options
        Options for the compiler: a sequence, or one string that is split at spaces. An option with a path is an error.
        ``-DNAME=VALUE`` is a define. ``--werror`` turns the warnings of any target's compiler into errors, and is not stored.
    defines
        Macro to value: a str unchanged, a number, True as 1 and False as 0, None as 1 (like ``-DNAME``).
    include
        An include folder, or several.
    name_expressions
        C++: template instances to compile, such as "scale<float>".
    block
        The default block of threads, for calls that give none: an int or up to three, for all functions, or a map of function to block.
        A block that the source fixes cannot be changed.
    local
        The default sizes of ``local`` parameters: a map of parameter to `Local`. Where several functions have a parameter of that name, a
        map of function to such a map.

    Returns
    -------
    Module
        Its `origin` has the target, the toolchain and its version, the options and the SHA-256 of each source.

    Raises
    ------
    CompileError
        The compiler reports errors (`log` is its complete output), or an argument is invalid.
    ToolchainNotFoundError
        The compiler is not installed; the message has the command that installs it.
    FormatError
        The target or the fmap is malformed.
    NotRegisteredError
        No installed distribution provides the target's kind.
    OSError
        The file cannot be read.

    Warns
    -----
    UserWarning
        The source has identifiers unknown to its language: vendor extensions or typing errors. With the option ``--werror`` this is a
        CompileError.

    Examples
    --------
    >>> module = devmod.compile("kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }", "opencl")  # doctest: +SKIP
    """
    parsed_target = Target.parse(target)
    spec, compiler = _find_compiler(parsed_target.kind)
    text, data, file_name, folder, suffix = read_source(source, spec, language)
    if name is not None and not (isinstance(name, str) and name):
        raise CompileError(f"name= is a function's name, not {name!r}", kind=spec.kind)
    all_options = _strings(spec, "options", options.split() if isinstance(options, str) else options)
    request = partial(
        CompileRequest,
        text,
        data=data or b"",
        name=file_name or ("<text>" if data is None else "<bytes>"),
        folder=folder,
        stem=name or os.path.splitext(file_name)[0] or "main",
        language=language_of(spec, language, suffix),
        fmap=None if fmap is None else check_fmap(spec.kind, fmap),
        options=tuple(option for option in all_options if option != _WERROR),
        warnings_as_errors=_WERROR in all_options,
        defines=_macros(spec, defines),
        include=_folders(spec, include),
        name_expressions=_strings(spec, "name_expressions", name_expressions),
    )
    modules = []
    for variant in parsed_target.variants():
        try:
            modules.append(_build(spec, compiler, request(variant), block, local))
        except CompileError as error:
            if isinstance(source, str) and not isinstance(error, ToolchainNotFoundError) and resembles_path(source):
                error.args = (f"{error}. The source is the str {source.strip()!r}, and a str is always text. {file_hint(source)}",)
            raise
    if len(modules) == 1:
        return modules[0]
    from devmod._formats.bundle_file import bundle

    return bundle(*modules)


def _build(
    spec: TargetSpec, compiler: Callable[[CompileRequest], Payload], request: CompileRequest, block: Blocks | None, local: Locals | None
) -> Module:
    from devmod._modules.create import create_with_fallback

    payload = compiler(request)
    if not isinstance(payload, Payload) or payload.kind != spec.kind:
        what = f"a payload of kind {payload.kind!r}" if isinstance(payload, Payload) else type(payload).__name__
        raise PluginError(
            f"the compiler of the target {spec.kind!r} ({spec.compiler}) is broken: it returned {what}, not a devmod Payload of that kind",
            kind=spec.kind,
            key=f"devmod.targets.{spec.kind}",
        )
    fmap = with_defaults(payload.kind, payload.fmap, block, local)
    module = create_with_fallback(payload.kind, payload.code, payload.fmt, fmap, payload.source)
    # `create` has no parameter for the origin.
    module.__dict__["_devmod_origin"] = payload.origin
    return module


def _find_compiler(kind: str) -> tuple[TargetSpec, Callable[[CompileRequest], Payload]]:
    """Return the spec and the compiler of a kind."""
    from devmod._plugins.lookup import lookup
    from devmod._plugins.specs import find_spec

    spec = find_spec(kind)
    if spec is None:
        lookup("devmod.targets", kind)  # raises the error with the command that installs the kind
    assert spec is not None
    if not spec.compiler:
        raise CompileError(
            f"this release of devmod has no compiler for {kind}. A payload from another compiler can be wrapped: "
            f"devmod.create_with_fallback({kind!r}, code, fmt, fmap), with fmt one of {', '.join(spec.formats)}",
            kind=kind,
        )
    from importlib import import_module

    module, _, function = spec.compiler.partition(":")
    try:
        compiler = getattr(import_module(module), function)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else ""
        if missing == module.partition(".")[0] and spec.build_extra:
            text = not_installed("its compiler", f'pip install "devmod-core[{spec.build_extra}]"')
        elif missing == "devmod_targets":
            text = not_installed("devmod-targets", "pip install devmod-targets")
        else:
            raise PluginError(
                f"the compiler of the target {kind!r} ({spec.compiler}) is broken: {type(error).__name__}: {error}",
                kind=kind,
                key=f"devmod.targets.{kind}",
            ) from error
        raise ToolchainNotFoundError(f"{kind} cannot be compiled here: {text}", kind=kind) from None
    return spec, compiler


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
    """Return a define's value in C."""
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
