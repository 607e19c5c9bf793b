"""What a SPIR-V shader asks of a device, read from the shader itself (R40), and how well that fits one.

Variants are ``spirv1.3`` and ``spirv1.3:Float16+Int64``: the version, and the capabilities beyond Matrix and Shader, which
every Vulkan device has, in the order of their numbers. One that has no name here is written as its number. A device says the
same of itself; one that says no capabilities is asked for its version alone.
"""

from __future__ import annotations

from devmod.targets._elf import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._payload import Binary

_MAGIC = 0x07230203
_OP_CAPABILITY = 17
_MOST_CAPABILITIES = 256
#: Those that compute shaders ask for; the numbers are the SPIR-V specification's.
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


def architecture(fmt: str, code: Binary) -> str:
    """The variant of one shader, with its flag and count (R15) or as bare words; "" where it cannot be read. Never raises."""
    at = 0 if number(code, 0, 4) == _MAGIC else 12
    version = number(code, at + 4, 4)
    major, minor = version >> 16, version >> 8 & 0xFF
    if fmt != "spv" or number(code, at, 4) != _MAGIC or len(code) < at + 20 or not 1 <= major <= 9:
        return ""
    at += 20
    found: set[int] = set()
    # Capabilities come first in a module, each two words; nothing behind them is looked at.
    while number(code, at, 4) == 2 << 16 | _OP_CAPABILITY and at + 8 <= len(code) and len(found) < _MOST_CAPABILITIES:
        found.add(number(code, at + 4, 4))
        at += 8
    beyond = [capability_name(capability) for capability in sorted(found - {0, 1})]
    return f"spirv{major}.{minor}" + (":" + "+".join(beyond) if beyond else "")


def capability_name(number: int) -> str:
    """SPIR-V's name of a capability; its number where it has none here."""
    return _NAMES.get(number, str(number))


def rank(variant: str, arch: str) -> int | None:
    """How well a variant fits a device such as "spirv1.6:Float16+Int64"; None: not at all. The greatest is the best.

    Of two that fit, the one that asks for more is the better: it was made for such a device.
    """
    if not variant:
        return 0
    needs, _, wants = variant.partition(":")
    version, _, offers = arch.partition(":")
    needed, had = _version(needs), _version(version)
    wanted = set(filter(None, wants.split("+")))
    if needed is None or had is None or needed > had or (offers and not wanted <= set(offers.split("+"))):
        return None
    return 1 + 1000 * len(wanted) + 16 * needed[0] + needed[1]


def _version(text: str) -> tuple[int, int] | None:
    major, dot, minor = text.removeprefix("spirv").partition(".")
    sound = text.startswith("spirv") and dot and all(part.isascii() and part.isdigit() and len(part) <= 2 for part in (major, minor))
    return (int(major), int(minor)) if sound else None
