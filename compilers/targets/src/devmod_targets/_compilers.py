"""What the compiler of a kind takes: languages, variants of a target, and architectures. No
compiler is imported unless it is needed.
"""

from __future__ import annotations

from importlib import import_module

from devmod import Target
from devmod.backend import find_spec
from devmod.errors import PluginError, ToolchainNotFoundError, not_installed
from devmod.targets import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from devmod import TargetSpec
    from devmod_targets.authoring import CompileRequest, Payload

    Compiler = Callable[[CompileRequest], Payload]


#: The numbers of threads in a subgroup that can be required.
SUBGROUP_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
#: The languages that a kind compiles only for a kernel without another one: the kind's extra
#: ``build-<kind>`` does not have their compilers.
_LAST = frozenset((kind, "OpenCL C") for kind in ("vulkan", "cuda", "rocm"))
#: The symbols of an entry point without a name of its own. Metal has no ``main``, and compilers of
#: shaders write another name there.
MAIN_SYMBOLS = ("main", "main0")


def function_name(request: CompileRequest, entry: str, others: Container[str]) -> str:
    """Return the name of an entry point's function: the source's stem for 'main'. Raise
    CompileError if another function has it.
    """
    name = request.stem if entry == "main" else entry
    if name in others:
        raise request.error(
            f"the {request.language} source {request.name} has the entry points 'main' and {name!r}, and the function name of 'main' is "
            f"also {name!r}; pass another name in name=",
            function=name,
        )
    return name


def variants_of(target: Target) -> tuple[Target, ...]:
    """Return the targets of single payloads: one for each architecture, or one for all of a
    fatbin.
    """
    if len(target.archs) < 2:
        return (target,)
    spec = find_spec(target.kind)
    if spec is None or not spec.compiler:
        return target.variants()
    return tuple(import_compiler(spec)[1](target))


# Where to change: the compiler of a kind
#   here: a package in `compilers/targets/src/devmod_targets/`, which the kind's `SPEC` names
#   also: `core/pyproject.toml`, an extra `build-<kind>`, which `SPEC` names too
#   tests: `tests/test_two_places.py`
def import_compiler(spec: TargetSpec) -> tuple[Compiler, Callable[[Target], Sequence[Target]]]:
    """Return the compiler of a kind, and the function that splits a target into the targets of
    single payloads.

    That function is `Target.variants`, or the function ``variants`` of the compiler's module.
    """
    module, _, function = spec.compiler.partition(":")
    try:
        compiler_module = import_module(module)
        variants = getattr(compiler_module, "variants", Target.variants)
        return getattr(compiler_module, function), variants
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else ""
        if missing != module.partition(".")[0] or not spec.build_extra:
            raise PluginError(
                f"the compiler of the target {spec.kind!r} ({spec.compiler}) is broken: {type(error).__name__}: {error}",
                kind=spec.kind,
                key=f"devmod.targets.{spec.kind}",
            ) from error
        text = not_installed("its compiler", spec.build_distribution)
        raise ToolchainNotFoundError(
            f"{spec.kind} cannot be compiled here: {text}", kind=spec.kind
        ) from None


def owner_of(name: str) -> TargetSpec | None:
    """Return the core kind of a language, or of a suffix of source files: that whose default it is,
    else the first that takes it.
    """
    takers = [spec for spec in map(find_spec, KINDS) if takes(spec, name)]
    for spec in takers:
        if is_default(spec, name):
            return spec
    return takers[0] if takers else None


def is_default(spec: TargetSpec | None, name: str) -> bool:
    """Return whether a language, given by its name or by a suffix, is the default language of a
    kind.
    """
    if spec is None:
        return False
    default = next(iter(spec.languages.values()), None)
    return spec.languages.get(name, name) == default


def is_own(spec: TargetSpec | None, name: str) -> bool:
    """Return whether a language that a kind takes is not the default language of another kind."""
    return is_default(spec, name) or not is_default(owner_of(name), name)


def chosen_sources(spec: TargetSpec | None, names: Sequence[str]) -> list[bool]:
    """Return for each source of a kernel whether a kind compiles it. `names` has their languages,
    by the name or by the suffix.

    A kind compiles the sources of one language: of its own, or else of the first in `names` that it
    takes. Vulkan, CUDA and ROCm compile OpenCL C if there is no other language.
    """
    if spec is None:
        return [False] * len(names)
    languages = [spec.languages.get(name, name) for name in names if takes(spec, name)]
    own = [each for each in languages if is_default(spec, each)]
    usual = [each for each in languages if (spec.kind, each) not in _LAST]
    language = next(iter(own or usual or languages), None)
    return [spec.languages.get(name, name) == language for name in names]


def other_choice(chosen: Mapping[str, Sequence[bool]], names: Sequence[str], index: int) -> str:
    """Return what a source's error has about the kinds that take its language, but compile another
    source; "" without such a kind.

    Parameters
    ----------
    chosen
        The kinds, each with the result of `chosen_sources`.
    names
        The languages of the sources.
    index
        The index of the source.
    """
    for kind in chosen:
        spec = find_spec(kind)
        if spec is not None and takes(spec, names[index]):
            name = names[chosen[kind].index(True)]
            language = spec.languages.get(name, name)
            return f"{kind} gets the {language}, because a target gets its own language, or else that of the first source"
    return ""


def takes(spec: TargetSpec | None, name: str) -> bool:
    """Return whether a kind takes a language, given by its name or by the suffix of its files."""
    return spec is not None and (name in spec.languages or name in spec.languages.values())


def languages_of(spec: TargetSpec | None) -> frozenset[str]:
    """Return the names by which a kind's languages can be given: the languages, and the suffixes of
    their files.
    """
    if spec is None:
        return frozenset()
    return frozenset((*spec.languages, *spec.languages.values()))


def architecture_problem(
    spec: TargetSpec, target: Target, language: str, *, assumed: bool = False
) -> str:
    """Return the message that a target must name an architecture; "" if it names one, or need not
    for sources of the language.

    Parameters
    ----------
    spec, target
        The target, and the spec of its kind.
    language
        The language.
    assumed
        Whether the caller of `devmod.compile` may have omitted another language.
    """
    example = spec.needs_arch.get(language)
    if target.archs or not example or dict(target.options).get("format") in spec.source_formats:
        return ""
    text = f"the target {str(target)!r} names no architecture. Name those of the devices: {str(Target(spec.kind, arch=example))!r}"
    for suffix, name in spec.languages.items():
        fmt = spec.suffixes.get(suffix)
        if name == language and fmt in spec.source_formats:
            text += (
                f". Or keep the source, which the receiver compiles: '{spec.kind} -format={fmt}'"
            )
            break
    languages = dict.fromkeys(spec.languages.values())
    others = [name for name in languages if name not in spec.needs_arch]
    if others:
        text += f". {', '.join(others)} need none"
        if assumed:
            text += f": pass the language, as in devmod.compile(…, language={others[0]!r})"
    return text
