"""A device's primary context, which devmod shares with PyTorch, CuPy and the other libraries of the process."""

from __future__ import annotations

from _weakref import ref

from devmod_runtime.driver_api.api import DISABLE_TIMING, NON_BLOCKING, PORTABLE
from devmod_runtime.driver_api.errors import DriverError
from devmod_runtime.driver_api.handles import Handles, Memories, Modules, Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_runtime.driver_api.driver import Driver
    from devmod_runtime.driver_api.graph import Capture
    from devmod_runtime.driver_api.handles import Handle


class Context:
    """The primary context of a device. ``with context:`` makes it the thread's current one, and restores the previous one.

    It is retained at the first use and never released: at exit the driver may be gone before Python's objects.

    Parameters
    ----------
    driver
        The driver.
    device
        The driver's handle of the device.

    Attributes
    ----------
    handle : int
        The driver's handle.
    memory, host_memory, streams, events, modules, graphs
        The handles of each kind. Graphs are executable.
    captures : dict
        The active captures of batches, as keys. While there is one, no handle is destroyed: a captured launch may use it.
    waits : set
        Not empty while a thread waits for streams of the context, which the driver refuses during a capture: no batch is captured then.
    """

    def __new__(cls, driver: Driver, device: int) -> Context:
        """Return an object of a new subclass whose ``__enter__`` and ``__exit__`` are the driver's functions.

        CUDA's are functions of C. An interrupt at the start or the end of a Python function would leave the context current.
        """
        handle = driver.retain_primary_context(device)
        push, pop = driver.context_functions(handle)
        context: Context = object.__new__(type(cls.__name__, (cls,), {"__enter__": push, "__exit__": pop}))
        context.handle = handle
        return context

    handle: int

    def __init__(self, driver: Driver, device: int) -> None:
        self.driver = driver
        self.memory = Memories(self, "allocate", "free")
        self.host_memory = Handles(self, "allocate_host", "free_host", PORTABLE)
        self.streams = Streams(self, "create_stream", "destroy_stream", NON_BLOCKING)
        self.events = Handles(self, "create_event", "destroy_event")
        self.modules = Modules(self, "load_module", "unload_module")
        self.graphs = Handles(self, "instantiate_graph", "destroy_executable", 0)
        self.captures: dict[Capture, None] = {}
        self.waits: set[object] = set()

    @property
    def usable(self) -> bool:
        """Whether this process has opened the driver."""
        return self.driver.usable

    if TYPE_CHECKING:
        # The driver keeps a stack for each thread, so nested bodies and several threads need no state here.
        def __enter__(self) -> None: ...

        def __exit__(self, *details: object) -> None: ...

    def begin_wait(self) -> object:
        """Return an object that marks a wait in `waits` for as long as it is referenced."""
        wait = _Wait()
        self.waits.add(ref(wait, self.waits.discard))
        return wait

    def order(self, later: int, earlier: int) -> None:
        """Delay the later work of a stream until the present end of another one. The thread has the context as its current one."""
        event: Handle = self.events.create(DISABLE_TIMING)
        self.driver.record_event(event.value, earlier)
        self.driver.wait_event(later, event.value)

    def streams_in_use(self) -> dict[int, Handle | None]:
        """Return the handles of the legacy default stream and of devmod's streams, each with the object that keeps it valid.

        Streams of other libraries are not in it: their owners may have destroyed them.
        """
        return {self.driver.api.legacy_stream: None, **{handle.value: handle for handle in self.streams.referenced()}}

    def is_captured(self) -> bool:
        """Return whether one of these streams, or one that the legacy default stream waits for, is captured. The context is current."""
        streams = self.streams_in_use()
        try:
            return any(map(self.driver.is_capturing, streams))
        except DriverError as error:
            if error.name == self.driver.api.implicit_capture:
                return True
            raise

    def synchronize_streams(self) -> None:
        """Wait for the work of these streams. The context is current. A wait for the context would end the capture of any stream in it."""
        self.streams.settle()
        streams = self.streams_in_use()
        for handle in streams:
            self.driver.synchronize_stream(handle)

    def end_capture(self, capture: Capture) -> None:
        """Remove a capture from `captures`, and destroy the handles whose users were collected meanwhile."""
        self.captures.pop(capture, None)
        self.drain()

    def drain(self) -> None:
        """Destroy the handles whose end a capture has delayed, if none is active."""
        if not self.captures:
            for handles in (self.memory, self.host_memory, self.streams, self.events, self.modules, self.graphs):
                handles.drain()


class _Wait:
    """Marks a wait. An interrupt that ends the function with the reference removes the mark."""

    __slots__ = ("__weakref__",)
