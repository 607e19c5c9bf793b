"""Calls that an interrupt does not reach: in other threads, because KeyboardInterrupt is raised in
the main thread alone.

An interrupt within a driver's package may leave a lock held or an object incomplete, or end the
process. An interrupt of `call_uninterrupted` only ends the wait for the other thread, which
completes the call.
"""

from __future__ import annotations

import atexit
import os
import threading  # noqa: F401 - it takes the first thread that imports it for the main one
from _queue import Empty, SimpleQueue  # queue imports heapq too
from _thread import start_new_thread
from collections import deque
from sys import is_finalizing
from time import perf_counter, sleep

from devmod.backend import release_import_lock
from devmod_runtime._fork import skip_exit_handlers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Result = TypeVar("Result")

#: Seconds for which a wait asks whether it is over, before another thread waits. The change of
#: threads takes 15 µs.
_SHORT_WAIT = 50e-6
#: Seconds after which a wait looks for a signal that did not end it.
_LOOK = 0.1
#: Seconds for which the end of Python waits for kernels, and between two questions.
_LAST_WAIT = 2.0
_PAUSE = 1e-3

#: The calls that no thread has begun, and what wakes a thread that waits for them. A wake without a
#: call does nothing.
_requests: deque[Any] = deque()
_wakes: SimpleQueue[None] = SimpleQueue()
#: An entry for each thread that waits for a call, and for each that executes one.
_idle: list[bool] = []
_busy: list[bool] = []


def call_uninterrupted(function: Callable[..., Result], *values: Any) -> Result:
    """Call a function in another thread, which KeyboardInterrupt does not reach. Return its result,
    or raise its exception.

    An interrupt of the calling thread ends only its wait. The call is completed, so a second call
    may begin before that.
    """
    if is_finalizing() or not release_import_lock():  # no other thread can run, or import
        return function(*values)
    answer = start_uninterrupted(function, *values)
    try:
        result, error = wait_for_answer(answer)
    except BaseException:
        # The end of Python waits for the call before backends close their devices.
        atexit.unregister(_end_calls)
        atexit.register(_end_calls)
        raise
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def start_uninterrupted(function: Callable[..., object], *values: Any) -> SimpleQueue[Any]:
    """Call a function in another thread, which keeps what it uses. Return the queue of its result
    and its exception.
    """
    answer: SimpleQueue[Any] = SimpleQueue()
    _requests.append((function, values, answer))
    _wake()
    return answer


def wait_for_answer(answer: SimpleQueue[Result]) -> Result:
    """Return what another thread puts into a queue. KeyboardInterrupt ends the wait of the main
    thread.

    A signal that comes before the wait begins does not end it: the interpreter has looked for
    signals before, and looks again after the wait. Neither does a signal that another thread gets.
    """
    while True:
        try:
            return answer.get(timeout=_LOOK)
        except Empty:
            pass


def wait_interruptibly(
    wait: Callable[[], object], is_done: Callable[[], bool], seconds: float | None = None
) -> None:
    """Call a function of a driver that waits, so that KeyboardInterrupt ends the wait of the main
    thread at once.

    Parameters
    ----------
    wait
        The function. It raises the error of the work that it waits for. Another thread calls it if
        the work takes longer than `seconds`, and goes on with it after an interrupt. Other threads,
        which no interrupt reaches, call it directly.
    is_done
        Returns whether the function would return at once.
    seconds
        How long this thread asks. Default: `_SHORT_WAIT`.
    """
    if is_finalizing():  # no import works
        wait()
        return
    from threading import get_ident, main_thread

    if get_ident() == main_thread().ident:
        if seconds is None:
            seconds = _SHORT_WAIT
        limit = perf_counter() + seconds
        while not is_done():
            if perf_counter() > limit:
                call_uninterrupted(wait)
                return
    wait()


def has_uninterrupted_calls() -> bool:
    """Return whether a call of `call_uninterrupted` is not complete."""
    # An interrupt may have come before the call has woken a thread.
    if _requests and _wake_thread():
        return True
    return bool(_busy)  # after `_requests`: a thread is busy before it takes a call


def wait_at_end(is_done: Callable[[], bool]) -> bool:
    """Wait until kernels have ended, for at most 2 s of the end of Python. Return whether they
    have.

    Otherwise, the process ends without the exit handlers of C libraries. A driver's would wait for
    the kernels, or end the process by a signal.
    """
    limit = perf_counter() + _LAST_WAIT
    has_ended = is_done()
    try:
        while not has_ended and perf_counter() < limit:
            sleep(_PAUSE)
            has_ended = is_done()
    finally:  # also after an interrupt
        if not has_ended:
            skip_exit_handlers()
    return has_ended


def _end_calls() -> None:
    wait_at_end(lambda: not has_uninterrupted_calls())


atexit.register(_end_calls)


def _wake() -> None:
    """Have a thread execute a call, or this one if Python starts none."""
    if not _wake_thread():
        _busy.append(True)
        _execute()


def _wake_thread() -> bool:
    """Wake a thread that waits for a call, or start one. Return False if Python starts none, as
    Python 3.12 while it ends.
    """
    _wakes.put(None)
    if not _idle:
        try:
            start_new_thread(_serve, ())
        except RuntimeError:
            return False
    return True


def _serve() -> None:
    while len(_idle) < 2:
        _idle.append(True)
        _wakes.get()
        _busy.append(_idle.pop())
        _execute()


def _execute() -> None:
    """Execute a call, if there is one, in a thread that has an entry in `_busy`."""
    try:
        function, values, answer = _requests.popleft()
    except IndexError:
        _busy.pop()
        return
    if _requests:
        _wake()  # this thread may have been woken for that call, or was not known to be busy
    outcome: tuple[Any, BaseException | None]
    try:
        outcome = function(*values), None
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        outcome = None, error
    del function, values  # the driver frees what they have before the call counts as complete
    _busy.pop()
    answer.put(outcome)


def _forget_in_child() -> None:
    """Forget the threads in a forked child, which has none of them."""
    global _wakes
    _wakes = SimpleQueue()
    _requests.clear()
    _idle.clear()
    _busy.clear()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_forget_in_child)
