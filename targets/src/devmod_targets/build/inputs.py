"""The files that a build reads: a source distribution must hold all of them."""

from __future__ import annotations

import os

from devmod_targets.build.closure import SourceTree, closure_of
from devmod_targets.build.output import constant_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.build.plan import Plan


def input_files(plan: Plan) -> list[str]:
    """Return the absolute paths of the manifest, the sources with everything that they may include, and the files of constants, sorted.

    Raises
    ------
    OSError
        A source cannot be read.
    """
    tree = SourceTree()
    manifest = os.path.abspath(plan.manifest)
    paths = {os.path.realpath(manifest), *map(os.path.realpath, constant_files(plan))}
    for job in plan.jobs:
        paths.update(closure_of(job.path, job.include_paths, tree).files)
    return sorted(paths)
