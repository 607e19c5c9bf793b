"""Kernels on a device, and their launches."""

from __future__ import annotations

from collections import deque
from functools import partial

from devmod_runtime import Kernel, LaunchConfig
from devmod_vulkan._device import VulkanDevice, VulkanStream
from devmod_vulkan._logical import ONE_TIME, REUSABLE
from devmod_vulkan._pipeline import Launchable, Pipeline, Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import Image, Sampler
    from devmod_vulkan._shader import Shader


class VulkanKernel(Kernel):
    """A pipeline and its launches. Calls reuse the command buffers of finished calls. A prepared
    launch has a command buffer of its own.
    """

    def __init__(self, pipeline: Pipeline, device: VulkanDevice, shader: Shader) -> None:
        self._set_shader(device, shader, pipeline.places)
        self._pipeline = pipeline
        # A list of one item frees its memory with each pop.
        self._free: deque[Launchable] = deque()

    def _set_shader(self, device: VulkanDevice, shader: Shader, places: Places) -> None:
        self._device = device
        self._shader = shader
        self._places = places
        self._invalid_launch = partial(device.invalid_launch, shader.name)

    def shape(self, launch: LaunchConfig) -> tuple[int, int, int]:
        limits = self._device.limits
        for axis, blocks in enumerate(launch.grid):
            most = limits[f"maxComputeWorkGroupCount[{axis}]"]
            if blocks > most:
                raise self._invalid_launch(
                    f"its maxComputeWorkGroupCount[{axis}] is {most}, got grid={launch.grid}",
                    "grid",
                )
        # The CPU devices of Mesa and of Chromium multiply the three numbers in 32 bits, and run too
        # few blocks or none.
        if launch.blocks >= 1 << 32 and self._device.name.startswith(("llvmpipe", "SwiftShader")):
            name = self._device.name.partition(" ")[0]
            raise self._invalid_launch(
                f"{name} counts blocks in 32 bits, but grid={launch.grid} has {launch.blocks} blocks"
            )
        return launch.grid

    def check_images(self, images: Mapping[int, Image | Sampler]) -> tuple[int, str] | None:
        from devmod_vulkan._images import unfit_image

        if self._places.literals:
            images = {**images, **self._places.samplers(self._device)}
        return unfit_image(
            self._device, self._device.physical, self._shader, self._places.images, images
        )

    def check_buffers(self, values: Sequence[Any]) -> None:
        self._pipeline.check_sizes(values)

    def caller(self, stream: VulkanStream, shape: Any) -> Callable[[Sequence[Any]], None]:
        pipeline = self._pipeline
        submit = stream.submit
        submission = stream.submission
        number = stream.number
        batches = stream.batches
        gather = stream.gather
        take = self._free.pop
        give = self._free.append

        def release(resources: tuple[Launchable, Sequence[Any]]) -> None:
            give(resources[0])

        def call(values: Sequence[Any]) -> None:
            try:
                launchable = take()
            except IndexError:
                launchable = Launchable(pipeline)
            if batches:
                launchable.write(shape, values)
                gather(launchable.dispatch, (launchable, values), release)
                return
            launchable.record(ONE_TIME, shape, values)
            if launchable.stream_number != number:
                launchable.info = submission([launchable.handle])
                launchable.stream_number = number
            submit(launchable.info, launchable.handle, (launchable, values), release)

        return call

    def prepare(
        self, stream: VulkanStream, shape: Any, values: Sequence[Any]
    ) -> Callable[[], object]:
        launchable = Launchable(self._pipeline)
        launchable.record(REUSABLE, shape, values)
        handle = launchable.handle
        return partial(
            stream.submit,
            stream.submission([handle]),
            handle,
            (launchable, values),
            None,
            launchable.dispatch,
        )

    def time(self, stream: VulkanStream, shape: Any, values: Sequence[Any]) -> float:
        launchable = Launchable(self._pipeline)
        launchable.write(shape, values)
        return stream.time_commands(launchable.dispatch, (launchable, values))
