"""Calls that an interrupt does not reach: in other threads, because KeyboardInterrupt is raised in the main thread alone.

An interrupt within a driver's package may leave a lock held or an object incomplete, or end the process. An interrupt of
`call_uninterrupted` only ends the wait for the other thread, which completes the call.
"""

from __future__ import annotations

import os
from _thread import start_new_thread
from queue import SimpleQueue  # and not from _queue: it imports threading, for which the first thread that imports it is the main one
from sys import is_finalizing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Result = TypeVar("Result")

_requests: SimpleQueue[Any] = SimpleQueue()
#: An entry for each thread that waits for a request, and for each that executes one.
_idle: list[bool] = []
_busy: list[bool] = []


def call_uninterrupted(function: Callable[..., Result], *values: Any) -> Result:
    """Call a function in another thread, which KeyboardInterrupt does not reach. Return its result, or raise its exception.

    An interrupt of the calling thread ends only its wait. The call is completed, so a second call may begin before that.
    """
    if is_finalizing():  # no other thread runs
        return function(*values)
    answer: SimpleQueue[Any] = SimpleQueue()
    _requests.put((function, values, answer))
    if not _idle:
        start_new_thread(_serve, ())
    result, error = answer.get()
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def has_uninterrupted_calls() -> bool:
    """Return whether a call of `call_uninterrupted` is not complete."""
    return bool(_busy) or not _requests.empty()


def _serve() -> None:
    while len(_idle) < 2:
        _idle.append(True)
        function, values, answer = _requests.get()
        _busy.append(_idle.pop())
        if not _idle and not _requests.empty():
            start_new_thread(_serve, ())  # the request came before this thread was known to be busy
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = function(*values), None
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            outcome = None, error
        _busy.pop()
        answer.put(outcome)
        del function, values, answer, outcome  # while the thread waits


def _forget_in_child() -> None:
    """Forget the threads in a forked child, which has none of them."""
    global _requests
    _requests = SimpleQueue()
    _idle.clear()
    _busy.clear()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_forget_in_child)
