"""The receiver of a build's results. `devmod_targets.build.display` has those that show something."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod_targets.build.plan import Job
    from devmod_targets.build.result import JobResult


class Progress:
    """Receives the results of a build as they come. This class shows nothing."""

    def begin(self, jobs: Sequence[Job], workers: int) -> None:
        """Start: some input has changed."""

    def add(self, result: JobResult) -> None:
        """Take the result of a job."""

    def warn(self, text: str) -> None:
        """Take a warning about the build itself."""

    def close(self) -> None:
        """End, also after an exception."""
