"""Threads for calls that wait for a network or a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Queue
from threading import Thread
from typing import Any

from devmod.backend import release_import_lock


class Threads:
    """Threads that start with the first calls.

    They are daemons. The end of the process waits for the threads of `concurrent.futures`, so a
    server that does not answer would hold an interrupted build.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._threads: list[Thread] = []
        self._calls: Queue[tuple[Callable[..., None], tuple[Any, ...]] | None] = Queue()
        self._closed = False

    @property
    def open(self) -> int:
        """The number of calls that have not ended."""
        return self._calls.unfinished_tasks

    def start(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in one of the threads. It must not raise."""
        self._calls.put((function, arguments))
        if len(self._threads) < self._count:
            self._threads.append(Thread(target=self._run, name="devmod-build", daemon=True))
            self._threads[-1].start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until all calls have ended, or until the time is over."""
        release_import_lock()
        end = None if seconds is None else time.monotonic() + seconds
        with self._calls.all_tasks_done:
            while self.open and (end is None or time.monotonic() < end):
                self._calls.all_tasks_done.wait(
                    0.2
                )  # with a limit: on Windows, a wait without one cannot be interrupted

    def close(self) -> None:
        """End the threads. Calls that have not begun are never made, and count as `open`."""
        self._closed = True
        with self._calls.not_empty:
            self._calls.queue.extend(
                None for _ in self._threads
            )  # `put` would count them as `open`
            self._calls.not_empty.notify_all()

    def _run(self) -> None:
        while not self._closed:
            call = self._calls.get()
            if self._closed or call is None:
                return
            function, arguments = call
            try:
                function(*arguments)
            finally:
                self._calls.task_done()
