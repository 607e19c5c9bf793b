"""The jobs of one build with their state, and the dry run, which returns the state without a compile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from devmod.errors import FormatError
from devmod_targets.build import toolchains
from devmod_targets.build.cache import job_key, open_entries, unpack_entry
from devmod_targets.build.closure import SourceTree, closure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod import Module
    from devmod_targets.build.closure import Closure
    from devmod_targets.build.plan import Job, Plan
    from devmod_targets.build.result import JobResult


class Task:
    """A job of a build, with its files, its key ("" if its inputs are unknown), its module and its result."""

    __slots__ = ("closure", "job", "key", "module", "result")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.closure: Closure | None = None
        self.key = ""
        self.module: Module | None = None
        self.result: JobResult | None = None

    def find_inputs(self, tree: SourceTree, toolchain_of: Callable[[Job], str], *, with_sources: bool) -> None:
        """Find the files and the key. Raise OSError if the source cannot be read."""
        self.closure = closure_of(self.job.path, self.job.include_paths, tree)
        self.key = job_key(self.job, self.closure, toolchain_of(self.job), with_sources=with_sources)

    def read_entry(self, data: bytes) -> tuple[Module, tuple[str, ...], tuple[str, ...]]:
        """Return the module of a cache's entry, and the warnings and the reports of its compile.

        Raises
        ------
        FormatError
            The entry is damaged, or it is the result of another job.
        """
        module, warnings, reports = unpack_entry(data)
        module.wire_parts()  # checks the digest
        own = self.closure.files.get(os.path.realpath(self.job.path)) if self.closure else None
        sources = module.origin.sources if module.origin is not None else {}
        digest = sources.get(os.path.basename(self.job.source))
        if module.kind != self.job.kind or (own is not None and digest not in (None, own.digest, own.text_digest)):
            raise FormatError("it was made from another source")
        return module, warnings, reports


def dry_run_of(plan: Plan, cache: str | os.PathLike[str] | bool = True) -> list[tuple[str, str, str, str]]:
    """Return the kernel, the source, the target and the status of each job: "cached", "compile", or "missing" without a source."""
    toolchains.clear()
    entries = None if cache is False else open_entries("" if cache is True else os.fspath(cache))
    tree = SourceTree()
    rows = []
    for job in plan.jobs:
        task = Task(job)
        try:
            task.find_inputs(tree, toolchains.toolchain_of, with_sources=plan.with_sources)
            status = "cached" if entries is not None and task.key and entries.read(task.key) is not None else "compile"
        except OSError:
            status = "missing"
        rows.append((job.kernel, job.source, job.target, status))
    return rows
