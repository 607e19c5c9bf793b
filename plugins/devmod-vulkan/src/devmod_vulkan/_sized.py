"""Kernels of OpenCL C that clspv has compiled: the block of threads and the sizes of local memory
are specialization constants, so each of these sizes has a pipeline of its own.
"""

from __future__ import annotations

from devmod.backend import Once
from devmod_vulkan._kernel import VulkanKernel
from devmod_vulkan._pipeline import Pipeline, Places, check_sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod_runtime import LaunchConfig
    from devmod_vulkan._device import VulkanDevice, VulkanStream
    from devmod_vulkan._shader import Shader

    Dims = tuple[int, int, int]
    #: The blocks of a launch and the threads of a block.
    Shape = tuple[Dims, Dims]

#: The pipelines that a kernel keeps. A program may give local memory of many sizes.
_MOST = 64


class SizedKernel(VulkanKernel):
    """A kernel with a pipeline for each size.

    Parameters
    ----------
    device, shader
        The device, and the shader, which clspv has compiled.
    """

    def __init__(self, device: VulkanDevice, shader: Shader) -> None:
        self._set_shader(device, shader, Places(shader))
        assert shader.launch is not None
        self._launch = shader.launch
        #: For each argument of local memory: its number, the id of its length, and the bytes of an
        #: element.
        self._local: list[tuple[int, int, int]] = []
        own_memory = shader.reflected.workgroup_memory
        for number, param in enumerate(shader.interface.params):
            if param.kind == "local" and param.name in self._launch.local:
                id_, size = self._launch.local[param.name]
                self._local.append((number, id_, size))
                own_memory -= size
        self._own_memory = max(own_memory, 0)
        self._kernels = Once()
        self._sizes: list[object] = []
        block = shader.interface.block
        has_dimensions = ("work_dim", 0) in self._launch.constants.values()
        if block is not None and not self._local and not has_dimensions:
            # There is one size, so the driver may refuse the shader now.
            self._kernel(((1, 1, 1), block), ())

    def shape(self, launch: LaunchConfig) -> Any:
        grid = super().shape(launch)
        limits = self._device.limits
        x, y, z = launch.block
        for axis, count in enumerate(launch.block):
            name = f"maxComputeWorkGroupSize[{axis}]"
            if count > limits[name]:
                raise self._invalid_launch(
                    f"its {name} is {limits[name]}, got block={launch.block}"
                )
        most = limits["maxComputeWorkGroupInvocations"]
        if x * y * z > most:
            raise self._invalid_launch(
                f"its maxComputeWorkGroupInvocations is {most}, and block={launch.block} has {x * y * z} threads"
            )
        return grid, launch.block

    def check_local(self, sizes: Sequence[int]) -> str:
        most = self._device.limits["maxComputeSharedMemorySize"]
        if sum(sizes) + self._own_memory <= most:
            return ""
        own = ""
        if self._own_memory:
            own = f", beside {self._own_memory} bytes of the kernel"
        return f"its maxComputeSharedMemorySize is {most}, got devmod.Local arguments of {sum(sizes)} bytes{own}"

    def check_buffers(self, values: Sequence[Any]) -> None:
        check_sizes(self._device, self._shader.name, self._shader.interface, self._places, values)

    def caller(self, stream: VulkanStream, shape: Shape) -> Callable[[Sequence[Any]], None]:
        callers: dict[object, Callable[[Sequence[Any]], None]] = {}

        def call(values: Sequence[Any]) -> None:
            lengths = self._lengths(values)
            queue = callers.get(lengths)
            if queue is None:
                if len(callers) >= _MOST:
                    callers.clear()
                kernel = self._kernel(shape, lengths)
                queue = callers[lengths] = kernel.caller(stream, shape[0])
            queue(values)

        return call

    def prepare(
        self, stream: VulkanStream, shape: Shape, values: Sequence[Any]
    ) -> Callable[[], object]:
        return self._kernel(shape, self._lengths(values)).prepare(stream, shape[0], values)

    def time(self, stream: VulkanStream, shape: Shape, values: Sequence[Any]) -> float:
        return self._kernel(shape, self._lengths(values)).time(stream, shape[0], values)

    def _lengths(self, values: Sequence[Any]) -> tuple[int, ...]:
        """Return the elements of each argument of local memory. A length of zero is invalid."""
        return tuple(max(-(-values[number] // size), 1) for number, _, size in self._local)

    def _kernel(self, shape: Shape, lengths: tuple[int, ...]) -> VulkanKernel:
        """Return the kernel of one size."""
        grid, block = shape
        numbers = {"block": block, "offset": (0, 0, 0), "local": (1,)}
        numbers["work_dim"] = (_dimensions(grid, block),)
        constants = {}
        for id_, (name, axis) in self._launch.constants.items():
            constants[id_] = numbers[name][axis]
        for (_, id_, _), length in zip(self._local, lengths, strict=True):
            constants[id_] = length
        data = tuple(sorted((id_, each.to_bytes(4, "little")) for id_, each in constants.items()))
        key = (data, block)

        def build() -> VulkanKernel:
            pipeline = Pipeline(self._shader, self._device.logical, data, block)
            if len(self._sizes) >= _MOST:
                self._kernels.forget(self._sizes.pop(0))
            self._sizes.append(key)
            return VulkanKernel(pipeline, self._device, self._shader)

        return self._kernels.get(key, build)


def _dimensions(grid: Dims, block: Dims) -> int:
    """Return the dimensions of a launch as the opencl backend gives them to its driver."""
    if grid[2] * block[2] > 1:
        return 3
    if grid[1] * block[1] > 1:
        return 2
    return 1
