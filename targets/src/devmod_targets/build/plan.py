"""The plan of a build: the jobs that follow from a manifest, one for each source and each variant of a target that takes it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from devmod import Local, Target, load_metadata_from_json
from devmod.backend import find_spec
from devmod_targets.compilation import variants_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from devmod_targets.build.manifest import Blocks, Constants, Define, Kernel, Locals, Manifest, Section, Source


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a compiler: one source for one variant of a target. All fields are strings, numbers and tuples of them.

    A worker runs ``devmod.compile(pathlib.Path(job.path), job.target, **job.arguments())``. The result depends on all fields but
    `folder` and `kernel`.

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
    language, name
        The arguments of `devmod.compile`; "" for the default.
    options, defines, name_expressions
        The arguments of `devmod.compile`.
    include
        The include folders, relative to `folder`, with slashes.
    fmap
        The declared functions, as JSON of a metadata file; "" without any.
    block
        The threads of a block by function; "" is all functions.
    local
        The default sizes of local memory: function or "", parameter, bytes, and whether they are per thread.
    """

    kernel: str
    folder: str
    source: str
    target: str
    language: str = ""
    name: str = ""
    options: tuple[str, ...] = ()
    defines: tuple[tuple[str, Define], ...] = ()
    include: tuple[str, ...] = ()
    name_expressions: tuple[str, ...] = ()
    fmap: str = ""
    block: Blocks = ()
    local: Locals = ()

    @property
    def path(self) -> str:
        """The path of the source."""
        return os.path.join(self.folder, *self.source.split("/"))

    @property
    def kind(self) -> str:
        """The kind of the target."""
        return self.target.partition(" ")[0]

    @property
    def include_paths(self) -> tuple[str, ...]:
        """The paths of the include folders."""
        return tuple(os.path.join(self.folder, *each.split("/")) for each in self.include)

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `devmod.compile`."""
        block: Any = {function: dims for function, dims in self.block}  # noqa: C416 - the key "" is for all functions
        local: dict[str, Any] = {}
        for function, parameter, nbytes, per_thread in self.local:
            group = local.setdefault(function, {}) if function else local
            group[parameter] = Local(per_thread=nbytes) if per_thread else Local(nbytes)
        return {
            "name": self.name or None,
            "language": self.language or None,
            "fmap": load_metadata_from_json(self.fmap) if self.fmap else None,
            "options": self.options,
            "defines": dict(self.defines),
            "include": self.include_paths,
            "name_expressions": self.name_expressions,
            "block": block.get("", block or None),
            "local": local or None,
        }

    def __str__(self) -> str:
        return f"{self.source} for {self.target}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs of a build, and the settings of the file that it writes.

    Parameters
    ----------
    manifest
        The path of the manifest, as the caller named it.
    folder
        The absolute path of the manifest's folder.
    output
        The absolute path of the bundle.
    jobs
        The jobs, in the order of the manifest. The modules of the bundle have the same order.
    constants
        The constants of the bundle.
    mixed, with_sources, compress
        The settings of `devmod.bundle` and `devmod.save`.
    """

    manifest: str
    folder: str
    output: str
    jobs: tuple[Job, ...]
    constants: Constants
    mixed: bool = False
    with_sources: bool = False
    compress: str = ""


def plan_of(manifest: Manifest, targets: Iterable[str] = ()) -> Plan:
    """Return the plan of a manifest.

    Parameters
    ----------
    manifest
        The manifest.
    targets
        The targets to build, each a kind or a target of the manifest. Default: all.
    """
    chosen = [Target.parse(text) for text in targets]
    jobs = [
        job
        for kernel in manifest.kernels
        for job in _jobs(manifest, kernel)
        if not chosen or any(_covers(target, Target.parse(job.target)) for target in chosen)
    ]
    return Plan(
        manifest.path,
        manifest.folder,
        os.path.join(manifest.folder, *manifest.output.split("/")),
        tuple(jobs),
        manifest.constants,
        manifest.mixed,
        manifest.with_sources,
        manifest.compress,
    )


def _jobs(manifest: Manifest, kernel: Kernel) -> Iterator[Job]:
    for text in kernel.targets or manifest.targets:
        target = Target.parse(text)
        if target.kind in kernel.skip:
            continue
        for variant in variants_of(target):
            top = [manifest.section, *(each for each in manifest.target_sections if _covers(Target.parse(each.target), variant))]
            own = [kernel.section, *(each for each in kernel.target_sections if _covers(Target.parse(each.target), variant))]
            sources = _sources(own, variant)
            for source in sources:
                yield _job(manifest, kernel, source, len(sources) == 1, variant, [*top, *own])


def _job(manifest: Manifest, kernel: Kernel, source: Source, alone: bool, variant: Target, sections: Sequence[Section]) -> Job:
    defines: dict[str, Define] = {}
    functions: dict[str, Any] = {}
    local: dict[tuple[str, str], tuple[int, bool]] = {}
    block: Blocks = ()
    name = kernel.name if alone else ""
    language = ""
    for section in sections:
        defines |= dict(section.defines)
        functions |= {key: json.loads(text) for key, text in section.functions}
        local |= {(function, parameter): (size, per_thread) for function, parameter, size, per_thread in section.local}
        block = section.block or block
        name, language = section.name or name, section.language or language
    return Job(
        kernel=kernel.name,
        folder=manifest.folder,
        source=source.path,
        target=str(variant),
        language=source.language or language,
        name=source.name or name,
        options=tuple(option for section in sections for option in section.options),
        defines=tuple(defines.items()),
        include=tuple(dict.fromkeys(folder for section in reversed(sections) for folder in section.include)),
        name_expressions=tuple(dict.fromkeys(each for section in sections for each in section.name_expressions)),
        fmap=json.dumps({"func_info": functions}) if functions else "",
        block=block,
        local=tuple((*key, *size) for key, size in local.items()),
    )


def _sources(sections: Sequence[Section], variant: Target) -> list[Source]:
    """Return the sources of a kernel for a target: those of its last section with sources that the target takes."""
    sources: Sequence[Source] = ()
    language = ""
    for section in sections:
        sources = section.sources if section.sources is not None else sources
        language = section.language or language
    spec = find_spec(variant.kind)
    languages = {**spec.languages, **{each: each for each in spec.languages.values()}} if spec is not None else {}
    return [source for source in sources if (source.language or language or source.path.rpartition(".")[2].lower()) in languages]


def _covers(target: Target, variant: Target) -> bool:
    """Return whether a target has a variant: the same kind, the architecture or none at all, and the same options or none."""
    return (
        target.kind == variant.kind
        and (not target.archs or set(variant.archs) <= set(target.archs))
        and set(target.options) <= set(variant.options)
    )
