"""Handles of the driver that are destroyed with the objects that use them, in any thread.

KeyboardInterrupt may be raised between any two calls. So a lease exists before its handle. One call of C creates a handle and stores it in
the lease's list; another one removes it from there and destroys it. The creation of the next handle completes interrupted work.
"""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress

from devmod.backend import lend
from devmod_driver_api.api import RELAXED_CAPTURE
from devmod_driver_api.errors import DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod.backend import Lease
    from devmod_driver_api.context import Context


class Handle:
    """A handle of the driver. Collecting this object destroys it.

    Attributes
    ----------
    value : int
        The handle: an address, a stream or an event.
    """

    __slots__ = ("__weakref__", "_cell", "_handles", "_token", "value")

    def __init__(self, handles: Handles, cell: list[Any]) -> None:
        self.value = 0
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
    create, destroy
        The operations that create and destroy one.
    last
        The last parameters of `create`, which are always the same.
    """

    # Reachable from here, because the names of modules are None at the end of the process.
    _is_finalizing = staticmethod(sys.is_finalizing)

    def __init__(self, context: Context, create: str, destroy: str, *last: int) -> None:
        self._context = context
        self._driver = context.driver
        self._create, self._destroy, self._last = create, destroy, last
        #: The leases of all handles. The value of each is a list with the driver's result, empty after the handle is destroyed.
        self._leases: dict[int, Lease] = {}
        #: Leases whose users were collected.
        self._ended: deque[Lease] = deque()

    def create(self, *arguments: Any) -> Handle:
        """Return a new handle. The thread has the context as its current one.

        Raises
        ------
        DriverError
            The driver refuses it.
        """
        self.drain()
        cell: list[Any] = []
        handle = Handle(self, cell)
        lease = lend(handle, cell, self._ended.append)
        handle._token = lease.token
        self._leases[id(lease)] = lease
        handle.value = self._make(cell, *arguments)
        return handle

    def destroy(self, cell: list[Any]) -> None:
        """Destroy the handle of a cell, once. Errors are ignored: the driver may be gone, or refuse all calls."""
        if not cell or self._is_finalizing() or not self._context.usable:
            return  # the end of the process frees everything; a forked child has no driver
        if self._context.captures:
            return  # a captured launch may use it; `drain` destroys it later
        with suppress(DriverError, IndexError), self._context:
            # A free is unsafe in the driver's terms: while another library captures a stream, it would invalidate the capture.
            mode = self._driver.exchange_capture_mode(RELAXED_CAPTURE)
            try:
                self._end(cell)
            finally:
                self._driver.exchange_capture_mode(mode)

    def drain(self) -> None:
        """Destroy the handles that are still alive because of an interrupt or of the capture of a batch."""
        for _ in range(0 if self._context.captures else len(self._ended)):
            try:
                lease = self._ended.popleft()
            except IndexError:
                return  # another thread
            if lease.expired:
                self.destroy(lease.value)
                self._leases.pop(id(lease), None)
            else:
                self._ended.append(lease)  # a finalizer still uses the object

    def values(self) -> list[int]:
        """Return the handles that are not destroyed."""
        self.drain()
        return [self._driver.handle_in(cell) for lease in tuple(self._leases.values()) for cell in (tuple(lease.value),) if cell]

    def __len__(self) -> int:
        return len(self.values())

    def _make(self, cell: list[Any], *arguments: Any) -> int:
        """Create a handle in a cell and return it."""
        return self._driver.create_into(cell, self._create, *arguments, *self._last)

    def _end(self, cell: list[Any]) -> None:
        """Destroy the handle of a cell and empty it. The context is current; IndexError if another thread has emptied it."""
        self._driver.destroy_from(cell, self._destroy)


class Streams(Handles):
    """The streams of a context."""

    def _end(self, cell: list[Any]) -> None:
        # Work that is still queued in it is then before the later work of the default stream, by which other libraries take arrays.
        self._context.order(self._driver.api.legacy_stream, self._driver.handle_in(cell))
        super()._end(cell)


class Modules(Handles):
    """The modules of a context. `create` takes an image."""

    def _make(self, cell: list[Any], *arguments: Any) -> int:
        module, _ = self._driver.load_module(*arguments)
        cell.append(module)
        return module

    def _end(self, cell: list[Any]) -> None:
        self._driver.synchronize_context()  # launches of its kernels may be queued
        self._driver.unload_module(cell.pop())
