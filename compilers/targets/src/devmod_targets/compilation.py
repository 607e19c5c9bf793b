"""The implementation of `devmod.compile`: reading the source, checking the arguments, calling the
kind's compiler, making the module.

`devmod.compile` calls `compile_source`. Programs call `devmod.compile`.

docs/design/targets.md has the reasons.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import devmod
from devmod import Target
from devmod.backend import Payload, check_fmap, find_spec, module_of
from devmod.errors import (
    CompileError,
    FormatError,
    PluginError,
    ToolchainNotFoundError,
    list_names,
)
from devmod.targets import KINDS
from devmod_targets._arguments import Arguments, folders, macros, strings
from devmod_targets._compilers import architecture_problem, import_compiler, is_default
from devmod_targets._interfaces import check_arguments, is_tuned, with_arguments
from devmod_targets._read_source import file_hint, language_of, read_source, resembles_path
from devmod_targets.authoring import CompileRequest

if TYPE_CHECKING:
    from devmod import Module, TargetSpec
    from devmod_targets._compilers import Compiler
    from devmod_targets._read_source import SourceText

    Path = str | os.PathLike[str]
    #: Those that are added one by one.
    OwnNames = dict[str, str]


#: The options of devmod itself, for every target.
_WERROR = "--werror"
_STRICT = "--strict"
_PARTIAL = "--partial"
#: The languages with a compiler or a translator of their own, and its module. Core's kinds use it,
#: unless the language is their default.
_FRONT_ENDS = {"Slang": "devmod_targets.slang.compile", "Triton": "devmod_targets.triton.compile"}
#: The arguments that have a field in the request.
_IN_REQUEST = {*CompileRequest._fields}
#: The key of an origin with the functions that `--partial` has left out.
_LEFT_OUT = "left_out"


def compile_source(
    spec: TargetSpec,
    source: Path | bytes | bytearray | memoryview,
    target: Target,
    *,
    runtime: bool = True,
    listings: bool = True,
    root: str = "",
    **arguments: Any,
) -> Module:
    """Return the module of a source. `devmod.compile` documents the parameters and the errors.

    Parameters
    ----------
    spec
        The spec of the target's kind. It names a compiler.
    source, target
        The arguments of `devmod.compile`, with the target parsed.
    runtime
        Whether to make the module of an installed runtime. A fallback saves the same bytes, and
        imports no runtime.
    listings, root
        Those of `CompileRequest`.
    arguments
        The keyword arguments of `devmod.compile`: the attributes of `Arguments`.
    """
    given = Arguments(**arguments)
    try:
        compiler, variants = import_compiler(spec)
        text = read_source(source, spec, given.language)
        _check_name(given.name)
        language = _checked_language(spec, target, given.language, text.suffix)
        request = _request(spec, target, text, language, given)
        request = request.replace(listings=listings, root=root)
        check_arguments(given)
        compilation = _Compilation(spec, compiler, given, is_tuned(language, given))
        modules = []
        for variant in variants(target):
            own = request.replace(target=variant)
            try:
                if compilation.tuned:
                    payloads = _payloads(own, compilation)
                else:
                    # Not in a function: warnings name the caller of `devmod.compile` by frames.
                    payloads = [compilation.compile(own)]
                for payload in payloads:
                    modules.append(_module(own, payload, given.name, runtime=runtime))
            except CompileError as error:
                _explain(error, source)
                if variant != target:
                    error.add_note(f"The target was {str(variant)!r}, of {str(target)!r}")
                raise
        if len(modules) == 1:
            return modules[0]
        return devmod.bundle(*modules)
    except CompileError as error:
        error.kind = error.kind or spec.kind
        raise


def _request(
    spec: TargetSpec, target: Target, text: SourceText, language: str, given: Arguments
) -> CompileRequest:
    """Return the request for a kind's compiler."""
    options = given.options
    if isinstance(options, str):
        options = options.split()
    options = strings("options", options)
    fmap = given.fmap
    if fmap is not None:
        fmap = check_fmap(spec.kind, fmap)
    return CompileRequest(
        text.text,
        target,
        data=text.data or b"",
        name=text.shown_name,
        folder=text.folder,
        stem=given.name or os.path.splitext(text.name)[0] or "main",
        language=language,
        fmap=fmap,
        options=tuple(each for each in options if each not in (_WERROR, _STRICT, _PARTIAL)),
        warnings_as_errors=_WERROR in options,
        strict=_STRICT in options,
        partial=_PARTIAL in options,
        defines=macros(given.defines),
        include=folders(given.include),
        name_expressions=strings("name_expressions", given.name_expressions),
        others={name: each for name, each in vars(given).items() if name not in _IN_REQUEST},
    )


def _check_name(name: object) -> None:
    if name is not None and not (isinstance(name, str) and name):
        raise CompileError(f"name= is a function's name, not {name!r}")


def check_architecture(target: Target, language: str | None = None) -> None:
    """Raise CompileError if a target must name an architecture for a language, by default the first
    of its kind, and names none.
    """
    spec = find_spec(target.kind)
    if spec is not None:
        _checked_language(spec, target, language, "")


def _checked_language(spec: TargetSpec, target: Target, language: str | None, suffix: str) -> str:
    """Return the language of a source. Raise CompileError if the target must name an architecture
    for it.
    """
    known = language_of(spec, language, suffix)
    result = known or next(iter(spec.languages.values()), "")
    problem = architecture_problem(spec, target, result, assumed=not known)
    if problem:
        raise CompileError(problem)
    return result


def _explain(error: CompileError, source: object) -> None:
    """Add a hint to the error of a source that may be intended as a path."""
    if isinstance(error, ToolchainNotFoundError):
        return
    if isinstance(source, str) and resembles_path(source):
        is_text = f"The source is the str {source.strip()!r}, and a str is always text"
        error.args = (f"{error}. {is_text}. {file_hint(source)}",)


def _payloads(request: CompileRequest, compilation: _Compilation) -> list[Payload]:
    """Return the payloads of a tuned function for one target."""
    from devmod_targets.tuning import compile_variants

    configurations = None
    if request.language in _FRONT_ENDS:
        front_end = import_module(_FRONT_ENDS[request.language])
        configurations = getattr(front_end, "configurations", None)
    return compile_variants(request, compilation.given, compilation.compile, configurations)


class _Compilation(NamedTuple):
    """What the compiles of a source have in common.

    Attributes
    ----------
    spec, compiler
        The kind's spec and its compiler.
    given
        The arguments of `devmod.compile`.
    tuned
        Whether the source may have variants.
    """

    spec: TargetSpec
    compiler: Compiler
    given: Arguments
    tuned: bool

    def compile(self, request: CompileRequest) -> Payload:
        """Return the payload of a request, with the arguments of `devmod.compile` in its
        functions.
        """
        spec = self.spec
        front_end = _FRONT_ENDS.get(request.language)
        result: object
        if front_end and spec.kind in KINDS and not is_default(spec, request.language):
            result = import_module(front_end).compile(request, self.compiler)
        else:
            result = self.compiler(request)
        payload = _checked_payload(spec, result)
        if request.strict and payload.unvalidated:
            raise CompileError(
                f"--strict needs a validator for the {request.language} source: {payload.unvalidated}"
            )
        # A text of WGSL has no directives any more.
        if payload.fmt in spec.source_formats and spec.preprocessed and payload.fmt != "wgsl":
            _check_closed(payload)
        left_out = ()
        if payload.origin is not None:
            left_out = tuple(payload.origin.extra.get(_LEFT_OUT, ()))
        fmap = with_arguments(payload, self.given, tuned=self.tuned, left_out=left_out)
        return payload.replace(fmap=fmap)


def _module(
    request: CompileRequest, payload: Payload, name: str | None, *, runtime: bool
) -> Module:
    # A fallback has its name from the kernel. Another kind than core's may use the name in another
    # way.
    if runtime and name is not None and name not in payload.fmap and payload.kind in KINDS:
        raise CompileError(
            f"name= is the function's name of an entry point 'main', and {request.name} has {list_names(payload.fmap)}. Leave name= out, "
            f"or give a function the name {name!r} in the source"
        )
    if payload.files is not None:
        payload = payload.replace(files={**_own_file(request), **payload.files})
    return module_of(payload, runtime=runtime)


def _checked_payload(spec: TargetSpec, payload: object) -> Payload:
    """Return what a compiler returned. Raise PluginError for another thing than a payload of the
    kind.
    """
    got = type(payload).__name__
    if isinstance(payload, Payload):
        if payload.kind == spec.kind:
            return payload
        got = f"a payload of kind {payload.kind!r}"
    raise PluginError(
        f"the compiler of the target {spec.kind!r} ({spec.compiler}) is broken: it returned {got}, not a devmod Payload of that kind",
        kind=spec.kind,
        key=f"devmod.targets.{spec.kind}",
    )


def validation_of(module: Module) -> tuple[str, str]:
    """Return `Payload.validator` and `Payload.unvalidated` of a module that was compiled in this
    process.
    """
    payload = module._devmod_payload
    if payload is None:
        return "", ""
    return payload.validator, payload.unvalidated


def left_out_of(module: Module) -> dict[str, str]:
    """Return the functions that a compile with ``--partial`` has left out, with their places."""
    modules = module.imports if module.kind == "bundle" else (module,)
    result: dict[str, str] = {}
    for each in modules:
        if each.origin is not None:
            result |= each.origin.extra.get(_LEFT_OUT, {})
    return result


def _check_closed(payload: Payload) -> None:
    """Raise CompileError for a source that receivers refuse because it could name one of their
    files.
    """
    from devmod_readers.sources import closed_source

    if isinstance(payload.code, (bytes, memoryview)):
        codes = [bytes(payload.code)]
    else:
        codes = [bytes(code) for code in payload.code.values()]
    for code in dict.fromkeys(codes):  # the kernels of one file have equal texts
        try:
            closed_source(payload.kind, code.decode())
        except FormatError as error:
            raise CompileError(str(error)) from None


def _own_file(request: CompileRequest) -> OwnNames:
    """Return the source itself if it is a file, path to SHA-256."""
    if not request.folder:
        return {}
    return {os.path.join(request.folder, request.name): request.digest}


def files_read(module: Module) -> OwnNames | None:
    """Return the files that the compile of a module has read, path to SHA-256; None if they are
    unknown.
    """
    files: OwnNames = {}
    modules = module.imports if module.kind == "bundle" else (module,)
    for each in modules:
        payload = each._devmod_payload
        if payload is None or payload.files is None:
            return None
        files |= payload.files
    return files
