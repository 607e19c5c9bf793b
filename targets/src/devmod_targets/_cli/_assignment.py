"""Which of the targets of `devmod compile` each source is compiled for."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click

from devmod import Target
from devmod.backend import find_spec
from devmod.commands import STDIN
from devmod.targets import KINDS
from devmod_targets.build.matrix import describe_languages, languages_of, suffix_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from devmod import TargetSpec


class Assignment(NamedTuple):
    """A source, by its index, a target that takes it, and the language for `devmod.compile`; None for that of its suffix."""

    source: int
    target: str
    language: str | None


def assign(sources: Sequence[Path], targets: Sequence[str], language: str | None) -> list[Assignment]:
    """Return each source with each target that takes its language, in the order of the sources, then of the targets.

    One source and one target belong together: the compiler checks the language.

    Raises
    ------
    click.UsageError
        A target is given twice, no target takes a source, or no source is for a target.
    """
    repeated = next((target for target in targets if targets.count(target) > 1), None)
    if repeated is not None:
        raise click.UsageError(f"the target {repeated!r} is given twice")
    kinds = [Target.parse(target).kind for target in targets]
    specs = {kind: spec for kind in kinds if (spec := find_spec(kind)) is not None}
    if len(sources) * len(targets) == 1 or len(specs) < len(set(kinds)):  # compiling reports an unknown kind
        return [Assignment(index, target, language) for index in range(len(sources)) for target in targets]
    result = []
    for index, source in enumerate(sources):
        own = _own_language(source, len(sources), specs.values(), language)
        name = own or suffix_of(source.name)
        takers = [target for target, kind in zip(targets, kinds, strict=True) if name in languages_of(specs[kind])]
        if not takers and len(specs) == 1 and own is None and _owner(name) is None:
            takers = list(targets)
        if not takers:
            raise click.UsageError(_no_taker(source, name, own, specs))
        result += [Assignment(index, target, own) for target in takers]
    for target, kind in zip(targets, kinds, strict=True):
        if all(each.target != target for each in result):
            raise click.UsageError(
                f"no source is for the target {target!r}: {kind} takes {describe_languages(specs[kind])}. Add a source, or leave it out"
            )
    return result


def _own_language(source: Path, count: int, specs: Iterable[TargetSpec], language: str | None) -> str | None:
    """Return the language of --language where it is for a source, else None.

    Among several sources, a suffix goes before it if it belongs to a target that does not take the language.
    """
    if language is None or count == 1:
        return language
    takers = [languages_of(spec) for spec in specs if suffix_of(source.name) in spec.languages]
    return None if takers and all(language not in names for names in takers) else language


def _owner(name: str) -> TargetSpec | None:
    """Return the spec of the first kind with a language or a suffix of this name."""
    return next((spec for spec in map(find_spec, KINDS) if spec is not None and name in languages_of(spec)), None)


def _no_taker(source: Path, name: str, language: str | None, specs: dict[str, TargetSpec]) -> str:
    takes = "; ".join(f"{kind} takes {describe_languages(spec)}" for kind, spec in specs.items())
    if str(source) == STDIN and language is None:
        return f"standard input has no suffix, so its language is unknown; give it with --language. {takes}"
    other = _owner(name)
    if language is not None:
        what = "" if other is None else f". It is a language of {other.kind}"
        return f"no target takes the language {language!r}: {takes}{what}"
    if other is None:
        return f"the suffix of {source} does not show its language; give it with --language. {takes}"
    return f"{source} is {other.languages[name]}, which none of the targets takes: {takes}. Add -t {other.kind}, or give --language"
