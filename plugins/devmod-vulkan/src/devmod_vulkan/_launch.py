"""Launching: functions of a module, and their kernels on a device."""

from __future__ import annotations

from functools import partial

from devmod.backend import Kernel, Launcher, LaunchShape, specialize_constants
from devmod.errors import LaunchError
from devmod_vulkan._device import VulkanDevice, devices
from devmod_vulkan._pipeline import Pipeline, check_device
from devmod_vulkan._record import AGAIN, ONCE, Launchable, Recording
from devmod_vulkan._stream import VulkanStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import Device, Interface, Stream
    from devmod_vulkan._shader import Shader

    #: Makes the pipeline of a shader, once for those that are equal.
    Build = Callable[[Shader, VulkanDevice, tuple[tuple[int, bytes], ...]], Pipeline]


class VulkanLauncher(Launcher):
    """One function of a Vulkan module.

    Parameters
    ----------
    shader
        Its shader.
    build
        Makes pipelines of it.
    interface
        The shader's, or what constants make of it.
    constants
        The constants that are set.
    """

    kind = "vulkan"
    bool_bytes = 4
    vec3_lanes = 3
    no_shared_memory = "a shader's shared memory has its size in the shader"

    def __init__(
        self, shader: Shader, build: Build, interface: Interface | None = None, constants: tuple[tuple[int, bytes], ...] = ()
    ) -> None:
        self._shader = shader
        self._build = build
        self._interface = interface or shader.interface
        self._constants = constants

    @property
    def interface(self) -> Interface | None:
        return self._interface

    def default_device(self) -> Device:
        return devices()[0]

    def kernel(self, device: Device) -> Kernel:
        assert isinstance(device, VulkanDevice)
        if self._shader.opaque:
            return NoKernel()  # it is refused in every call, by the argument that it takes
        check_device(self._shader, device, self._interface.block, self._constants)
        return VulkanKernel(self._build(self._shader, device, self._constants), device, self._interface)

    def specialized(self, constants: Mapping[str, object]) -> VulkanLauncher:
        made = specialize_constants("vulkan", self._shader.name, self._interface, constants)
        kept = dict(self._constants)
        set_ = [constant for constant, _ in made.values]
        kept |= {constant.id: data for constant, data in zip(set_, made.data, strict=True) if constant.id is not None}
        self._shader.check_constants(set_, kept, made.interface.block)
        return VulkanLauncher(self._shader, self._build, made.interface, tuple(sorted(kept.items())))


class VulkanKernel(Kernel):
    """A pipeline, launched. What plain calls are recorded in is used again when it is done; a prepared launch has its own."""

    def __init__(self, pipeline: Pipeline, device: VulkanDevice, interface: Interface) -> None:
        self._device = device
        self._name = pipeline.name
        self._block = interface.block
        self._recording = Recording(pipeline, interface)
        self._free: list[Launchable] = []

    def shape(self, launch: LaunchShape) -> tuple[int, int, int]:
        limits = self._device.limits
        if launch.cluster != (1, 1, 1):
            raise self._over(f"clusters of {launch.cluster} blocks were asked for, and Vulkan has none")
        if self._block is not None and launch.block != self._block:
            raise self._over(f"the shader is built for blocks of {self._block} threads, and block={launch.block} was asked for")
        for axis, blocks in enumerate(launch.grid):
            most = limits[f"maxComputeWorkGroupCount[{axis}]"]
            if blocks > most:
                raise self._over(f"its maxComputeWorkGroupCount[{axis}] is {most}, and grid={launch.grid} was asked for")
        return launch.grid

    def caller(self, stream: Stream, shape: Any) -> Callable[[Sequence[Any]], None]:
        assert isinstance(stream, VulkanStream)
        recording, submit, submission, number = self._recording, stream.submit, stream.submission, stream.number
        free = self._free
        take, give = free.pop, free.append

        def done(held: tuple[Launchable, Sequence[Any]]) -> None:
            give(held[0])

        def call(values: Sequence[Any]) -> None:
            try:
                launchable = take()
            except IndexError:
                launchable = Launchable(recording)
            launchable.record(ONCE, shape, values)
            if launchable.stream_number != number:
                launchable.stream_number, launchable.info = number, submission([launchable.handle])
            submit(launchable.info, launchable.handle, (launchable, values), done)

        return call

    def prepare(self, stream: Stream, shape: Any, values: Sequence[Any]) -> Callable[[], object]:
        assert isinstance(stream, VulkanStream)
        launchable = Launchable(self._recording)
        launchable.record(AGAIN, shape, values)
        return partial(stream.submit, stream.submission([launchable.handle]), launchable.handle, (launchable, values))

    def time(self, stream: Stream, shape: Any, values: Sequence[Any]) -> float:
        assert isinstance(stream, VulkanStream)
        launchable = Launchable(self._recording)
        launchable.record(ONCE, shape, values)
        return stream.timed(launchable.handle, (launchable, values))

    def _over(self, text: str) -> LaunchError:
        return LaunchError(
            f"the vulkan function {self._name!r} cannot be launched so on {self._device}: {text}", kind="vulkan", function=self._name
        )


class NoKernel(Kernel):
    """What stands for the kernel of a function that takes images or samplers: nothing can be done with it."""

    def shape(self, launch: LaunchShape) -> Any:
        raise LaunchError("images and samplers are not supported yet", kind="vulkan")

    def caller(self, stream: Stream, shape: Any) -> Callable[[Sequence[Any]], None]:
        raise LaunchError("images and samplers are not supported yet", kind="vulkan")

    def time(self, stream: Stream, shape: Any, values: Sequence[Any]) -> float:
        raise LaunchError("images and samplers are not supported yet", kind="vulkan")
