"""Worker processes on this machine. A killed one loses its job alone.

Ctrl-C in the terminal interrupts only the build, which then ends the workers and the compilers that
they run. If the build is killed, the workers end too.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import tempfile
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any

from devmod.backend import RLock, temporary_folder
from devmod.worker import Worker, answer_writer, can_start_python
from devmod_targets.build.plan import Job
from devmod_targets.build.result import Outcome
from devmod_targets.build.threads import Threads

_Results = queue.SimpleQueue[tuple[int, Outcome | BaseException]]

#: How often a job is started before its worker's death counts as the job's failure.
_STARTS = 3


class Pool:
    """Worker processes that start with the first jobs. The end of the context ends them, and
    removes their temporary files.

    A frozen program has no interpreter to start, and compiles in its own process.

    Parameters
    ----------
    workers
        The largest number of processes.
    task
        What a worker calls with a job and `settings`: a function of a module. It returns an
        Outcome.
    settings
        Keyword arguments of `task`, of JSON's types.
    """

    def __init__(self, workers: int, task: Callable[..., Outcome], **settings: object) -> None:
        self._task = task
        self._settings = settings
        self._threads = Threads(workers)  # each waits for the answer of a process
        self._processes = ExitStack()
        self._idle: deque[Worker] = deque()
        self._lock = RLock()
        self._closed = False
        self._folder = ""  # made with the first worker

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
        self._processes.close()
        self._threads.close()

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        """Start the jobs, and return an iterator of their numbers and outcomes, as they end. The
        job of a killed worker is run again.
        """
        if not can_start_python():
            return ((number, self._task(job, **self._settings)) for number, job in enumerate(jobs))
        results: _Results = queue.SimpleQueue()
        for number, job in enumerate(jobs):
            self._threads.start(self._run, number, job, results)
        return (_take(results) for _ in jobs)

    def _run(self, number: int, job: Job, results: _Results) -> None:
        """Run a job on a worker, in one of the threads."""
        try:
            results.put((number, self._outcome(job)))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            results.put((number, error))

    def _outcome(self, job: Job) -> Outcome:
        for _ in range(_STARTS):
            worker = self._worker()
            worker.send(vars(job))
            answer = worker.answer()
            if answer is not None:
                self._idle.append(worker)
                return Outcome(**_tuples(answer) | {"data": b64decode(answer["data"])})
            worker.kill()  # the compiler that it has left
        message = (
            f"the worker process ended {_STARTS} times while it compiled {job}: the compiler crashed, or the machine has too little "
            "memory. Try fewer processes (-j 1), or compile the source alone with devmod compile"
        )
        return Outcome(error="WorkerError", message=message)

    def _worker(self) -> Worker:
        """Return an idle process, or a new one."""
        with suppress(IndexError):
            return self._idle.pop()
        with self._lock:
            if self._closed:
                raise RuntimeError("the build has ended")
            self._folder = self._folder or self._processes.enter_context(temporary_folder())
            names = {"module": self._task.__module__, "task": self._task.__name__}
            return self._processes.enter_context(
                Worker(__name__, {"settings": self._settings, **names}, removes=self._folder)
            )


def main(request: dict[str, Any]) -> None:
    """Compile jobs in the new process, until the build ends."""
    folder = request["removes"]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows has no sessions
    # The build removes this folder, so no temporary file of a compiler remains if this process is
    # killed.
    tempfile.tempdir = folder
    os.environ.update(TMPDIR=folder, TEMP=folder, TMP=folder)
    answer = answer_writer()
    task = getattr(import_module(request["module"]), request["task"])
    for line in sys.stdin.buffer:
        outcome = task(Job(**_tuples(json.loads(line))), **request["settings"])
        answer(outcome._asdict() | {"data": b64encode(outcome.data).decode()})


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with tuples in the place of JSON's arrays."""

    def convert(value: Any) -> Any:
        return tuple(map(convert, value)) if isinstance(value, list) else value

    return {name: convert(value) for name, value in fields.items()}


def _take(results: _Results) -> tuple[int, Outcome]:
    while True:  # on Windows, a wait without a limit cannot be interrupted
        with suppress(queue.Empty):
            number, result = results.get(timeout=1)
            if isinstance(result, BaseException):
                raise result
            return number, result
