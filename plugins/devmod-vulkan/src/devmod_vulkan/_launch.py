"""Launchers of a module's functions."""

from __future__ import annotations

from devmod.backend import Once, PipelineConstant, constants_of
from devmod.errors import ArgumentError, DeviceNotFoundError
from devmod.targets.vulkan.architecture import capability_name
from devmod_runtime import DeviceCache, Kernel, Launcher, SetConstant, specialize_constants
from devmod_vulkan import _features, _pipeline
from devmod_vulkan._device import VulkanDevice, devices
from devmod_vulkan._kernel import VulkanKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from devmod import Device, Interface
    from devmod_vulkan._shader import Shader


class VulkanLauncher(Launcher):
    """One function of a Vulkan module.

    Parameters
    ----------
    shader
        Its shader.
    pipelines
        Those of the module. Functions with equal shaders and equal places of arguments share one.
    constants
        The constants that are set.
    """

    kind = "vulkan"
    bool_bytes = 4
    vec3_lanes = 3
    no_shared_memory = "a shader's shared memory has its size in the shader"
    has_images = True
    has_addresses = True
    interface: Interface

    def __init__(
        self, shader: Shader, pipelines: DeviceCache, constants: Iterable[SetConstant] = ()
    ) -> None:
        self._shader = shader
        self._pipelines = pipelines
        self._constants = {
            each.constant.id: each for each in constants if each.constant.id is not None
        }
        self._values = {number: each.value for number, each in self._constants.items()}
        reflected = shader.reflected
        if self._values:
            reflected = shader.reflect(self._values)
        # The constants may be in the size of the block and of shared memory.
        extra = {**shader.interface.extra, "workgroup_memory": reflected.workgroup_memory}
        self.interface = shader.interface.replace(block=reflected.block, extra=extra)
        if shader.launch is not None:
            self.vec3_lanes = 4  # the layout of OpenCL C
        self._unset = [each for each in reflected.constants if each.default is None]
        if reflected.block is None and not self._unset:  # the defaults give a block without threads
            self._unset = [each for each in reflected.constants if each.id not in self._values]

    @property
    def unset_constants(self) -> Sequence[PipelineConstant]:
        if not self._unset:
            return ()
        labeled = {each.id: each for each in constants_of(self.interface)}
        return [labeled.get(each.id, each) for each in self._unset]

    def default_device(self) -> Device:
        return devices()[0]

    def lengths_read(self) -> Collection[int]:
        return self._shader.lengths_read()

    def kernel(self, device: VulkanDevice) -> Kernel:
        check_device(self._shader, device)
        if self._shader.launch is not None:
            from devmod_vulkan._sized import SizedKernel

            return SizedKernel(device, self._shader)
        data = tuple(sorted((number, each.data) for number, each in self._constants.items()))
        shader = self._shader
        logical = device.logical
        interface = shader.interface
        layout = (
            tuple(interface.params),
            tuple(interface.blocks),
            interface.subgroup,
        )  # their reprs omit places
        key = (shader.words, shader.entry, layout, data)
        pipelines = self._pipelines.get(device, Once)
        pipeline = pipelines.get(key, lambda: _pipeline.Pipeline(shader, logical, data))
        return VulkanKernel(pipeline, device, shader)

    def local(self, nbytes: int) -> Any:
        if self._shader.launch is None:
            return super().local(nbytes)
        return nbytes

    def specialize(self, constants: Mapping[str, object]) -> VulkanLauncher:
        new = specialize_constants("vulkan", self._shader.name, self.interface, constants)
        self._shader.check_constants(new)
        launcher = VulkanLauncher(self._shader, self._pipelines, (*self._constants.values(), *new))
        if launcher.interface.block is None and not launcher.unset_constants:
            raise ArgumentError(
                f"the vulkan function {self._shader.name!r} cannot be specialized: with these constants its block has no threads, or its "
                "size is an operation that devmod does not evaluate",
                kind="vulkan",
                function=self._shader.name,
                argument=next(iter(constants), ""),
            )
        return launcher


# -- The check of a shader against a device's version and capabilities.


def check_device(shader: Shader, device: VulkanDevice) -> None:
    """Check the SPIR-V's version and capabilities, before the driver receives it. The interface was
    compared with the device before.

    Raises
    ------
    DeviceNotFoundError
        The device cannot run the shader. A bundle skips such a candidate.
    """
    physical = device.physical
    newest = _features.newest_spirv(physical.version)
    start = f"the SPIR-V of the vulkan function {shader.name!r}"

    def unfit(text: str) -> DeviceNotFoundError:
        return DeviceNotFoundError(text, kind="vulkan", function=shader.name)

    if shader.version > newest:
        raise unfit(
            f"{start} has version {_dotted(shader.version)}, but {device} (Vulkan {_dotted(physical.version)}) supports at most "
            f"{_dotted(newest)}. Compile it for that version: -t 'vulkan -arch=spirv{_dotted(newest)}'"
        )
    for capability in shader.capabilities:
        if not _features.has(capability, physical.features):
            raise unfit(
                f"{start} needs the capability {capability_name(capability)}, which {device} does not support "
                f"({_features.missing_feature(capability)})"
            )
    if device.name.startswith("SwiftShader") and shader.stores_addresses():
        raise unfit(
            f"{start} has a variable or a choice of addresses, and SwiftShader's compiler crashes on them. Store an address as a uvec2 "
            "(GL_EXT_buffer_reference_uvec2), or use another device"
        )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
