"""The processor as a device. A launch ends before its call returns, so a stream only waits for the
calls of other threads.
"""

from __future__ import annotations

import ctypes
import os
import platform
from time import perf_counter

from devmod import Device, Event, Stream
from devmod.backend import Once, RLock
from devmod_host import _driver
from devmod_runtime import check_earlier_event, check_event, fork_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: DLPack's kDLCPU.
_DLPACK_CPU = 1
_once = Once()


class HostDevice(Device):
    """The processor, and the C compiler that builds kernels for it."""

    kind = "host"
    index = 0
    dlpack_type = _DLPACK_CPU

    def __init__(self, compiler: _driver.Compiler) -> None:
        self.compiler = compiler
        self.name = platform.machine()
        self.vendor = platform.system()
        self.driver_version = compiler.version
        self.memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.limits = {
            "max_dimension": 0xFFFFFFFF,
            "view_alignment": 16,
        }  # malloc's alignment, enough for every type of C
        self._stream = HostStream(self)

    @property
    def default_stream(self) -> HostStream:
        return self._stream

    def stream(self) -> HostStream:
        return HostStream(self)

    def synchronize(self) -> None:
        self._stream.synchronize()

    def allocate(self, nbytes: int) -> Any:
        # The system may promise more memory than exists, and kill the process at the first access.
        if nbytes > self.memory:
            raise self.memory_error(nbytes, f"its memory is {self.memory}")
        try:
            return _driver.allocate(nbytes)
        except (MemoryError, OverflowError):
            raise self.memory_error(nbytes, "the system has too little memory") from None

    def slice(self, memory: Any, offset: int, nbytes: int) -> Any:
        # Not a memoryview: if the garbage collector clears one that cffi exports, CPython raises
        # BufferError in any other code.
        part = (ctypes.c_ubyte * nbytes).from_buffer(_driver.ffi.buffer(memory), offset)
        return _driver.ffi.from_buffer("unsigned char[]", part)

    def view(self, memory: Any) -> memoryview:
        return memoryview(_driver.ffi.buffer(memory))

    def clear(self, memory: Any, nbytes: int, stream: HostStream) -> None:
        pass  # new memory is zero

    def copy(self, source: Any, target: Any, nbytes: int, stream: HostStream) -> None:
        with stream.turn:
            _driver.ffi.memmove(target, source, nbytes)

    def write(self, memory: Any, data: memoryview, stream: HostStream) -> None:
        with stream.turn:
            _driver.ffi.memmove(memory, data, data.nbytes)

    def read(self, memory: Any, out: memoryview, stream: HostStream) -> None:
        with stream.turn:
            _driver.ffi.memmove(out, memory, out.nbytes)


class HostStream(Stream):
    """A stream: threads that launch or copy in it take turns.

    Attributes
    ----------
    turn
        The lock that a launch or a copy holds.
    """

    device: HostDevice

    def __init__(self, device: HostDevice) -> None:
        self.device = device
        # Reentrant: a finalizer that launches may run during a launch of its thread. The lock is
        # free in a forked child.
        self.turn = fork_safe(RLock())

    def synchronize(self) -> None:
        with self.turn:  # another thread may be launching
            pass

    def record(self) -> HostEvent:
        self.synchronize()
        return HostEvent(self.device, perf_counter())

    def wait(self, event: Event) -> None:
        check_event(event, HostEvent, self.device)


class HostEvent(Event):
    """A point in time: `at` is the clock in seconds."""

    __slots__ = ("at", "device")

    def __init__(self, device: HostDevice, at: float) -> None:
        self.device = device
        self.at = at

    def synchronize(self) -> None:
        pass

    def elapsed(self, earlier: Event) -> float:
        return self.at - check_earlier_event(earlier, HostEvent, self.device).at


def devices() -> list[HostDevice]:
    """Return the only device, always the same object.

    Raises
    ------
    DeviceNotFoundError
        There is no C compiler. The next call searches again.
    """
    return _once.get("devices", lambda: [HostDevice(_driver.find_compiler())])
