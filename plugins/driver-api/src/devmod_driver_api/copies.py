"""Copies between the host and a device that do not wait: through page-locked memory, in pieces.

The driver copies pageable memory in the stream's order only if the calling thread waits for it.
Page-locked memory is slow to allocate, so each device keeps its pieces, and a large array waits for
its first pieces.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from devmod.backend import Once
from devmod_driver_api.api import DISABLE_TIMING, HOST, DriverError
from devmod_driver_api.handles import Context, Handle
from devmod_runtime import Pool, address_of

#: The bytes of a piece for copies of any size, and of one for small copies; the most pieces in
#: flight on a device.
PIECE = 4 << 20
SMALL_PIECE = 64 << 10
MAX_PENDING = {PIECE: 8, SMALL_PIECE: 32}


class _Transfer:
    """A queued copy, and what must stay alive until it is done.

    Parameters
    ----------
    context
        The context.
    data
        The host's memory that the driver uses, or to which the bytes of the piece are copied at the
        end.
    piece, size
        The piece of page-locked memory, if the copy needs one, and its bytes. It is free again when
        this object is collected.

    Attributes
    ----------
    event : Handle or None
        The event after the copy; None while a thread queues the copy, and if an interrupt came
        meanwhile.
    address : int
        The address of the piece; 0 without one.
    """

    __slots__ = ("__weakref__", "_context", "_data", "_once", "address", "event", "size", "token")

    def __init__(
        self, context: Context, data: memoryview | None, piece: Handle | None = None, size: int = 0
    ) -> None:
        self.event: Handle | None = None
        self.address = 0
        if piece is not None:
            self.address = piece.value
        self.size = size
        self.token: object = None
        self._context = context
        self._data = data
        self._once = Once()

    def finish(self) -> None:
        """Wait for the copy, and write its bytes to the host's array. The context is current."""
        self._once.get("done", self._finish)

    def _finish(self) -> None:
        driver = self._context.driver
        if self.event is None:
            self._context.synchronize_streams()
        else:
            driver.call("synchronize_event", self.event.value)
        if self._data is not None and self.address:
            ctypes.memmove(address_of(self._data), self.address, self._data.nbytes)


class Transfers:
    """The copies of one device that are not finished.

    Attributes
    ----------
    pending
        In the order in which they were queued.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        #: The free pieces, by size.
        self._pools = {size: Pool() for size in MAX_PENDING}
        self.pending: deque[_Transfer] = deque()

    def start(self, pointer: int, data: memoryview, stream: int, *, to_device: bool) -> None:
        """Queue a copy from `data` to the device, or from the device to `data`; `finish` then
        writes the last part of `data`.
        """
        driver = self._context.driver
        address = address_of(data)

        def copy(host: int, start: int, size: int) -> None:
            if to_device:
                driver.call("copy_to_device", pointer + start, host, size, stream)
            else:
                driver.call("copy_to_host", host, pointer + start, size, stream)

        with self._context, driver.relaxed():
            if driver.locate(address)[1] == HOST:
                with self._queued(stream, _Transfer(self._context, data)):
                    copy(address, 0, data.nbytes)
                return
            for start in range(0, data.nbytes, PIECE):
                size = min(PIECE, data.nbytes - start)
                out = None
                if not to_device:
                    out = data[start : start + size]
                transfer = self._take(size, out)
                if transfer is None:
                    try:
                        copy(address + start, start, size)
                    finally:  # after an interrupt too: a driver may still access the host's memory
                        driver.call("synchronize_stream", stream)
                    continue
                if to_device:
                    ctypes.memmove(transfer.address, address + start, size)
                with self._queued(stream, transfer):
                    copy(transfer.address, start, size)

    def finish(self) -> None:
        """Finish the copies that the device has done."""
        if self.pending:
            driver = self._context.driver
            with self._context, driver.relaxed():
                self._finish_done()

    def _finish_done(self) -> None:
        driver = self._context.driver
        for transfer in [*self.pending]:
            event = transfer.event
            # An error of the device is raised by the wait for the copy.
            if event is not None and driver.is_done("is_event_done", event.value):
                self._finish(transfer)

    def _finish(self, transfer: _Transfer) -> None:
        transfer.finish()
        with suppress(ValueError):  # another thread may have finished it
            self.pending.remove(transfer)

    @contextmanager
    def _queued(self, stream: int, transfer: _Transfer) -> Iterator[None]:
        """Keep what a copy uses until it is done. The body queues the copy."""
        self.pending.append(transfer)  # first: after an interrupt the copy may be queued
        try:
            yield
        except DriverError:
            with suppress(ValueError):
                self.pending.remove(transfer)
            raise
        event = self._context.events.create(DISABLE_TIMING)
        self._context.driver.call("record_event", event.value, stream)
        transfer.event = event

    def _take(self, nbytes: int, out: memoryview | None) -> _Transfer | None:
        """Return a copy of `nbytes` bytes, or to `out`, with a piece of page-locked memory; None if
        the host has too little.

        If too many copies are in flight, the call waits for the first one.
        """
        self.finish()
        size = PIECE
        if nbytes <= SMALL_PIECE:
            size = SMALL_PIECE
        users = [each for each in [*self.pending] if each.size == size]
        if len(users) >= MAX_PENDING[size]:
            self._finish(users[0])
        del users  # the piece of a finished copy is free when nothing references the copy
        pool = self._pools[size]
        try:
            piece: Handle = pool.take()
        except IndexError:
            try:
                piece = self._context.host_memory.create(size)
            except DriverError as error:
                if error.name == self._context.driver.api.out_of_memory:
                    return None
                raise
        transfer = _Transfer(self._context, out, piece, size)
        transfer.token = pool.lend(transfer, piece)
        return transfer
