"""The threads of a build: they wait without a limit, and `close` ends them."""

from __future__ import annotations

from queue import Queue
from threading import Event
from typing import Any

import pytest

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
