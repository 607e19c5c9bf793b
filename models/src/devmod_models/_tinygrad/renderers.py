"""Processes that render kernels, beside the work of this one. This imports no tinygrad."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from devmod.worker import Worker, processors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Renderers", "Report"]

#: A function that gets lines about the progress, and which part of the work is done.
Report = Callable[[str, float], object]

_MODULE = "devmod_models._tinygrad.render"
#: The most processes: each imports tinygrad, in 60 MB.
_MOST = 16


class Renderers:
    """Processes that render kernels. They start at once. The end of the context ends them.

    Parameters
    ----------
    most
        The limit on their number. There are no more than processors.
    """

    def __init__(self, most: int) -> None:
        self._count = max(1, min(most, processors(), _MOST))
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._workers: list[Worker] = []
        self._threads = ThreadPoolExecutor(self._count)
        self._is_open = True

    def __enter__(self) -> Renderers:
        for _ in range(self._count):
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in [*self._workers]:
            worker.kill()
        self._threads.shutdown()
        for worker in self._workers:
            worker.__exit__()

    def _start(self) -> None:
        worker = Worker(_MODULE, {})
        self._workers.append(worker)
        self._idle.put(worker)

    def render(self, items: Sequence[Any]) -> Iterator[tuple[Any, str]]:
        """Yield for each item, in order, what `render.render` returns and "", or None and how the
        process ended.
        """
        return self._threads.map(self._ask, items)

    def _ask(self, item: Any) -> tuple[Any, str]:
        worker = self._idle.get()
        answer = worker.ask(item, math.inf)
        if answer is not None:
            self._idle.put(worker)
            return answer, ""
        end = worker.end_of_item(None).text
        if self._is_open:
            self._start()
        return None, end
