"""Make a value once for all threads that request it at the same time (R32).

Python may raise KeyboardInterrupt whenever a call returns or a function begins. The code is correct
at all these points:

- The thread that makes the value acquires the lock of its attempt in a ``with`` statement. The lock
  is written in C, so CPython raises no exception between the acquisition and the block, or between
  the end of the block and the release.
- Each other change is one operation of a dict.
- An interrupted attempt has neither a value nor an error. The next thread that acquires its lock
  makes the value.
"""

from __future__ import annotations

import _frozen_importlib
import os
import sys
from _imp import lock_held, release_lock

from devmod._util.locks import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any, TypeVar

    Result = TypeVar("Result")

#: The number of forks between the first process and this one. A forked child inherits the attempts
#: of the parent's other threads.
_forks = 0
#: The functions of importlib in which a thread rightly owns the import lock: those that acquire it,
#: `cb` in the callback of a weak reference, and `_find_spec` while it calls a finder.
_LOCK_OWNERS = ("_get_module_lock", "cb", "_find_spec")


class Once:
    """Values by key. The first thread that requests a value makes it, while others wait.

    An exception is raised in every thread that waited. It is not cached: the next call tries again.
    Threads with different keys do not wait for each other.

    Examples
    --------
    >>> once = Once()
    >>> once.get("answer", lambda: 42)
    42
    """

    __slots__ = ("_attempts", "_values")

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._attempts: dict[Hashable, _Attempt] = {}

    def __contains__(self, key: Hashable) -> bool:
        """Return whether the value is made."""
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """Return the value of `key`. If there is none, call ``make()``.

        Raises
        ------
        Exception
            The exception of `make`, in this thread or in the thread that this one waited for.
        RuntimeError
            `make` requests the value of `key` itself.
        """
        try:
            return self._values[key]  # type: ignore[no-any-return] # the common case takes no lock
        except KeyError:
            pass
        place = (_forks, key)
        while True:
            attempt = self._attempts.setdefault(place, _Attempt())
            if attempt.lock._is_owned():
                raise RuntimeError(f"making {key!r} needs {key!r} itself")
            release_import_lock()  # the thread that makes the value may import
            with attempt.lock:
                if attempt.error is not None:
                    raise attempt.error
                if key in self._values:
                    self._attempts.pop(
                        place, None
                    )  # another thread has made it since the first look
                    return self._values[key]  # type: ignore[no-any-return]
                if self._attempts.get(place) is attempt:
                    return self._make(key, place, attempt, make)

    def forget(self, *keys: Hashable) -> None:
        """Drop values. The next `get` makes them again."""
        for key in keys:
            self._values.pop(key, None)

    def _make(
        self, key: Hashable, place: Hashable, attempt: _Attempt, make: Callable[[], Result]
    ) -> Result:
        """Make the value. The thread has acquired the lock of the attempt."""
        try:
            result = self._values[key] = make()
        except Exception as error:
            self._attempts.pop(place, None)  # first: later calls start a new attempt
            attempt.error = error
            raise
        self._attempts.pop(place, None)
        return result


class _Attempt:
    """An attempt to make a value: its lock, and the error for the threads that wait."""

    __slots__ = ("error", "lock")

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.lock: Any = RLock()


def release_import_lock() -> bool:
    """Release Python's import lock if an interrupt has left it with this thread. Return whether
    this thread lets other threads import.

    Call it before waiting for a thread that may import.

    importlib acquires the lock before the ``try`` that releases it, and CPython may raise
    KeyboardInterrupt in between. The thread can acquire the lock again, so its own imports work.
    """
    if not lock_held():
        return True
    frame = sys._getframe()
    while frame is not None:
        is_importlib = frame.f_globals is _frozen_importlib.__dict__
        if is_importlib and frame.f_code.co_name in _LOCK_OWNERS:
            return False
        frame = frame.f_back  # type: ignore[assignment] # None ends the loop
    while lock_held():
        try:
            release_lock()
        except RuntimeError:  # another thread owns it
            break
    return True


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_count_fork)
