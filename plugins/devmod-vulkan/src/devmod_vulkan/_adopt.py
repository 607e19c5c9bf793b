"""Devices over a VkDevice that the caller opened."""

from __future__ import annotations

import weakref

from devmod.backend import RLock
from devmod.errors import ArgumentError, LaunchError
from devmod_runtime import check_driver, fork_safe
from devmod_vulkan._device import VulkanDevice
from devmod_vulkan._driver import Calls, ffi, vk
from devmod_vulkan._logical import AdoptedLogical, Logical
from devmod_vulkan._physical import OLDEST, Physical

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

_lock = fork_safe(RLock())


class AdoptedDevice(VulkanDevice):
    """A device over a VkDevice and a VkQueue of the caller.

    Attributes
    ----------
    lock
        A lock that devmod holds while it submits. Hold it for your own submissions to the queue:
        Vulkan allows one at a time.
    """

    is_adopted = True
    is_callers_queue = True
    _pickle_advice = "call devmod_vulkan.device with a VkDevice of that process there"

    def __init__(self, physical: Physical, handle: Any, queue: Any) -> None:
        super().__init__(physical, 0)
        self._queue = queue
        self._logical = AdoptedLogical(self, physical, handle, queue)
        self.lock = self._logical.queues[0].lock

    @property
    def logical(self) -> Logical:
        return self._logical

    def synchronize(self) -> None:
        self._logical.finish()

    def close(self) -> None:
        """Wait for the work of devmod, and destroy what it has created on the VkDevice, such as the
        memory of arrays. Call it before vkDestroyDevice. The device cannot be used afterwards.

        Raises
        ------
        LaunchError
            The driver reports an error.
        """
        self._logical.close()

    def closed_error(self) -> LaunchError | SystemExit:
        return LaunchError(f"{self} is closed", kind="vulkan")

    def __repr__(self) -> str:
        return f"{super().__repr__()} over the caller's VkQueue 0x{_address(self._queue):x}"


#: By the addresses of the VkDevice and the VkQueue. The caller may destroy a VkDevice and get
#: another one of its address, after `close`.
_adopted: weakref.WeakValueDictionary[tuple[int, int], AdoptedDevice] = (
    weakref.WeakValueDictionary()
)


def adopt(
    instance: Any,
    physical_device: Any,
    device: Any,
    queue: Any,
    family: int,
    features: Collection[str],
    extensions: Collection[str],
    version: tuple[int, int],
) -> AdoptedDevice:
    """Return the device over a VkDevice, as `devmod_vulkan.device` does."""
    handles = [
        _handle(name, kind, value)
        for name, kind, value in (
            ("instance", "VkInstance", instance),
            ("physical_device", "VkPhysicalDevice", physical_device),
            ("device", "VkDevice", device),
            ("queue", "VkQueue", queue),
        )
    ]
    if not isinstance(family, int):
        raise _wrong("family", family, "the number of a queue family")
    for name, names in (("features", features), ("extensions", extensions)):
        if isinstance(names, str) or not all(isinstance(each, str) for each in names):
            raise _wrong(name, names, "a list of names")
    check_driver("vulkan")
    key = (_address(handles[2]), _address(handles[3]))
    with _lock:
        known = _adopted.get(key)
        if known is not None and not known.logical.closed:
            return known
        major, minor = version
        newest = vk.VK_MAKE_VERSION(major, minor, 0)
        physical = Physical(handles[1], Calls(handles[0]), newest)
        problem = ""
        if physical.version < OLDEST:
            problem = f"version={version}, and devmod needs Vulkan 1.2"
        problem = problem or physical.restrict(family, features, extensions)
        if problem:
            raise ArgumentError(
                f"devmod_vulkan.device cannot use the VkDevice: {problem}", kind="vulkan"
            )
        made = _adopted[key] = AdoptedDevice(physical, handles[2], handles[3])
    return made


def _handle(name: str, kind: str, value: Any) -> Any:
    """Return the handle that an argument has: a handle of the package vulkan, or its address."""
    is_handle = isinstance(value, ffi.CData) and ffi.typeof(value) is ffi.typeof(kind)
    is_address = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 64
    if is_address:
        return ffi.cast(kind, value)
    if is_handle and value != ffi.NULL:
        return value
    raise _wrong(name, value, f"a {kind} of the package vulkan, or its address")


def _wrong(name: str, value: object, expected: str) -> ArgumentError:
    return ArgumentError(
        f"devmod_vulkan.device: {name} is {value!r}; expected {expected}",
        kind="vulkan",
        argument=name,
    )


def _address(handle: Any) -> int:
    return int(ffi.cast("uintptr_t", handle))
