"""The processor as a device. A launch is done when its call returns, so a stream has nothing to wait for but its turn."""

from __future__ import annotations

import os
import platform
from threading import Lock
from time import perf_counter

from devmod import Device, Event, Stream
from devmod.backend import Once, begun_at, waited_for
from devmod.errors import LaunchError
from devmod_host import _driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: DLPack's kDLCPU.
_DLPACK_CPU = 1
_once = Once()


class HostDevice(Device):
    """The processor, and the compiler that makes kernels for it."""

    kind = "host"
    index = 0
    dlpack_type = _DLPACK_CPU

    def __init__(self, compiler: _driver.Compiler) -> None:
        self.compiler = compiler
        self.name = platform.machine()
        self.vendor = platform.system()
        self.driver_version = compiler.version
        self.memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.limits = {"max_dimension": 0xFFFFFFFF}
        self._stream = HostStream(self)

    @property
    def default_stream(self) -> HostStream:
        return self._stream

    def stream(self) -> HostStream:
        return HostStream(self)

    def synchronize(self) -> None:
        self._stream.synchronize()

    def allocate(self, nbytes: int) -> Any:
        # The system would promise more than there is, and end the process when it is touched.
        if nbytes > self.memory:
            raise LaunchError(f"{self} cannot hold an array of {nbytes} bytes: its memory is {self.memory}", kind="host")
        return _driver.allocate(nbytes)

    def write(self, memory: Any, data: memoryview, stream: Stream) -> None:
        assert isinstance(stream, HostStream)
        with stream.turn:
            _driver.ffi.memmove(memory, data, data.nbytes)

    def read(self, memory: Any, out: memoryview, stream: Stream) -> None:
        assert isinstance(stream, HostStream)
        with stream.turn:
            _driver.ffi.memmove(out, memory, out.nbytes)


class HostStream(Stream):
    """An order: threads that launch or copy on one stream take turns.

    Attributes
    ----------
    turn
        Held while a launch or a copy runs.
    """

    device: HostDevice

    def __init__(self, device: HostDevice) -> None:
        self.device = device
        self.turn = Lock()

    def synchronize(self) -> None:
        with self.turn:  # another thread's launch may be running
            pass

    def record(self) -> HostEvent:
        self.synchronize()
        return HostEvent(self.device, perf_counter())

    def wait(self, event: Event) -> None:
        waited_for(event, HostEvent, self.device)

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


class HostEvent(Event):
    """A moment: `at` is the clock's seconds."""

    __slots__ = ("at", "device")

    def __init__(self, device: HostDevice, at: float) -> None:
        self.device = device
        self.at = at

    def synchronize(self) -> None:
        pass

    def elapsed(self, earlier: Event) -> float:
        return self.at - begun_at(earlier, HostEvent, self.device).at

    def __repr__(self) -> str:
        return f"<Event of {self.device}>"


def devices() -> list[HostDevice]:
    """The one device, the same object each time.

    Raises
    ------
    DeviceNotFoundError
        There is no C compiler; it is looked for again the next time.
    """
    found: list[HostDevice] = _once.get("devices", lambda: [HostDevice(_driver.find_compiler())])
    return found
