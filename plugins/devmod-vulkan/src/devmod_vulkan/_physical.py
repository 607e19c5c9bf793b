"""Physical devices: the properties of a device before it is opened."""

from __future__ import annotations

from devmod.backend import Once
from devmod.errors import DeviceNotFoundError
from devmod_vulkan import _features
from devmod_vulkan._driver import (
    NO_DEVICE,
    Calls,
    enumerate_all,
    enumerate_extensions,
    ffi,
    instance,
    make,
    text_of,
    vk,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

_VENDORS = {
    0x1002: "AMD",
    0x1010: "Imagination",
    0x106B: "Apple",
    0x10DE: "NVIDIA",
    0x13B5: "Arm",
    0x14E4: "Broadcom",
    0x1AE0: "Google",
    0x5143: "Qualcomm",
    0x8086: "Intel",
    0x10005: "Mesa",
}
#: The preference of each device type, and whether its memory is shared with the host.
_TYPES = {
    vk.VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: (4, False),
    vk.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: (3, True),
    vk.VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: (2, False),
    vk.VK_PHYSICAL_DEVICE_TYPE_CPU: (1, True),
    vk.VK_PHYSICAL_DEVICE_TYPE_OTHER: (0, False),
}
_SUBGROUP = (
    "BASIC",
    "VOTE",
    "ARITHMETIC",
    "BALLOT",
    "SHUFFLE",
    "SHUFFLE_RELATIVE",
    "CLUSTERED",
    "QUAD",
)
_LIMITS = (
    "maxComputeWorkGroupInvocations",
    "maxComputeSharedMemorySize",
    "maxPushConstantsSize",
    "maxStorageBufferRange",
    "maxUniformBufferRange",
    "maxBoundDescriptorSets",
    "maxPerStageDescriptorStorageBuffers",
    "maxPerStageDescriptorUniformBuffers",
    "maxPerStageDescriptorSampledImages",
    "maxPerStageDescriptorStorageImages",
    "maxPerStageDescriptorSamplers",
    "maxPerStageResources",
    "maxImageDimension1D",
    "maxImageDimension2D",
    "maxImageDimension3D",
    "maxImageArrayLayers",
)
#: The oldest supported version: 1.2 introduced timeline semaphores.
OLDEST = (1, 2)


class Physical:
    """A physical device.

    Attributes
    ----------
    handle, calls
        The VkPhysicalDevice, and the functions of its instance.
    name, vendor, driver_version : str
        As the driver reports them.
    version : tuple of int
        The usable Vulkan version: that of the device, but at most that of the instance.
    score : int
        The preference by type: highest for a discrete GPU, lowest for other types.
    shares_memory : bool
        Whether its memory is shared with the host.
    memory : int
        The bytes of its largest heap of device-local memory.
    limits : dict
        The limits by their names in Vulkan.
    features : frozenset of str
        The features of `_features.REQUESTED` that it has.
    extensions : frozenset of str
        The extensions that it has.
    memory_types : list of (int, int)
        The property flags and the heap size of each memory type.
    queue_family, queue_count, timestamp_bits, timestamp_period
        The queue family for launches, and the properties of its timestamps.
    subgroup_sizes : tuple of int
        The sizes that a shader can require of its subgroups.
    format_features : dict
        The features of the images of each format that was asked for, by the format's name.
    alignment : int
        The alignment of offsets in buffers.
    identity : str
        The text that identifies device and driver in the keys of cached pipelines.
    """

    def __init__(self, handle: Any, calls: Calls, newest: int) -> None:
        self.handle = handle
        self.calls = calls
        driver = make("VkPhysicalDeviceDriverProperties")
        subgroup = make("VkPhysicalDeviceSubgroupProperties", pNext=driver)
        controls = make("VkPhysicalDeviceFloatControlsProperties", pNext=subgroup)
        self.extensions = enumerate_extensions(
            calls.vkEnumerateDeviceExtensionProperties, handle, ffi.NULL
        )
        sizing = make("VkPhysicalDeviceSubgroupSizeControlProperties", pNext=controls)
        base = make("VkPhysicalDeviceProperties2")
        calls.vkGetPhysicalDeviceProperties(handle, ffi.addressof(base, "properties"))
        properties = base.properties
        self.version = _version(min(properties.apiVersion, newest))
        has_sizing = self.version >= (1, 3) or _features.SUBGROUP_SIZE_CONTROL in self.extensions
        chain = controls
        if has_sizing:
            chain = sizing
        sizes = make("VkPhysicalDeviceMaintenance3Properties", pNext=chain)
        if self.version >= OLDEST:
            base.pNext = sizes
            calls.vkGetPhysicalDeviceProperties2(handle, base)
        self.name = text_of(properties.deviceName)
        self.vendor = _VENDORS.get(properties.vendorID, f"vendor {properties.vendorID:#06x}")
        number = properties.driverVersion
        self.driver_version = (
            f"{text_of(driver.driverName)} {text_of(driver.driverInfo)}".strip() or str(number)
        )
        self.score, self.shares_memory = _TYPES.get(properties.deviceType, (0, False))
        self.limits = {name: int(getattr(properties.limits, name)) for name in _LIMITS}
        for axis in range(3):
            self.limits[f"maxComputeWorkGroupCount[{axis}]"] = (
                properties.limits.maxComputeWorkGroupCount[axis]
            )
            self.limits[f"maxComputeWorkGroupSize[{axis}]"] = (
                properties.limits.maxComputeWorkGroupSize[axis]
            )
        self.limits["view_alignment"] = max(properties.limits.minStorageBufferOffsetAlignment, 1)
        self.limits["maxMemoryAllocationSize"] = sizes.maxMemoryAllocationSize or 1 << 30
        self.timestamp_period = float(properties.limits.timestampPeriod)
        self.alignment = max(
            256,
            properties.limits.minStorageBufferOffsetAlignment,
            properties.limits.minUniformBufferOffsetAlignment,
            properties.limits.nonCoherentAtomSize,
        )
        uuid = bytes(ffi.buffer(properties.pipelineCacheUUID))
        self.cache_header = (
            (32).to_bytes(4, "little")
            + vk.VK_PIPELINE_CACHE_HEADER_VERSION_ONE.to_bytes(4, "little")
            + properties.vendorID.to_bytes(4, "little")
            + properties.deviceID.to_bytes(4, "little")
            + uuid
        )
        self.identity = "\n".join(
            (self.name, self.driver_version, str(number), self.cache_header.hex())
        )
        self._operations = 0
        if subgroup.supportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT:
            self._operations = subgroup.supportedOperations
        self._controls = controls
        self.format_features: dict[str, int] = {}
        self._read_memory()
        self._families = enumerate_all(
            self.calls.vkGetPhysicalDeviceQueueFamilyProperties,
            "VkQueueFamilyProperties",
            self.handle,
            read=lambda each: (each.queueFlags, each.queueCount, each.timestampValidBits),
        )
        self._choose_family()
        self.features: frozenset[str] = frozenset()
        if self.version >= OLDEST:
            self.features = self._read_features()
        self.subgroup_sizes: tuple[int, ...] = ()
        has_control = not self.features.isdisjoint(
            ("13.subgroupSizeControl", "sizes.subgroupSizeControl")
        )
        if has_control and sizing.requiredSubgroupSizeStages & vk.VK_SHADER_STAGE_COMPUTE_BIT:
            self.limits["maxComputeWorkgroupSubgroups"] = sizing.maxComputeWorkgroupSubgroups
            self.subgroup_sizes = tuple(
                1 << power
                for power in range(16)
                if sizing.minSubgroupSize <= 1 << power <= sizing.maxSubgroupSize
            )

    def _read_memory(self) -> None:
        memory = ffi.new("VkPhysicalDeviceMemoryProperties *")
        self.calls.vkGetPhysicalDeviceMemoryProperties(self.handle, memory)
        self.memory_types: list[tuple[int, int]] = []
        for number in range(memory.memoryTypeCount):
            kind = memory.memoryTypes[number]
            self.memory_types.append((kind.propertyFlags, memory.memoryHeaps[kind.heapIndex].size))
        local = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
        self.memory = max((size for flags, size in self.memory_types if flags & local), default=0)

    def free_memory(self) -> int | None:
        """Return the free bytes of the heap of `memory`; None if the driver does not report
        them.
        """
        if "VK_EXT_memory_budget" not in self.extensions:
            return None
        budget = make("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
        properties = make("VkPhysicalDeviceMemoryProperties2", pNext=budget)
        self.calls.vkGetPhysicalDeviceMemoryProperties2(self.handle, properties)
        heaps = properties.memoryProperties.memoryHeaps
        sizes = [
            int(heaps[number].size) for number in range(properties.memoryProperties.memoryHeapCount)
        ]
        heap = 0
        if self.memory in sizes:
            heap = sizes.index(self.memory)
        return max(int(budget.heapBudget[heap]) - int(budget.heapUsage[heap]), 0)

    def _choose_family(self) -> None:
        """Choose the queue family: without graphics if possible, so that a desktop's drawing does
        not delay launches.
        """
        ranks = []
        for number, (flags, _, bits) in enumerate(self._families):
            if flags & vk.VK_QUEUE_COMPUTE_BIT:
                has_graphics = bool(flags & vk.VK_QUEUE_GRAPHICS_BIT)
                ranks.append((bits > 0, not has_graphics, -number))
        self.queue_family = -1
        self.queue_count = 0
        self.timestamp_bits = 0
        if ranks:
            self._use_family(-max(ranks)[2])

    def _use_family(self, number: int) -> None:
        _, queues, bits = self._families[number]
        self.queue_family = number
        self.queue_count = int(queues)
        self.timestamp_bits = int(bits)

    def restrict(self, family: int, features: Collection[str], extensions: Collection[str]) -> str:
        """Reduce the properties to those of a VkDevice that the caller opened. Return the reason if
        devmod cannot use it, as a clause; "" otherwise.

        Parameters
        ----------
        family
            The queue family of its queue.
        features, extensions
            The names of what it was opened with, as in Vulkan.
        """
        if not 0 <= family < len(self._families):
            return f"family={family}, and {self.name} has {len(self._families)} queue families"
        if not self._families[family][0] & vk.VK_QUEUE_COMPUTE_BIT:
            return f"family={family}, which has no compute queues"
        self._use_family(family)
        properties = ("subgroup", "controls")  # which no one enables
        enabled = []
        for name in self.features:
            struct, _, field = name.partition(".")
            needs = None
            if struct in _features.STRUCTURES:
                needs = _features.STRUCTURES[struct][1]
            is_opened = needs not in self.extensions or needs in extensions
            if struct in properties or (field in features and is_opened):
                enabled.append(name)
        self.features = frozenset(enabled)
        if self.features.isdisjoint(("13.subgroupSizeControl", "sizes.subgroupSizeControl")):
            self.subgroup_sizes = ()
        if "12.timelineSemaphore" not in self.features:
            return "features= has no 'timelineSemaphore', which devmod's streams use"
        return ""

    def _read_features(self) -> frozenset[str]:
        chain = self.feature_chain(None)
        self.calls.vkGetPhysicalDeviceFeatures2(self.handle, chain["10"])
        return frozenset(
            feature for feature in _features.REQUESTED if self._supports(chain, feature)
        )

    def _supports(self, chain: dict[str, Any], feature: str) -> bool:
        struct, _, field = feature.partition(".")
        if struct == "subgroup":
            return bool(self._operations >> _SUBGROUP.index(field) & 1)
        if struct == "controls":
            return bool(getattr(self._controls, field))
        if struct not in chain:
            return False
        return bool(getattr(self._fields(chain, struct), field))

    @staticmethod
    def _fields(chain: dict[str, Any], struct: str) -> Any:
        """Return the structure with the features of a part of a chain."""
        if struct == "10":
            return chain[struct].features
        return chain[struct]

    def feature_chain(self, wanted: frozenset[str] | None) -> dict[str, Any]:
        """Return Vulkan's linked feature structures, "10" first, with the features in `wanted`
        set.
        """
        chain = {}
        first: Any = ffi.NULL
        for name, (struct, needs) in _features.STRUCTURES.items():
            if self._has(name, needs):
                first = chain[name] = make(struct, pNext=first)
        chain["10"] = make("VkPhysicalDeviceFeatures2", pNext=first)
        for feature in wanted or ():
            owner, _, field = feature.partition(".")
            if owner in chain:
                setattr(self._fields(chain, owner), field, 1)
        return chain

    def _has(self, structure: str, needs: tuple[int, int] | str) -> bool:
        """Return whether the device has a structure of features. Vulkan 1.3 allows "sizes" only in
        place of the structure "13".
        """
        if isinstance(needs, tuple):
            return self.version >= needs
        return needs in self.extensions and not (structure == "sizes" and self.version >= (1, 3))

    @property
    def needed_extensions(self) -> list[str]:
        """The extensions to enable: those of the supported features, and the one that a portability
        driver requires.
        """
        structures = {feature.partition(".")[0] for feature in self.features}
        needed = [
            needs
            for name, (_, needs) in _features.STRUCTURES.items()
            if name in structures and isinstance(needs, str)
        ]
        return needed + [name for name in ("VK_KHR_portability_subset",) if name in self.extensions]

    @property
    def arch(self) -> str:
        """The SPIR-V version and capabilities that it supports, in the form of
        `devmod.targets.vulkan.architecture`.
        """
        from devmod.targets.vulkan.architecture import capability_name

        major, minor = _features.newest_spirv(self.version)
        beyond = [
            number
            for number in sorted(_features.ALWAYS.union(_features.NEEDS) - {0, 1})
            if _features.has(number, self.features)
        ]
        return f"spirv{major}.{minor}:{'+'.join(map(capability_name, beyond))}"


def _version(number: int) -> tuple[int, int]:
    return number >> 22 & 0x7F, number >> 12 & 0x3FF


_once = Once()


def physical_devices() -> list[Physical]:
    """Return all usable devices: GPUs before CPUs, then by memory, then in the loader's order.

    Raises
    ------
    DeviceNotFoundError
        There is none.
    """
    return _once.get("found", _find)


def _find() -> list[Physical]:
    vulkan = instance()
    handles = enumerate_all(
        vulkan.calls.vkEnumeratePhysicalDevices, "VkPhysicalDevice", vulkan.handle
    )
    results = [Physical(handle, vulkan.calls, vulkan.version) for handle in handles]
    if not results:
        raise DeviceNotFoundError(
            NO_DEVICE.format(why="no installed driver provides one"), kind="vulkan"
        )
    usable = [
        each
        for each in results
        if each.version >= OLDEST
        and each.queue_family >= 0
        and "12.timelineSemaphore" in each.features
    ]
    if not usable:
        devices_text = "; ".join(
            f"{each.name} supports Vulkan {each.version[0]}.{each.version[1]}" for each in results
        )
        raise DeviceNotFoundError(
            NO_DEVICE.format(
                why=f"{devices_text}; devmod requires 1.2 with compute queues and timeline semaphores"
            ),
            kind="vulkan",
        )
    return sorted(usable, key=lambda each: (-each.score, -each.memory))
