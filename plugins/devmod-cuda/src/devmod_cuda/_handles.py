"""Handles of the driver that are destroyed with the objects that use them, whatever thread collects these."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress

from devmod.backend import lend
from devmod_cuda._interface import DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devmod.backend import Lease
    from devmod_cuda._context import Context


class Handle:
    """A handle of the driver. Collecting this object destroys it.

    Attributes
    ----------
    value : int
        The handle: an address, a stream or an event.
    """

    __slots__ = ("__weakref__", "_cell", "_handles", "_token", "value")

    def __init__(self, value: int, handles: Handles, cell: list[int]) -> None:
        self.value = value
        self._handles = handles
        self._cell = cell
        self._token: object = None

    def __del__(self) -> None:
        self._handles.destroy(self._cell)


class Handles:
    """The handles of one kind in a context.

    Parameters
    ----------
    context
        The context.
    create
        The function that creates a handle.
    destroy
        The function that destroys one.
    """

    # Reachable from here, because the names of modules are None at the end of the process.
    _is_finalizing = staticmethod(sys.is_finalizing)

    def __init__(self, context: Context, create: Callable[..., int], destroy: Callable[[int], None]) -> None:
        self._context = context
        self._create = create
        self._destroy = destroy
        #: The leases of all handles, whose values are lists with the handle until it is destroyed.
        self._leases: dict[int, Lease] = {}
        #: Leases whose users were collected. An interrupt may have prevented the destruction.
        self._ended: deque[Lease] = deque()

    def create(self, *arguments: Any) -> Handle:
        """Return a new handle. The thread has the context as its current one.

        Raises
        ------
        DriverError
            The driver refuses it.
        """
        self.drain()
        cell: list[int] = []
        cell.append(self._create(*arguments))
        handle = Handle(cell[0], self, cell)
        lease = lend(handle, cell, self._ended.append)
        handle._token = lease.token
        self._leases[id(lease)] = lease
        return handle

    def destroy(self, cell: list[int]) -> None:
        """Destroy the handle of a cell, once. Errors are ignored: the driver may be gone, or refuse all calls."""
        if self._is_finalizing() or not self._context.usable:
            return  # the end of the process frees everything; a forked child has no driver
        if self._context.captures:
            return  # a captured launch may use it; `drain` destroys it later
        try:
            value = cell.pop()
        except IndexError:
            return
        with suppress(DriverError), self._context:
            self._destroy(value)

    def drain(self) -> None:
        """Destroy what an interrupt or the capture of a batch has left."""
        for _ in range(0 if self._context.captures else len(self._ended)):
            lease = self._ended.popleft()
            if lease.expired:
                self._leases.pop(id(lease), None)
                self.destroy(lease.value)
            else:
                self._ended.append(lease)  # a finalizer still uses the object

    def values(self) -> list[int]:
        """Return the handles that are not destroyed."""
        self.drain()
        return [value for lease in tuple(self._leases.values()) for value in tuple(lease.value)]

    def __len__(self) -> int:
        return len(self.values())
