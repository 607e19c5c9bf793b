"""Handles of the driver that are destroyed with the objects that use them, in any thread.

KeyboardInterrupt may be raised between any two calls. So a lease exists before its handle. One call
of C creates a handle and stores it in the lease's list; another one removes it from there and
destroys it. The creation of the next handle completes interrupted work.
"""

from __future__ import annotations

import sys
from _weakref import ref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from ctypes import c_uint8
from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from devmod.backend import Once, RLock, lock_pages_with
from devmod_driver_api.api import DISABLE_TIMING, NON_BLOCKING, PORTABLE, DriverError
from devmod_driver_api.driver import Driver
from devmod_runtime import Lease, fork_safe, is_inherited, lend, wait_interruptibly

#: The driver's result with a handle, as `Driver.create_into` has it; empty after the handle is
#: destroyed.
Cell = list[Any]


class Handle:
    """A handle of the driver. Collecting this object destroys it.

    Attributes
    ----------
    value : int
        The handle: an address, a stream or an event.
    """

    __slots__ = ("__weakref__", "_cell", "_end", "_token", "value")

    def __init__(self, handles: Handles, cell: Cell) -> None:
        self.value = 0
        self._cell = cell
        self._end = _End(handles, cell)
        self._token: object = None

    def destroy_after(self, user: Handle) -> None:
        """Destroy another handle before this one. In a cycle of references, Python collects both in
        any order.
        """
        self._end.users += (user._end,)

    def note_foreign_stream(self) -> None:
        """Note for a module that a stream of another library is used for its launches."""
        self._cell[1:] = [True]


class _End:
    """Destroys a handle when its object is gone.

    A finalizer of the handle's object would run while weak references still return that object:
    another thread would use the handle.
    """

    __slots__ = ("cell", "handles", "users")

    def __init__(self, handles: Handles, cell: Cell) -> None:
        self.handles = handles
        self.cell = cell
        self.users: tuple[_End, ...] = ()

    def __del__(self) -> None:
        for each in (*self.users, self):
            each.handles.destroy(each.cell)


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
        self._create = create
        self._destroy = destroy
        self._last = last
        #: The leases of all handles. The value of each is a list with the driver's result, empty
        #: after the handle is destroyed.
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
        cell: Cell = []
        handle = Handle(self, cell)
        lease = lend(handle, cell, self._ended.append)
        handle._token = lease.token
        self._leases[id(lease)] = lease
        with self._driver.relaxed():
            handle.value = self._make(cell, *arguments)
        return handle

    def destroy(self, cell: Cell) -> bool:
        """Destroy the handle of a cell, once, and return whether it is gone: a capture delays the
        end of what captured work may use.

        Errors are ignored: the driver may be gone, or refuse all calls.
        """
        if not cell or self._is_finalizing() or is_inherited(self._driver.api.kind):
            return True  # the end of the process frees everything; a forked child has no driver
        if not self._context.is_alive():
            return True  # its end has freed everything, and another context may have its handle now
        wait = self._context.begin_wait()  # noqa: F841 - it lives as long as this call
        if self._context.captures:
            return False
        with suppress(DriverError, IndexError), self._context, self._driver.relaxed():
            return self._end(cell)
        return True

    def drain(self) -> None:
        """Destroy the handles that are still alive because of an interrupt or of a capture."""
        if self._context.captures:
            return
        for _ in range(len(self._ended)):
            try:
                lease = self._ended.popleft()
            except IndexError:
                return  # another thread
            if lease.expired:
                if not self.destroy(lease.value):
                    self._ended.appendleft(lease)
                    return
                self._leases.pop(id(lease), None)
            else:
                self._ended.append(lease)  # a finalizer still uses the object

    def __len__(self) -> int:
        """Return the number of handles that are not destroyed."""
        self.drain()
        return sum(1 for lease in [*self._leases.values()] if lease.value)

    def _make(self, cell: Cell, *arguments: Any) -> int:
        """Create a handle in a cell and return it."""
        return self._driver.create_into(cell, self._create, *arguments, *self._last)

    def _end(self, cell: Cell) -> bool:
        """Destroy the handle of a cell and empty it; False if a capture delays it.

        The context is current, and calls do not invalidate captures. IndexError if another thread
        has emptied the cell.
        """
        self._driver.destroy_from(cell, self._destroy)
        return True


class Memories(Handles):
    """The memory of a context."""

    def _end(self, cell: Cell) -> bool:
        if self._context.is_captured():
            return False
        self._context.synchronize_streams()  # queued work may use it, and a driver need not wait
        return super()._end(cell)


class Streams(Handles):
    """The streams of a context."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: Held while a handle without an object is used or destroyed: another thread may do the
        #: latter.
        self._lock = fork_safe(RLock())

    def referenced(self) -> list[Handle]:
        """Return the objects of the streams that are still referenced. A stream is not destroyed
        while its object is.
        """
        handles = [lease() for lease in [*self._leases.values()]]
        return [handle for handle in handles if handle is not None and handle.value]

    def settle(self) -> None:
        """Put the work of streams without an object, which are not destroyed yet, before the later
        work of the default stream.
        """
        with self._lock:
            self._put_all_before_default()

    def _put_all_before_default(self) -> None:
        for lease in [*self._leases.values()]:
            if lease() is None and lease.value:
                self._put_before_default(lease.value)

    def _end(self, cell: Cell) -> bool:
        if self._context.is_captured():
            return False  # the legacy default stream cannot be used
        with self._lock:
            self._put_before_default(cell)
            return super()._end(cell)

    def _put_before_default(self, cell: Cell) -> None:
        # Other libraries take arrays in the default stream's order.
        self._context.order(self._driver.api.legacy_stream, cell[0].value)


class Modules(Handles):
    """The modules of a context. `create` takes a binary."""

    def _make(self, cell: Cell, *arguments: Any) -> int:
        module = self._driver.load_module(*arguments)
        cell.append(module)
        return module

    def _end(self, cell: Cell) -> bool:
        if self._context.is_captured():
            return False
        # Launches of its kernels may be queued, and a driver need not wait. The streams of other
        # libraries may be gone, so that only the context can be asked for them.
        if len(cell) > 1:
            self._driver.call("synchronize_context")
        else:
            self._context.synchronize_streams()
        self._driver.unload_module(cell.pop(0))
        cell.clear()
        return True


# -- Memory of a device, as kernels and copies take it.


class Memory(int):
    """An address in a device's memory, which keeps its allocation alive.

    It is an int, so that ``struct.pack`` writes it into a parameter block without a call of Python.
    """

    owner: object

    def __new__(cls, address: int, owner: object) -> Memory:
        """Return the memory at `address`; `owner` is the object that frees the allocation."""
        memory = super().__new__(cls, address)
        memory.owner = owner
        return memory


# -- Contexts: a device's primary one, which devmod shares with the other libraries of the process,
# and those that a library has made for itself.


def _entered(push: Callable[[], object]) -> object:
    """Return the ``__enter__`` of contexts, which calls a function of C.

    In CPython 3.14 KeyboardInterrupt may come behind a call of ``__enter__``, before the ``with``
    statement counts as entered. It does not come behind a step of a ``for`` statement.
    """
    if sys.version_info < (3, 14):
        return staticmethod(push)
    pushes = iter(push, push)  # without an end: it returns None

    def enter(_context: Context) -> None:
        for _ in pushes:
            return

    return enter


class Context:
    """The primary context of a device, or one of another library. ``with context:`` makes it the
    thread's current one, and restores the previous one.

    A primary context is retained at the first use and never released: at exit the driver may be
    gone before Python's objects.

    Parameters
    ----------
    driver
        The driver.
    handle
        The driver's handle.
    number
        The number of the context of another library, as `Driver.context_id` returns it; 0 for a
        primary one.
    owner, title
        The object of another library that keeps it, and what it is, for messages.

    Attributes
    ----------
    handle : int
        The driver's handle.
    number : int
        The parameter.
    is_primary : bool
        Whether it is the primary context of a device.
    owner, title
        The object of another library that keeps it, or None; and what it is.
    once : Once
        What the devices over the context share.
    foreign_streams : mapping
        The streams over streams of other libraries, by handle and number (`Driver.stream_id`). Each
        holds its owner.
    lock
        Held while `foreign_streams` changes.
    memory, host_memory, streams, events, modules, graphs, arrays, textures, surfaces
        The handles of each kind. Graphs are executable. Arrays have the texels of images.
    captures : dict
        The active captures of batches, as keys. While there is one, no handle is destroyed: a
        captured launch may use it.
    waits : set
        Not empty while a thread waits for streams of the context, which the driver refuses during a
        capture: no batch is captured then.
    """

    def __new__(cls, driver: Driver, handle: int, *_: object) -> Context:
        """Return an object of a new subclass whose ``__enter__`` and ``__exit__`` are the driver's
        functions.

        CUDA's are functions of C. An interrupt at the start or the end of a Python function would
        leave the context current.
        """
        push, pop = driver.context_functions(handle)
        # Python 3.14 makes methods of the objects of `functools.partial` in a class.
        context: Context = object.__new__(
            type(
                cls.__name__,
                (cls,),
                {"__enter__": _entered(push), "__exit__": staticmethod(pop)},
            )
        )
        return context

    def __init__(
        self, driver: Driver, handle: int, number: int = 0, owner: object = None, title: str = ""
    ) -> None:
        self.driver = driver
        self.handle = handle
        self.is_primary = not number
        self.owner = owner
        self.title = title
        self.number = number
        self.memory = Memories(self, "allocate", "free")
        self.host_memory = Handles(self, "allocate_host", "free_host", PORTABLE)
        self.streams = Streams(self, "create_stream", "destroy_stream", NON_BLOCKING)
        self.events = Handles(self, "create_event", "destroy_event")
        self.modules = Modules(self, "load_module", "unload_module")
        self.graphs = Handles(self, "instantiate_graph", "destroy_executable", 0)
        self.arrays = Memories(self, "create_array", "destroy_array")
        self.textures = Memories(self, "create_texture", "destroy_texture")
        self.surfaces = Memories(self, "create_surface", "destroy_surface")
        self.captures: dict[Any, None] = {}
        self.waits: set[object] = set()
        self.once = Once()
        self.foreign_streams: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()
        #: The ends of the work in streams of other libraries that devmod has left, by handle and
        #: number: a list with an event, or an empty one if the driver refused it. All streams that
        #: were closed have the key None, and an empty list.
        self._ends: dict[tuple[int, object] | None, list[Handle]] = {}
        self.lock = fork_safe(RLock())
        if self.is_primary:  # the owner of another one may end it while a host array is in use
            lock_pages_with(self)

    if TYPE_CHECKING:
        # The driver keeps a stack for each thread, so nested bodies and several threads need no
        # state here.
        def __enter__(self) -> None: ...

        def __exit__(self, *details: object) -> None: ...

    def is_alive(self) -> bool:
        """Return whether the driver still has the context. Another one may have its handle."""
        if self.is_primary:
            return True
        try:
            return self.driver.context_id(self.handle) == self.number
        except DriverError:
            return False

    def page_locked(self, nbytes: int) -> Any:
        """Return page-locked memory as an object with a buffer; None if the driver gives none."""
        if is_inherited(self.driver.api.kind):
            return None
        try:
            with self:
                handle = self.host_memory.create(nbytes)
        except DriverError:
            return None
        memory = (c_uint8 * nbytes).from_address(handle.value)
        memory.handle = handle  # type: ignore[attr-defined]  # it frees the memory
        return memory

    def begin_wait(self) -> object:
        """Return an object that marks a wait in `waits` for as long as it is referenced."""
        wait = _Wait()
        self.waits.add(ref(wait, self.waits.discard))
        return wait

    def wait(self, operation: str, *handles: int) -> None:
        """Call a function of the driver that waits for a stream, an event or the context.
        KeyboardInterrupt ends the wait at once.

        The context is current, and calls do not invalidate captures.
        """

        def wait() -> None:
            if get_ident() == caller:
                self.driver.call(operation, *handles)
                return
            try:
                with self, self.driver.relaxed():
                    self.driver.call(operation, *handles)
            finally:
                marks.clear()

        def is_done() -> bool:
            while unfinished and self.driver.is_done(query, unfinished[-1]):
                unfinished.pop()
            if unfinished and not marks:
                marks.append(self.begin_wait())
            return not unfinished

        caller = get_ident()
        # No capture begins during a wait in another thread, which may go on after an interrupt.
        marks: list[object] = []
        query = "is_stream_done"
        if operation == "synchronize_event":
            query = "is_event_done"
        # It keeps them: a collected one would be destroyed during the wait.
        streams: dict[int, object] = {}
        if not handles:
            streams = self.streams_in_use()
        unfinished = [*(handles or streams)]
        wait_interruptibly(wait, is_done)

    def order(self, later: int, earlier: int) -> None:
        """Delay the later work of a stream until the present end of another one. The thread has the
        context as its current one.
        """
        event: Handle = self.events.create(DISABLE_TIMING)
        self.driver.call("record_event", event.value, earlier)
        self.driver.call("wait_event", later, event.value, 0)

    def streams_in_use(self) -> dict[int, object]:
        """Return the handles of the legacy default stream, of devmod's streams, and of the callers'
        streams that have devices, each with the object that keeps it valid. The context is current.

        Other streams of other libraries are not in it: a wait for the device does not wait for
        them.
        """
        return {
            self.driver.api.legacy_stream: None,
            **{handle.value: handle for handle in self.streams.referenced()},
            **{stream.handle: stream for stream in self.callers_streams()},
        }

    def callers_streams(self) -> list[Any]:
        """Return the streams of other libraries that have devices, unless their libraries have
        destroyed them. The context is current.
        """
        return [each for each in self._open_streams() if each.device.is_callers_queue]

    def _open_streams(self) -> list[Any]:
        """Return the referenced streams of other libraries, without those that were destroyed, and
        those whose objects do not keep them: a driver may end the process for the handle of a
        stream that was destroyed.
        """
        found = []
        for stream in self.referenced_foreign_streams():
            if stream.is_closed or not (stream.is_kept or stream.device.is_callers_queue):
                continue
            with suppress(DriverError):
                if self.driver.stream_id(stream.handle) == stream.number:
                    found.append(stream)
        return found

    def referenced_foreign_streams(self) -> list[Any]:
        """Return the streams over streams of other libraries. Another thread may add one at the
        same time, which ends an iteration over the items.
        """
        streams = [reference() for reference in self.foreign_streams.valuerefs()]
        return [stream for stream in streams if stream is not None]

    def note_end(self, stream: Any) -> None:
        """Note the end of the work in a stream of another library that devmod leaves: the library
        may destroy the stream at any time from now on.
        """
        if sys.is_finalizing() or is_inherited(self.driver.api.kind) or not self.is_alive():
            return
        if stream.is_closed:
            self._ends[None] = []
            return
        end: list[Handle] = []
        # A driver without numbers may have used the handle for a stream whose work goes on.
        key = stream.handle, stream.number or id(end)
        earlier = self._ends.get(key)
        self._ends[key] = end
        with suppress(DriverError), self, self.driver.relaxed():
            if self.driver.call("is_capturing", stream.handle):
                # The launches are in a graph of the library.
                self._ends.pop(key, None)
                if earlier is not None:
                    self._ends[key] = earlier
                return
            event = self.events.create(DISABLE_TIMING)
            self.driver.call("record_event", event.value, stream.handle)
            end.append(event)
            self._forget_ends()

    def _forget_ends(self) -> None:
        """Forget the oldest ends, up to one whose work goes on: a program that frees no memory may
        leave any number of streams. The context is current.
        """
        for key, end in self._noted_ends():
            if end and not self.driver.is_done("is_event_done", end[0].value):
                return
            if end and self._ends.get(key) is end:
                self._ends.pop(key, None)

    def _noted_ends(self) -> list[tuple[tuple[int, object] | None, list[Handle]]]:
        """Return the ends. A copy comes first: a finalizer may add one during an iteration."""
        return [*self._ends.copy().items()]

    def is_captured(self) -> bool:
        """Return whether one of these streams, or one that the legacy default stream waits for, is
        captured. The context is current.
        """
        streams = self.streams_in_use()
        try:
            return any(self.driver.call("is_capturing", each) for each in streams)
        except DriverError as error:
            if error.name == self.driver.api.implicit_capture:
                return True
            raise

    def synchronize_streams(self) -> None:
        """Wait for the work of these streams, and of those of other libraries that devmod has used.
        The context is current.

        A wait for the context would end the capture of any stream in it. Only that one waits for
        the work of a stream that its library has closed.
        """
        self.streams.settle()
        ends = self._noted_ends()
        foreign = self.referenced_foreign_streams()
        open_streams = self._open_streams()
        for handle in self.streams_in_use():
            self.driver.call("synchronize_stream", handle)
        for each in open_streams:
            # The launches of a captured stream are in a graph of its library.
            if not self.driver.call("is_capturing", each.handle):
                self.driver.call("synchronize_stream", each.handle)
        for _, end in ends:
            for event in end:
                self.driver.call("synchronize_event", event.value)
        closed = [each for each in foreign if each.is_closed and not each.has_ended]
        if closed or not all(end for _, end in ends):
            self.driver.call("synchronize_context")
        for each in closed:
            each.has_ended = True
        for key, end in ends:
            if self._ends.get(key) is end:
                self._ends.pop(key, None)

    def end_capture(self, capture: object) -> None:
        """Remove a capture from `captures`, and destroy the handles whose users were collected
        meanwhile.
        """
        self.captures.pop(capture, None)
        self.drain()

    def drain(self) -> None:
        """Destroy the handles whose end a capture has delayed, if none is active."""
        if self.captures:
            return
        for handles in (
            self.memory,
            self.host_memory,
            self.streams,
            self.events,
            self.modules,
            self.graphs,
            self.textures,
            self.surfaces,
            self.arrays,  # after what reads them
        ):
            handles.drain()


class _Wait:
    """Marks a wait. An interrupt that ends the function with the reference removes the mark."""

    __slots__ = ("__weakref__",)
