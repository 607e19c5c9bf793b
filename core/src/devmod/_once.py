"""Doing a thing once for all threads that ask for it at the same time (R32)."""

from __future__ import annotations

from _thread import allocate_lock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any


class Once:
    """Values by key, each made by the first who asks while the others wait.

    A failure is raised in every thread that waited for it, is not kept, and the next call tries again. Threads that ask
    for different keys do not wait for each other, and no lock is held while a value is made.

    Examples
    --------
    >>> once = Once()
    >>> once.get("answer", lambda: 42)
    42
    """

    __slots__ = ("_flights", "_lock", "_made")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._made: dict[Hashable, Any] = {}
        self._flights: dict[Hashable, _Flight] = {}

    def __contains__(self, key: Hashable) -> bool:
        """Whether the value is made."""
        return key in self._made

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of `key`; ``make()`` makes it where there is none yet.

        Raises
        ------
        Exception
            What `make` raised, in this thread or in the one that this one waited for.
        RuntimeError
            `make` itself asked for `key`.
        """
        while True:
            try:
                return self._made[key]  # the common case takes no lock
            except KeyError:
                pass
            with self._lock:
                if key in self._made:
                    continue
                flight = self._flights.get(key)
                if flight is None:
                    flight = self._flights[key] = _Flight()
                    break
            if flight.owner == get_ident():
                raise RuntimeError(f"making {key!r} needs {key!r} itself")
            with flight.done:  # held by the thread that makes the value
                pass
            if flight.error is not None:
                raise flight.error
        return self._fly(key, flight, make)

    def _fly(self, key: Hashable, flight: _Flight, make: Callable[[], Any]) -> Any:
        try:
            made = make()
        except Exception as error:
            flight.error = error
            raise
        else:
            self._made[key] = made
            return made
        finally:
            # An interrupt (a BaseException) is this thread's alone: those who wait try for themselves.
            with self._lock:
                del self._flights[key]
            flight.done.release()


class _Flight:
    """One making of a value: who makes it, and how those who wait learn that it is over."""

    __slots__ = ("done", "error", "owner")

    def __init__(self) -> None:
        self.owner = get_ident()
        self.error: Exception | None = None
        self.done = allocate_lock()
        self.done.acquire()
