"""The threads of a build: they wait without a limit, and `close` ends them."""

from __future__ import annotations

import _imp
import sys
from importlib import import_module
from queue import Queue
from threading import Event
from typing import Any

import pytest

from devmod.backend import release_import_lock
from devmod_targets.build.threads import Threads


def test_idle_threads_wait_without_a_limit_and_end_when_they_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = []
    get = Queue.get

    def recorded(queue: Queue[Any], block: bool = True, timeout: float | None = None) -> Any:
        limits.append(timeout)
        return get(queue, block, timeout)

    monkeypatch.setattr(Queue, "get", recorded)
    threads, numbers = Threads(3), list[int]()
    for number in range(5):
        threads.start(numbers.append, number)
    threads.wait()
    threads.close()
    assert threads.open == 0
    for each in threads._threads:
        each.join()
    assert sorted(numbers) == [0, 1, 2, 3, 4]
    assert set(limits) == {None}


@pytest.mark.row("R61")
def test_threads_import_after_an_interrupt_of_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt may leave Python's import lock with the main thread, which waits for the
    threads.
    """
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    threads = Threads(1)
    _imp.acquire_lock()
    try:
        threads.start(lambda: import_module("colorsys"))  # type: ignore[arg-type,return-value]
        threads.wait(60)
        assert threads.open == 0
    finally:
        release_import_lock()
        threads.close()


def test_calls_that_have_not_begun_are_never_made_and_stay_open() -> None:
    threads, begun, end, calls = Threads(1), Event(), Event(), list[str]()

    def first() -> None:
        begun.set()
        end.wait()
        calls.append("first")

    threads.start(first)
    threads.start(calls.append, "second")
    begun.wait()
    threads.close()
    assert threads.open == 2
    end.set()
    for each in threads._threads:
        each.join()
    assert (calls, threads.open) == (["first"], 1)
