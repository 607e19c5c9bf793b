"""The Vulkan features that a shader's capabilities require.

The tables name the features that a device is opened with, and those without which a shader is
refused. This file uses no driver.
"""

from __future__ import annotations

from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

SUBGROUP_SIZE_CONTROL = "VK_EXT_subgroup_size_control"

#: Capabilities that every device supports: Matrix, Shader, the kinds of images, ImageQuery,
#: ShaderNonUniform (Vulkan 1.2).
ALWAYS = frozenset((0, 1, 43, 44, 46, 47, 50, 5301))

#: The features for each capability, each as ``structure.field``. A device needs one of them.
#: `STRUCTURES` lists the structures; "subgroup" means the subgroup operations of compute shaders,
#: "controls" the float controls.
NEEDS: dict[int, tuple[str, ...]] = {
    9: ("12.shaderFloat16",),
    10: ("10.shaderFloat64",),
    11: ("10.shaderInt64",),
    12: ("12.shaderBufferInt64Atomics", "12.shaderSharedInt64Atomics"),
    22: ("10.shaderInt16",),
    25: ("10.shaderImageGatherExtended",),
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
    5116: ("bfloat16.shaderBFloat16Type",),
    5117: ("bfloat16.shaderBFloat16DotProduct",),
    5118: ("bfloat16.shaderBFloat16CooperativeMatrix",),
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

#: Features that shaders use without declaring a capability: block layouts, subgroup types, zeroed
#: shared memory, LocalSizeId, float atomics other than additions, required subgroup sizes. Streams
#: use timeline semaphores.
WITHOUT_CAPABILITY = (
    "12.timelineSemaphore",
    "12.scalarBlockLayout",
    "12.uniformBufferStandardLayout",
    "12.shaderSubgroupExtendedTypes",
    "12.subgroupBroadcastDynamicId",
    "12.vulkanMemoryModelAvailabilityVisibilityChains",
    "13.shaderZeroInitializeWorkgroupMemory",
    "13.maintenance4",
    "13.subgroupSizeControl",
    "sizes.subgroupSizeControl",
    "atomics.shaderBufferFloat32Atomics",
    "atomics.shaderBufferFloat64Atomics",
    "atomics.shaderSharedFloat32Atomics",
    "atomics.shaderSharedFloat64Atomics",
    "atomics.shaderImageFloat32Atomics",
    "atomics.shaderImageFloat32AtomicAdd",
)

#: The structures of the features beyond Vulkan 1.0 ("10"): the name, and the Vulkan version or the
#: extension that defines it. Vulkan 1.3 contains "sizes".
STRUCTURES: dict[str, tuple[str, tuple[int, int] | str]] = {
    "11": ("VkPhysicalDeviceVulkan11Features", (1, 2)),
    "12": ("VkPhysicalDeviceVulkan12Features", (1, 2)),
    "13": ("VkPhysicalDeviceVulkan13Features", (1, 3)),
    "sizes": ("VkPhysicalDeviceSubgroupSizeControlFeaturesEXT", SUBGROUP_SIZE_CONTROL),
    "atomics": ("VkPhysicalDeviceShaderAtomicFloatFeaturesEXT", "VK_EXT_shader_atomic_float"),
    "matrix": ("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", "VK_KHR_cooperative_matrix"),
    "bfloat16": ("VkPhysicalDeviceShaderBfloat16FeaturesKHR", "VK_KHR_shader_bfloat16"),
}

#: All features that are enabled if the device has them.
REQUESTED = tuple(sorted({*WITHOUT_CAPABILITY, *chain.from_iterable(NEEDS.values())}))


def has(capability: int, features: Collection[str]) -> bool:
    """Return whether a device with these features supports a capability."""
    return capability in ALWAYS or any(feature in features for feature in NEEDS.get(capability, ()))


def needs_met(features: Collection[str]) -> frozenset[str]:
    """Return the names of the needs (`devmod.Interface.needs`) that a device with these features
    meets. Each device has images, and devmod-vulkan specializes pipelines for launches.
    """
    from devmod.backend import FEATURES

    met = {"images", "image_writes_3d", "launch_constants"}
    for name, feature in FEATURES.items():
        if any(has(capability, features) for capability in feature.spirv):
            met.add(name)
    return frozenset(met)


def missing_feature(capability: int) -> str:
    """Return the part of an error that names the features of an unsupported capability."""
    if capability not in NEEDS:
        return "devmod-vulkan does not support it"
    return "missing feature: " + " or ".join(
        feature.partition(".")[2] for feature in NEEDS[capability]
    )


def newest_spirv(version: tuple[int, int]) -> tuple[int, int]:
    """Return the newest SPIR-V version that a Vulkan version supports."""
    if version >= (1, 3):
        return (1, 6)
    if version >= (1, 2):
        return (1, 5)
    if version >= (1, 1):
        return (1, 3)
    return (1, 0)
