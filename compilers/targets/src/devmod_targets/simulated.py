"""How a source of any language is compiled for the simulated GPU, which checks PTX."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import devmod
from devmod import Target
from devmod.backend import create_own, find_spec
from devmod.errors import CompileError
from devmod.targets import KINDS, SIMULATED
from devmod_targets._compilers import import_compiler, owner_of, takes
from devmod_targets._read_source import language_of, read_source
from devmod_targets.authoring import CompileRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from devmod import Module
    from devmod_targets._read_source import SourceText

    #: Compiles a source, given by its path and its text.
    Way = Callable[[PathLike[str], SourceText], Module]

#: The architecture of the simulated GPU.
_ARCH = "compute_90"
_TARGET = f"{SIMULATED} -arch={_ARCH}"


def compile_for_checks(source: PathLike[str], target: str = "") -> Module:
    """Compile a source for the simulated GPU. The functions have the names and the parameters that
    they have for the target.

    Parameters
    ----------
    source
        The file.
    target
        The target that the source is for. Default: the first kind that takes the language.

    Raises
    ------
    CompileError
        The source has errors, or a construct that cannot be checked. The message names it.
    ToolchainNotFoundError
        What compiles it is not installed.
    """
    own = Target.parse(target or _default_target(source))
    spec = find_spec(own.kind)
    if own.kind not in KINDS or spec is None:
        return devmod.compile(source, str(own))
    text = read_source(source, spec, None)
    language = language_of(spec, None, text.suffix) or next(iter(spec.languages.values()))
    try:
        if own.kind == SIMULATED:
            return devmod.compile(source, _checked_target(str(own)))
        if takes(find_spec(SIMULATED), language):
            return devmod.compile(source, _TARGET, language=language)
        way = _WAYS.get(language)
        if way is None:
            raise CompileError(
                f"{language} is not translated for the simulated GPU: it checks {', '.join(languages())}"
            )
        return way(source, text)
    except CompileError as error:
        error.kind = own.kind
        raise


def languages() -> list[str]:
    """Return the languages of sources that can be checked."""
    simulated = find_spec(SIMULATED)
    assert simulated is not None
    own = [each for each in simulated.languages.values() if each in simulated.preprocessed]
    return [*own, *_WAYS]


def _default_target(source: PathLike[str]) -> str:
    """Return the first kind that takes the language of a file, by its suffix."""
    suffix = str(source).rpartition(".")[2].lower()
    owner = owner_of(suffix)
    return owner.kind if owner else SIMULATED


def _checked_target(target: str) -> str:
    """Return a target of the simulated GPU's kind with a format that it executes: PTX."""
    if "-arch" not in target:
        return f"{target} -arch={_ARCH}"
    return re.sub(r"\bsm_", "compute_", target)


def _by_slang(_: PathLike[str], text: SourceText) -> Module:
    """Compile HLSL, which Slang reads. Each entry point has a module: it takes what it uses."""
    from devmod_targets.slang.compile import compile as compile_slang
    from devmod_targets.vulkan.compile import hlsl_entries

    simulated = find_spec(SIMULATED)
    assert simulated is not None
    compiler = import_compiler(simulated)[0]
    modules = []
    for entry in hlsl_entries(text.text, text.name):
        request = CompileRequest(
            text.text,
            Target.parse(_TARGET),
            name=text.shown_name,
            folder=text.folder,
            stem=os.path.splitext(text.name)[0],
            language="HLSL",
            name_expressions=(entry,),
        )
        payload = compile_slang(request, compiler)
        modules.append(create_own(payload.kind, payload.code, payload.fmt, payload.fmap))
    if len(modules) == 1:
        return modules[0]
    return devmod.bundle(*modules)


#: What compiles the languages that the compiler of the simulated GPU's kind does not take.
_WAYS: dict[str, Way] = {"HLSL": _by_slang}
