"""The functions of a ROCm module, and their kernels on a device: the parameters and the limits of a
launch.
"""

from __future__ import annotations

from struct import pack

from devmod.errors import ArgumentError
from devmod_driver_api.adoption import Adoption, library_of
from devmod_driver_api.api import COOPERATIVE, DriverError
from devmod_driver_api.driver import DriverLaunchConfig
from devmod_driver_api.kernel import (
    DriverKernel,
    DriverLauncher,
    declared_arguments,
    parameter_layout,
)
from devmod_rocm._calls import HIP
from devmod_rocm._device import devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod import FunctionInfo
    from devmod_driver_api.binaries import LoadedBinary
    from devmod_driver_api.device import DriverDevice
    from devmod_readers.amdgpu import ArgumentPlace, CodeObjectKernel
    from devmod_runtime import LaunchConfig


# -- Use arrays and streams of PyTorch for ROCm, CuPy for ROCm, JAX and hip-python as devmod's,
# without a copy.


#: hip-python's class of streams. Its package is hip, and rocm from version 10 on.
_HIP_PYTHON = ("hip", "rocm")
_HIP_PYTHON_STREAM = "ihipStream_t"

#: The most threads of a grid in one dimension: the packet of a launch has them in 32 bits.
_MAX_GRID_THREADS = (1 << 32) - 1
#: The most threads of a block that the backend chooses.
_CHOSEN_THREADS = 256


class RocmAdoption(Adoption):
    """The arrays and the streams of other libraries for ROCm."""

    def stream_handle(self, value: Any) -> int | None:
        if type(value).__name__ == _HIP_PYTHON_STREAM and library_of(value) in _HIP_PYTHON:
            return int(value)
        return super().stream_handle(value)

    def own_device(self, value: Any, handle: int, title: str) -> DriverDevice:
        try:
            return self.device_of_stream(value, handle)
        except ArgumentError as error:
            if isinstance(error.__cause__, DriverError):
                raise error.__cause__ from None
            raise

    def device_of_stream(self, value: Any, handle: int) -> DriverDevice:
        items = self.devices()
        if len(items) == 1:
            return items[0]
        try:
            return super().device_of_stream(value, handle)
        except ArgumentError as error:
            # HIP 5 cannot return the device of a stream. PyTorch's and CuPy's objects have it.
            cause = error.__cause__
            device = (
                self.device_attribute(value)
                if isinstance(cause, DriverError) and cause.name == HIP.not_supported
                else None
            )
            if device is None:
                raise
            return device


ADOPTION = RocmAdoption(HIP, devices)


class RocmKernel(DriverKernel):
    """A kernel on one device."""

    entry: CodeObjectKernel

    def __init__(self, info: FunctionInfo, binary: LoadedBinary) -> None:
        super().__init__(info, binary)

        def find_problem(place: ArgumentPlace, _title: str) -> str:
            # OpenCL's __local: the driver takes a size in place of an address.
            return "a pointer to shared memory" if place.kind == "dynamic_shared_pointer" else ""

        # The metadata of the code object has the places; the driver sets the hidden arguments.
        self.layout = parameter_layout(
            "rocm",
            info,
            declared_arguments("rocm", info),
            self.entry.visible_arguments,
            find_problem,
        )
        self.pack = self.layout.pack
        self.static_shared_memory = self.entry.shared_bytes

    def shape(self, launch: LaunchConfig) -> DriverLaunchConfig:
        self.check_block(launch)
        self.check_shared_memory(launch)
        self.check_dims("grid", launch.grid)
        for axis, blocks, threads in zip("xyz", launch.grid, launch.block, strict=True):
            if blocks * threads > _MAX_GRID_THREADS:
                raise self.launch_error(
                    f"a launch has at most {_MAX_GRID_THREADS} threads in {axis}, got grid={launch.grid} with block={launch.block}",
                    "grid",
                )
        self.check_cooperative(launch)
        attributes = ((COOPERATIVE, pack("<i", 1)),) if self.is_cooperative else ()
        return DriverLaunchConfig(launch.grid, launch.block, launch.shared_memory, attributes)

    def preferred_block(self) -> tuple[int, int]:
        most = min(self.entry.max_threads or _CHOSEN_THREADS, _CHOSEN_THREADS)
        return 1 << most.bit_length() - 1, self.entry.wave


class RocmLauncher(DriverLauncher):
    """One function of a ROCm module."""

    kind = "rocm"
    adoption = ADOPTION
    kernel_type = RocmKernel
