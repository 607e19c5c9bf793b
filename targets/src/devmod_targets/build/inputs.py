"""The files that a job and a build read."""

from __future__ import annotations

import os

from devmod_targets.build import toolchains
from devmod_targets.build.closure import SourceTree, closure_of
from devmod_targets.build.output import constant_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.build.closure import Closure
    from devmod_targets.build.plan import Job, Plan


def job_closure(job: Job, tree: SourceTree) -> Closure:
    """Return the files of a job. Raise OSError if the source cannot be read."""
    options = [option.removeprefix("-D").strip().replace("=", " ", 1) for option in job.options]
    definitions = [*options, *(f"{name} {value}" for name, value in job.defines)]
    return closure_of(
        job.path, job.include_paths, tree, toolchains.system_headers(job), definitions, embedded=toolchains.embeds_includes(job)
    )


def input_files(plan: Plan) -> list[str]:
    """Return the absolute paths of the manifest, the sources with everything that they may include, and the files of constants, sorted.

    A source distribution must hold all of them. A file that a macro with parameters names is not in the list.

    Raises
    ------
    OSError
        A source cannot be read.
    """
    tree = SourceTree()
    others = map(os.path.split, (os.path.abspath(plan.manifest), *constant_files(plan)))
    paths = {os.path.join(os.path.realpath(folder), name) for folder, name in others}
    for job in plan.jobs:
        paths.update(job_closure(job, tree).files)
    return sorted({*paths, *map(os.path.realpath, paths)})  # links, and their targets
