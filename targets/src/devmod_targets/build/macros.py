"""Macros and include folders of languages without a preprocessor (`TargetSpec.preprocessed`; docs/design/build.md, The manifest).

Those of the whole manifest are for the other languages. Those of a table that such a source alone has are mistakes.
"""

from __future__ import annotations

from dataclasses import replace

from devmod.backend import find_spec
from devmod_targets.build.document import key_text
from devmod_targets.build.matrix import describe_languages, kernel_variants, language_of, sections_for, sources_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from devmod import Target
    from devmod_targets.build.manifest import KernelEntry, Manifest, Section
    from devmod_targets.build.toml_lines import KeyPath

_KEYS = ("defines", "include")


def has_preprocessor(kind: str, language: str) -> bool:
    """Return whether a kind's compiles of a language take macros and include folders."""
    spec = find_spec(kind)
    return spec is not None and language in spec.preprocessed


def shared_sections(sections: Sequence[Section], kind: str, language: str) -> Sequence[Section]:
    """Return the settings of all kernels as they apply to a source: without macros for a language that has none."""
    return sections if has_preprocessor(kind, language) else [replace(each, defines=(), include=()) for each in sections]


def macro_notes(manifest: Manifest, targets: Iterable[tuple[KernelEntry, Target]]) -> Iterator[str]:
    """Yield a sentence for each language of the targets that the macros of all kernels are not for."""
    for kernel, variant in targets:
        common, own = sections_for(manifest, kernel, variant)
        keys = " and ".join(key for key in _KEYS if any(getattr(section, key) for section in common))
        for source, language in sources_for(own, variant) if keys else ():
            name = language_of(source.path, language, variant)
            if not has_preprocessor(variant.kind, name):
                yield f"{keys} of the manifest: not used for {variant.kind}, because {name} has no preprocessor"


def macro_mistakes(manifest: Manifest) -> Iterator[tuple[KeyPath, str]]:
    """Yield the keys with macros or include folders that no source can use, and what is wrong with each."""
    for section in manifest.target_sections:
        spec = find_spec(section.target.partition(" ")[0])
        if spec is not None and not spec.preprocessed:
            yield from _mistakes(section, (), f"{spec.kind} takes {describe_languages(spec)}")
    for kernel in manifest.kernels:
        yield from dict(_kernel_mistakes(manifest, kernel)).items()  # a table applies to several variants


def _kernel_mistakes(manifest: Manifest, kernel: KernelEntry) -> Iterator[tuple[KeyPath, str]]:
    for variant in kernel_variants(manifest, kernel):
        _, sections = sections_for(manifest, kernel, variant)
        for source, own in sources_for(sections, variant):
            language = language_of(source.path, own, variant)
            if not has_preprocessor(variant.kind, language):
                for section in sections:
                    yield from _mistakes(section, ("kernels", kernel.name), f"{source.path!r} is {language}")


def _mistakes(section: Section, keys: KeyPath, reason: str) -> Iterator[tuple[KeyPath, str]]:
    place = (*keys, "target", section.target) if section.target else keys
    hint = "remove the key" if section.target else f"move the key to the targets that have one: [{key_text((*keys, 'target', 'KIND'))}]"
    for key in _KEYS:
        if getattr(section, key):
            yield (*place, key), f"{reason}, which has no preprocessor; {hint}"
