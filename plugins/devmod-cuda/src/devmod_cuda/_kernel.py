"""Kernels: the limits of a launch on a CUDA device."""

from __future__ import annotations

from math import prod
from threading import Lock

from devmod.backend import fork_safe
from devmod_cuda._config import CudaLimits
from devmod_cuda._parameters import parameter_layout
from devmod_driver_api.errors import DriverError, describe
from devmod_driver_api.kernel import DriverKernel
from devmod_targets.nvidia import ParamPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import FunctionInfo
    from devmod.backend import LaunchConfig
    from devmod_cuda._device import CudaDevice
    from devmod_cuda._interface import CudaDriver
    from devmod_driver_api.images import LoadedImage
    from devmod_driver_api.limits import LaunchShape
    from devmod_targets.nvidia import KernelEntry

#: Numbers of CUfunction_attribute.
_MAX_THREADS, _STATIC_SHARED, _MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 0, 1, 8, 14
#: The blocks of the greatest cluster that every device with clusters can run.
_PORTABLE_CLUSTER = 8
#: The greatest dynamic shared memory without the attribute.
_SHARED_WITHOUT_ATTRIBUTE = 48 << 10


class CudaKernel(DriverKernel):
    """A kernel on one device."""

    device: CudaDevice
    driver: CudaDriver
    limits: CudaLimits

    def __init__(self, info: FunctionInfo, image: LoadedImage) -> None:
        super().__init__(info, image)
        driver, function = self.driver, self.function
        self._entry: KernelEntry | None = image.entry(info.name)
        params: Sequence[ParamPlace] | None = self._entry.params if self._entry is not None else None
        with self.context:
            if params is None:
                pairs = driver.param_places(function)
                params = None if pairs is None else [ParamPlace(offset, size) for offset, size in pairs]
            self.layout = parameter_layout(info, params)
            max_threads, static = (driver.function_attribute(function, each) for each in (_MAX_THREADS, _STATIC_SHARED))
        self.limits = CudaLimits(self.device, info, self._entry, max_threads, static)
        #: The function's attributes so far: launches of several threads raise them.
        self._shared_memory = max(_SHARED_WITHOUT_ATTRIBUTE - static, 0)
        self._has_large_clusters = False
        self._lock = fork_safe(Lock())

    @property
    def fixed(self) -> tuple[int, int, int] | None:
        return self._entry.block if self._entry is not None else None

    def shape(self, launch: LaunchConfig) -> LaunchShape:
        shape = self.limits.check(launch)
        if launch.shared_memory > self._shared_memory:
            self._raise_shared_memory(launch.shared_memory)
        cluster = self.limits.cluster_of(launch)
        if prod(cluster) > _PORTABLE_CLUSTER:
            self._allow_large_cluster(launch, cluster, shape)
        self.check_cooperative(launch)
        return shape

    def preferred_block(self) -> tuple[int, int]:
        with self.context:
            _, threads = self.driver.preferred_block(self.function)
        most = 1 << max(threads, 1).bit_length() - 1
        return most, min(self.device.limits["warp_size"], most)

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
        config = self.driver.launch_config(shape.grid, shape.block, shape.shared_memory, 0, shape.attributes)
        try:
            with self.context:
                count = self.driver.max_active_clusters(self.function, config)
        except DriverError:
            count = 0
        if not count:
            raise self.limits.error(
                f"it runs no cluster of {prod(cluster)} blocks with block={launch.block} and shared_memory={launch.shared_memory}; every "
                f"device with clusters runs {_PORTABLE_CLUSTER} blocks"
            )

    def _set_attribute(self, attribute: int, value: int, what: str) -> None:
        """Set an attribute of the function. `what` is the argument of the launch in the message."""
        try:
            with self.context:
                self.driver.set_function_attribute(self.function, attribute, value)
        except DriverError as error:
            raise self.limits.error(f"the driver refuses {what}: {describe(error)}") from error
