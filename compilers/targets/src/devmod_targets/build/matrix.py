"""The settings and the sources of a kernel for a target."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from devmod import Target
from devmod.backend import find_spec
from devmod.errors import CompileError, PluginError, list_names
from devmod.targets import KINDS
from devmod_targets._compilers import chosen_sources, variants_of
from devmod_targets._groups import grouped
from devmod_targets.build.document import KeyPath, key_text, read_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from devmod import Target, TargetSpec
    from devmod_targets.build.manifest import KernelEntry, Manifest, Section, Source


#: Cached: a manifest has few targets, and each is parsed for every kernel.
parse_target = cache(Target.parse)


def kernel_targets(manifest: Manifest, kernel: KernelEntry) -> list[str]:
    """Return the targets of a kernel, in order."""
    return [
        text
        for text in kernel.targets or manifest.targets
        if parse_target(text).kind not in kernel.skip
    ]


def variants(text: str) -> tuple[Target, ...]:
    """Return the targets of single payloads. If the compiler is missing, one for each architecture:
    the jobs then report the reason.
    """
    target = parse_target(text)
    # Without options, core's kinds join no architectures: no compiler is imported.
    if target.kind in KINDS and not target.options:
        return _split(text)
    try:
        return variants_of(target)
    except (CompileError, PluginError):
        return target.variants()


@cache
def _split(text: str) -> tuple[Target, ...]:
    return parse_target(text).variants()


def takes_triton(kind: str) -> bool:
    """Return whether Triton compiles for a kind."""
    spec = find_spec(kind)
    return spec is not None and "Triton" in spec.languages.values()


def triton_variants(manifest: Manifest) -> Iterator[Target]:
    """Yield the targets of single payloads for which the records of Triton's kernels are compiled,
    in order.
    """
    if manifest.triton_records:
        for text in manifest.targets:
            if takes_triton(parse_target(text).kind):
                yield from variants(text)


def kernel_variants(manifest: Manifest, kernel: KernelEntry) -> Iterator[Target]:
    """Yield the variants of a kernel's targets, in order."""
    for text in kernel_targets(manifest, kernel):
        yield from variants(text)


class Use(NamedTuple):
    """A kernel for a variant of a target.

    Attributes
    ----------
    kernel, variant
        The kernel, and the variant.
    common, own
        The settings of the manifest and those of the kernel, the more specific ones last.
    sources
        The sources that the variant takes, each with the language of its declaration ("" for that
        of its suffix) and the language's name.
    """

    kernel: KernelEntry
    variant: Target
    common: list[Section]
    own: list[Section]
    sources: list[tuple[Source, str, str]]


def use_of(manifest: Manifest, kernel: KernelEntry, variant: Target) -> Use:
    """Return the use of a kernel for a variant."""
    own = _matching(kernel.section, kernel.target_sections, variant)
    declared: Sequence[Source] = ()
    default = ""
    for section in own:
        if section.sources is not None:
            declared = section.sources
        default = section.language or default
    spec = find_spec(variant.kind)
    names = [source.language or default or suffix_of(source.path) for source in declared]
    sources = []
    if spec is not None:
        chosen = zip(declared, names, chosen_sources(spec, names), strict=True)
        for source, name, is_chosen in chosen:
            if is_chosen:
                language = spec.languages.get(name, name)
                sources.append((source, source.language or default, language))
    common = _matching(manifest.section, manifest.target_sections, variant)
    return Use(kernel, variant, common, own, sources)


def uses_of(manifest: Manifest, kernel: KernelEntry) -> Iterator[Use]:
    """Return the uses of a kernel, in the order of its variants."""
    return (use_of(manifest, kernel, variant) for variant in kernel_variants(manifest, kernel))


def _matching(section: Section, targets: Sequence[Section], variant: Target) -> list[Section]:
    if not targets:
        return [section]
    matching = [each for each in targets if covers(parse_target(each.target), variant)]
    # [target.cuda] before [target."cuda -arch=sm_90"]
    return [section, *sorted(matching, key=lambda each: " " in each.target)]


def describe_languages(spec: TargetSpec) -> str:
    """Return a kind's languages with their suffixes for a message: ``GLSL (.comp, .glsl), HLSL
    (.hlsl)``.
    """
    suffixes = grouped((language, f".{suffix}") for suffix, language in spec.languages.items())
    return ", ".join(f"{language} ({', '.join(group)})" for language, group in suffixes.items())


def suffix_of(path: str) -> str:
    """Return the suffix of a path, in lower case and without the dot; "" without one."""
    stem, dot, suffix = path.rpartition("/")[2].rpartition(".")
    if not dot or not stem:
        return ""
    return suffix.lower()


def covers(target: Target, variant: Target) -> bool:
    """Return whether a target has a variant: the same kind, the architecture or none at all, and
    the same options or fewer.
    """
    return (
        target.kind == variant.kind
        and (not target.archs or set(variant.archs) <= set(target.archs))
        and set(target.options) <= set(variant.options)
    )


def stale_skips(manifest: Manifest) -> Iterator[str]:
    """Yield a warning for each kernel that skips a kind for which the manifest has no target, such
    as one that was removed.
    """
    for kernel in manifest.kernels:
        if not kernel.skip:
            continue
        kinds = {parse_target(text).kind for text in kernel.targets or manifest.targets}
        stale = [each for each in kernel.skip if each not in kinds]
        if stale:
            where = read_document(manifest.path).problem(("kernels", kernel.name, "skip"), "")
            place = "this line" if len(stale) == len(kernel.skip) else "it from this line"
            yield f"{manifest.path}:{where.line}: {where.key}: no target is of the kind {list_names(stale)}: delete {place}"


# -- Macros and include folders of languages without a preprocessor (`TargetSpec.preprocessed`;
# docs/design/build.md, The manifest).
#
# Those of the whole manifest are for the other languages. Those of a table that such a source alone
# has are mistakes.


def _macro_keys(section: Section) -> Iterator[str]:
    """Yield those of the keys for a preprocessor that a table has."""
    if section.defines:
        yield "defines"
    if section.include:
        yield "include"


def has_preprocessor(kind: str, language: str) -> bool:
    """Return whether a kind's compiles of a language take macros and include folders."""
    spec = find_spec(kind)
    return spec is not None and language in spec.preprocessed


def shared_sections(sections: Sequence[Section], kind: str, language: str) -> Sequence[Section]:
    """Return the settings of all kernels as they apply to a source: without macros for a language
    that has none.
    """
    if has_preprocessor(kind, language):
        return sections
    return [replace(each, defines=(), include=()) for each in sections]


def macro_notes(uses: Iterable[Use]) -> Iterator[str]:
    """Yield a sentence for each language of the targets that the macros of all kernels are not
    for.
    """
    for use in uses:
        keys: dict[str, None] = {}
        for section in use.common:
            keys |= dict.fromkeys(_macro_keys(section))
        if not keys:
            continue
        for _, _, language in use.sources:
            if not has_preprocessor(use.variant.kind, language):
                yield f"{' and '.join(keys)} of the manifest: not used for {use.variant.kind}, because {language} has no preprocessor"


def macro_mistakes(manifest: Manifest) -> Iterator[tuple[KeyPath, str]]:
    """Yield the keys of the targets of all kernels with macros or include folders that no source
    can use, and what is wrong with each.
    """
    for section in manifest.target_sections:
        spec = find_spec(section.target.partition(" ")[0])
        if spec is not None and not spec.preprocessed:
            yield from _mistakes(section, (), f"{spec.kind} takes {describe_languages(spec)}")


def kernel_macro_mistakes(uses: Sequence[Use]) -> dict[KeyPath, str]:
    """Return the keys of a kernel with macros or include folders that no source can use, and what
    is wrong with each.
    """
    result: dict[KeyPath, str] = {}  # a table applies to several variants
    for use in uses:
        for source, _, language in use.sources:
            if not has_preprocessor(use.variant.kind, language):
                for section in use.own:
                    result |= _mistakes(
                        section, ("kernels", use.kernel.name), f"{source.path!r} is {language}"
                    )
    return result


def _mistakes(section: Section, keys: KeyPath, reason: str) -> Iterator[tuple[KeyPath, str]]:
    if section.target:
        keys = (*keys, "target", section.target)
        hint = "remove the key"
    else:
        table = key_text((*keys, "target", "KIND"))
        hint = f"move the key to the targets that have one: [{table}]"
    for key in _macro_keys(section):
        yield (*keys, key), f"{reason}, which has no preprocessor; {hint}"
