"""Copies between the host and a device's memory, in a stream's order.

If the host maps the device's memory and caches it, the host copies directly. Otherwise copies go through staging memory in pieces,
so that a large array needs no second allocation of its size.
"""

from __future__ import annotations

from devmod_vulkan._driver import ffi, make, vk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod_vulkan._commands import Recorder
    from devmod_vulkan._logical import Logical
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


def write(memory: Memory, data: memoryview, stream: VulkanStream) -> None:
    """Copy bytes to the start of `memory`. The caller may change `data` when this returns."""
    logical = stream.logical
    logical.check_open()
    if memory.address:
        if memory.used:
            stream.synchronize()
        ffi.memmove(ffi.cast("char *", memory.address), data, data.nbytes)
        return
    memory.used = True
    pending: list[int] = []
    for start, size in _pieces(data.nbytes):
        if len(pending) >= _MAX_PENDING:
            stream.wait_until(pending.pop(0))
        staged = logical.staging.allocate(size)
        ffi.memmove(ffi.cast("char *", staged.address), data[start : start + size], size)
        recorder = _record(logical, staged, 0, memory, start, size)
        stream.submit(stream.submission([recorder.handle]), recorder.handle, (recorder, staged, memory))
        pending.append(stream.flush())


def read(memory: Memory, out: memoryview, stream: VulkanStream) -> None:
    """Copy the start of `memory` to `out`, and wait until the copy is done."""
    logical = stream.logical
    logical.check_open()
    if memory.address:
        stream.synchronize()
        ffi.memmove(out, ffi.cast("char *", memory.address), out.nbytes)
        return
    pending: list[tuple[int, int, int, Memory]] = []

    def finish() -> None:
        value, start, size, staged = pending.pop(0)
        stream.wait_until(value)
        ffi.memmove(out[start : start + size], ffi.cast("char *", staged.address), size)

    for start, size in _pieces(out.nbytes):
        if len(pending) >= _MAX_PENDING:
            finish()
        staged = logical.staging.allocate(size)
        recorder = _record(logical, memory, start, staged, 0, size)
        stream.submit(stream.submission([recorder.handle]), recorder.handle, (recorder, staged, memory))
        pending.append((stream.flush(), start, size, staged))
    while pending:
        finish()


def _pieces(nbytes: int) -> Iterator[tuple[int, int]]:
    for start in range(0, nbytes, _PIECE):
        yield start, min(_PIECE, nbytes - start)


def _record(logical: Logical, source: Memory, source_offset: int, target: Memory, target_offset: int, size: int) -> Recorder:
    """Record a command buffer with one copy."""
    calls, recorder = logical.calls, logical.commands.recorder()
    region = make("VkBufferCopy", srcOffset=source.offset + source_offset, dstOffset=target.offset + target_offset, size=size)
    handle = recorder.handle
    with recorder.lock:
        recorder.commands.recording = True
        logical.check(calls.vkBeginCommandBuffer(handle, _ONCE), "cannot record commands")
        calls.vkCmdPipelineBarrier(handle, *BEFORE, 0, 1, BEFORE_BARRIER, 0, ffi.NULL, 0, ffi.NULL)
        calls.vkCmdCopyBuffer(handle, source.buffer, target.buffer, 1, region)
        calls.vkCmdPipelineBarrier(handle, *AFTER, 0, 1, AFTER_BARRIER, 0, ffi.NULL, 0, ffi.NULL)
        logical.check(calls.vkEndCommandBuffer(handle), "cannot record commands")
        recorder.commands.recording = False
    return recorder
