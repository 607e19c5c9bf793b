"""Copies within a device's memory, and between it and the host. The queue runs them in order.

WebGPU copies whole words of four bytes. A part of a buffer may begin and end within a word, so its
words are completed on the host.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from devmod.backend import Once
from devmod_runtime import call_uninterrupted
from devmod_webgpu import _driver
from devmod_webgpu._driver import wgpu

_READ = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
#: The bytes of the largest staging buffer that is kept, and the most that are kept of a size. Sizes
#: are powers of two.
_LARGEST_KEPT = 8 << 20
_MOST_KEPT = 2


class Region:
    """A part of a buffer.

    Attributes
    ----------
    buffer, offset, nbytes
        The GPUBuffer, the first byte in it, and the number of bytes.
    size : int
        The bytes of the words that the part begins in.
    splits_a_word : bool
        Whether its last word has bytes that do not belong to it, and are not padding.
    resource : dict
        The part as the resource of a binding.
    """

    __slots__ = ("buffer", "nbytes", "offset", "resource", "size", "splits_a_word")

    map_state = "unmapped"

    def __init__(self, buffer: Any, offset: int, nbytes: int, *, is_last: bool) -> None:
        self.buffer = buffer
        self.offset = offset
        self.nbytes = nbytes
        self.size = -(-nbytes // 4) * 4
        self.splits_a_word = (offset + nbytes) % 4 > 0 and not is_last
        self.resource = {"buffer": buffer, "offset": offset, "size": self.size}


class Staging:
    """The staging buffers of a device that no copy uses. They are mapped. Making and mapping new
    memory takes a third of a small copy.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[Any]] = {}

    def take(self, gpu: Any, size: int) -> Any:
        """Return an unmapped buffer of at least `size` bytes."""
        if size > _LARGEST_KEPT:
            return gpu.create_buffer(size=size, usage=_READ)
        size = 1 << (size - 1).bit_length()
        try:
            buffer = self._free[size].pop()
        except LookupError:
            return gpu.create_buffer(size=size, usage=_READ)
        buffer.unmap()
        return buffer

    def give(self, buffer: Any) -> None:
        """Keep a buffer for other copies, unless there are enough."""
        if buffer.size > _LARGEST_KEPT:
            return
        free = self._free.setdefault(buffer.size, [])
        if len(free) < _MOST_KEPT:
            free.append(buffer)


class Download:
    """A copy to a staging buffer, and then to the host's memory `out`."""

    __slots__ = ("_buffers", "_once", "_out", "_skip", "_staging")

    def __init__(self, staging: Staging, buffer: Any, skip: int, out: memoryview) -> None:
        self._staging = staging
        self._buffers = [buffer]
        self._skip = skip
        self._out = out
        self._once = Once()

    def finish(self) -> None:
        """Wait for the copy to the staging buffer, and copy its bytes to the host's memory,
        once.
        """
        self._once.get("copied", self._copy)
        while self._buffers:
            with suppress(IndexError):  # another thread was faster
                self._staging.give(self._buffers.pop())

    def _copy(self) -> None:
        # After an interrupt this is repeated. A buffer cannot be mapped twice.
        mapped = call_uninterrupted(self._once.get, "mapped", lambda: map_copied(self._buffers[0]))
        self._out[:] = mapped[self._skip : self._skip + self._out.nbytes]


def download(gpu: Any, staging: Staging, memory: Any, out: memoryview) -> Download:
    """Queue a copy of the start of `memory` to a staging buffer."""
    return Download(staging, *_download(gpu, staging, memory, out), out)


def read(gpu: Any, staging: Staging, memory: Any, out: memoryview) -> None:
    """Copy the start of `memory` to the host's memory, and wait."""
    buffer, skip = _download(gpu, staging, memory, out)
    out[:] = call_uninterrupted(map_copied, buffer)[skip : skip + out.nbytes]
    staging.give(buffer)


def _download(gpu: Any, staging: Staging, memory: Any, out: memoryview) -> tuple[Any, int]:
    """Queue the copy. Return the staging buffer, and the first byte in it: copies begin at
    words.
    """
    source, offset = place_of(memory)
    skip = offset % 4
    size = -(-(skip + out.nbytes) // 4) * 4
    buffer = staging.take(gpu, size)
    _submit(gpu, source, offset - skip, buffer, 0, size)
    return buffer, skip


def map_copied(buffer: Any) -> Any:
    """Wait for the submitted copies to a staging buffer, and return its bytes."""
    _driver.map_submitted(buffer)
    return buffer.read_mapped(copy=False)


def write(gpu: Any, staging: Staging, memory: Any, data: memoryview) -> None:
    """Copy bytes to the start of `memory`. The caller may change `data` when this returns."""
    _driver.end_submissions()
    buffer, offset = place_of(memory)
    head = min(-offset % 4, data.nbytes)
    tail = (data.nbytes - head) % 4
    if head:
        _write_in_word(gpu, staging, buffer, offset, data[:head])
    if data.nbytes > head + tail:
        gpu.queue.write_buffer(buffer, offset + head, data[head : data.nbytes - tail])
    if tail and type(memory) is Region and memory.splits_a_word:
        _write_in_word(gpu, staging, buffer, offset + data.nbytes - tail, data[-tail:])
    elif tail:
        gpu.queue.write_buffer(
            buffer, offset + data.nbytes - tail, bytes(data[-tail:]).ljust(4, b"\0")
        )


def _write_in_word(gpu: Any, staging: Staging, buffer: Any, offset: int, data: memoryview) -> None:
    """Write bytes within one word, and keep its other bytes."""
    start = offset // 4 * 4
    word = bytearray(4)
    read(gpu, staging, Region(buffer, start, 4, is_last=False), memoryview(word))
    word[offset - start : offset - start + data.nbytes] = data
    gpu.queue.write_buffer(buffer, start, word)


def copy(gpu: Any, source: Any, target: Any, nbytes: int, usage: int) -> bool:
    """Queue a copy within the device. Return False if it would begin or end within a word of other
    arrays.
    """
    first, start = place_of(source)
    second, offset = place_of(target)
    # A copy of the rest of the source's last word would give the target's padding elements of
    # another array.
    if (
        start % 4
        or offset % 4
        or any(type(each) is Region and each.splits_a_word for each in (source, target))
    ):
        return False
    size = -(-nbytes // 4) * 4
    if first is second:  # WebGPU forbids a copy within one buffer
        between = gpu.create_buffer(size=size, usage=usage)
        _submit(gpu, first, start, between, 0, size)
        first = between
        start = 0
    _submit(gpu, first, start, second, offset, size)
    return True


def _submit(gpu: Any, source: Any, start: int, target: Any, offset: int, size: int) -> None:
    encoder = gpu.create_command_encoder()
    encoder.copy_buffer_to_buffer(source, start, target, offset, size)
    _driver.submit(gpu, [encoder.finish()])


def place_of(memory: Any) -> tuple[Any, int]:
    """Return the buffer of a memory object, and the first byte in it."""
    if type(memory) is Region:
        return memory.buffer, memory.offset
    return memory, 0
