"""What a shader's capabilities ask of a device: by number, the feature of Vulkan that has to be there and enabled.

Data, and nothing of the driver: what is enabled when a device is opened, and what a shader is refused for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

#: What every device has: Matrix, Shader, the kinds of images, ImageQuery, ShaderNonUniform (Vulkan 1.2).
ALWAYS = frozenset((0, 1, 43, 44, 46, 47, 50, 5301))

#: By capability: the features of which one has to be there, each ``structure.field``. The structures are those of `STRUCTURES`;
#: "subgroup" stands for the subgroup operations that compute shaders have, "controls" for the float controls.
NEEDS: dict[int, tuple[str, ...]] = {
    9: ("12.shaderFloat16",),
    10: ("10.shaderFloat64",),
    11: ("10.shaderInt64",),
    12: ("12.shaderBufferInt64Atomics", "12.shaderSharedInt64Atomics"),
    22: ("10.shaderInt16",),
    27: ("10.shaderStorageImageMultisample",),
    28: ("10.shaderUniformBufferArrayDynamicIndexing",),
    29: ("10.shaderSampledImageArrayDynamicIndexing",),
    30: ("10.shaderStorageBufferArrayDynamicIndexing",),
    31: ("10.shaderStorageImageArrayDynamicIndexing",),
    39: ("12.shaderInt8",),
    49: ("10.shaderStorageImageExtendedFormats",),
    55: ("10.shaderStorageImageReadWithoutFormat",),
    56: ("10.shaderStorageImageWriteWithoutFormat",),
    61: ("subgroup.BASIC",),
    62: ("subgroup.VOTE",),
    63: ("subgroup.ARITHMETIC",),
    64: ("subgroup.BALLOT",),
    65: ("subgroup.SHUFFLE",),
    66: ("subgroup.SHUFFLE_RELATIVE",),
    67: ("subgroup.CLUSTERED",),
    68: ("subgroup.QUAD",),
    4433: ("11.storageBuffer16BitAccess",),
    4434: ("11.uniformAndStorageBuffer16BitAccess",),
    4435: ("11.storagePushConstant16",),
    4441: ("11.variablePointersStorageBuffer",),
    4442: ("11.variablePointers",),
    4448: ("12.storageBuffer8BitAccess",),
    4449: ("12.uniformAndStorageBuffer8BitAccess",),
    4450: ("12.storagePushConstant8",),
    4464: tuple(f"controls.shaderDenormPreserveFloat{bits}" for bits in (16, 32, 64)),
    4465: tuple(f"controls.shaderDenormFlushToZeroFloat{bits}" for bits in (16, 32, 64)),
    4466: tuple(f"controls.shaderSignedZeroInfNanPreserveFloat{bits}" for bits in (16, 32, 64)),
    4467: tuple(f"controls.shaderRoundingModeRTEFloat{bits}" for bits in (16, 32, 64)),
    4468: tuple(f"controls.shaderRoundingModeRTZFloat{bits}" for bits in (16, 32, 64)),
    5302: ("12.runtimeDescriptorArray",),
    5304: ("12.shaderUniformTexelBufferArrayDynamicIndexing",),
    5305: ("12.shaderStorageTexelBufferArrayDynamicIndexing",),
    5306: ("12.shaderUniformBufferArrayNonUniformIndexing",),
    5307: ("12.shaderSampledImageArrayNonUniformIndexing",),
    5308: ("12.shaderStorageBufferArrayNonUniformIndexing",),
    5309: ("12.shaderStorageImageArrayNonUniformIndexing",),
    5345: ("12.vulkanMemoryModel",),
    5346: ("12.vulkanMemoryModelDeviceScope",),
    5347: ("12.bufferDeviceAddress",),
    **dict.fromkeys((6016, 6017, 6018, 6019), ("13.shaderIntegerDotProduct",)),
    6022: ("matrix.cooperativeMatrix",),
    6033: ("atomics.shaderBufferFloat32AtomicAdd", "atomics.shaderSharedFloat32AtomicAdd"),
    6034: ("atomics.shaderBufferFloat64AtomicAdd", "atomics.shaderSharedFloat64AtomicAdd"),
}

#: What shaders use with no capability of its own: the layouts of blocks, subgroup types, zeroed shared memory, LocalSizeId, atomics on
#: floats that are no additions. And timeline semaphores, which streams are made of.
BESIDE = (
    "12.timelineSemaphore",
    "12.scalarBlockLayout",
    "12.uniformBufferStandardLayout",
    "12.shaderSubgroupExtendedTypes",
    "12.subgroupBroadcastDynamicId",
    "12.vulkanMemoryModelAvailabilityVisibilityChains",
    "13.shaderZeroInitializeWorkgroupMemory",
    "13.maintenance4",
    "atomics.shaderBufferFloat32Atomics",
    "atomics.shaderBufferFloat64Atomics",
    "atomics.shaderSharedFloat32Atomics",
    "atomics.shaderSharedFloat64Atomics",
)

#: The structures that features stand in, beside those of Vulkan 1.0 ("10"): its name; the version of Vulkan or the extension it is of.
STRUCTURES: dict[str, tuple[str, tuple[int, int] | str]] = {
    "11": ("VkPhysicalDeviceVulkan11Features", (1, 2)),
    "12": ("VkPhysicalDeviceVulkan12Features", (1, 2)),
    "13": ("VkPhysicalDeviceVulkan13Features", (1, 3)),
    "atomics": ("VkPhysicalDeviceShaderAtomicFloatFeaturesEXT", "VK_EXT_shader_atomic_float"),
    "matrix": ("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", "VK_KHR_cooperative_matrix"),
}

#: All features that are enabled where they are there.
ASKED = tuple(sorted({*BESIDE, *(feature for needed in NEEDS.values() for feature in needed)}))


def has(capability: int, features: Collection[str]) -> bool:
    """Whether a device with these features takes shaders of that capability."""
    return capability in ALWAYS or any(feature in features for feature in NEEDS.get(capability, ()))


def lacking(capability: int) -> str:
    """What a device lacks that does not take that capability, in words."""
    if capability not in NEEDS:
        return "which is none that devmod-vulkan knows how to enable"
    return "which needs the feature " + " or ".join(feature.partition(".")[2] for feature in NEEDS[capability])


def newest_spirv(version: tuple[int, int]) -> tuple[int, int]:
    """The newest SPIR-V that a version of Vulkan takes."""
    return (1, 6) if version >= (1, 3) else (1, 5) if version >= (1, 2) else (1, 3) if version >= (1, 1) else (1, 0)
