"""Threads for calls that wait for a network or a process."""

from __future__ import annotations

import time
from collections import deque
from threading import Condition, Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Threads:
    """Threads that start with the first calls.

    They are daemons. The end of the process waits for the threads of `concurrent.futures`, so a server that does not answer would hold an
    interrupted build.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._threads: list[Thread] = []
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._running = 0
        self._closed = False
        self._changed = Condition()

    @property
    def open(self) -> int:
        """The number of calls that have not ended."""
        return len(self._calls) + self._running

    def start(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in one of the threads. It must not raise."""
        with self._changed:
            self._calls.append((function, arguments))
            self._changed.notify_all()
        if len(self._threads) < self._count:
            self._threads.append(Thread(target=self._run, name="devmod-build", daemon=True))
            self._threads[-1].start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until all calls have ended, or until the time is over."""
        end = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            while self.open and (end is None or time.monotonic() < end):
                self._changed.wait(0.2)  # with a limit: on Windows, a wait without one cannot be interrupted

    def close(self) -> None:
        """End the threads. Calls that have not begun are never made, and count as `open`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._calls or self._closed):
                    self._changed.wait()
                if self._closed:
                    return
                function, arguments = self._calls.popleft()
                self._running += 1
            try:
                function(*arguments)
            finally:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()
