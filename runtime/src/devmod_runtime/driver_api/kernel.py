"""Kernels: launches with packed parameters."""

from __future__ import annotations

from abc import abstractmethod
from itertools import repeat
from math import prod

from devmod_runtime import Kernel
from devmod_runtime.driver_api.driver import ParameterBlock
from devmod_runtime.driver_api.errors import DriverError, describe, driver_error
from devmod_runtime.driver_api.stream import DriverStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod import FunctionInfo, Stream
    from devmod.errors import LaunchError
    from devmod_runtime import LaunchConfig
    from devmod_runtime.driver_api.images import LoadedImage
    from devmod_runtime.driver_api.limits import DriverLaunchConfig, Limits
    from devmod_runtime.driver_api.parameters import ParameterLayout


class DriverKernel(Kernel):
    """A kernel on one device. A subclass sets the layout and the limits, and checks what its driver has of its own.

    Parameters
    ----------
    info, image
        The function, and the loaded image.

    Attributes
    ----------
    layout : ParameterLayout
        The parameters of a launch.
    limits : Limits
        The limits of a launch.
    function : int
        The driver's handle.
    """

    layout: ParameterLayout
    limits: Limits

    def __init__(self, info: FunctionInfo, image: LoadedImage) -> None:
        self.image = image
        self.device = image.device
        self.context = image.context
        self.driver = image.context.driver
        self._name = info.name
        self.function = image.function(info.name)

    @property
    @abstractmethod
    def required_block(self) -> tuple[int, int, int] | None:
        """The block that the kernel requires; None if it runs with every block."""

    def caller(self, stream: Stream, shape: DriverLaunchConfig) -> Callable[[Sequence[Any]], None]:
        assert isinstance(stream, DriverStream)
        # Every call runs this function, so it uses local names.
        pack, lock = self.layout.pack, stream.lock
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
                if stream.is_captured:
                    with lock:
                        launch()
                else:
                    launch()
            except error_type as error:
                raise self._launch_error(error) from error
            give(slot)

        return call

    def prepare(self, stream: Stream, shape: DriverLaunchConfig, values: Sequence[Any]) -> Callable[[], object]:
        assert isinstance(stream, DriverStream)
        buffer, launch = self._new_launch(stream, shape)
        buffer.raw = self.layout.pack(*values)
        if stream.is_default:
            return launch

        def launch_in_order(_: None) -> None:
            if stream.is_captured:
                with stream.lock:
                    launch()
            else:
                launch()

        return map(launch_in_order, repeat(None)).__next__  # a function of C without parameters, as `launch` is

    def time(self, stream: Stream, shape: DriverLaunchConfig, values: Sequence[Any]) -> float:
        assert isinstance(stream, DriverStream)
        call = self.caller(stream, shape)
        with stream.lock, stream.uncaptured():  # a graph would be created between the two events
            begin = stream.record()
            call(values)
            end = stream.record()
        return end.elapsed(begin)

    def check_cooperative(self, launch: LaunchConfig) -> None:
        """Check that the device runs all blocks of a launch at once, if it must."""
        if not self.limits.is_cooperative:
            return
        if not self.device.limits["cooperative_launch"]:
            raise self.limits.error("it does not support cooperative launches")
        try:
            with self.context:
                each = self.driver.max_active_blocks(self.function, prod(launch.block), launch.shared_memory)
        except DriverError as error:
            raise self.query_error(error) from error
        self.limits.check_cooperative(launch, each)

    def _new_launch(self, stream: DriverStream, shape: DriverLaunchConfig) -> tuple[Any, Callable[[], object]]:
        """Return the memory of a parameter block, and a C function that launches with the parameters in it."""
        self.image.note_stream(stream)
        block = ParameterBlock(self.layout.size, self.driver.api.parameters_end, self.layout.offsets)
        config = self.driver.launch_config(shape.grid, shape.block, shape.shared_memory, stream.handle, shape.attributes)
        return block.buffer, self.driver.prepare_launch(self.context.handle, config, self.function, block, self._launch_error)

    def query_error(self, error: DriverError) -> LaunchError:
        """Return the error for a query of the kernel's attributes or its occupancy that the driver refuses."""
        what = f"the {self.device.kind} function {self._name!r}"
        if error.name == self.driver.api.out_of_memory:  # a driver may load a function with its first use
            return self.device.memory_error(0, f"{describe(error)} in the load of {what}")
        result = driver_error(f"{self.device} refused a query of {what}", error, self.device)
        result.function = self._name
        return result

    def _launch_error(self, error: DriverError) -> LaunchError:
        what = f"the {self.device.kind} function {self._name!r}"
        if error.name == self.driver.api.out_of_memory:
            return self.device.memory_error(0, f"{describe(error)} in a launch of {what}")
        result = driver_error(f"{self.device} refused a launch of {what}", error, self.device)
        result.function = self._name
        return result
