"""The plan of a build: the jobs that follow from a manifest, one for each source and each variant
of a target that takes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from devmod import Target
from devmod.errors import FormatError, did_you_mean, list_names
from devmod_targets._compilers import MAIN_SYMBOLS
from devmod_targets._paths import below
from devmod_targets.build.matrix import (
    Use,
    covers,
    kernel_variants,
    macro_notes,
    shared_sections,
    stale_skips,
    triton_variants,
    uses_of,
)
from devmod_targets.build.options import OPTIONS, CompileOptions, Strings, merge_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devmod import Module
    from devmod_targets.build.manifest import Manifest, Source


@dataclass(frozen=True)
class Job(CompileOptions):
    """One run of a compiler: one source for one variant of a target, with the options of
    `devmod.compile`. All fields are strings, numbers and tuples of them.

    A worker runs ``devmod.compile(pathlib.Path(job.path), job.target, **job.arguments())``. The
    result depends on all fields but `folder` and `kernel`.

    Parameters
    ----------
    kernel
        The kernel's name in the manifest, for messages.
    folder
        The absolute path of the manifest's folder.
    source
        The source file, relative to `folder`, with slashes.
    target
        The target of a single payload, such as "cuda -arch=sm_90".
    """

    kernel: str
    folder: str
    source: str
    target: str

    @property
    def path(self) -> str:
        """The path of the source."""
        return below(self.folder, self.source)

    @property
    def kind(self) -> str:
        """The kind of the target."""
        return self.target.partition(" ")[0]

    @property
    def include_paths(self) -> Strings:
        """The paths of the include folders."""
        return tuple(below(self.folder, each) for each in self.include)

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `devmod.compile`."""
        arguments = {name: option.argument(getattr(self, name)) for name, option in OPTIONS.items()}
        return arguments | {"include": self.include_paths}

    def __str__(self) -> str:
        return f"{self.source} for {self.target}"


class Plan(NamedTuple):
    """The jobs of a build.

    Parameters
    ----------
    manifest
        The manifest, which has the settings of the file that the build writes.
    jobs
        The jobs, in the order of the manifest. The modules of the bundle have the same order.
    is_whole
        Whether the jobs are those of all targets.
    triton_targets
        The targets for which the records of Triton's kernels are compiled.
    notes, warnings
        Sentences for the user, such as about settings that a target does not use, and those about
        lines to delete.
    """

    manifest: Manifest
    jobs: tuple[Job, ...]
    is_whole: bool = True
    triton_targets: Strings = ()
    notes: Strings = ()
    warnings: Strings = ()

    @property
    def output(self) -> str:
        """The absolute path of the bundle."""
        return below(self.manifest.folder, self.manifest.output)


def plan_of(
    manifest: Manifest,
    targets: str | Iterable[str] = (),
    *,
    strict: bool = False,
    partial: bool = False,
) -> Plan:
    """Return the plan of a manifest.

    Parameters
    ----------
    manifest
        The manifest.
    targets
        The targets to build, each a kind or a target of the manifest; a string is one. Default:
        all.
    strict
        Whether all kernels are compiled with the option ``--strict``, also if the manifest does not
        say so.
    partial
        Whether all kernels are compiled with the option ``--partial``.

    Raises
    ------
    FormatError
        The manifest does not have one of `targets`.
    """
    manifest = manifest._replace(strict=manifest.strict or strict)
    if isinstance(targets, str):
        targets = [targets]
    chosen = [_choice(manifest, text) for text in targets]
    uses = []
    jobs = []
    for kernel in manifest.kernels:
        for use in uses_of(manifest, kernel):
            if chosen and not any(covers(target, use.variant) for target in chosen):
                continue
            uses.append(use)
            jobs += [_job(manifest, use, *source) for source in use.sources]
    if partial:
        jobs = [replace(job, options=(*job.options, "--partial")) for job in jobs]
    notes = tuple(dict.fromkeys(macro_notes(uses)))
    triton_targets = []
    for variant in triton_variants(manifest):
        if not chosen or any(covers(target, variant) for target in chosen):
            triton_targets.append(str(variant))
    return Plan(
        manifest,
        tuple(jobs),
        not chosen,
        tuple(dict.fromkeys(triton_targets)),
        notes,
        tuple(stale_skips(manifest)),
    )


def check_functions(modules: Iterable[tuple[Job, Module]]) -> None:
    """Check that no target has two functions of one name: a look-up would find only the first.

    Raises
    ------
    FormatError
        Two sources have a function of one name for one target. The text has all such functions.
    """
    owners: dict[tuple[str, str], Job] = {}
    problems = []
    for job, module in modules:
        for name in module:
            owner = owners.setdefault((job.target, name), job)
            if owner is not job:
                both = f"{owner.source} (kernel {owner.kernel!r}) and {job.source} (kernel {job.kernel!r})"
                hint = "rename one of them"
                if owner.source == job.source and job.defines:
                    hint += f', such as by its defines: {{ {name} = "…" }}'
                if module.functions[name].name in MAIN_SYMBOLS:
                    hint = f'name one: {{ path = "{job.source}", name = "…" }}'
                problems.append(
                    f"{both} both have a function {name!r} for the target {job.target!r}; {hint}"
                )
    if problems:
        raise FormatError("\n".join(problems))


def check_main(modules: Iterable[tuple[Job, Module]]) -> None:
    """Check that a kernel has its function for each target. Of several shaders with an entry point
    `main`, each has its file's name.

    Raises
    ------
    FormatError
        Shaders of a kernel have their files' names for one target, and another target has a
        function with the kernel's name.
    """
    # By kernel and target: the owner of each function.
    found: dict[str, dict[str, dict[str, tuple[Job, Module]]]] = {}
    for job, module in modules:
        owners = found.setdefault(job.kernel, {}).setdefault(job.target, {})
        owners |= dict.fromkeys(module, (job, module))
    for kernel, targets in found.items():
        for target, owners in targets.items():
            if kernel in owners or not any(kernel in each for each in targets.values()):
                continue
            mains: dict[str, str] = {}
            for name, (job, module) in owners.items():
                if module.functions[name].name in MAIN_SYMBOLS:
                    mains[name] = job.source
            if mains:
                source = next(iter(mains.values()))
                raise FormatError(
                    f"the kernel {kernel!r} has no function {kernel!r} for the target {target!r}, which other targets have: the entry "
                    f'points \'main\' of its files are {list_names(mains)}. Name one: {{ path = "{source}", name = "{kernel}" }}'
                )


def _choice(manifest: Manifest, text: str) -> Target:
    target = Target.parse(text)
    all_variants = list(triton_variants(manifest))
    for kernel in manifest.kernels:
        all_variants += kernel_variants(manifest, kernel)
    if not any(covers(target, variant) for variant in all_variants):
        known = list(dict.fromkeys(map(str, all_variants)))
        names = [*dict.fromkeys(variant.kind for variant in all_variants), *known]
        raise FormatError(
            f"{manifest.path} has no target {text!r}; its targets are {list_names(known)}{did_you_mean(text, names)}"
        )
    return target


def _job(manifest: Manifest, use: Use, source: Source, declared: str, language: str) -> Job:
    sections = [*shared_sections(use.common, use.variant.kind, language), *use.own]
    options = merge_options(sections)
    options["language"] = declared
    if source.name:
        options["name"] = source.name
    elif not options["name"] and len(use.sources) == 1:
        options["name"] = use.kernel.name
    if manifest.strict:
        options["options"] += ("--strict",)
    return Job(use.kernel.name, manifest.folder, source.path, str(use.variant), **options)
