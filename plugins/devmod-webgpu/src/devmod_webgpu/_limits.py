"""The check of a function against a device's features and limits."""

from __future__ import annotations

from devmod.errors import FormatError, LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import Interface
    from devmod_webgpu._bindings import Bindings
    from devmod_webgpu._device import WebGPUDevice

#: The key for the bytes of workgroup memory in an interface's `extra`.
MEMORY = "workgroup_memory"


def check_limits(name: str, interface: Interface, bindings: Bindings, device: WebGPUDevice) -> None:
    """Raise LaunchError if a function exceeds a limit of the device, FormatError if the device lacks a feature."""
    limits = device.limits
    features = interface.extra.get("features", [])
    # A file may have a value that is not a list. The message then names that value.
    missing = [each for each in (features if isinstance(features, list) else [features]) if str(each) not in device.features]
    if missing:
        raise FormatError(
            f"the webgpu function {name!r} needs the feature {missing[0]}, which {device} does not support",
            kind="webgpu",
            function=name,
        )
    per_stage = {"storage": "maxStorageBuffersPerShaderStage", "uniform": "maxUniformBuffersPerShaderStage"}
    for suffix, limit in per_stage.items():
        count = sum(each.type.endswith(suffix) for each in bindings.listed)
        if count > limits[limit]:
            raise invalid_launch(name, device, f"its {limit} is {limits[limit]}, but the function uses {count}")
    if bindings.groups > limits["maxBindGroups"]:
        raise invalid_launch(
            name, device, f"its maxBindGroups is {limits['maxBindGroups']}, but the function uses {bindings.groups} groups"
        )
    memory, most = interface.extra.get(MEMORY, 0), limits["maxComputeWorkgroupStorageSize"]
    if isinstance(memory, int) and memory > most:
        raise invalid_launch(
            name, device, f"its maxComputeWorkgroupStorageSize is {most}, but the shader uses {memory} bytes of workgroup memory"
        )
    most = limits["maxUniformBufferBindingSize"]
    for size in (block.size for block in interface.blocks):
        if size > most:
            raise invalid_launch(name, device, f"its maxUniformBufferBindingSize is {most}, but the function has a uniform of {size} bytes")
    if interface.block is not None:
        _check_block(name, device, interface.block)


def _check_block(name: str, device: WebGPUDevice, block: tuple[int, int, int]) -> None:
    limits = device.limits
    for axis, count in zip("XYZ", block, strict=True):
        most = limits[f"maxComputeWorkgroupSize{axis}"]
        if count > most:
            raise invalid_launch(name, device, f"its maxComputeWorkgroupSize{axis} is {most}, but the shader's workgroup is {block}")
    x, y, z = block
    most = limits["maxComputeInvocationsPerWorkgroup"]
    if x * y * z > most:
        raise invalid_launch(
            name, device, f"its maxComputeInvocationsPerWorkgroup is {most}, but the shader's workgroup {block} has {x * y * z} threads"
        )


def invalid_launch(name: str, device: WebGPUDevice, text: str, argument: str = "") -> LaunchError:
    """Return the error for a launch that the device does not support."""
    return LaunchError(
        f"the webgpu function {name!r} cannot be launched on {device}: {text}",
        kind="webgpu",
        function=name,
        argument=argument,
    )
