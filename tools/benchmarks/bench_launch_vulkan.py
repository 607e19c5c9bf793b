"""The time of a Vulkan launch from its submission to its end: devmod beside the package `vulkan`,
which devmod-vulkan uses.

    python tools/benchmarks/bench_launch_vulkan.py [--rounds 401]

The kernel adds 64 floats and takes three buffers and an int. "By hand" is a program that calls the
package's own functions. Each round runs every contender once, and the figures are medians over the
rounds. The exit code is 1 if a ratio is over its bound. Without a Vulkan device or glslangValidator
nothing is measured: the reason is printed, and the exit code is 0.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import check, medians_of, record

import devmod

os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

SOURCE = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) buffer C { float c[]; };
layout(push_constant) uniform Push { int n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) c[i] = a[i] + b[i]; }
"""
N = 64
MANY = 64

#: A contender, the contender that it is compared with, and the most that the ratio of their times
#: may be.
PROMISED = (
    ("devmod, prepared", "by hand, one recorded", 1.15),
    ("devmod, plain call", "by hand, recorded each time", 0.7),
    ("devmod, 64 in a batch", "by hand, 64 recorded, one submission", 1.1),
)


class ByHand:
    """The same launch through the package `vulkan`."""

    def __init__(self, words: bytes) -> None:
        import vulkan as vk

        self.vk = vk
        application = vk.VkApplicationInfo(
            pApplicationName="bench", apiVersion=vk.VK_MAKE_VERSION(1, 2, 0)
        )
        self.instance = vk.vkCreateInstance(
            vk.VkInstanceCreateInfo(pApplicationInfo=application), None
        )
        physical = self._same_device(vk.vkEnumeratePhysicalDevices(self.instance))
        families = vk.vkGetPhysicalDeviceQueueFamilyProperties(physical)
        self.family = next(
            number
            for number, family in enumerate(families)
            if family.queueFlags & vk.VK_QUEUE_COMPUTE_BIT
        )
        queue_info = vk.VkDeviceQueueCreateInfo(
            queueFamilyIndex=self.family, pQueuePriorities=[1.0]
        )
        self.device = device = vk.vkCreateDevice(
            physical,
            vk.VkDeviceCreateInfo(pQueueCreateInfos=[queue_info], ppEnabledExtensionNames=[]),
            None,
        )
        self.queue = vk.vkGetDeviceQueue(device, self.family, 0)
        self.buffers = [self._buffer(physical) for _ in range(3)]
        module = vk.vkCreateShaderModule(
            device, vk.VkShaderModuleCreateInfo(codeSize=len(words), pCode=words), None
        )
        bindings = [
            vk.VkDescriptorSetLayoutBinding(
                binding=number,
                descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                descriptorCount=1,
                stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT,
            )
            for number in range(3)
        ]
        self.set_layout = vk.vkCreateDescriptorSetLayout(
            device, vk.VkDescriptorSetLayoutCreateInfo(pBindings=bindings), None
        )
        push = vk.VkPushConstantRange(stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT, offset=0, size=4)
        self.layout = vk.vkCreatePipelineLayout(
            device,
            vk.VkPipelineLayoutCreateInfo(
                pSetLayouts=[self.set_layout], pPushConstantRanges=[push]
            ),
            None,
        )
        stage = vk.VkPipelineShaderStageCreateInfo(
            stage=vk.VK_SHADER_STAGE_COMPUTE_BIT, module=module, pName="main"
        )
        pipelines = vk.vkCreateComputePipelines(
            device, None, 1, [vk.VkComputePipelineCreateInfo(stage=stage, layout=self.layout)], None
        )
        self.pipeline = pipelines[0]
        self.fence = vk.vkCreateFence(device, vk.VkFenceCreateInfo(), None)
        self.number = vk.ffi.new("int *", N)
        self.barrier = vk.VkMemoryBarrier(
            srcAccessMask=vk.VK_ACCESS_SHADER_WRITE_BIT,
            dstAccessMask=vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_SHADER_WRITE_BIT,
        )
        self.recorded = self._prepared(1)
        self.record_and_submit()  # the first one warms up

    def _same_device(self, result: Any) -> Any:
        name = devmod.device("vulkan").name
        return next(
            each
            for each in result
            if self.vk.vkGetPhysicalDeviceProperties(each).deviceName == name
        )

    def _buffer(self, physical: Any) -> Any:
        vk = self.vk
        result = vk.vkCreateBuffer(
            self.device,
            vk.VkBufferCreateInfo(size=4 * N, usage=vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
            None,
        )
        needs = vk.vkGetBufferMemoryRequirements(self.device, result)
        types = vk.vkGetPhysicalDeviceMemoryProperties(physical).memoryTypes
        local = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
        number = next(
            each
            for each in range(32)
            if needs.memoryTypeBits >> each & 1 and types[each].propertyFlags & local
        )
        memory = vk.vkAllocateMemory(
            self.device,
            vk.VkMemoryAllocateInfo(allocationSize=needs.size, memoryTypeIndex=number),
            None,
        )
        vk.vkBindBufferMemory(self.device, result, memory, 0)
        return result

    def _pools(self) -> tuple[Any, Any]:
        vk = self.vk
        size = vk.VkDescriptorPoolSize(type=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptorCount=3)
        descriptors = vk.vkCreateDescriptorPool(
            self.device, vk.VkDescriptorPoolCreateInfo(maxSets=1, pPoolSizes=[size]), None
        )
        return descriptors, vk.vkCreateCommandPool(
            self.device, vk.VkCommandPoolCreateInfo(queueFamilyIndex=self.family), None
        )

    def _record(self, descriptors: Any, commands: Any, launches: int, flags: int) -> Any:
        vk = self.vk
        info = vk.VkDescriptorSetAllocateInfo(
            descriptorPool=descriptors, pSetLayouts=[self.set_layout]
        )
        set_ = vk.vkAllocateDescriptorSets(self.device, info)[0]
        writes = [
            vk.VkWriteDescriptorSet(
                dstSet=set_,
                dstBinding=number,
                descriptorCount=1,
                descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                pBufferInfo=[vk.VkDescriptorBufferInfo(buffer=buffer, offset=0, range=4 * N)],
            )
            for number, buffer in enumerate(self.buffers)
        ]
        vk.vkUpdateDescriptorSets(self.device, len(writes), writes, 0, None)
        expected = vk.VkCommandBufferAllocateInfo(
            commandPool=commands, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1
        )
        buffer = vk.vkAllocateCommandBuffers(self.device, expected)[0]
        vk.vkBeginCommandBuffer(buffer, vk.VkCommandBufferBeginInfo(flags=flags))
        compute = vk.VK_PIPELINE_BIND_POINT_COMPUTE
        stage = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
        for _ in range(launches):
            vk.vkCmdBindPipeline(buffer, compute, self.pipeline)
            vk.vkCmdBindDescriptorSets(buffer, compute, self.layout, 0, 1, [set_], 0, None)
            vk.vkCmdPushConstants(
                buffer, self.layout, vk.VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, self.number
            )
            vk.vkCmdDispatch(buffer, 1, 1, 1)
            vk.vkCmdPipelineBarrier(buffer, stage, stage, 0, 1, [self.barrier], 0, None, 0, None)
        vk.vkEndCommandBuffer(buffer)
        return buffer

    def _prepared(self, launches: int) -> Any:
        return self._record(
            *self._pools(), launches, self.vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
        )

    def _submit(self, buffer: Any) -> None:
        vk = self.vk
        vk.vkQueueSubmit(self.queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[buffer])], self.fence)
        vk.vkWaitForFences(self.device, 1, [self.fence], True, 2**64 - 1)
        vk.vkResetFences(self.device, 1, [self.fence])

    def submit_recorded(self) -> None:
        """Submit the recorded command buffer and wait."""
        self._submit(self.recorded)

    def record_and_submit(self, launches: int = 1) -> None:
        """Create the pools, record a command buffer with so many launches, submit it and wait."""
        descriptors, commands = self._pools()
        self._submit(
            self._record(
                descriptors, commands, launches, self.vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
            )
        )
        self.vk.vkDestroyCommandPool(self.device, commands, None)
        self.vk.vkDestroyDescriptorPool(self.device, descriptors, None)

    def submit_many(self) -> None:
        """Submit the recorded command buffer `MANY` times, and wait after each."""
        for _ in range(MANY):
            self._submit(self.recorded)

    def record_and_submit_many(self) -> None:
        """Record `MANY` launches in one command buffer, submit it and wait."""
        self.record_and_submit(MANY)


def contenders() -> dict[str, Callable[[], None]]:
    """Return the functions to measure by name."""
    module = devmod.compile(SOURCE, "vulkan", name="add", language="GLSL")
    function = module["add"]
    device = devmod.device("vulkan")
    ones = np.ones(N, "float32")
    a = device.from_numpy(ones)
    b = device.from_numpy(ones)
    c = device.from_numpy(ones)
    stream = device.default_stream
    prepared = function.bind(a, b, c, N, grid=1)
    prepared_many = [function.bind(a, b, c, N, grid=1) for _ in range(MANY)]
    code: Any = module
    hand = ByHand(bytes(code.code["add"])[12:])

    def bound() -> None:
        prepared()
        stream.synchronize()

    def plain() -> None:
        function(a, b, c, N, grid=1)
        stream.synchronize()

    def batch() -> None:
        with stream.batch():
            for launch in prepared_many:
                launch()
        stream.synchronize()

    return {
        "by hand, one recorded": hand.submit_recorded,
        "devmod, prepared": bound,
        "by hand, recorded each time": hand.record_and_submit,
        "devmod, plain call": plain,
        "by hand, 64 submissions": hand.submit_many,
        "by hand, 64 recorded, one submission": hand.record_and_submit_many,
        "devmod, 64 in a batch": batch,
    }


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=401)
    options = parser.parse_args()
    try:
        result = contenders()
    except (devmod.DeviceNotFoundError, devmod.ToolchainNotFoundError) as error:
        print(f"vulkan: not measured: {error}")
        return 0
    durations: dict[str, list[float]] = {name: [] for name in result}
    for round_ in range(options.rounds + 5):
        for name, run in result.items():
            # 64 launches take long, and a quarter of the rounds is enough for a median.
            if "64" in name and round_ % 4:
                continue
            start = time.perf_counter()
            run()
            if round_ >= 5:  # the first ones warm up
                durations[name].append((time.perf_counter() - start) * 1e6)
    medians = medians_of(durations)
    for name, median in medians.items():
        print(f"{name:<38} {median:9.1f} µs")
        record("A Vulkan launch, waited for", name, median, "µs")
    missed = False
    for name, base, most in PROMISED:
        ratio = medians[name] / medians[base]
        over = check(f"Vulkan, {name}", ratio, most, of=base)
        missed |= over
        print(f"{name:<22} of {base:<38} {ratio:5.2f}   (at most {most:g}){'  over' * over}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
