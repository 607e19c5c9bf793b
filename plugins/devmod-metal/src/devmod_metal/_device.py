"""Metal devices: memory shared by host and device, and command queues as streams."""

from __future__ import annotations

from itertools import count

from devmod import Device, Stream
from devmod.backend import Once
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_metal._interface import MetalError
from devmod_metal._open import metal
from devmod_metal._stream import MetalStream
from devmod_runtime import check_driver, lend, open_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_runtime import Lease

#: DLPack's kDLMetal.
_DLPACK_METAL = 8
_once = Once()


class Memory:
    """A buffer that host and device share, or a part of one: `handle` is Metal's buffer, `offset` the first byte, `view` the bytes."""

    __slots__ = ("handle", "offset", "view")

    def __init__(self, handle: Any, view: memoryview, offset: int = 0) -> None:
        self.handle = handle
        self.view = view
        self.offset = offset


class MetalDevice(Device):
    """A GPU of this Mac.

    Parameters
    ----------
    handle
        Metal's device.
    index
        Its index among the devices.
    """

    kind = "metal"
    dlpack_type = _DLPACK_METAL

    def __init__(self, handle: Any, index: int) -> None:
        properties = metal().properties(handle)
        self.handle = handle
        self.index = index
        self.name = properties.name
        self.vendor = properties.name.partition(" ")[0]
        self.driver_version = properties.system
        self.memory = properties.memory
        self.limits = {
            **dict(zip((f"maxThreadsPerThreadgroup.{axis}" for axis in ("width", "height", "depth")), properties.threads, strict=True)),
            "maxThreadgroupMemoryLength": properties.threadgroup_memory,
            "maxBufferLength": properties.buffer_length,
            # Apple's table of features: the alignment of buffers in the constant address space is 4 or 32 bytes. In the device address
            # space it is that of the type, at most 16.
            "view_alignment": 32,
        }
        self._once = Once()
        self._number = count()
        #: The lease of each stream. Its value is the stream's commands, which may still run after the stream is deleted.
        self._streams: dict[int, Lease] = {}

    @property
    def default_stream(self) -> MetalStream:
        stream: MetalStream = self._once.get("stream", self.stream)
        return stream

    def stream(self) -> MetalStream:
        check_driver("metal")
        try:
            stream = MetalStream(self, metal().queue(self.handle))
        except MetalError as error:
            raise LaunchError(f"{self} gives no command queue: {error}", kind="metal") from error
        lease = lend(stream, stream.commands)
        stream.token = lease.token
        self._streams[next(self._number)] = lease
        return stream

    def synchronize(self) -> None:
        check_driver("metal")
        failure = ""
        for number, lease in tuple(self._streams.items()):
            is_deleted = lease.expired
            failure = lease.value.wait() or failure
            if is_deleted:
                self._streams.pop(number, None)
        if failure:
            raise self.launch_error(failure)

    def launch_error(self, text: str) -> LaunchError:
        """Return the LaunchError for a failure of commands."""
        return LaunchError(f"{self} reports a fault of a launch: {text}", kind="metal")

    def allocate(self, nbytes: int) -> Memory:
        check_driver("metal")
        limit = self.limits["maxBufferLength"]
        if nbytes > limit:
            raise self.memory_error(nbytes, f"its maxBufferLength is {limit}")
        try:
            handle = metal().buffer(self.handle, nbytes)
        except MetalError as error:
            raise self.memory_error(nbytes, str(error)) from error
        return Memory(handle, metal().contents(handle, nbytes))

    def write(self, memory: Memory, data: memoryview, stream: Stream) -> None:
        # The host writes immediately, so earlier launches must have read the memory.
        stream.synchronize()
        memory.view[: data.nbytes] = data.cast("B")

    def read(self, memory: Memory, out: memoryview, stream: Stream) -> None:
        stream.synchronize()
        out.cast("B")[:] = memory.view[: out.nbytes]

    def start_write(self, memory: Memory, data: memoryview, stream: Stream) -> None:
        staging = self.allocate(data.nbytes)
        staging.view[: data.nbytes] = data.cast("B")
        self.copy(staging, memory, data.nbytes, stream)

    def copy(self, source: Memory, target: Memory, nbytes: int, stream: Stream) -> None:
        check_driver("metal")
        assert isinstance(stream, MetalStream)
        if source.offset % 4 or target.offset % 4 or nbytes % 4:  # Metal copies whole words
            super().copy(source, target, nbytes, stream)
            return
        places = (source.handle, source.offset, target.handle, target.offset)
        try:
            stream.commands.commit(lambda: metal().copy(stream.queue, *places, nbytes))
        except MetalError as error:
            raise LaunchError(f"a copy of {nbytes} bytes on {self} failed: {error}", kind="metal") from error

    def slice(self, memory: Memory, offset: int, nbytes: int) -> Memory:
        return Memory(memory.handle, memory.view[offset : offset + nbytes], offset)

    def clear(self, memory: Memory, nbytes: int, stream: Stream) -> None:
        memory.view[:nbytes] = bytes(nbytes)  # nothing queued uses new memory

    def pointer(self, memory: Memory) -> tuple[int, int]:
        return metal().address(memory.handle), memory.offset

    def free_memory(self) -> int:
        return max(self.memory - metal().allocated(self.handle), 0)

    def view(self, memory: Memory) -> memoryview:
        import ctypes

        # Metal's view holds no reference to the buffer; this array does.
        shared_bytes = (ctypes.c_ubyte * memory.view.nbytes).from_buffer(memory.view)
        shared_bytes.owner = memory.handle  # type: ignore[attr-defined]
        return memoryview(shared_bytes).cast("B")


def devices() -> list[MetalDevice]:
    """Return all devices, always the same objects. If there is none, the next call searches again.

    Raises
    ------
    DeviceNotFoundError
        There is no device, or Metal is not available.
    """

    def find() -> list[MetalDevice]:
        open_driver("metal")
        handles = metal().devices()
        if not handles:
            raise DeviceNotFoundError(
                "no Metal device was found: macOS lists no GPU for this process, as in some virtual machines and remote sessions",
                kind="metal",
            )
        return [MetalDevice(handle, index) for index, handle in enumerate(handles)]

    result: list[MetalDevice] = _once.get("devices", find)
    return result
