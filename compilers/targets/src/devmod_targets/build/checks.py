"""Checks of a manifest against the kinds of devmod and the files beside it."""

from __future__ import annotations

import os
import posixpath
import re
from functools import cached_property

from devmod import Target, registered
from devmod.backend import find_spec, read_tuning_file
from devmod.errors import DevmodError, FormatError, did_you_mean, list_names
from devmod.targets import KINDS
from devmod_targets._compilers import (
    architecture_problem,
    chosen_sources,
    languages_of,
    other_choice,
    owner_of,
    takes,
)
from devmod_targets._paths import below
from devmod_targets.build.matrix import (
    Use,
    covers,
    describe_languages,
    kernel_macro_mistakes,
    kernel_targets,
    kernel_variants,
    macro_mistakes,
    parse_target,
    suffix_of,
    takes_triton,
    triton_variants,
    use_of,
    uses_of,
    variants,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from devmod import TargetSpec
    from devmod_targets.build.document import Document, KeyPath
    from devmod_targets.build.manifest import KernelEntry, Manifest, Section, Source

    #: The first source of a function of a target.
    _Owners = dict[tuple[str, str], tuple[KernelEntry, Source]]

#: The keys that may be by function, for messages.
_BY_FUNCTION = {"block": "a block by function", "shared_memory": "shared_memory by function"}
#: Languages of compilers' output. Several kinds take them, and a file is for one kind.
_LOW_LEVEL = ("ll", "bc", "s", "o")
#: Options that name a program or files to load, with what is expected in a manifest.
_UNTRUSTED = (
    (
        r"-toolchain=(?!clang(?:-\d+)?$)",
        "a clang in PATH, such as -toolchain=clang-19; DEVMOD_CLANG names another program",
    ),
    ("-device-libs=", "the library in DEVMOD_ROCM_DEVICE_LIBS, without this option"),
)


class Checks:
    """The checks of one manifest. `run` adds the mistakes to the document."""

    def __init__(self, manifest: Manifest, document: Document) -> None:
        self._manifest = manifest
        self._add = document.add
        self._problems = document.problems
        self._folders: dict[str, dict[str, None]] = {}

    @cached_property
    def _kinds(self) -> dict[str, None]:
        """The kinds of core and of all distributions."""
        return dict.fromkeys((*KINDS, *registered("devmod.targets")))

    @cached_property
    def _specs(self) -> list[TargetSpec]:
        return [spec for spec in map(find_spec, self._kinds) if spec is not None]

    def run(self) -> None:
        """Check the targets, the files, and then the sources of each kernel for its targets."""
        self._check_targets(self._manifest.targets, ("targets",))
        for kernel in self._manifest.kernels:
            self._check_targets(kernel.targets, ("kernels", kernel.name, "targets"))
        self._check_files()
        if self._manifest.programs:
            from devmod_targets.build.programs import check_programs

            check_programs(self._manifest.programs, self._add)
        if self._problems:  # the later checks would report the same mistakes again
            return
        self._check_target_tables()
        self._check_options()
        self._check_output()
        if self._problems:
            return
        owners: _Owners = {}
        self._check_architectures()
        if self._manifest.triton_records and not any(triton_variants(self._manifest)):
            expected = list_names(filter(takes_triton, KINDS))
            self._add(("triton_records",), f"no target is of the kinds of Triton, {expected}")
        for keys, text in macro_mistakes(self._manifest):
            self._add(keys, text)
        for kernel in self._manifest.kernels:
            uses = [*uses_of(self._manifest, kernel)]
            self._check_kernel(kernel, uses)
            self._check_names(kernel, uses, owners)
            for keys, text in kernel_macro_mistakes(uses).items():
                self._add(keys, text)

    # -- targets

    def _check_targets(self, targets: Sequence[str], keys: KeyPath) -> None:
        seen: dict[str, str] = {}
        for index, text in enumerate(targets):
            if not text:  # the reader has added this mistake
                continue
            try:
                problem = self._kind_problem(Target.parse(text).kind)
            except DevmodError as error:
                problem = str(error)
            if not problem:
                problem = self._add_variants(text, seen)
            if problem:
                self._add((*keys, index), problem)

    def _kind_problem(self, kind: str) -> str:
        """Return why a kind cannot be built; "" if it can."""
        # `find_spec` looks at every distribution for a kind that is missing.
        spec = None
        if kind in KINDS or kind in self._kinds:
            spec = find_spec(kind)
        if spec is None:
            hint = did_you_mean(kind, self._kinds) or f". The kinds are {', '.join(self._kinds)}"
            return f"unknown target {kind!r}{hint}"
        if not spec.compiler:
            return f"this release of devmod has no compiler for {kind}"
        return ""

    def _add_variants(self, text: str, seen: dict[str, str]) -> str:
        """Add the variants of a target to those of the targets before it. Return what is wrong with
        the first that is among them; "" if none is.
        """
        for variant in map(str, variants(text)):
            if variant in seen:
                if seen[variant] == text:
                    return f"the target {variant!r} is listed twice"
                return f"the target {variant!r} is a part of {seen[variant]!r} as well"
            seen[variant] = text
        return ""

    def _check_target_tables(self) -> None:
        self._check_keys_of_targets(
            self._manifest.target_sections, self._manifest.kernels, (), "the manifest"
        )
        for kernel in self._manifest.kernels:
            self._check_keys_of_targets(
                kernel.target_sections, [kernel], ("kernels", kernel.name), "the kernel"
            )

    def _check_keys_of_targets(
        self, sections: Sequence[Section], kernels: Iterable[KernelEntry], keys: KeyPath, owner: str
    ) -> None:
        if not sections:
            return
        known: list[Target] = []
        for kernel in kernels:
            known += kernel_variants(self._manifest, kernel)
        for section in sections:
            place = (*keys, "target", section.target)
            try:
                target = Target.parse(section.target)
            except FormatError as error:
                self._add(place, str(error))
                continue
            if not any(covers(target, variant) for variant in known):
                names = list(dict.fromkeys([*(each.kind for each in known), *map(str, known)]))
                self._add(
                    place,
                    f"{owner} has no such target; its targets are {list_names(names)}{did_you_mean(section.target, names)}",
                )

    def _check_architectures(self) -> None:
        """Check that each target names an architecture if it has a source for which its kind needs
        one.
        """
        problems: dict[KeyPath, str] = {}
        for kernel in self._manifest.kernels:
            keys: KeyPath = ("targets",)
            if kernel.targets:
                keys = ("kernels", kernel.name, "targets")
            for index, text in enumerate(kernel.targets or self._manifest.targets):
                target = parse_target(text)
                if target.kind not in kernel.skip:
                    problem = self._architecture_problem(kernel, target)
                    if problem:
                        problems.setdefault((*keys, index), problem)
        for place, problem in problems.items():
            self._add(place, problem)

    def _architecture_problem(self, kernel: KernelEntry, target: Target) -> str:
        spec = find_spec(target.kind)
        if spec is None or not spec.needs_arch or target.archs:
            return ""
        for _, _, language in use_of(self._manifest, kernel, target).sources:
            problem = architecture_problem(spec, target, language)
            if problem:
                return problem
        return ""

    # -- files

    def _check_files(self) -> None:
        manifest = self._manifest
        for keys, section in self._sections():
            for index, source in enumerate(section.sources or ()):
                self._check_file(source.path, (*keys, "sources", index))
            for index, folder in enumerate(section.include):
                if folder and not os.path.isdir(self._path(folder)):
                    self._add(
                        (*keys, "include", index),
                        f"the folder {folder!r} does not exist{self._suggestion(folder)}",
                    )
        for index, file in enumerate(manifest.constants.files):
            self._check_file(file.path, ("constants", "files", index))
        for index, path in enumerate(manifest.tune_records):
            self._check_file(path, ("tune_records", index))
            self._check_records(path, ("tune_records", index))
        for index, path in enumerate(manifest.triton_records):
            self._check_file(path, ("triton_records", index))

    def _sections(self) -> list[tuple[KeyPath, Section]]:
        """Return all tables with settings."""
        manifest = self._manifest
        result: list[tuple[KeyPath, Section]] = [((), manifest.section)]
        result += [(("target", each.target), each) for each in manifest.target_sections]
        for kernel in manifest.kernels:
            result += _sections_of(kernel)
        return result

    def _check_file(self, path: str, keys: KeyPath) -> None:
        real = self._path(path)
        if not path:
            return
        # Some systems ignore the case of a name, and others do not.
        is_listed = posixpath.basename(path) in self._names(os.path.dirname(real))
        if is_listed and os.path.isfile(real):
            return
        if os.path.isdir(real):
            problem = "is a folder; expected a file"
        elif is_listed and os.path.exists(real):
            problem = "is a pipe or a device; expected a file"
        else:
            problem = f"does not exist{self._suggestion(path)}"
        self._add(keys, f"{path!r} {problem}")

    def _check_records(self, path: str, keys: KeyPath) -> None:
        """Add the problem of a file of tuning records before the kernels are compiled."""
        try:
            read_tuning_file(self._path(path))
        except FormatError as error:
            self._add(keys, str(error))
        except OSError:  # `_check_file` has its problem
            return

    def _suggestion(self, path: str) -> str:
        folder, name = posixpath.split(path)
        suggestion = did_you_mean(name, self._names(os.path.dirname(self._path(path))))
        if not folder:
            return suggestion
        return suggestion.replace(". Did you mean '", f". Did you mean '{folder}/")

    def _names(self, folder: str) -> dict[str, None]:
        if folder not in self._folders:
            try:
                self._folders[folder] = dict.fromkeys(os.listdir(folder))
            except OSError:
                self._folders[folder] = {}
        return self._folders[folder]

    def _path(self, path: str) -> str:
        return below(self._manifest.folder, path)

    def _check_options(self) -> None:
        for keys, section in self._sections():
            for index, option in enumerate(section.options):
                for pattern, expected in _UNTRUSTED:
                    if re.match(pattern, option):
                        text = f"{option!r} is not an option of a manifest, which may come from a stranger; expected {expected}"
                        self._add((*keys, "options", index), text)

    def _check_output(self) -> None:
        manifest = self._manifest
        inputs = [each.path for each in manifest.constants.files]
        inputs += (*manifest.tune_records, *manifest.triton_records)
        for _, section in self._sections():
            inputs += [source.path for source in section.sources or ()]
        if os.path.isdir(self._path(manifest.output)):
            self._add(("output",), f"{manifest.output!r} is a folder; expected a file")
        elif manifest.output in inputs:
            self._add(
                ("output",),
                f"{manifest.output!r} is an input as well; the build would overwrite it",
            )

    # -- kernels

    def _check_kernel(self, kernel: KernelEntry, uses: Sequence[Use]) -> None:
        keys: KeyPath = ("kernels", kernel.name)
        for index, kind in enumerate(kernel.skip):
            kinds = [parse_target(text).kind for text in kernel.targets or self._manifest.targets]
            # `stale_skips` has those of kinds without a target.
            if kind not in kinds and kind not in self._kinds:
                hint = did_you_mean(kind, kinds)
                self._add(
                    (*keys, "skip", index),
                    f"no target is of the kind {kind!r}; the kinds are {list_names(dict.fromkeys(kinds))}{hint}",
                )
        targets = kernel_targets(self._manifest, kernel)
        if not targets:
            self._add((*keys, "skip"), "it leaves out every target of the kernel")
            return
        if self._check_languages(kernel) and self._check_sources(kernel, targets, keys):
            self._check_served(kernel, uses, keys)

    def _check_languages(self, kernel: KernelEntry) -> bool:
        """Check that each language that a kernel names exists."""
        before = len(self._problems)
        for place, section in _sections_of(kernel):
            self._check_language(section.language, (*place, "language"))
            for index, source in enumerate(section.sources or ()):
                self._check_language(source.language, (*place, "sources", index, "language"))
        return len(self._problems) == before

    def _check_language(self, language: str, keys: KeyPath) -> None:
        if not language or any(takes(spec, language) for spec in self._specs):
            return
        names: set[str] = set()
        languages: dict[str, None] = {}
        for spec in self._specs:
            names.update(languages_of(spec))
            languages |= dict.fromkeys(spec.languages.values())
        hint = did_you_mean(language, sorted(names))
        hint = hint or f"; the languages are {', '.join(languages)}"
        self._add(keys, f"unknown language {language!r}{hint}")

    def _check_sources(self, kernel: KernelEntry, targets: Sequence[str], keys: KeyPath) -> bool:
        """Check that each source of a kernel is for one target at least."""
        before = len(self._problems)
        self._check_section(kernel, kernel.section, targets, keys)
        for each in kernel.target_sections:
            target = parse_target(each.target)
            own = [text for text in targets if any(covers(target, it) for it in variants(text))]
            self._check_section(kernel, each, own, (*keys, "target", each.target))
        return len(self._problems) == before

    def _check_section(
        self, kernel: KernelEntry, section: Section, targets: Sequence[str], keys: KeyPath
    ) -> None:
        """Check the sources of a table, which is for some of the targets."""
        sources = section.sources or ()
        default = section.language or kernel.section.language
        languages = [source.language or default for source in sources]
        names = [
            language or suffix_of(source.path)
            for source, language in zip(sources, languages, strict=True)
        ]
        kinds = dict.fromkeys(parse_target(text).kind for text in targets)
        chosen = {kind: chosen_sources(find_spec(kind), names) for kind in kinds}
        seen = set()
        for index, source in enumerate(sources):
            where = (*keys, "sources", index)
            language = languages[index]
            if (source.path, language) in seen:
                self._add(where, f"{source.path!r} is listed twice")
            seen.add((source.path, language))
            takers = [kind for kind in kinds if chosen[kind][index]]
            other = ""
            if not takers:
                other = other_choice(chosen, names, index)
            self._check_source(kernel, source, language, takers, other, where)

    def _check_source(
        self,
        kernel: KernelEntry,
        source: Source,
        language: str,
        kinds: Sequence[str],
        other: str,
        keys: KeyPath,
    ) -> None:
        name = language or suffix_of(source.path)
        if name in _LOW_LEVEL and not language and len(kinds) > 1:
            one = f'[kernels.{kernel.name}.target.{kinds[0]}] with sources = ["{source.path}"]'
            self._add(
                keys,
                f"{' and '.join(kinds)} both take files such as {source.path!r}, and each is for one kind. Name it: {one}",
            )
        if kinds:
            return
        spec = owner_of(name)
        if spec is None:
            hint = f'{{ path = "{source.path}", language = "OpenCL C" }}'
            self._add(
                keys,
                f"the suffix of {source.path!r} does not show its language; give it, as in {hint}",
            )
            return
        title = spec.languages.get(name, name)
        if other:
            problem = f"is for no target of the kernel: {other}. Make it a kernel of its own"
        else:
            problem = f"no target of the kernel takes it. Add a target, such as {spec.kind!r}"
        self._add(keys, f"{source.path!r} is {title}, and {problem}, or remove the source")

    def _check_served(self, kernel: KernelEntry, uses: Sequence[Use], keys: KeyPath) -> None:
        """Check that each target of a kernel has a source, and that settings for one source are not
        for several.
        """
        if kernel.section.sources is None and not kernel.target_sections:
            self._add(keys, 'the kernel has no sources, such as sources = ["twice.cl", "twice.cu"]')
            return
        missing = {}
        for use in uses:
            spec = find_spec(use.variant.kind)
            if not use.sources and spec is not None:
                name = str(use.variant) if len(use.own) > 1 else spec.kind
                missing[name] = spec
            self._check_one_source(use, keys)
        for name, spec in missing.items():
            self._add(
                (*keys, "sources"),
                f"no source is for the target {name!r}, which takes {describe_languages(spec)}. Add one, or leave the kind out: "
                f'skip = ["{spec.kind}"]',
            )

    def _check_one_source(self, use: Use, keys: KeyPath) -> None:
        if len(use.sources) < 2:
            return
        for section in use.own:
            place = (*keys, "target", section.target) if section.target else keys
            used = {
                "name": section.name,
                "functions": section.fmap,
                "local": section.local,
                "block": any(dict(section.block)),  # a block of a function, whose name is not ""
                "shared_memory": any(dict(section.shared_memory)),
            }
            for key, value in used.items():
                if not value:
                    continue
                what = _BY_FUNCTION.get(key, f"the key {key}")
                have = f"{str(use.variant)!r} has {len(use.sources)}"
                self._add(
                    (*place, key),
                    f"{what} is for one source, and {have}; make each source a kernel of its own",
                )

    def _check_names(
        self,
        kernel: KernelEntry,
        uses: Sequence[Use],
        owners: _Owners,
    ) -> None:
        """Check that the shaders of a target have different names."""
        for use in uses:
            for index, (source, _, language) in enumerate(use.sources):
                if language != "GLSL":  # the entry point of each shader is `main`
                    continue
                name = _function_name(use, source)
                owner, other = owners.setdefault((str(use.variant), name), (kernel, source))
                if other is not source:
                    both = f"{other.path!r} of the kernel {owner.name!r} and {source.path!r}"
                    hint = f'{{ path = "{source.path}", name = "…" }}'
                    self._add(
                        ("kernels", kernel.name, "sources", index),
                        f"{both} are both the function {name!r} for {use.variant.kind}; name one: {hint}",
                    )


def _sections_of(kernel: KernelEntry) -> list[tuple[KeyPath, Section]]:
    """Return the tables of a kernel with their keys."""
    keys = ("kernels", kernel.name)
    targets = [((*keys, "target", each.target), each) for each in kernel.target_sections]
    return [(keys, kernel.section), *targets]


def _function_name(use: Use, source: Source) -> str:
    """Return the name of the function of a shader whose entry point is `main`."""
    if source.name:
        return source.name
    for section in reversed(use.own):
        if section.name:
            return section.name
    if len(use.sources) == 1:
        return use.kernel.name
    return posixpath.splitext(posixpath.basename(source.path))[0]
