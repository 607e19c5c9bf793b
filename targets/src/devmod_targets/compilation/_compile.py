"""From the arguments of `devmod.compile` to a module: one request of the kind's compiler for each variant."""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module

import devmod
from devmod.backend import check_fmap, closed_source, find_spec
from devmod.errors import CompileError, FormatError, PluginError, ToolchainNotFoundError, not_installed
from devmod_targets.authoring import CompileRequest, Payload
from devmod_targets.compilation._architectures import architecture_problem
from devmod_targets.compilation._arguments import folders, macros, strings
from devmod_targets.compilation._defaults import with_defaults
from devmod_targets.compilation._source import file_hint, language_of, read_source, resembles_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from devmod import FunctionInfo, Module, Target, TargetSpec
    from devmod_targets.compilation._defaults import Blocks, Locals

    Compiler = Callable[[CompileRequest], Payload]
    Path = str | os.PathLike[str]
    Define = str | int | float | bool | None

#: The options of devmod itself, for every target.
_WERROR, _STRICT = "--werror", "--strict"
#: The attribute of a module with the result of `validation_of`.
_VALIDATION = "_devmod_validation"


def compile_source(
    spec: TargetSpec,
    source: Path | bytes | bytearray | memoryview,
    target: Target,
    *,
    name: str | None,
    language: str | None,
    fmap: Mapping[str, FunctionInfo] | None,
    options: str | Iterable[str],
    defines: Mapping[str, Define] | None,
    include: Path | Iterable[Path],
    name_expressions: Iterable[str],
    block: Blocks | None,
    local: Locals | None,
) -> Module:
    """Return the module of a source. `devmod.compile` documents the parameters and the errors.

    Parameters
    ----------
    spec
        The spec of the target's kind. It names a compiler.
    source, target, name, language, fmap, options, defines, include, name_expressions, block, local
        The arguments of `devmod.compile`, with the target parsed.
    """
    compiler, variants = _import_compiler(spec)
    text, data, file_name, folder, suffix = read_source(source, spec, language)
    if name is not None and not (isinstance(name, str) and name):
        raise CompileError(f"name= is a function's name, not {name!r}", kind=spec.kind)
    known = language_of(spec, language, suffix)
    own_language = known or next(iter(spec.languages.values()), "")
    problem = architecture_problem(spec, target, own_language, assumed=not known)
    if problem:
        raise CompileError(problem, kind=spec.kind)
    all_options = strings(spec, "options", options.split() if isinstance(options, str) else options)
    request = partial(
        CompileRequest,
        text,
        data=data or b"",
        name=file_name or ("<text>" if data is None else "<bytes>"),
        folder=folder,
        stem=name or os.path.splitext(file_name)[0] or "main",
        language=own_language,
        fmap=None if fmap is None else check_fmap(spec.kind, fmap),
        options=tuple(option for option in all_options if option not in (_WERROR, _STRICT)),
        warnings_as_errors=_WERROR in all_options,
        strict=_STRICT in all_options,
        defines=macros(spec, defines),
        include=folders(spec, include),
        name_expressions=strings(spec, "name_expressions", name_expressions),
    )
    modules = []
    for variant in variants(target):
        try:
            modules.append(_build(spec, compiler, request(variant), block, local))
        except CompileError as error:
            if isinstance(source, str) and not isinstance(error, ToolchainNotFoundError) and resembles_path(source):
                error.args = (f"{error}. The source is the str {source.strip()!r}, and a str is always text. {file_hint(source)}",)
            raise
    return modules[0] if len(modules) == 1 else devmod.bundle(*modules)


def variants_of(target: Target) -> tuple[Target, ...]:
    """Return the targets of single payloads: one for each architecture, or one for all of a fatbin."""
    if len(target.archs) < 2:
        return (target,)
    spec = find_spec(target.kind)
    if spec is None or not spec.compiler:
        return target.variants()
    return tuple(_import_compiler(spec)[1](target))


def _import_compiler(spec: TargetSpec) -> tuple[Compiler, Callable[[Target], Sequence[Target]]]:
    """Return the compiler of a kind, and the function that splits a target into the targets of single payloads.

    That function is `Target.variants`, or the function ``variants`` of the compiler's module.
    """
    module, _, function = spec.compiler.partition(":")
    try:
        compiler_module = import_module(module)
        return getattr(compiler_module, function), getattr(compiler_module, "variants", devmod.Target.variants)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else ""
        if missing != module.partition(".")[0] or not spec.build_extra:
            raise PluginError(
                f"the compiler of the target {spec.kind!r} ({spec.compiler}) is broken: {type(error).__name__}: {error}",
                kind=spec.kind,
                key=f"devmod.targets.{spec.kind}",
            ) from error
        text = not_installed("its compiler", f'pip install "devmod-core[{spec.build_extra}]"')
        raise ToolchainNotFoundError(f"{spec.kind} cannot be compiled here: {text}", kind=spec.kind) from None


def _build(spec: TargetSpec, compiler: Compiler, request: CompileRequest, block: Blocks | None, local: Locals | None) -> Module:
    payload = compiler(request)
    if not isinstance(payload, Payload) or payload.kind != spec.kind:
        got = f"a payload of kind {payload.kind!r}" if isinstance(payload, Payload) else type(payload).__name__
        raise PluginError(
            f"the compiler of the target {spec.kind!r} ({spec.compiler}) is broken: it returned {got}, not a devmod Payload of that kind",
            kind=spec.kind,
            key=f"devmod.targets.{spec.kind}",
        )
    if request.strict and payload.unvalidated:
        raise CompileError(f"--strict needs a validator for the {request.language} source: {payload.unvalidated}", kind=spec.kind)
    if payload.fmt in spec.source_formats and spec.preprocessed:
        _check_closed(payload)
    fmap = with_defaults(payload.kind, payload.fmap, block, local)
    module = devmod.create_with_fallback(payload.kind, payload.code, payload.fmt, fmap, payload.source)
    # `create` has no parameter for the origin and for the files.
    module.__dict__["_devmod_origin"] = payload.origin
    module.__dict__[_VALIDATION] = (payload.validator, payload.unvalidated)
    if payload.files is not None:
        module.__dict__["_devmod_files"] = {**_own_file(request), **payload.files}
    return module


def validation_of(module: Module) -> tuple[str, str]:
    """Return `Payload.validator` and `Payload.unvalidated` of a module that was compiled in this process."""
    result: tuple[str, str] = vars(module).get(_VALIDATION, ("", ""))
    return result


def _check_closed(payload: Payload) -> None:
    """Raise CompileError for a source that receivers refuse because it could name one of their files."""
    codes = [payload.code] if isinstance(payload.code, (bytes, memoryview)) else payload.code.values()
    for code in dict.fromkeys(map(bytes, codes)):  # the kernels of one file have equal texts
        try:
            closed_source(payload.kind, code.decode())
        except FormatError as error:
            raise CompileError(str(error), kind=payload.kind) from None


def _own_file(request: CompileRequest) -> dict[str, str]:
    """Return the source itself if it is a file, path to SHA-256."""
    from hashlib import sha256

    path = os.path.join(request.folder, request.name)
    return {path: sha256(request.data or request.text.encode()).hexdigest()} if request.folder else {}


def files_read(module: Module) -> dict[str, str] | None:
    """Return the files that the compile of a module has read, path to SHA-256; None if they are unknown."""
    files: dict[str, str] = {}
    for each in module.imports if module.kind == "bundle" else (module,):
        read = each.__dict__.get("_devmod_files")
        if read is None:
            return None
        files |= read
    return files
