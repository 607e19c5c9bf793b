"""The jobs of one build with their state, and the dry run, which returns the state without a compile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import devmod
from devmod.errors import FormatError
from devmod_targets.build import toolchains
from devmod_targets.build.cache import job_key, open_entries, unpack_entry
from devmod_targets.build.closure import SourceTree
from devmod_targets.build.inputs import job_closure

if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod import Module
    from devmod_targets.build.closure import Closure
    from devmod_targets.build.jobs import Outcome
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
        self.closure = job_closure(self.job, tree)
        toolchain = toolchain_of(self.job) if toolchains.knows_headers(self.job) else ""
        self.key = job_key(self.job, self.closure, toolchain, with_sources=with_sources)

    def storing_problem(self, outcome: Outcome) -> str:
        """Return why the key does not contain all files that the compiler read; "" if it does."""
        assert self.closure is not None
        if not self.closure.digest:
            return "an include, or a test for a file, may name its file in a way that devmod does not evaluate, such as a macro"
        if outcome.files is None:
            return "its compiler does not list the files that it reads (Payload.files)" if self.key else ""
        file = self.closure.unknown_file(outcome.files)
        if not file and not self._is_result(devmod.loads(outcome.data)):
            file = "a source in its origin"
        read = "read" if outcome.files.get(file, "origin") else "may read"
        return f"its compiler {read} {file}, which is not among the includes that devmod found in the text" if file else ""

    def read_entry(self, data: bytes) -> tuple[Module, tuple[str, ...], tuple[str, ...]]:
        """Return the module of a cache's entry, and the warnings and the reports of its compile.

        Raises
        ------
        FormatError
            The entry is damaged, or it is the result of another job.
        """
        module, warnings, reports = unpack_entry(data)
        module.wire_parts()  # checks the digest
        if not self._is_result(module):
            raise FormatError("it was made from another source")
        return module, warnings, reports

    def _is_result(self, module: Module) -> bool:
        """Return whether a module is of the job's kind, and was made from the job's files alone."""
        sources = module.origin.sources if module.origin is not None else {}
        return module.kind == self.job.kind and self.closure is not None and self.closure.has_contents(sources.values())


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
