"""Waiting for the value of a timeline semaphore."""

from __future__ import annotations

from devmod_vulkan._driver import ffi, make, vk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_vulkan._logical import Logical

#: The nanoseconds of one wait. Waits are split, so that Ctrl-C interrupts them.
_WAIT_SLICE = 200_000_000


def wait_for(logical: Logical, semaphore: Any, value: int) -> None:
    """Wait until a semaphore has a value. Raise LaunchError if the driver reports an error."""
    Waiter(logical, semaphore).wait(value)


class Waiter:
    """Waits for a semaphore, in one thread at a time. It is reused, because creating Vulkan's structures takes longer than a short wait."""

    __slots__ = ("_cell", "_device", "_info", "_logical", "_wait")

    def __init__(self, logical: Logical, semaphore: Any) -> None:
        self._logical = logical
        self._cell = ffi.new("uint64_t *")
        self._info = make("VkSemaphoreWaitInfo", semaphoreCount=1, pSemaphores=ffi.new("VkSemaphore *", semaphore), pValues=self._cell)
        self._wait, self._device = logical.calls.vkWaitSemaphores, logical.handle

    def wait(self, value: int) -> None:
        """Wait until the semaphore has `value`."""
        self._cell[0] = value
        code = self._wait(self._device, self._info, _WAIT_SLICE)
        while code == vk.VK_TIMEOUT:
            code = self._wait(self._device, self._info, _WAIT_SLICE)
        if code or self._logical.validating:
            self._logical.check(code, "reports a failed launch")
