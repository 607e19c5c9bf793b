"""Kernels with the arguments (x, y, n) in the bare packages pyopencl, vulkan and wgpu, as a program
without devmod has them.

Each class builds a kernel. A call gives it two host arrays of one size and an int. It copies both
to the device, launches, waits, and copies the second back. The packages are imported at the first
use, because benchmarks start processes that need one of them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, Protocol

    import numpy as np

    Array = np.ndarray[Any, Any]

    class Peer(Protocol):
        """A kernel in a bare package."""

        def __init__(self, code: bytes, entry: str) -> None: ...
        def __call__(self, x: Array, y: Array, n: int, grid: int) -> None: ...


#: The environment variable with the name of the platform of devmod's OpenCL device.
PLATFORM = "BENCH_OPENCL_PLATFORM"
_DEVICE = """
import devmod
from devmod_opencl import _intel
device = devmod.device("opencl")
path = _intel.library_path() if device.handle.platform.name.strip() == _intel.INTEL_CPU else ""
print(device.handle.platform.name.strip(), path, device, sep="\\n")
"""

#: The threads of a block.
BLOCK = 64


def share_device(folder: Path) -> None:
    """Let pyopencl take devmod's OpenCL device, in this process and in those that it starts, and
    print the device.

    Parameters
    ----------
    folder
        A folder for a file with the driver's path. pyopencl does not find Intel's runtime in its
        wheel.
    """
    import subprocess
    import sys

    # In a process of its own: the loader reads the variable when it opens the drivers.
    done = subprocess.run(
        [sys.executable, "-c", _DEVICE], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        return  # the benchmark says that there is no device
    platform, path, device = done.stdout.splitlines()
    os.environ[PLATFORM] = platform
    if path:
        (folder / "driver.icd").write_text(path + "\n")
        os.environ["OCL_ICD_VENDORS"] = str(folder)
    print(f"OpenCL: {device}, {platform}")


def opencl_device(cl: Any) -> Any:
    """Return devmod's OpenCL device in pyopencl."""
    import warnings

    # Intel's compiler writes a log of each build.
    warnings.filterwarnings("ignore", category=cl.CompilerWarning)
    platforms = {each.name.strip(): each for each in cl.get_platforms()}
    device = platforms[os.environ[PLATFORM]].get_devices()[0]
    # A processor that PoCL does not know (docs/opencl.md).
    if "DEVMOD_OPENCL_POCL_CPU" in os.environ:
        from devmod_opencl._pocl import name_processor

        name_processor(device)
    return device


class PyOpenCL:
    """OpenCL C in pyopencl. Each call makes its two buffers from the host arrays, which is the
    package's common form.

    Parameters
    ----------
    code, entry
        The source, and the name of the kernel.
    """

    def __init__(self, code: bytes, entry: str) -> None:
        import numpy as np
        import pyopencl as cl

        self._cl = cl
        self._context = cl.Context([opencl_device(cl)])
        self._queue = cl.CommandQueue(self._context)
        self._kernel = cl.Kernel(cl.Program(self._context, code.decode()).build(), entry)
        self._kernel.set_scalar_arg_dtypes([None, None, np.int32])

    def __call__(self, x: Array, y: Array, n: int, grid: int) -> None:
        cl = self._cl
        flags = self._cl.mem_flags
        source = cl.Buffer(self._context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
        result = cl.Buffer(self._context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=y)
        self._kernel(self._queue, (grid * BLOCK,), (BLOCK,), source, result, n)
        cl.enqueue_copy(self._queue, y, result)


class Wgpu:
    """WGSL in wgpu: storage buffers at the bindings 0 and 1, a uniform at 2. Each call makes its
    buffers.

    Parameters
    ----------
    code, entry
        The source, and the name of the entry point.
    """

    def __init__(self, code: bytes, entry: str) -> None:
        import wgpu

        self._wgpu = wgpu
        self.device = wgpu.gpu.request_adapter_sync(
            power_preference="high-performance"
        ).request_device_sync()
        module = self.device.create_shader_module(code=code.decode())
        self._pipeline = self.device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": entry}
        )

    def _buffers(self, size: int) -> tuple[Any, Any, Any, Any]:
        """Return the buffers of a call, and the bind group with them."""
        usage = self._wgpu.BufferUsage
        device = self.device
        source = device.create_buffer(size=size, usage=usage.STORAGE | usage.COPY_DST)
        result = device.create_buffer(
            size=size, usage=usage.STORAGE | usage.COPY_DST | usage.COPY_SRC
        )
        scalars = device.create_buffer(size=16, usage=usage.UNIFORM | usage.COPY_DST)
        entries = [
            {"binding": at, "resource": each} for at, each in enumerate((source, result, scalars))
        ]
        return (
            source,
            result,
            scalars,
            device.create_bind_group(
                layout=self._pipeline.get_bind_group_layout(0), entries=entries
            ),
        )

    def _encode(self, group: Any, grid: int) -> Any:
        """Return an encoder with the launch."""
        encoder = self.device.create_command_encoder()
        run = encoder.begin_compute_pass()
        run.set_pipeline(self._pipeline)
        run.set_bind_group(0, group)
        run.dispatch_workgroups(grid)
        run.end()
        return encoder

    def __call__(self, x: Array, y: Array, n: int, grid: int) -> None:
        queue = self.device.queue
        source, result, scalars, group = self._buffers(x.nbytes)
        queue.write_buffer(source, 0, x)
        queue.write_buffer(result, 0, y)
        queue.write_buffer(scalars, 0, n.to_bytes(4, "little"))
        queue.submit([self._encode(group, grid).finish()])
        y.reshape(-1).view("uint8").data[:] = queue.read_buffer(result)


class WgpuReused(Wgpu):
    """The same with buffers, staging buffer and bind group of the call before, and with the launch
    and the copy in one submission.
    """

    _size = 0

    def __call__(self, x: Array, y: Array, n: int, grid: int) -> None:
        queue = self.device.queue
        usage = self._wgpu.BufferUsage
        if self._size != x.nbytes:
            self._size = x.nbytes
            self._kept = self._buffers(x.nbytes)
            self._staging = self.device.create_buffer(
                size=x.nbytes, usage=usage.MAP_READ | usage.COPY_DST
            )
        source, result, scalars, group = self._kept
        queue.write_buffer(source, 0, x)
        queue.write_buffer(result, 0, y)
        queue.write_buffer(scalars, 0, n.to_bytes(4, "little"))
        encoder = self._encode(group, grid)
        encoder.copy_buffer_to_buffer(result, 0, self._staging, 0, y.nbytes)
        queue.submit([encoder.finish()])
        self._staging.map_sync(self._wgpu.MapMode.READ)
        y.reshape(-1).view("uint8").data[:] = self._staging.read_mapped(copy=False)
        self._staging.unmap()


class Vulkan:
    """SPIR-V in vulkan: storage buffers at the bindings 0 and 1 of set 0, an int in the push
    constants. Mapped buffers are reused.

    The buffers are memory that the host sees and the device has, as CPUs and integrated GPUs have
    it. Each call records its commands, because the number and the grid may change.

    Parameters
    ----------
    code, entry
        The SPIR-V, and the name of the entry point.
    """

    def __init__(self, code: bytes, entry: str) -> None:
        import vulkan as vk

        self._vk = vk
        application = vk.VkApplicationInfo(
            pApplicationName="bench", apiVersion=vk.VK_MAKE_VERSION(1, 2, 0)
        )
        self._instance = vk.vkCreateInstance(
            vk.VkInstanceCreateInfo(pApplicationInfo=application), None
        )
        self._physical = physical = vk.vkEnumeratePhysicalDevices(self._instance)[0]
        families = vk.vkGetPhysicalDeviceQueueFamilyProperties(physical)
        family = next(
            number
            for number, each in enumerate(families)
            if each.queueFlags & vk.VK_QUEUE_COMPUTE_BIT
        )
        queue_info = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=family, pQueuePriorities=[1.0])
        info = vk.VkDeviceCreateInfo(pQueueCreateInfos=[queue_info], ppEnabledExtensionNames=[])
        self._device = device = vk.vkCreateDevice(physical, info, None)
        self._queue = vk.vkGetDeviceQueue(device, family, 0)
        self._stage = stage = vk.VK_SHADER_STAGE_COMPUTE_BIT
        storage = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
        bindings = [
            vk.VkDescriptorSetLayoutBinding(
                binding=number, descriptorType=storage, descriptorCount=1, stageFlags=stage
            )
            for number in (0, 1)
        ]
        set_layout = vk.vkCreateDescriptorSetLayout(
            device, vk.VkDescriptorSetLayoutCreateInfo(pBindings=bindings), None
        )
        push = vk.VkPushConstantRange(stageFlags=stage, offset=0, size=4)
        layout_info = vk.VkPipelineLayoutCreateInfo(
            pSetLayouts=[set_layout], pPushConstantRanges=[push]
        )
        self._layout = vk.vkCreatePipelineLayout(device, layout_info, None)
        module = vk.vkCreateShaderModule(
            device, vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code), None
        )
        stage_info = vk.VkPipelineShaderStageCreateInfo(stage=stage, module=module, pName=entry)
        pipeline_info = vk.VkComputePipelineCreateInfo(stage=stage_info, layout=self._layout)
        self._pipeline = vk.vkCreateComputePipelines(device, None, 1, [pipeline_info], None)[0]
        pool_info = vk.VkDescriptorPoolCreateInfo(
            maxSets=1, pPoolSizes=[vk.VkDescriptorPoolSize(type=storage, descriptorCount=2)]
        )
        pool = vk.vkCreateDescriptorPool(device, pool_info, None)
        self._set = vk.vkAllocateDescriptorSets(
            device, vk.VkDescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=[set_layout])
        )[0]
        commands_info = vk.VkCommandPoolCreateInfo(
            flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, queueFamilyIndex=family
        )
        commands = vk.vkCreateCommandPool(device, commands_info, None)
        primary = vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY
        buffer_info = vk.VkCommandBufferAllocateInfo(
            commandPool=commands, level=primary, commandBufferCount=1
        )
        self._commands = vk.vkAllocateCommandBuffers(device, buffer_info)[0]
        self._begin = vk.VkCommandBufferBeginInfo(
            flags=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
        )
        self._submit = [vk.VkSubmitInfo(pCommandBuffers=[self._commands])]
        # For the host's reads after the launch.
        access = vk.VkMemoryBarrier(
            srcAccessMask=vk.VK_ACCESS_SHADER_WRITE_BIT, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT
        )
        self._barrier = (
            vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            vk.VK_PIPELINE_STAGE_HOST_BIT,
            0,
            1,
            [access],
            0,
            None,
            0,
            None,
        )
        self._fence = vk.vkCreateFence(device, vk.VkFenceCreateInfo(), None)
        self._number = vk.ffi.new("int *")
        self._mapped: list[Any] = []
        self._size = 0

    def _make_buffers(self, size: int) -> None:
        vk = self._vk
        device = self._device
        self._size = size
        types = vk.vkGetPhysicalDeviceMemoryProperties(self._physical).memoryTypes
        wanted = (
            vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
            | vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
            | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        )
        self._mapped = []
        for number in (0, 1):
            buffer = vk.vkCreateBuffer(
                device,
                vk.VkBufferCreateInfo(size=size, usage=vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
                None,
            )
            needs = vk.vkGetBufferMemoryRequirements(device, buffer)
            fitting = [
                each
                for each in range(32)
                if needs.memoryTypeBits >> each & 1 and types[each].propertyFlags & wanted == wanted
            ]
            memory = vk.vkAllocateMemory(
                device,
                vk.VkMemoryAllocateInfo(allocationSize=needs.size, memoryTypeIndex=fitting[0]),
                None,
            )
            vk.vkBindBufferMemory(device, buffer, memory, 0)
            self._mapped.append(vk.vkMapMemory(device, memory, 0, size, 0))
            write = vk.VkWriteDescriptorSet(
                dstSet=self._set,
                dstBinding=number,
                descriptorCount=1,
                descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                pBufferInfo=[vk.VkDescriptorBufferInfo(buffer=buffer, offset=0, range=size)],
            )
            vk.vkUpdateDescriptorSets(device, 1, [write], 0, None)

    def __call__(self, x: Array, y: Array, n: int, grid: int) -> None:
        vk = self._vk
        commands = self._commands
        if self._size != x.nbytes:
            self._make_buffers(x.nbytes)
        source, result = self._mapped
        source[:] = x.reshape(-1).view("uint8").data
        out = y.reshape(-1).view("uint8").data
        result[:] = out
        self._number[0] = n
        vk.vkBeginCommandBuffer(commands, self._begin)
        vk.vkCmdBindPipeline(commands, vk.VK_PIPELINE_BIND_POINT_COMPUTE, self._pipeline)
        vk.vkCmdBindDescriptorSets(
            commands, vk.VK_PIPELINE_BIND_POINT_COMPUTE, self._layout, 0, 1, [self._set], 0, None
        )
        vk.vkCmdPushConstants(commands, self._layout, self._stage, 0, 4, self._number)
        vk.vkCmdDispatch(commands, grid, 1, 1)
        vk.vkCmdPipelineBarrier(commands, *self._barrier)
        vk.vkEndCommandBuffer(commands)
        vk.vkQueueSubmit(self._queue, 1, self._submit, self._fence)
        vk.vkWaitForFences(self._device, 1, [self._fence], True, 2**64 - 1)
        vk.vkResetFences(self._device, 1, [self._fence])
        out[:] = result


#: The class and the name of the package for each kind.
PEERS: dict[str, tuple[type[Peer], str]] = {
    "opencl": (PyOpenCL, "pyopencl"),
    "webgpu": (Wgpu, "wgpu"),
    "vulkan": (Vulkan, "vulkan"),
}
