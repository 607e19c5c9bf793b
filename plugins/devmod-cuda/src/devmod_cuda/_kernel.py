"""Kernels: the limits of a launch, and launches."""

from __future__ import annotations

from math import prod
from threading import Lock

from devmod.backend import Kernel, fork_safe
from devmod_cuda._api import CUDA
from devmod_cuda._config import LaunchShape, Limits
from devmod_cuda._parameters import parameter_layout
from devmod_cuda._stream import CudaStream
from devmod_driver_api.errors import DriverError, describe, driver_error
from devmod_driver_api.launches import ParameterBlock
from devmod_targets.nvidia import ParamPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod import FunctionInfo, Stream
    from devmod.backend import LaunchConfig
    from devmod.errors import LaunchError
    from devmod_cuda._device import CudaDevice
    from devmod_cuda._images import LoadedImage

#: Numbers of CUfunction_attribute.
_MAX_THREADS, _STATIC_SHARED, _MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 0, 1, 8, 14
#: The blocks of the greatest cluster that every device with clusters can run.
_PORTABLE_CLUSTER = 8
#: The greatest dynamic shared memory without the attribute.
_SHARED_WITHOUT_ATTRIBUTE = 48 << 10


class CudaKernel(Kernel):
    """A kernel on one device."""

    def __init__(self, info: FunctionInfo, image: LoadedImage) -> None:
        self._image = image
        self._device: CudaDevice = image.device
        self._context = context = image.context
        self._driver = driver = self._device.driver
        self._name = info.name
        self._entry = image.entry(info.name)
        self._function = image.function(info.name)
        places: Sequence[ParamPlace] | None = self._entry.params if self._entry is not None else None
        with context:
            if places is None:
                pairs = driver.param_places(self._function)
                places = None if pairs is None else [ParamPlace(offset, size) for offset, size in pairs]
            self._layout = parameter_layout(info, places)
            max_threads, static = (driver.function_attribute(self._function, each) for each in (_MAX_THREADS, _STATIC_SHARED))
        self._limits = Limits(self._device, info, self._entry, max_threads, static)
        #: The function's attributes so far: launches of several threads raise them.
        self._shared_memory = max(_SHARED_WITHOUT_ATTRIBUTE - static, 0)
        self._has_large_clusters = False
        self._lock = fork_safe(Lock())

    @property
    def fixed(self) -> tuple[int, int, int] | None:
        """The block that the kernel requires; None if it runs with every block."""
        return self._entry.block if self._entry is not None else None

    def shape(self, launch: LaunchConfig) -> LaunchShape:
        shape = self._limits.check(launch)
        if launch.shared_memory > self._shared_memory:
            self._raise_shared_memory(launch.shared_memory)
        cluster = self._limits.cluster_of(launch)
        if prod(cluster) > _PORTABLE_CLUSTER:
            self._allow_large_cluster(launch, cluster, shape)
        if self._limits.is_cooperative:
            self._check_cooperative(launch)
        return shape

    def preferred_block(self) -> tuple[int, int]:
        with self._context:
            _, threads = self._driver.preferred_block(self._function)
        most = 1 << max(threads, 1).bit_length() - 1
        return most, min(self._device.limits["warp_size"], most)

    def caller(self, stream: Stream, shape: LaunchShape) -> Callable[[Sequence[Any]], None]:
        assert isinstance(stream, CudaStream)
        # Every call runs this function, so it uses local names.
        pack = self._layout.pack
        # Launches that no call is using. Only one thread writes to a parameter block; list.pop and list.append are atomic.
        free = [self._new_launch(stream, shape)]
        take, give, error_type = free.pop, free.append, DriverError

        def call(values: Sequence[Any]) -> None:
            try:
                slot = take()
            except IndexError:
                slot = self._new_launch(stream, shape)
            buffer, launch = slot
            buffer.raw = pack(*values)
            try:
                launch()
            except error_type as error:
                raise self._launch_error(error) from error
            give(slot)

        return call

    def prepare(self, stream: Stream, shape: LaunchShape, values: Sequence[Any]) -> Callable[[], object]:
        assert isinstance(stream, CudaStream)
        buffer, launch = self._new_launch(stream, shape)
        buffer.raw = self._layout.pack(*values)
        return launch

    def time(self, stream: Stream, shape: LaunchShape, values: Sequence[Any]) -> float:
        call = self.caller(stream, shape)
        begin = stream.record()
        call(values)
        end = stream.record()
        return end.elapsed(begin)

    def _new_launch(self, stream: CudaStream, shape: LaunchShape) -> tuple[Any, Callable[[], object]]:
        """Return the memory of a parameter block, and a C function that launches with the parameters in it."""
        block = ParameterBlock(self._layout.size, CUDA.parameters_end)
        config = self._driver.launch_config(shape.grid, shape.block, shape.shared_memory, stream.handle, shape.attributes)
        return block.buffer, self._driver.prepare_launch(self._context.handle, config, self._function, block)

    def _launch_error(self, error: DriverError) -> LaunchError:
        what = f"the cuda function {self._name!r}"
        if error.name == CUDA.out_of_memory:
            return self._device.memory_error(0, f"{describe(error)} in a launch of {what}")
        result = driver_error(f"{self._device} refused a launch of {what}", error, self._device)
        result.function = self._name
        return result

    def _raise_shared_memory(self, nbytes: int) -> None:
        """Raise the function's limit of dynamic shared memory, which is 48 KiB with the kernel's own at first."""
        with self._lock:
            if nbytes > self._shared_memory:
                self._set_attribute(_MAX_DYNAMIC_SHARED, nbytes, f"shared_memory={nbytes}")
                self._shared_memory = nbytes

    def _allow_large_cluster(self, launch: LaunchConfig, cluster: tuple[int, ...], shape: LaunchShape) -> None:
        """Allow a cluster of a size that not every device supports, and check that the device runs one."""
        with self._lock:
            if not self._has_large_clusters:
                self._set_attribute(_NON_PORTABLE_CLUSTER, 1, f"cluster={cluster}")
                self._has_large_clusters = True
        config = self._driver.launch_config(shape.grid, shape.block, shape.shared_memory, 0, shape.attributes)
        try:
            with self._context:
                count = self._driver.max_active_clusters(self._function, config)
        except DriverError:
            count = 0
        if not count:
            raise self._limits.error(
                f"it runs no cluster of {prod(cluster)} blocks with block={launch.block} and shared_memory={launch.shared_memory}; every "
                f"device with clusters runs {_PORTABLE_CLUSTER} blocks"
            )

    def _check_cooperative(self, launch: LaunchConfig) -> None:
        """Check that the device runs all blocks of a launch at once."""
        limits = self._device.limits
        if not limits["cooperative_launch"]:
            raise self._limits.error("it does not support cooperative launches")
        with self._context:
            each = self._driver.max_active_blocks(self._function, prod(launch.block), launch.shared_memory)
        most = each * limits["multiprocessor_count"]
        if launch.blocks > most:
            raise self._limits.error(
                f"a cooperative launch runs all its blocks at once, and with block={launch.block} it runs {most}; got grid={launch.grid} "
                f"of {launch.blocks} blocks",
                "grid",
            )

    def _set_attribute(self, attribute: int, value: int, what: str) -> None:
        try:
            with self._context:
                self._driver.set_function_attribute(self._function, attribute, value)
        except DriverError as error:
            raise self._limits.error(f"the driver refuses {what}: {describe(error)}") from error
