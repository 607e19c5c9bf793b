"""Copies between the host and a device that do not wait: through page-locked memory, in pieces.

The driver copies pageable memory in the stream's order only if the calling thread waits for it. Page-locked memory is slow to allocate,
so each device keeps its pieces, and a large array waits for its first pieces.
"""

from __future__ import annotations

import ctypes
from collections import deque
from contextlib import suppress

import numpy as np

from devmod.backend import Once, Pool
from devmod_cuda._errors import OUT_OF_MEMORY
from devmod_cuda._interface import DISABLE_TIMING, DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod_cuda._context import Context
    from devmod_cuda._handles import Handle

#: The size of a piece in bytes, and the most pieces of a copy in flight.
PIECE = 4 << 20
MAX_PENDING = 4
#: Copies to the device up to this size do not wait: the driver copies the bytes before it returns.
_INSTANT = 64 << 10
#: CU_POINTER_ATTRIBUTE_MEMORY_TYPE, and its value for page-locked memory (CU_MEMORYTYPE_HOST).
_MEMORY_TYPE, _HOST = 2, 1


def address_of(data: memoryview) -> int:
    """Return the address of contiguous memory of the host, which may be read-only."""
    return int(np.frombuffer(data, np.uint8).ctypes.data)


class _Transfer:
    """A queued copy between the device and page-locked memory, and what must stay alive until the event after it."""

    __slots__ = ("_context", "_event", "_once", "_out", "_piece", "_user")

    def __init__(self, context: Context, event: Handle, piece: Handle | None, user: object, out: memoryview | None) -> None:
        self._context = context
        self._event = event
        self._piece = piece
        self._user = user
        self._out = out
        self._once = Once()

    @property
    def done(self) -> bool:
        return self._context.driver.is_event_done(self._event.value)

    def finish(self) -> None:
        """Wait for the copy, and write its bytes to the host's array."""
        self._once.get("done", self._finish)

    def _finish(self) -> None:
        with self._context:
            self._context.driver.synchronize_event(self._event.value)
        if self._out is not None and self._piece is not None:
            ctypes.memmove(address_of(self._out), self._piece.value, self._out.nbytes)


class _Piece:
    """A user of a piece of page-locked memory: the piece is free again when this object is collected."""

    __slots__ = ("__weakref__", "token")

    def __init__(self) -> None:
        self.token: object = None


class Transfers:
    """The copies of one device that are not finished."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pool = Pool()
        #: In the order in which they were queued.
        self._pending: deque[_Transfer] = deque()

    def start_write(self, pointer: int, data: memoryview, stream: int) -> None:
        """Queue a copy to the device."""
        driver, address = self._context.driver, address_of(data)
        if data.nbytes <= _INSTANT or self._is_locked(address):
            with self._context:
                driver.copy_to_device(pointer, address, data.nbytes, stream)
                if data.nbytes > _INSTANT:
                    self._add(stream, None, data, None)
            return
        pending: deque[_Transfer] = deque()
        for start, size in _pieces(data.nbytes):
            if len(pending) >= MAX_PENDING:
                self._finish(pending.popleft())
            with self._context:
                locked = self._take()
                if locked is None:
                    driver.copy_to_device(pointer + start, address + start, size, stream)
                    driver.synchronize_stream(stream)
                    continue
                piece, user = locked
                ctypes.memmove(piece.value, address + start, size)
                driver.copy_to_device(pointer + start, piece.value, size, stream)
                pending.append(self._add(stream, piece, user, None))

    def start_read(self, pointer: int, out: memoryview, stream: int) -> None:
        """Queue a copy to the host. `finish` writes the last part of `out`."""
        driver, address = self._context.driver, address_of(out)
        if self._is_locked(address):
            with self._context:
                driver.copy_to_host(address, pointer, out.nbytes, stream)
                self._add(stream, None, out, None)
            return
        pending: deque[_Transfer] = deque()
        for start, size in _pieces(out.nbytes):
            if len(pending) >= MAX_PENDING:
                self._finish(pending.popleft())
            with self._context:
                locked = self._take()
                if locked is None:
                    driver.copy_to_host(address + start, pointer + start, size, stream)
                    driver.synchronize_stream(stream)
                    continue
                piece, user = locked
                driver.copy_to_host(piece.value, pointer + start, size, stream)
                pending.append(self._add(stream, piece, user, out[start : start + size]))

    def finish(self) -> None:
        """Finish the copies that the device has done."""
        if self._pending:
            for transfer in tuple(self._pending):
                if transfer.done:
                    self._finish(transfer)

    def __len__(self) -> int:
        return len(self._pending)

    def release(self) -> None:
        """Free the page-locked memory that no copy uses."""
        self.finish()
        while True:
            try:
                self._pool.take()
            except IndexError:
                return

    def _finish(self, transfer: _Transfer) -> None:
        transfer.finish()
        with suppress(ValueError):  # another thread may have finished it
            self._pending.remove(transfer)

    def _add(self, stream: int, piece: Handle | None, user: object, out: memoryview | None) -> _Transfer:
        event = self._context.events.create(DISABLE_TIMING)
        self._context.driver.record_event(event.value, stream)
        transfer = _Transfer(self._context, event, piece, user, out)
        self._pending.append(transfer)
        return transfer

    def _take(self) -> tuple[Handle, _Piece] | None:
        """Return a piece of page-locked memory, and the object with which it becomes free; None if the host has too little."""
        self.finish()
        try:
            piece: Handle = self._pool.take()
        except IndexError:
            try:
                piece = self._context.host_memory.create(PIECE)
            except DriverError as error:
                if error.name == OUT_OF_MEMORY:
                    return None
                raise
        user = _Piece()
        user.token = self._pool.lend(user, piece)
        return piece, user

    def _is_locked(self, address: int) -> bool:
        """Return whether memory of the host is page-locked."""
        try:
            with self._context:
                return self._context.driver.pointer_attributes(address, (_MEMORY_TYPE,))[0] == _HOST
        except DriverError:
            return False


def _pieces(nbytes: int) -> Iterator[tuple[int, int]]:
    for start in range(0, nbytes, PIECE):
        yield start, min(PIECE, nbytes - start)
