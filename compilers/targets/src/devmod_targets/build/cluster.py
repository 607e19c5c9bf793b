"""The jobs of a build on a Dask cluster, through the executor of its client.

The workers need no file of this machine: each job contains the text of its source and of everything
that it may include. If a worker is lost, the scheduler starts its jobs on another one.
"""

from __future__ import annotations

import queue
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from devmod.errors import DevmodError, describe_error
from devmod_targets.build.jobs import pack_files
from devmod_targets.build.packages import import_problem
from devmod_targets.build.result import Outcome
from devmod_targets.build.toolchains import toolchain_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from devmod_targets.build.closure import Closure
    from devmod_targets.build.plan import Job

#: Seconds until a scheduler that does not answer counts as unreachable.
_CONNECT_TIMEOUT = 10
#: Seconds until the first worker must answer.
_WORKER_TIMEOUT = 300


class ClusterError(DevmodError, RuntimeError):
    """A cluster cannot be used."""


class Cluster:
    """A Dask cluster for one build. The end of the context cancels the jobs that are not done.

    Parameters
    ----------
    address
        The address of the scheduler, such as ``tcp://10.0.0.5:8786``, or the path of its scheduler
        file.

    Raises
    ------
    ClusterError
        The package distributed is not installed, or the scheduler does not answer.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._versions: dict[tuple[object, ...], str] = {}
        self._futures: list[Future[Any]] = []
        try:
            client: Any = import_module("distributed").Client
        except (ImportError, AttributeError) as error:
            why = import_problem(
                error, "distributed", "devmod-targets[build-dask]", parts=("dask",)
            )
            raise ClusterError(f"the Dask cluster {address!r} cannot be used: {why}") from None
        place = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
        try:
            self._client = client(**place, timeout=_CONNECT_TIMEOUT, set_as_default=False)
        except Exception as error:
            raise ClusterError(
                f"the Dask cluster {address!r} cannot be reached: {describe_error(error)}"
            ) from error
        self._executor = self._client.get_executor(pure=False)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for future in self._futures:
            future.cancel()
        with suppress(Exception):  # the cluster may be gone
            self._executor.shutdown(wait=False)
        with suppress(Exception):
            self._client.close(timeout=_CONNECT_TIMEOUT)

    @property
    def workers(self) -> int:
        """The number of threads that the workers have now."""
        return sum(self._client.nthreads().values())

    def toolchain_of(self, jobs: Sequence[Job]) -> Callable[[Job], str]:
        """Return the function that gives the versions with which the workers compile a job of
        `jobs`.

        Raises
        ------
        ClusterError
            No worker answers.
        """
        firsts = {_settings(job): job for job in jobs}
        future = self._executor.submit(_toolchains, tuple(firsts.values()))
        try:
            versions = future.result(timeout=_WORKER_TIMEOUT)
        except Exception as error:
            future.cancel()
            why = f"no worker answered within {_WORKER_TIMEOUT} seconds"
            if str(error):
                why = describe_error(error)
            raise ClusterError(
                f"the workers of the Dask cluster {self._address!r} cannot compile: {why}. Each worker needs devmod-targets and the "
                "compilers, in the versions of this machine"
            ) from error
        self._versions = dict(zip(firsts, versions, strict=True))
        return lambda job: self._versions[_settings(job)]

    def run(
        self, jobs: Sequence[Job], closures: Sequence[Closure], task: Callable[..., Outcome]
    ) -> Iterator[tuple[int, Outcome]]:
        """Start the jobs, and return an iterator of their numbers and outcomes, as they end.

        Parameters
        ----------
        jobs, closures
            The jobs, and the files of each.
        task
            What a worker calls with a job and its files. It returns an Outcome.
        """
        results: queue.SimpleQueue[tuple[int, Future[Outcome]]] = queue.SimpleQueue()
        refused = {}
        for number, (job, closure) in enumerate(zip(jobs, closures, strict=True)):
            problem = _packing_problem(job, closure)
            if problem:
                refused[number] = problem
                continue
            future = self._executor.submit(task, *pack_files(job, closure))
            self._futures.append(future)
            future.add_done_callback(lambda done, number=number: results.put((number, done)))

        def outcomes() -> Iterator[tuple[int, Outcome]]:
            for number, problem in refused.items():
                yield number, Outcome(error="ClusterError", message=problem)
            for _ in range(len(jobs) - len(refused)):
                number, future = results.get()
                yield number, self._outcome(jobs[number], future)

        return outcomes()

    def _outcome(self, job: Job, future: Future[Outcome]) -> Outcome:
        try:
            outcome = future.result()
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            return Outcome(
                error=type(error).__name__,
                message=f"the Dask cluster {self._address!r} lost the job: {describe_error(error)}",
            )
        expected = self._versions.get(_settings(job), outcome.toolchain)
        if outcome.data and outcome.toolchain != expected:
            return Outcome(error="ClusterError", message=_difference(expected, outcome.toolchain))
        return outcome


def _packing_problem(job: Job, closure: Closure) -> str:
    """Return why the files of a job cannot be sent to a worker; "" if they can."""
    if closure.is_linked:
        why = "an include leads through a linked folder"
    elif not closure.digest:
        why = "an include, or a test for a file, may name its file in a way that devmod does not evaluate, such as a macro"
    else:
        return ""
    return f"{job.source} cannot be compiled on a cluster, because its files are not certain: {why}. Compile it without --dask"


def _settings(job: Job) -> tuple[object, ...]:
    """Return the fields of a job on which its toolchain depends."""
    return job.target, job.options


def _toolchains(jobs: Sequence[Job]) -> list[str]:
    return [toolchain_of(job) for job in jobs]


def _difference(expected: str, actual: str) -> str:
    one = [line for line in expected.splitlines() if line not in actual]
    other = [line for line in actual.splitlines() if line not in expected]
    return (
        f"the workers of the cluster have different compilers, and their results would differ: one has {', '.join(one) or 'none'}, another "
        f"{', '.join(other) or 'none'}. Install the same versions on all"
    )
