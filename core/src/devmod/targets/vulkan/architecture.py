"""The variant of a SPIR-V shader, read from its bytes (R40), and its rank for a device.

Variants are ``spirv1.3`` and ``spirv1.3:Float16+Int64``: the version, and the capabilities in the
order of their numbers. Matrix and Shader are omitted, because every Vulkan device has them. A
capability without a name here is written as its number. The architecture of a device has the same
form. For a device without capabilities only the version is compared.
"""

from __future__ import annotations

from devmod._util.elf import read_uint
from devmod._util.text import is_number

_MAGIC = 0x07230203
_OP_CAPABILITY = 17
_MAX_CAPABILITIES = 256
#: The capabilities that compute shaders use. The numbers are from the SPIR-V specification.
_NAMES = {
    4: "Addresses",
    5: "Linkage",
    6: "Kernel",
    9: "Float16",
    10: "Float64",
    11: "Int64",
    12: "Int64Atomics",
    21: "AtomicStorage",
    22: "Int16",
    25: "ImageGatherExtended",
    27: "StorageImageMultisample",
    28: "UniformBufferArrayDynamicIndexing",
    29: "SampledImageArrayDynamicIndexing",
    30: "StorageBufferArrayDynamicIndexing",
    31: "StorageImageArrayDynamicIndexing",
    39: "Int8",
    43: "Sampled1D",
    44: "Image1D",
    46: "SampledBuffer",
    47: "ImageBuffer",
    49: "StorageImageExtendedFormats",
    50: "ImageQuery",
    55: "StorageImageReadWithoutFormat",
    56: "StorageImageWriteWithoutFormat",
    61: "GroupNonUniform",
    62: "GroupNonUniformVote",
    63: "GroupNonUniformArithmetic",
    64: "GroupNonUniformBallot",
    65: "GroupNonUniformShuffle",
    66: "GroupNonUniformShuffleRelative",
    67: "GroupNonUniformClustered",
    68: "GroupNonUniformQuad",
    4423: "SubgroupBallotKHR",
    4427: "DrawParameters",
    4431: "SubgroupVoteKHR",
    4433: "StorageBuffer16BitAccess",
    4434: "UniformAndStorageBuffer16BitAccess",
    4435: "StoragePushConstant16",
    4441: "VariablePointersStorageBuffer",
    4442: "VariablePointers",
    4448: "StorageBuffer8BitAccess",
    4449: "UniformAndStorageBuffer8BitAccess",
    4450: "StoragePushConstant8",
    4464: "DenormPreserve",
    4465: "DenormFlushToZero",
    4466: "SignedZeroInfNanPreserve",
    4467: "RoundingModeRTE",
    4468: "RoundingModeRTZ",
    5116: "BFloat16TypeKHR",
    5117: "BFloat16DotProductKHR",
    5118: "BFloat16CooperativeMatrixKHR",
    5301: "ShaderNonUniform",
    5302: "RuntimeDescriptorArray",
    5304: "UniformTexelBufferArrayDynamicIndexing",
    5305: "StorageTexelBufferArrayDynamicIndexing",
    5306: "UniformBufferArrayNonUniformIndexing",
    5307: "SampledImageArrayNonUniformIndexing",
    5308: "StorageBufferArrayNonUniformIndexing",
    5309: "StorageImageArrayNonUniformIndexing",
    5345: "VulkanMemoryModel",
    5346: "VulkanMemoryModelDeviceScope",
    5347: "PhysicalStorageBufferAddresses",
    5357: "CooperativeMatrixNV",
    6016: "DotProductInputAll",
    6017: "DotProductInput4x8Bit",
    6018: "DotProductInput4x8BitPacked",
    6019: "DotProduct",
    6022: "CooperativeMatrixKHR",
    6033: "AtomicFloat32AddEXT",
    6034: "AtomicFloat64AddEXT",
}


def architecture(fmt: str, code: bytes | memoryview) -> str:
    """Return the variant of one shader, with flag and count (R15) or without; "" if it cannot be
    read. It never raises.
    """
    if fmt != "spv":
        return ""
    at = 0
    if read_uint(code, 0, 4) != _MAGIC:
        at = 12
    version = read_uint(code, at + 4, 4)
    major = version >> 16
    minor = version >> 8 & 0xFF
    if read_uint(code, at, 4) != _MAGIC or len(code) < at + 20 or not 1 <= major <= 9:
        return ""
    at += 20
    capabilities: set[int] = set()
    # A module begins with its capabilities, of two words each.
    while (
        read_uint(code, at, 4) == 2 << 16 | _OP_CAPABILITY
        and at + 8 <= len(code)
        and len(capabilities) < _MAX_CAPABILITIES
    ):
        capabilities.add(read_uint(code, at + 4, 4))
        at += 8
    variant = f"spirv{major}.{minor}"
    beyond = sorted(capabilities - {0, 1})
    if beyond:
        variant += ":" + "+".join(map(capability_name, beyond))
    return variant


def capability_name(number: int) -> str:
    """Return SPIR-V's name of a capability; its number if it has none here."""
    return _NAMES.get(number, str(number))


def rank(variant: str, arch: str) -> int | None:
    """Return the rank of a variant for a device such as "spirv1.6:Float16+Int64". The greatest is
    the best; None: it cannot run.

    A variant with more capabilities ranks higher: it was compiled for such a device.
    """
    if not variant:
        return 0
    variant_version, _, variant_capabilities = variant.partition(":")
    device_version, _, device_capabilities = arch.partition(":")
    needed = _version(variant_version)
    present = _version(device_version)
    capabilities = set(filter(None, variant_capabilities.split("+")))
    if needed is None or present is None or needed > present:
        return None
    if device_capabilities and not capabilities <= set(device_capabilities.split("+")):
        return None
    return 1 + 1000 * len(capabilities) + 16 * needed[0] + needed[1]


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.removeprefix("spirv").partition(".")
    if not text.startswith("spirv") or not is_number(major, 2) or not is_number(minor, 2):
        return None
    return int(major), int(minor)
