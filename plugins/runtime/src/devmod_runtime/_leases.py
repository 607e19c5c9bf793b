"""Values that become free when their users are garbage-collected, even if an interrupt comes at any
point.

KeyboardInterrupt may be raised at the start of a finalizer in Python (`__del__`), which then never
runs. A weak reference's callback that is a method of a C type cannot be interrupted. The garbage
collector calls it before the finalizers of other objects in the same cycle, which may still use the
object. So the callback only records the event. The object is gone when the reference count of a
token that it references has fallen.
"""

from __future__ import annotations

from _weakref import ref
from collections import deque
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any


class Lease(ref):  # type: ignore[type-arg]
    """A weak reference to an object that uses a value. It must be referenced until the object is
    collected.

    Attributes
    ----------
    value
        The value that the object uses.
    token
        An object that the user references, and nothing else.
    """

    __slots__ = ("token", "value")

    token: object
    value: Any

    @property
    def expired(self) -> bool:
        """Whether the user is gone."""
        return self() is None and getrefcount(self.token) == _UNUSED


def lend(user: object, value: Any, ended: Callable[[Any], object] | None = None) -> Lease:
    """Return a lease of `value`. `ended` is called with it when `user` is collected.

    Parameters
    ----------
    user
        The object that uses the value. It must reference the lease's `token`.
    value
        The value.
    ended
        A method of a C type, such as ``deque.append``, which runs no Python code; or None.
    """
    lease = Lease(user, ended)
    lease.value = value
    lease.token = object()
    return lease


def _unused() -> int:
    """Return the reference count of a token that no object holds."""
    lease = Lease(lend)
    lease.token = object()
    return getrefcount(lease.token)


_UNUSED = _unused()


class Pool:
    """Values for one user at a time. An interrupt can lose a value, but no value has two users."""

    __slots__ = ("_free", "_leases")

    def __init__(self) -> None:
        #: Values that were never lent, and expired leases.
        self._free: deque[Any] = deque()
        self._leases: dict[int, Lease] = {}

    def add(self, values: Sequence[Any]) -> None:
        """Add values that are free."""
        self._free += values

    def take(self) -> Any:
        """Remove and return a free value; IndexError if there is none."""
        for _ in range(len(self._free)):
            result = self._free.popleft()
            if type(result) is not Lease:
                return result
            if result.expired:
                self._leases.pop(id(result), None)
                return result.value
            self._free.append(result)  # a finalizer still references the object
        raise IndexError("no value is free")

    def lend(self, user: object, value: Any) -> object:
        """Return a token that `user` must reference.

        `value` becomes free when `user` is collected.
        """
        lease = lend(user, value, self._free.append)
        self._leases[id(lease)] = lease
        return lease.token

    def __len__(self) -> int:
        return len(self._free)
