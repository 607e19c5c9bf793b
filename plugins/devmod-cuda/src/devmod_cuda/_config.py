"""The configuration of a launch, checked against the limits of the kernel and the device, in the form that the driver takes."""

from __future__ import annotations

from math import prod
from struct import pack

from devmod.backend import PROGRAMMATIC_TAG, REQUIRED_BLOCK_TAG
from devmod_runtime.driver_api.kernel import COOPERATIVE, DriverLaunchConfig, Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import FunctionInfo
    from devmod_cuda._device import CudaDevice
    from devmod_readers.nvidia import KernelEntry
    from devmod_runtime import LaunchConfig

    Dims = tuple[int, int, int]

_ONE = (1, 1, 1)
#: Numbers of CUlaunchAttributeID.
_CLUSTER, _PROGRAMMATIC, _PREFERRED_CLUSTER = 4, 6, 11
#: CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM: the driver takes the block that the kernel requires.
_REQUIRED_BLOCK = _ONE


class CudaLimits(Limits):
    """The limits of the launches of one kernel on one device.

    Parameters
    ----------
    device, info, entry
        The device, the function, and what the image declares about the kernel; None if that is unknown.
    max_threads
        The most threads of a block with which the kernel runs.
    static_shared_memory
        The bytes of shared memory that the kernel declares.
    """

    shared_memory_limit = "max_shared_memory_per_block_optin"

    def __init__(
        self, device: CudaDevice, info: FunctionInfo, entry: KernelEntry | None, max_threads: int, static_shared_memory: int
    ) -> None:
        block, built = (entry.block, entry.max_threads) if entry is not None else (None, 0)
        super().__init__(device, info, block, built, static_shared_memory)
        self._entry = entry
        self._max_threads = max_threads
        tags = info.launch_param_tags
        self._is_programmatic = PROGRAMMATIC_TAG in tags
        self._has_required_block = REQUIRED_BLOCK_TAG in tags

    def check(self, launch: LaunchConfig) -> DriverLaunchConfig:
        self.check_block(launch)
        self._check_registers(launch)
        self.check_shared_memory(launch)
        cluster = self.cluster_of(launch)
        self._check_cluster(launch, cluster)
        self.check_grid(launch)
        entry = self._entry
        attributes = []
        grid, block = launch.grid, launch.block
        counts_clusters = entry.blocks_are_clusters if entry is not None else self._has_required_block
        if counts_clusters:
            x, y, z = (blocks // size for blocks, size in zip(grid, cluster, strict=True))
            grid = x, y, z
        if counts_clusters or self._has_required_block:
            block = _REQUIRED_BLOCK
        else:
            if cluster != _ONE and (entry is None or entry.cluster is None):
                attributes.append((_CLUSTER, pack("<3I", *cluster)))
            if launch.preferred_cluster != _ONE:
                attributes.append((_PREFERRED_CLUSTER, pack("<3I", *launch.preferred_cluster)))
        if self.is_cooperative:
            attributes.append((COOPERATIVE, pack("<i", 1)))
        if self._is_programmatic:
            attributes.append((_PROGRAMMATIC, pack("<i", 1)))
        return DriverLaunchConfig(grid, block, launch.shared_memory, tuple(attributes))

    def cluster_of(self, launch: LaunchConfig) -> Dims:
        """Return the cluster of a launch: its own, or that which the kernel requires."""
        required = self._entry.cluster if self._entry is not None else None
        return required if required is not None and launch.cluster == _ONE else launch.cluster

    def _check_registers(self, launch: LaunchConfig) -> None:
        block, threads = launch.block, prod(launch.block)
        if threads > self._max_threads:
            raise self.error(
                f"the kernel's registers allow {self._max_threads} threads in a block (CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), and "
                f"block={block} has {threads}; compile it with __launch_bounds__({threads})",
                "block",
            )

    def _check_cluster(self, launch: LaunchConfig, cluster: Dims) -> None:
        entry = self._entry
        required = entry.cluster if entry is not None else None
        if required is not None and cluster != required:
            raise self.error(f"the kernel is built for clusters of {required} blocks, got cluster={cluster}")
        if entry is not None and entry.explicit_cluster and cluster == _ONE and required is None:
            raise self.error("the kernel requires a cluster, and the launch has none; declare the tags clusterCtaIdx in its fmap")
        preferred = launch.preferred_cluster
        if cluster == preferred == _ONE:
            return
        if not self.device.limits["cluster_launch"]:
            arch = self.device.arch.partition(":")[0]
            raise self.error(f"{arch} does not support clusters, which sm_90 and newer have; got cluster={cluster}")
        blocks = prod(cluster)
        if entry is not None and entry.max_cluster and blocks > entry.max_cluster:
            raise self.error(f"the kernel is built for clusters of at most {entry.max_cluster} blocks, and cluster={cluster} has {blocks}")
        for name, size in (("cluster", cluster), ("preferred_cluster", preferred)):
            if any(count % each for count, each in zip(launch.grid, size, strict=True)):
                raise self.error(f"grid={launch.grid} is not a multiple of {name}={size}; a grid has whole clusters")
        if preferred != _ONE and any(count % each for count, each in zip(preferred, cluster, strict=True)):
            raise self.error(f"preferred_cluster={preferred} is not a multiple of cluster={cluster}")
