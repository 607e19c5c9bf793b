"""The output of a build while it runs: a log, a live display in a terminal, and annotations of
GitHub Actions.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from devmod.backend import DiskCache, escape
from devmod.commands import annotate, echo_lines
from devmod.errors import DevmodError, count_text, with_log
from devmod_targets._paths import below, with_slashes
from devmod_targets.build.plan import Job
from devmod_targets.build.progress import Progress
from devmod_targets.build.result import UNVALIDATED, Failure, JobResult, place_of

#: The title of annotations that are about no compile.
_TITLE = "devmod build"
#: The styles of the beginnings of lines, as `devmod.commands.echo` has them.
_STYLES = {"failed": "bold color(160)", "devmod: warning:": "bold color(164)"}
#: The notes that builds on this machine have shown.
_NOTES = DiskCache("build")


class _Shown(Progress):
    """What the log and the live display have in common. `show` prints lines."""

    def __init__(self) -> None:
        #: The warnings and the reports so far.
        self._warnings: set[str] = set()
        self._reports: set[str] = set()

    def add(self, result: JobResult) -> None:
        """Show the warnings and the reports of a job.

        A warning that another job had too, such as one for another architecture, is not repeated. A
        report is shortened then. A missing validator is reported once, and by the first build on a
        machine alone.
        """
        for text in result.warnings:
            if text not in self._warnings:
                self._warnings.add(text)
                self.warn(f"{result.job}: {text}")
        for text in result.reports:
            is_known = text in self._reports
            self._reports.add(text)
            if text.startswith(UNVALIDATED):
                if not is_known and _is_new(text):
                    self.report(f"{result.job.kind}: {text}")
                continue
            subject, separator, _ = text.partition(": ")
            if separator and is_known:
                text = f"{subject}, as above"
            self.report(f"{result.job}: {text}")

    def warn(self, text: str) -> None:
        """Show a warning."""
        self.show(f"devmod: warning: {text}")

    def report(self, text: str) -> None:
        """Show a note about the build itself."""
        self.show(f"devmod: note: {text}")

    def note(self, text: str) -> None:
        """Show a line for the user."""
        self.show(text)

    def show(self, text: str) -> None:
        """Print lines on standard error."""
        echo_lines(text, err=True)


def _is_new(text: str) -> bool:
    """Return whether no build on this machine has shown a note yet; from now on one has."""
    key = DiskCache.key("note", text)
    is_new = _NOTES.read(key) is None
    if is_new:
        _NOTES.write(key, b"shown")
    return is_new


class LogProgress(_Shown):
    """A line for each compile on standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._total = self._count = 0

    def begin(self, jobs: Sequence[Job], workers: int) -> None:
        """Start."""
        self._total = len(jobs)
        self.show(f"{count_text(self._total, 'compile')}, {count_text(workers, 'worker')}")

    def add(self, result: JobResult) -> None:
        """Show the result of a job."""
        self._count += 1
        super().add(result)
        if result.status != "cached":
            seconds = f" ({result.seconds:.2f} s)" if result.seconds else ""
            self.show(f"[{self._count}/{self._total}] {result.status} {result.job}{seconds}")
        if result.failure is not None:
            self.show(_indented(result.failure))

    def note(self, text: str) -> None:
        """Show a line for the user, below the terminal's ^C."""
        self.show(f"\n{text}")


class LiveProgress(_Shown):
    """A bar for each target in the terminal, with the failures above it. It needs rich."""

    def __init__(self, console: Any) -> None:
        super().__init__()
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        columns = [
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[state]}"),
            TextColumn("{task.elapsed:.0f} s"),
        ]
        self._bars = Bars(*columns, console=console, transient=True)
        self._tasks: dict[str, Any] = {}
        self._failed: Counter[str] = Counter()

    def begin(self, jobs: Sequence[Job], workers: int) -> None:
        """Start."""
        totals = Counter(job.target for job in jobs)
        self._tasks = {
            target: self._bars.add_task(escape(target), total=total, state="")
            for target, total in totals.items()
        }
        self._bars.start()

    def add(self, result: JobResult) -> None:
        """Show the result of a job."""
        target = result.job.target
        super().add(result)
        if result.failure is not None:
            self._failed[target] += 1
            self.show(f"failed {result.job}\n{_indented(result.failure)}")
        if target in self._tasks:
            failed = self._failed[target]
            state = f"{failed} failed" if failed else ""
            self._bars.update(self._tasks[target], advance=1, state=state)

    def close(self) -> None:
        """End the display, and restore the terminal."""
        self._bars.stop()

    def show(self, text: str) -> None:
        """Print lines above the bars."""
        from rich.text import Text

        shown = Text("\n".join(map(escape, text.split("\n"))))
        for beginning, style in _STYLES.items():
            if text.startswith(beginning):
                shown.stylize(style, 0, len(beginning))
        self._bars.console.print(shown)


class Annotations(Progress):
    """Adds the annotations of GitHub Actions to another progress: GitHub shows the failures beside
    the lines of the sources.

    Parameters
    ----------
    inner
        The other progress.
    folder
        The manifest's folder.
    err
        Write to standard error, because standard output has JSON.
    """

    def __init__(self, inner: Progress, folder: str, *, err: bool = False) -> None:
        self._inner = inner
        self._folder = folder
        self._err = err
        self.begin = inner.begin  # type: ignore[method-assign]
        self.report = inner.report  # type: ignore[method-assign]
        self.note = inner.note  # type: ignore[method-assign]
        self.close = inner.close  # type: ignore[method-assign]

    def add(self, result: JobResult) -> None:
        """Show the result of a job."""
        self._inner.add(result)
        job = result.job
        for text in result.warnings:
            file, line = place_of(job, text)
            _annotate("warning", str(job), text, self._path(file), line, err=self._err)
        for text in result.reports:
            _annotate("notice", str(job), text, self._path(job.source), err=self._err)
        failure = result.failure
        if failure is not None:
            path = self._path(failure.file)
            _annotate("error", str(job), failure.message, path, failure.line, err=self._err)

    def warn(self, text: str) -> None:
        """Show a warning."""
        self._inner.warn(text)
        _annotate("warning", _TITLE, text, err=self._err)

    def _path(self, source: str) -> str:
        return below(self._folder, source)


def annotate_error(
    error: DevmodError, manifest: str | os.PathLike[str], *, err: bool = False
) -> None:
    """Print the annotations of an error that ends a build: one for each mistake in the manifest.

    Parameters
    ----------
    error
        The error.
    manifest
        The manifest or its folder, as the caller named it.
    err
        Write to standard error, because standard output has JSON.
    """
    from devmod_targets.build.document import ManifestError, find_manifest

    if isinstance(error, ManifestError):
        for line, key, text in error.problems:
            _annotate("error", _TITLE, f"{key}: {text}", error.path, line, err=err)
    else:
        _annotate("error", _TITLE, str(error), find_manifest(manifest), err=err)


def _annotate(
    level: str, title: str, text: str, path: str = "", line: int = 0, *, err: bool
) -> None:
    """Print an annotation. GitHub reads paths relative to the repository, whose folder is
    GITHUB_WORKSPACE.
    """
    if path:
        root = os.path.realpath(os.environ.get("GITHUB_WORKSPACE") or os.curdir)
        path = with_slashes(os.path.realpath(path), root)
    annotate(level, text, err=err, file=path, line=str(line or ""), title=title)


def progress_for(
    folder: str, *, quiet: bool = False, annotate: bool = False, json: bool = False
) -> Progress:
    """Return the progress for this terminal.

    Parameters
    ----------
    folder
        The manifest's folder, for annotations.
    quiet
        Show nothing but annotations.
    annotate
        Write annotations.
    json
        Standard output has JSON.
    """
    result = Progress()
    if not quiet:
        result = _live() or LogProgress()
    if annotate:
        return Annotations(result, folder, err=json)
    return result


def _live() -> Progress | None:
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return LiveProgress(Console(stderr=True))


def _indented(failure: Failure) -> str:
    return "\n".join(f"    {line}" for line in with_log(failure.message, failure.log).split("\n"))
