"""The functions of an OpenCL module, and arrays and queues of pyopencl as their arguments."""

from __future__ import annotations

from devmod import Interface
from devmod.backend import ConversionError, dtype_name_of
from devmod.errors import FormatError
from devmod_opencl import _driver
from devmod_opencl._device import OpenCLDevice, device_of
from devmod_opencl._driver import cl
from devmod_opencl._kernel import OpenCLKernel
from devmod_runtime import DeviceArray, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Stream
    from devmod_opencl._program import OpenCLPrograms


class OpenCLLauncher(Launcher):
    """One function of an OpenCL module."""

    kind = "opencl"
    no_shared_memory = "in OpenCL the shared memory of a block is an argument; pass devmod.Local(nbytes)"

    def __init__(self, info: FunctionInfo, programs: OpenCLPrograms, interface: Interface | None = None) -> None:
        self._info = info
        self._programs = programs
        self.interface = interface

    @property
    def constants(self) -> Sequence[str]:
        return self._programs.constants

    def default_device(self) -> Device:
        return self._programs.default_device()

    def kernel(self, device: Device) -> OpenCLKernel:
        assert isinstance(device, OpenCLDevice)
        return OpenCLKernel(self._info, self._programs, device)

    def local(self, nbytes: int) -> Any:
        return cl.LocalMemory(nbytes)

    def specialize(self, constants: Mapping[str, object]) -> OpenCLLauncher:
        programs, interface = self._programs.specialize(constants), self._info.interface
        if interface is None or interface.block is None:
            return OpenCLLauncher(self._info, programs)
        # The block size in the interface may depend on the constants, so ask the kernel that was built with them.
        device = programs.default_device()
        required = OpenCLKernel(self._info, programs, device).required_block
        block = required if any(required) else None
        return OpenCLLauncher(self._info, programs, interface.replace(block=block))

    def adopt(self, value: object) -> tuple[DeviceArray, Stream | None] | None:
        if isinstance(value, cl.Buffer):
            context = value.context
            device = device_of(context, context.devices[0])
            return DeviceArray(device, value, (value.size,), "void", value, read_only=_is_read_only(value)), None
        if isinstance(value, cl.MemoryObjectHolder):
            raise ConversionError(f"is a pyopencl {type(value).__name__}; expected a buffer or a pyopencl.array.Array")
        # By name: importing pyopencl.array for isinstance takes 30 ms.
        if type(value).__module__ == "pyopencl.array" and hasattr(value, "base_data"):
            return _adopt_array(value)
        return None

    def adopt_stream(self, value: object) -> Stream | None:
        if isinstance(value, cl.CommandQueue):
            return device_of(value.context, value.device).stream_over(value)
        return None


def _adopt_array(array: Any) -> tuple[DeviceArray, Stream | None]:
    if not array.flags.c_contiguous:
        raise ConversionError("is a strided pyopencl Array; pass array.copy()")
    memory = array.base_data
    queue = array.queue
    context = array.context
    device: OpenCLDevice = device_of(context, queue.device if queue is not None else context.devices[0])
    if memory is None:  # an empty Array has no memory
        memory = device.allocate(1)
    elif array.offset:
        try:
            memory = memory.get_sub_region(array.offset, max(array.nbytes, 1))
        except _driver.Error as error:
            raise ConversionError(
                f"is a pyopencl Array that begins {array.offset} bytes "
                f"into its buffer, which this device does not support ({_driver.code_name(error)}); pass array.copy()"
            ) from None
    try:
        dtype = dtype_name_of(array.dtype)
    except FormatError as error:
        raise ConversionError(f"has elements of a type that devices do not support: {error}") from None
    if array.events:
        cl.wait_for_events(array.events)
    result = DeviceArray(device, memory, array.shape, dtype, array, read_only=_is_read_only(memory))
    return result, device.stream_over(queue) if queue is not None else None


def _is_read_only(memory: Any) -> bool:
    """Return whether kernels cannot write to a buffer. A sub-buffer inherits this from its buffer."""
    return bool(memory.flags & cl.mem_flags.READ_ONLY)
