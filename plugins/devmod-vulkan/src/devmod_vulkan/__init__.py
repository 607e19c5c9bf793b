"""devmod-vulkan: its list of devices, and `device`, over a VkDevice of the caller. Importing it
loads no driver and no driver library.

docs/design/vulkan.md has the reasons.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from devmod import Device
    from devmod_vulkan._adopt import AdoptedDevice


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.vulkan``: return the devices, that of ``DEVMOD_VULKAN_DEVICE``
    first, then GPUs before CPUs.
    """
    from devmod_vulkan._device import devices as list_devices

    return list_devices()


def device(
    *,
    instance: object,
    physical_device: object,
    device: object,
    queue: object,
    family: int,
    features: Collection[str],
    extensions: Collection[str] = (),
    version: tuple[int, int] = (1, 2),
) -> AdoptedDevice:
    """Return a device over a VkDevice that the caller opened. One VkDevice and queue have one
    device.

    Launches go to the queue, in order with the commands of compute and transfer that the caller
    submits. Hold the device's ``lock`` for each submission of your own. Call its ``close()`` before
    vkDestroyDevice: it destroys what devmod has created, and nothing that it was given. A
    ``devmod.Event`` is reached when the semaphore ``event.stream.semaphore`` has ``event.value``.

    Parameters
    ----------
    instance, physical_device, device, queue
        The handles of the package vulkan, or their addresses.
    family
        The queue family of the queue. It must have compute queues.
    features, extensions
        The names of the features and the device extensions that the VkDevice was opened with, such
        as "shaderInt64": a VkDevice does not tell them. ``timelineSemaphore`` is needed. A kernel
        that needs another one is an error.
    version
        The ``apiVersion`` with which the instance was created.

    Raises
    ------
    ArgumentError
        devmod cannot use the VkDevice.
    DeviceNotFoundError
        The Vulkan loader cannot be opened.
    LaunchError
        This process was forked from one that had opened Vulkan's driver.
    """
    from devmod_vulkan._adopt import adopt

    return adopt(instance, physical_device, device, queue, family, features, extensions, version)
