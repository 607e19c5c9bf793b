"""The limits of the launches of one kernel on one device, checked before the driver is called."""

from __future__ import annotations

from math import prod

from devmod.backend import COOPERATIVE_TAG
from devmod.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import Device, FunctionInfo
    from devmod_runtime import LaunchConfig

    Dims = tuple[int, int, int]

#: The number of the attribute of a launch whose blocks all run at once. It is the same in CUDA and HIP.
COOPERATIVE = 2


class DriverLaunchConfig:
    """The checked configuration of a launch, as the driver takes it.

    Attributes
    ----------
    grid, block, shared_memory, attributes
        The parameters of `Driver.launch_config`.
    """

    __slots__ = ("attributes", "block", "grid", "shared_memory")

    def __init__(self, grid: Dims, block: Dims, shared_memory: int, attributes: tuple[tuple[int, bytes], ...]) -> None:
        self.grid, self.block, self.shared_memory, self.attributes = grid, block, shared_memory, attributes


class Limits:
    """The limits of the launches of one kernel on one device.

    Parameters
    ----------
    device, info
        The device, whose `limits` have the names of the limits below, and the function.
    block, max_threads
        The block that the kernel requires, and the most threads of a block for which it was compiled; None and 0 if it has no limit.
    static_shared_memory
        The bytes of shared memory that the kernel declares.

    Attributes
    ----------
    device : Device
        The device.
    shared_memory_limit : str
        The name of the device's limit of shared memory in a block.
    is_cooperative : bool
        Whether all blocks of a launch must run at once.
    """

    shared_memory_limit = "max_shared_memory_per_block"

    def __init__(self, device: Device, info: FunctionInfo, block: Dims | None, max_threads: int, static_shared_memory: int) -> None:
        self.device = device
        self._name = info.name
        self._block = block
        self._built_threads = max_threads
        self.static_shared_memory = static_shared_memory
        self.is_cooperative = COOPERATIVE_TAG in info.launch_param_tags

    def check(self, launch: LaunchConfig) -> DriverLaunchConfig:
        """Return the configuration of a launch for the driver.

        Raises
        ------
        LaunchError
            It exceeds a limit. ``argument`` is "grid" for a limit of blocks.
        """
        raise NotImplementedError

    def error(self, text: str, argument: str = "") -> LaunchError:
        """Return the error of a launch that exceeds a limit. `text` ends the sentence."""
        return LaunchError(
            f"the {self.device.kind} function {self._name!r} cannot be launched on {self.device}: {text}",
            kind=self.device.kind,
            function=self._name,
            argument=argument,
        )

    def check_block(self, launch: LaunchConfig) -> None:
        """Check the block against the device and the kernel."""
        limits, block = self.device.limits, launch.block
        for axis, count in zip("xyz", block, strict=True):
            limit = limits[f"max_block_dim_{axis}"]
            if count > limit:
                raise self.error(f"its max_block_dim_{axis} is {limit}, got block={block}", "block")
        threads = prod(block)
        limit = limits["max_threads_per_block"]
        if threads > limit:
            raise self.error(f"its max_threads_per_block is {limit}, and block={block} has {threads} threads", "block")
        if self._block is not None and self._block != block:
            raise self.error(f"the kernel is built for blocks of {self._block} threads, got block={block}", "block")
        if self._built_threads and threads > self._built_threads:
            raise self.error(
                f"the kernel is built for blocks of at most {self._built_threads} threads (__launch_bounds__), and block={block} has "
                f"{threads}",
                "block",
            )

    def check_grid(self, launch: LaunchConfig) -> None:
        """Check the grid against the device."""
        for axis, count in zip("xyz", launch.grid, strict=True):
            limit = self.device.limits[f"max_grid_dim_{axis}"]
            if count > limit:
                raise self.error(f"its max_grid_dim_{axis} is {limit}, got grid={launch.grid}", "grid")

    def check_shared_memory(self, launch: LaunchConfig) -> None:
        """Check the dynamic shared memory, with the kernel's own, against the device."""
        limit = self.device.limits[self.shared_memory_limit]
        static = self.static_shared_memory
        if launch.shared_memory + static > limit:
            own = f", and the kernel declares {static} bytes of its own" if static else ""
            raise self.error(f"its {self.shared_memory_limit} is {limit}, got shared_memory={launch.shared_memory}{own}", "shared_memory")

    def check_cooperative(self, launch: LaunchConfig, blocks_at_once: int) -> None:
        """Check that the device runs all blocks of a launch at once.

        Parameters
        ----------
        launch
            The configuration.
        blocks_at_once
            The blocks that one multiprocessor runs at once.
        """
        most = blocks_at_once * self.device.limits["multiprocessor_count"]
        if launch.blocks > most:
            raise self.error(
                f"a cooperative launch runs all its blocks at once, and with block={launch.block} it runs {most}; got grid={launch.grid} "
                f"of {launch.blocks} blocks",
                "grid",
            )
