"""The result of a build: the status of each job, and the place of each error."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

from devmod import Module
from devmod.backend import walk
from devmod.errors import CompileError, count_text, with_log
from devmod_targets.build.error_texts import kernel_text
from devmod_targets.build.options import Strings
from devmod_targets.build.plan import Job

#: The start of the report of a source that no validator checked.
UNVALIDATED = "not validated: "
#: The file and the line in a compiler's message: ``k.cl:3:7: error``, ``k.cu(3): error``. The name
#: begins where no name precedes it: from each of its letters, the search in a long one would take
#: minutes. The source's own name, at %s, may have any characters.
_PLACE = r"(?<![\w./\\+-])(?P<file>(?:[\w./\\+-]*/)?%s|[\w./\\+-]+\.\w+)(?::(?P<line>\d+)(?::\d+)?|\((?P<in_brackets>\d+)\))"


class Failure(NamedTuple):
    """A job that failed.

    Attributes
    ----------
    job
        The job.
    error, message, log
        The name of the exception's class, its text, and the compiler's output.
    file, line
        Where the error is: a path relative to the manifest's folder if it is the source, else the
        name in the compiler's output; and 0 if the line is unknown.
    """

    job: Job
    error: str
    message: str
    log: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.job}: {self.message}"


class JobResult(NamedTuple):
    """The result of a job.

    Attributes
    ----------
    job
        The job.
    status
        "compiled", "cached" or "failed".
    seconds
        The CPU time of the compile; 0 for a job from the cache.
    warnings
        The warnings of the compile, also for a job from the cache.
    reports
        What the compiler printed on request (``-Xptxas=-v``), also for a job from the cache.
    failure
        The failure, or None.
    """

    job: Job
    status: str
    seconds: float = 0.0
    warnings: Strings = ()
    failure: Failure | None = None
    reports: Strings = ()


class Outcome(NamedTuple):
    """The result of one job.

    Attributes
    ----------
    data
        The ``.devmod`` file; b"" for a failure, unless some functions are left out.
    error, message, log
        The name of the exception's class, its text, and the compiler's output; "" for a success.
    warnings, reports
        The texts of the warnings, and of the compiler's reports.
    seconds
        The CPU time of the compiler and of the programs that it ran.
    toolchain
        The result of `toolchain_of` on a worker of another machine; "" on this machine.
    files
        The files that the compiler read, path to SHA-256; None if they are unknown.
    """

    data: bytes = b""
    error: str = ""
    message: str = ""
    log: str = ""
    warnings: Strings = ()
    reports: Strings = ()
    seconds: float = 0.0
    toolchain: str = ""
    files: Mapping[str, str] | None = None


class BuildResult:
    """The result of `devmod.build`.

    Attributes
    ----------
    output : str
        The absolute path of the bundle.
    written : bool
        Whether the file was written. A file with the same content is not written again.
    results : tuple of JobResult
        The results in the order of the plan.
    problems : tuple of str
        Warnings about the build itself, such as a damaged entry of the cache.
    triton_kernels : int
        The number of kernels of Triton's records in the bundle. One for two architectures counts
        twice.
    """

    def __init__(
        self,
        output: str,
        results: tuple[JobResult, ...],
        problems: Strings = (),
        modules: tuple[Module, ...] | None = None,
    ) -> None:
        self.output = output
        self.results = results
        self.problems = problems
        self._modules = modules
        self.written = False
        self.triton_kernels = 0

    def __repr__(self) -> str:
        return f"<BuildResult {self.output!r}: {self.summary}>"

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The jobs that failed."""
        return tuple(each.failure for each in self.results if each.failure is not None)

    @property
    def modules(self) -> tuple[Module, ...]:
        """The modules of the jobs that succeeded, in the order of the plan."""
        if self._modules is None:
            import devmod
            from devmod.targets import PROGRAM

            others = ("bundle", "const_loader", PROGRAM)
            modules = walk(devmod.load(self.output))
            self._modules = tuple(module for module in modules if module.kind not in others)
        return self._modules

    @property
    def warnings(self) -> Strings:
        """The warnings of all jobs, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(each.warnings for each in self.results)))

    @property
    def reports(self) -> Strings:
        """The reports of the compilers of all jobs, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(each.reports for each in self.results)))

    @property
    def summary(self) -> str:
        """The number of jobs by status, "3 compiled, 2 from the cache, 1 failed", and that of the
        kernels of Triton's records.
        """
        counts = Counter(each.status for each in self.results)
        words = {"compiled": "compiled", "cached": "from the cache", "failed": "failed"}
        parts = [f"{counts[status]} {text}" for status, text in words.items() if counts[status]]
        if self.triton_kernels:
            parts.append(f"{count_text(self.triton_kernels, 'kernel')} of Triton's records")
        return ", ".join(parts) or "no jobs"

    def raise_for_failures(self) -> None:
        """Raise CompileError if a job failed. The message has the first failure, `log` has all."""
        failures = self.failures
        if not failures:
            return
        text = f"{len(failures)} of {len(self.results)} compiles failed: {failures[0]}"
        if len(failures) > 1:
            text += f" (and {len(failures) - 1} more in .log)"
        log = "\n\n".join(with_log(str(each), each.log) for each in failures)
        raise CompileError(text, log=log)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as values of JSON, for ``devmod build --json``."""
        return {
            "output": self.output,
            "written": self.written,
            "jobs": [_job_to_dict(each) for each in self.results],
            "problems": list(self.problems),
            "triton_kernels": self.triton_kernels,
        }


def result_of(job: Job, status: str, outcome: Outcome) -> JobResult:
    """Return the result of a job."""
    failure = None
    if outcome.error:
        failure = failure_of(job, outcome)
    # The outcome has Python's words: a cache has it for kernels of all names.
    warnings = tuple(kernel_text(each, job.kernel) for each in outcome.warnings)
    reports = tuple(kernel_text(each, job.kernel) for each in outcome.reports)
    return JobResult(job, status, outcome.seconds, warnings, failure, reports)


def failure_of(job: Job, outcome: Outcome) -> Failure:
    """Return the failure of a job, with the place in the compiler's output."""
    texts = outcome.error, outcome.message, outcome.log
    return Failure(job, *texts, *place_of(job, f"{outcome.message}\n{outcome.log}"))


def place_of(job: Job, text: str) -> tuple[str, int]:
    """Return the file and the line of a compiler's message: of the job's source, else of the first
    file, else the source and 0.
    """
    own = os.path.basename(job.source)
    first: tuple[str, int] | None = None
    for match in re.finditer(_PLACE % re.escape(own), text):
        place = match["file"], int(match["line"] or match["in_brackets"])
        if os.path.basename(place[0]) == own:
            return job.source, place[1]
        first = first or place
    return first or (job.source, 0)


def _job_to_dict(result: JobResult) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "kernel": result.job.kernel,
        "source": result.job.source,
        "target": result.job.target,
        "status": result.status,
        "seconds": round(result.seconds, 3),
    }
    if result.warnings:
        fields["warnings"] = list(result.warnings)
    if result.reports:
        fields["reports"] = list(result.reports)
    if result.failure is not None:
        failure = result.failure
        fields |= {
            "error": failure.error,
            "message": failure.message,
            "log": failure.log,
            "file": failure.file,
            "line": failure.line,
        }
    return fields
