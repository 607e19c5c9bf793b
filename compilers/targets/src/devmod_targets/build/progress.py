"""Progress: the receiver of a build's results. `devmod_targets._cli._display` has the subclasses
with output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod_targets.build.plan import Job
    from devmod_targets.build.result import JobResult


class Progress:
    """Receives the results of a build as they come. This class prints nothing. A subclass overrides
    the methods that it needs.
    """

    def begin(self, jobs: Sequence[Job], workers: int) -> None:
        """Receive the jobs, before the first result. If no input has changed, results come without
        this call.
        """

    def add(self, result: JobResult) -> None:
        """Receive the result of a job."""

    def warn(self, text: str) -> None:
        """Receive a warning about the build itself."""

    def report(self, text: str) -> None:
        """Receive a note about the build itself, which is no problem."""

    def note(self, text: str) -> None:
        """Receive a line for the user, such as what an interrupted build is waiting for."""

    def close(self) -> None:
        """Release resources. The build calls it after `begin`, also after an exception."""
