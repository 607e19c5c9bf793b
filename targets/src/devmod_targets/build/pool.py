"""Worker processes on this machine. Each has its own executor of `concurrent.futures`, because a killed process breaks its executor.

A worker is a new process (spawn) in its own session. Ctrl-C in the terminal interrupts only the build, which then ends the workers and
the compilers that they run. If the build is killed, the workers end too.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import sys
import tempfile
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Lock, Thread
from types import ModuleType

from devmod_targets.build.jobs import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future
    from typing import Any

    from devmod_targets.build.plan import Job

#: How often a job is started before its worker's death counts as the job's failure.
_STARTS = 3
#: How often a worker tries to remove the folder of temporary files: a compiler may write to it at that moment.
_REMOVALS = 10
_main_lock = Lock()


class Pool:
    """Worker processes that start with the first jobs. The end of the context ends them, and removes their temporary files.

    Parameters
    ----------
    workers
        The largest number of processes.
    task
        What a worker calls with a job. It returns an Outcome.
    """

    def __init__(self, workers: int, task: Callable[[Job], Outcome]) -> None:
        self._workers = workers
        self._task = task
        self._lanes: list[_Worker] = []
        self._folder = ""

    def __enter__(self) -> Pool:
        # The workers make it: a build that is killed before it has a worker would leave it.
        self._folder = os.path.join(tempfile.gettempdir(), f"devmod-build-{os.urandom(8).hex()}")
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)  # while there are workers: they remove it if this process is killed
        for lane in self._lanes:
            lane.kill()
        for lane in self._lanes:
            lane.close()
        shutil.rmtree(self._folder, ignore_errors=True)  # what a compiler wrote in the meantime

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        """Start the jobs, and return an iterator of their numbers and outcomes, as they end. The job of a killed worker is run again."""
        waiting = deque(range(len(jobs)))
        starts = [0] * len(jobs)
        results: queue.SimpleQueue[tuple[_Worker, int, Future[Outcome]]] = queue.SimpleQueue()
        self._lanes += [_Worker(self._folder) for _ in range(min(self._workers, len(jobs)) - len(self._lanes))]
        idle = list(reversed(self._lanes))

        def start() -> None:
            while idle and waiting:
                lane, number = idle.pop(), waiting.popleft()
                starts[number] += 1
                lane.submit(self._task, jobs[number], number, results)

        def outcomes() -> Iterator[tuple[int, Outcome]]:
            left = len(jobs)
            while left:
                lane, number, future = _take(results)
                idle.append(lane)
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    lane.restart()
                    if starts[number] < _STARTS:
                        waiting.appendleft(number)
                        start()
                        continue
                    outcome = Outcome(error="WorkerError", message=_crash_message(jobs[number]))
                left -= 1
                start()  # before the yield: the worker compiles while the caller uses the outcome
                yield number, outcome

        start()
        return outcomes()


class _Worker:
    """A worker process. `restart` replaces a killed one."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.restart()

    def restart(self) -> None:
        """Use a new process, which starts with the next job."""
        self._context = _Context()
        self._executor = ProcessPoolExecutor(1, mp_context=self._context, initializer=_initialize_worker, initargs=(self._folder,))

    def submit(
        self, task: Callable[[Job], Outcome], job: Job, number: int, results: queue.SimpleQueue[tuple[_Worker, int, Future[Outcome]]]
    ) -> None:
        """Start a job. `results` receives this worker, the number and the future."""
        try:
            future = self._executor.submit(task, job)
        except BrokenProcessPool:  # the process was killed while it was idle
            self.restart()
            future = self._executor.submit(task, job)
        future.add_done_callback(lambda done: results.put((self, number, done)))

    def kill(self) -> None:
        """End the process and the programs that it runs."""
        for process in self._context.processes:
            _kill(process)

    def close(self) -> None:
        """Wait for the end of the process, which has been killed."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class _Process(SpawnProcess):
    """A process that does not run the program's own file, as spawn would: `devmod.build` needs no ``if __name__ == "__main__"``."""

    def start(self) -> None:
        with _without_main(), _without_interrupts():
            super().start()


class _Context(SpawnContext):
    """The context of one executor. It has the processes that the executor starts."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[_Process] = []

    def Process(self, *args: Any, **options: Any) -> _Process:  # type: ignore[override]
        process = _Process(*args, **options)
        self.processes.append(process)
        return process


@contextmanager
def _without_main() -> Iterator[None]:
    """Replace the module ``__main__`` by an empty one. Spawn runs the file of ``__main__`` in the new process, and this one has none."""
    with _main_lock:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block SIGINT. A new process inherits the mask, and unblocks the signal when it has its own session."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _initialize_worker(folder: str) -> None:
    """Prepare a worker process."""
    from multiprocessing import parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setsid"):
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # The build removes this folder, so no temporary file of a compiler remains if this process is killed.
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    tempfile.tempdir = folder
    os.environ.update(TMPDIR=folder, TEMP=folder, TMP=folder)
    # The fallback saves the same bytes as the runtime's module, and the import of a runtime takes time.
    os.environ.update(DEVMOD_COMPILE_FORCE_FALLBACK="1")
    with suppress(OSError):
        os.dup2(2, 1)  # standard output belongs to the build
    parent = parent_process()
    if parent is not None:
        Thread(target=_exit_with_parent, args=(parent, folder), daemon=True).start()


def _exit_with_parent(parent: Any, folder: str) -> None:
    """Wait for the end of the parent, then end this process and the programs that it runs."""
    parent.join()
    for _ in range(_REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            break
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _kill(process: _Process) -> None:
    if process.pid is None or not process.is_alive():
        return
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg") and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:  # it has no session of its own yet
            process.kill()


def _take(results: queue.SimpleQueue[Any]) -> Any:
    while True:  # on Windows, a wait without a limit cannot be interrupted
        with suppress(queue.Empty):
            return results.get(timeout=1)


def _crash_message(job: Job) -> str:
    return (
        f"the worker process ended {_STARTS} times while it compiled {job}: the compiler crashed, or the machine has too little memory. "
        "Try fewer processes (-j 1), or compile the source alone with devmod compile"
    )
