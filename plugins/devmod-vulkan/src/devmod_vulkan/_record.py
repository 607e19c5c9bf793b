"""Recording of launches: a command buffer, its descriptor sets, and the memory of its uniform blocks."""

from __future__ import annotations

from devmod.errors import LaunchError
from devmod_runtime import block_packer
from devmod_vulkan._copy import AFTER, AFTER_BARRIER, BEFORE, BEFORE_BARRIER
from devmod_vulkan._driver import array, ffi, make, vk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod import Interface
    from devmod_vulkan._pipeline import Pipeline

_COMPUTE = vk.VK_PIPELINE_BIND_POINT_COMPUTE
_STAGE = vk.VK_SHADER_STAGE_COMPUTE_BIT
ONE_TIME = make("VkCommandBufferBeginInfo", flags=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)
#: For prepared launches, which may be submitted again before they are done.
REUSABLE = make("VkCommandBufferBeginInfo", flags=vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT)


class Recording:
    """The data for recording launches of one function on one device, computed once.

    Parameters
    ----------
    pipeline
        The pipeline.
    interface
        The places of the scalars.
    """

    def __init__(self, pipeline: Pipeline, interface: Interface) -> None:
        self.pipeline = pipeline
        places = pipeline.places
        self.pack = block_packer(interface) if interface.blocks else None
        align = pipeline.logical.physical.alignment
        #: For each uniform buffer: the number of its argument or block, the offset in the launch's uniform memory, the size.
        self.uniforms: list[tuple[int, int, int]] = []
        self.uniform_bytes = 0
        for number, size, _ in places.uniforms:
            self.uniforms.append((number, self.uniform_bytes, size))
            self.uniform_bytes += -(-max(size, 1) // align) * align


class Launchable:
    """A launch that can be recorded repeatedly, and submitted.

    Attributes
    ----------
    handle
        The VkCommandBuffer.
    """

    __slots__ = (
        "__weakref__",
        "_infos",
        "_recorder",
        "_recording",
        "_sets",
        "_token",
        "_uniforms",
        "_writes",
        "handle",
        "info",
        "stream_number",
    )

    def __init__(self, recording: Recording) -> None:
        self._sets: Any = None
        self._recording = recording
        pipeline = recording.pipeline
        places, logical = pipeline.places, pipeline.logical
        self._recorder = logical.commands.recorder()
        self.handle = self._recorder.handle
        #: The VkSubmitInfo for the stream of that number. It does not reference the stream, which references this until it is done.
        self.info: Any = None
        self.stream_number = -1
        self._uniforms = logical.staging.allocate(recording.uniform_bytes) if recording.uniforms else None
        number = len(places.bindings)
        if not number:
            return
        self._sets, self._token = pipeline.lend_sets(self)
        self._infos = ffi.new("VkDescriptorBufferInfo[]", number)
        targets = [(at, vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER) for _, at in places.buffers]
        targets += [(at, vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER) for _, _, at in places.uniforms]
        self._writes = array(
            "VkWriteDescriptorSet",
            [
                make(
                    "VkWriteDescriptorSet",
                    dstSet=self._sets[set_],
                    dstBinding=binding,
                    descriptorCount=1,
                    descriptorType=kind,
                    pBufferInfo=self._infos + index,
                )
                for index, ((set_, binding), kind) in enumerate(targets)
            ],
        )
        for index, (_, offset, size) in enumerate(recording.uniforms, len(places.buffers)):
            assert self._uniforms is not None
            entry = self._infos[index]
            entry.buffer, entry.offset, entry.range = self._uniforms.buffer, self._uniforms.offset + offset, size

    def record(self, begin: Any, grid: tuple[int, int, int], values: Sequence[Any]) -> None:
        """Record a launch. No earlier recording may be pending.

        Parameters
        ----------
        begin
            `ONE_TIME` or `REUSABLE`.
        grid
            The number of blocks in x, y and z.
        values
            The arguments.

        Raises
        ------
        LaunchError
            An array exceeds the device's maxStorageBufferRange, or the driver fails.
        """
        recording = self._recording
        pipeline = recording.pipeline
        places, logical = pipeline.places, pipeline.logical
        calls, handle = logical.calls, self.handle
        logical.check_open()
        for index, (number, _) in enumerate(places.buffers):
            memory = values[number]
            if memory.nbytes > logical.physical.limits["maxStorageBufferRange"]:
                raise self._too_large(number, memory.nbytes)
            memory.used = True
            entry = self._infos[index]
            entry.buffer, entry.offset, entry.range = memory.buffer, memory.offset, memory.nbytes
        blocks = recording.pack(values) if recording.pack is not None else ()
        for number, offset, size in recording.uniforms:
            data = values[number] if number >= 0 else blocks[-1 - number]
            assert self._uniforms is not None
            ffi.memmove(ffi.cast("char *", self._uniforms.address + offset), data, min(size, len(data)))
        if self._sets is not None:
            calls.vkUpdateDescriptorSets(logical.handle, len(places.bindings), self._writes, 0, ffi.NULL)
        with self._recorder.lock:
            self._recorder.commands.recording = True
            logical.check(calls.vkBeginCommandBuffer(handle, begin), "cannot record commands")
            calls.vkCmdPipelineBarrier(handle, *BEFORE, 0, 1, BEFORE_BARRIER, 0, ffi.NULL, 0, ffi.NULL)
            calls.vkCmdBindPipeline(handle, _COMPUTE, pipeline.handle)
            if self._sets is not None:
                calls.vkCmdBindDescriptorSets(handle, _COMPUTE, pipeline.layout, 0, places.sets, self._sets, 0, ffi.NULL)
            if places.push >= 0:
                data = blocks[places.push].ljust(places.push_size, b"\0")
                calls.vkCmdPushConstants(handle, pipeline.layout, _STAGE, 0, places.push_size, ffi.from_buffer(data))
            calls.vkCmdDispatch(handle, *grid)
            calls.vkCmdPipelineBarrier(handle, *AFTER, 0, 1, AFTER_BARRIER, 0, ffi.NULL, 0, ffi.NULL)
            logical.check(calls.vkEndCommandBuffer(handle), "cannot record commands")
            self._recorder.commands.recording = False

    def _too_large(self, number: int, nbytes: int) -> LaunchError:
        pipeline = self._recording.pipeline
        device = pipeline.logical.device
        return LaunchError(
            f"the vulkan function {pipeline.name!r} cannot be launched on {device}: its maxStorageBufferRange is "
            f"{device.limits['maxStorageBufferRange']}, but argument {number + 1} has {nbytes} bytes",
            kind="vulkan",
            function=pipeline.name,
            argument=str(number + 1),
        )
