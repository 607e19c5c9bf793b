"""The command buffers and timestamps of a device. Each has one user at a time, and is reused when the user is collected."""

from __future__ import annotations

from threading import Lock

from devmod_runtime import Pool, fork_safe
from devmod_vulkan._driver import ffi, make, vk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_vulkan._logical import Logical

#: The number of command buffers, and of timestamps, that are created at once.
_RECORDERS = 16
_TIMERS = 64


class CommandBuffer:
    """A VkCommandBuffer, with the lock that all buffers of its pool share.

    `recording` is True during recording. A buffer with an interrupted recording is not reused.
    """

    __slots__ = ("handle", "lock", "recording")

    def __init__(self, handle: Any, lock: Lock) -> None:
        self.handle = handle
        self.lock = lock
        self.recording = False


class Recorder:
    """A command buffer for one user. Recording requires the lock, and `commands.recording` to be True meanwhile."""

    __slots__ = ("__weakref__", "_token", "commands", "handle", "lock")

    def __init__(self, commands: CommandBuffer, pool: Pool) -> None:
        self.commands = commands
        self.handle, self.lock = commands.handle, commands.lock
        self._token = pool.lend(self, commands)


class Timer:
    """A slot for a timestamp, with a command buffer that writes it."""

    __slots__ = ("__weakref__", "_token", "handle", "number", "pool")

    def __init__(self, slot: tuple[Any, Any, int], pool: Pool) -> None:
        self.handle, self.pool, self.number = slot
        self._token = pool.lend(self, slot)


class CommandPools:
    """The pools of one device.

    Attributes
    ----------
    recorders
        The command buffers without a user.
    """

    def __init__(self, logical: Logical) -> None:
        self._logical = logical
        self.recorders = Pool()
        self._timers = Pool()

    def recorder(self) -> Recorder:
        """Return a command buffer for the exclusive use of the caller."""
        pool = self.recorders
        try:
            commands = pool.take()
            while commands.recording:
                commands = pool.take()
        except IndexError:
            lock = fork_safe(Lock())
            commands, *others = [CommandBuffer(handle, lock) for handle in self._command_buffers(_RECORDERS, resettable=True)]
            pool.add(others)
        return Recorder(commands, pool)

    def _command_buffers(self, number: int, *, resettable: bool = False) -> list[Any]:
        """Return new command buffers, in a pool of their own."""
        logical = self._logical
        flags = vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT if resettable else 0
        info = make("VkCommandPoolCreateInfo", queueFamilyIndex=logical.physical.queue_family, flags=flags)
        pool = logical.create_owned("vkCreateCommandPool", "VkCommandPool", info)
        buffers = ffi.new("VkCommandBuffer[]", number)
        info = make("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=number)
        logical.check(logical.calls.vkAllocateCommandBuffers(logical.handle, info, buffers), "cannot allocate command buffers")
        return list(buffers)

    def timer(self) -> Timer:
        """Return a timestamp slot for the exclusive use of the caller."""
        try:
            slot = self._timers.take()
        except IndexError:
            slot, *others = self._make_timers()
            self._timers.add(others)
        return Timer(slot, self._timers)

    def _make_timers(self) -> list[tuple[Any, Any, int]]:
        info = make("VkQueryPoolCreateInfo", queryType=vk.VK_QUERY_TYPE_TIMESTAMP, queryCount=_TIMERS)
        pool = self._logical.create_owned("vkCreateQueryPool", "VkQueryPool", info)
        slots, begin, calls = [], make("VkCommandBufferBeginInfo"), self._logical.calls
        for number, handle in enumerate(self._command_buffers(_TIMERS)):
            self._logical.check(calls.vkBeginCommandBuffer(handle, begin), "cannot record commands")
            calls.vkCmdResetQueryPool(handle, pool, number, 1)
            calls.vkCmdWriteTimestamp(handle, vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, number)
            self._logical.check(calls.vkEndCommandBuffer(handle), "cannot record commands")
            slots.append((handle, pool, number))
        return slots
