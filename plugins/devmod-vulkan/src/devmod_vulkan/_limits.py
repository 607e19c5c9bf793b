"""The check of a shader against a device's version, capabilities and limits."""

from __future__ import annotations

from devmod.errors import FormatError, LaunchError
from devmod.targets.vulkan.architecture import capability_name
from devmod_vulkan import _features
from devmod_vulkan._places import STORAGE, UNIFORM, Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod_vulkan._device import VulkanDevice
    from devmod_vulkan._shader import Shader


def check_device(
    shader: Shader, device: VulkanDevice, block: tuple[int, int, int] | None, values: Mapping[int, bool | int | float]
) -> None:
    """Check that the device can run a shader, before the driver receives it.

    Parameters
    ----------
    shader, device
        The shader and the device.
    block
        The block size, if it is known.
    values
        The number and the value of each constant that is set.

    Raises
    ------
    FormatError
        The device does not support the shader's SPIR-V version or one of its capabilities.
    LaunchError
        The shader exceeds a limit of the device.
    """
    physical = device.physical
    newest = _features.newest_spirv(physical.version)
    start = f"the SPIR-V of the vulkan function {shader.name!r}"
    if shader.version > newest:
        raise FormatError(
            f"{start} has version {_dotted(shader.version)}, but {device} (Vulkan {_dotted(physical.version)}) supports at most "
            f"{_dotted(newest)}. Compile it for that version: -t 'vulkan -arch=spirv{_dotted(newest)}'",
            kind="vulkan",
            function=shader.name,
        )
    for capability in shader.capabilities:
        if not _features.has(capability, physical.features):
            raise FormatError(
                f"{start} needs the capability {capability_name(capability)}, which {device} does not support "
                f"({_features.missing_feature(capability)})",
                kind="vulkan",
                function=shader.name,
            )
    limits = physical.limits

    def over_limit(limit: str, usage: str) -> LaunchError:
        return LaunchError(
            f"the vulkan function {shader.name!r} cannot run on {device}: its {limit} is {limits[limit]}, but the shader {usage}",
            kind="vulkan",
            function=shader.name,
        )

    for axis, threads in enumerate(block or ()):
        if threads > limits[f"maxComputeWorkGroupSize[{axis}]"]:
            raise over_limit(f"maxComputeWorkGroupSize[{axis}]", f"is built for blocks of {block} threads")
    if block and block[0] * block[1] * block[2] > limits["maxComputeWorkGroupInvocations"]:
        raise over_limit("maxComputeWorkGroupInvocations", f"is built for blocks of {block}, {block[0] * block[1] * block[2]} threads")
    shared = shader.shared_bytes(values)
    if shared > limits["maxComputeSharedMemorySize"]:
        raise over_limit("maxComputeSharedMemorySize", f"uses {shared} bytes of shared memory")
    places = Places(shader)
    if places.push_size > limits["maxPushConstantsSize"]:
        raise over_limit("maxPushConstantsSize", f"uses {places.push_size} bytes of push constants")
    if places.sets > limits["maxBoundDescriptorSets"]:
        raise over_limit("maxBoundDescriptorSets", f"uses descriptor set {places.sets - 1}")
    for kind, limit in ((STORAGE, "maxPerStageDescriptorStorageBuffers"), (UNIFORM, "maxPerStageDescriptorUniformBuffers")):
        number = sum(each == kind for each in places.bindings.values())
        if number > limits[limit]:
            raise over_limit(limit, f"uses {number}")
    for _, size, _ in places.uniforms:
        if size > limits["maxUniformBufferRange"]:
            raise over_limit("maxUniformBufferRange", f"uses a uniform block of {size} bytes")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
