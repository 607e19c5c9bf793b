"""Copies within a device's memory, and between it and the host, in a stream's order.

If the host maps the device's memory and caches it, the host copies directly. Otherwise copies go through staging memory in pieces,
so that a large array needs no second allocation of its size.
"""

from __future__ import annotations

import ctypes
from collections import deque

from devmod.backend import Once
from devmod_vulkan._driver import ffi, make, vk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from devmod_vulkan._memory import Memory
    from devmod_vulkan._stream import VulkanStream

#: The size of a piece in bytes, and the most pieces in flight.
_PIECE = 8 << 20
_MAX_PENDING = 4

_COMPUTE, _TRANSFER, _HOST = (
    vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
    vk.VK_PIPELINE_STAGE_TRANSFER_BIT,
    vk.VK_PIPELINE_STAGE_HOST_BIT,
)
_SHADER = vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_SHADER_WRITE_BIT
_MOVE = vk.VK_ACCESS_TRANSFER_READ_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
_WRITES = vk.VK_ACCESS_SHADER_WRITE_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
#: The barriers at the start and end of every command buffer. They make all earlier writes visible to all later commands.
BEFORE = (_COMPUTE | _TRANSFER, _COMPUTE | _TRANSFER)
BEFORE_BARRIER = make("VkMemoryBarrier", srcAccessMask=_WRITES, dstAccessMask=_SHADER | _MOVE | vk.VK_ACCESS_UNIFORM_READ_BIT)
AFTER = (_COMPUTE | _TRANSFER, _COMPUTE | _TRANSFER | _HOST)
AFTER_BARRIER = make("VkMemoryBarrier", srcAccessMask=_WRITES, dstAccessMask=_SHADER | _MOVE | vk.VK_ACCESS_HOST_READ_BIT)
_ONCE = make("VkCommandBufferBeginInfo", flags=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)


class Download:
    """A copy from the device to staging memory, and then to the host's memory `out`.

    `finish` does the second part when the semaphore of the stream has `value`. Several threads may wait for it.
    """

    __slots__ = ("_once", "_out", "_staged", "value")

    def __init__(self, value: int, staged: Memory, out: memoryview) -> None:
        self.value = value
        self._staged = staged
        self._out = out
        self._once = Once()

    def finish(self) -> None:
        """Copy to the host's memory, once."""
        source = ffi.cast("char *", self._staged.address)
        self._once.get("copied", lambda: ffi.memmove(self._out, source, self._out.nbytes))


def write(memory: Memory, data: memoryview, stream: VulkanStream) -> None:
    """Copy bytes to the start of `memory`. The caller may change `data` when this returns."""
    if memory.address:
        stream.logical.check_open()
        if memory.used:
            stream.synchronize()
        ffi.memmove(ffi.cast("char *", memory.address), data, data.nbytes)
    else:
        new = not memory.used
        start_write(memory, data, stream)
        if new:
            stream.synchronize()  # any other stream may use the array next


def start_write(memory: Memory, data: memoryview, stream: VulkanStream) -> None:
    """Copy bytes to staging memory, and queue the copy from there to the start of `memory`."""
    logical = stream.logical
    logical.check_open()
    if memory.address and not memory.used:
        write(memory, data, stream)
        return
    pending: list[int] = []
    for start, size in _pieces(data.nbytes):
        if len(pending) >= _MAX_PENDING:
            stream.wait_until(pending.pop(0))
        staged = logical.staging.allocate(size)
        ffi.memmove(ffi.cast("char *", staged.address), data[start : start + size], size)
        _submit_copy(stream, staged, 0, memory, start, size)
        pending.append(stream.flush())


def read(memory: Memory, out: memoryview, stream: VulkanStream) -> None:
    """Copy the start of `memory` to `out`, and wait until the copy is done."""
    if memory.address:
        stream.logical.check_open()
        stream.synchronize()
        ffi.memmove(out, ffi.cast("char *", memory.address), out.nbytes)
        return
    for download in _download(memory, out, stream):
        _finish(download, stream)


def start_read(memory: Memory, out: memoryview, stream: VulkanStream) -> None:
    """Queue the copy of the start of `memory` to staging memory. The copy to `out` is done when the stream is waited for.

    The staging memory is limited, so the call waits for the first part of a large array.
    """
    for download in _download(memory, out, stream):
        stream.finish_later(download)


def copy(source: Memory, target: Memory, nbytes: int, stream: VulkanStream) -> None:
    """Queue a copy within the device."""
    stream.logical.check_open()
    _submit_copy(stream, source, 0, target, 0, nbytes)


def clear(memory: Memory, nbytes: int, stream: VulkanStream) -> None:
    """Set new memory to zero."""
    logical = stream.logical
    logical.check_open()
    if memory.address:
        ctypes.memset(memory.address, 0, nbytes)
        return
    size = -(-nbytes // 4) * 4  # pieces of memory are whole words

    def fill(handle: Any) -> None:
        logical.calls.vkCmdFillBuffer(handle, memory.buffer, memory.offset, size, 0)

    _submit(stream, fill, memory)
    stream.synchronize()  # any other stream may use the array next


def _pieces(nbytes: int) -> Iterator[tuple[int, int]]:
    for start in range(0, nbytes, _PIECE):
        yield start, min(_PIECE, nbytes - start)


def _download(memory: Memory, out: memoryview, stream: VulkanStream) -> Iterable[Download]:
    """Submit the copies of all pieces to staging memory. Return the last ones, which are not finished."""
    stream.logical.check_open()
    pending: deque[Download] = deque()
    for start, size in _pieces(out.nbytes):
        if len(pending) >= _MAX_PENDING:
            _finish(pending.popleft(), stream)
        staged = stream.logical.staging.allocate(size)
        _submit_copy(stream, memory, start, staged, 0, size)
        pending.append(Download(stream.flush(), staged, out[start : start + size]))
    return pending


def _finish(download: Download, stream: VulkanStream) -> None:
    stream.wait_until(download.value)
    download.finish()


def _submit_copy(stream: VulkanStream, source: Memory, start: int, target: Memory, offset: int, size: int) -> None:
    region = make("VkBufferCopy", srcOffset=source.offset + start, dstOffset=target.offset + offset, size=size)

    def copy_region(handle: Any) -> None:
        stream.logical.calls.vkCmdCopyBuffer(handle, source.buffer, target.buffer, 1, region)

    _submit(stream, copy_region, source, target)


def _submit(stream: VulkanStream, record: Callable[[Any], object], *memories: Memory) -> None:
    """Record a command buffer with one command, and submit it. The memories are kept until it is done."""
    logical = stream.logical
    calls, recorder = logical.calls, logical.commands.recorder()
    handle = recorder.handle
    with recorder.lock:
        recorder.commands.recording = True
        logical.check(calls.vkBeginCommandBuffer(handle, _ONCE), "cannot record commands")
        calls.vkCmdPipelineBarrier(handle, *BEFORE, 0, 1, BEFORE_BARRIER, 0, ffi.NULL, 0, ffi.NULL)
        record(handle)
        calls.vkCmdPipelineBarrier(handle, *AFTER, 0, 1, AFTER_BARRIER, 0, ffi.NULL, 0, ffi.NULL)
        logical.check(calls.vkEndCommandBuffer(handle), "cannot record commands")
        recorder.commands.recording = False
    for memory in memories:
        memory.used = True
    stream.submit(stream.submission([handle]), handle, (recorder, *memories))
