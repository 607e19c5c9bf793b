"""Use arrays and streams of other libraries as devmod's, without a copy.

An array is adopted with the stream in which its library queues its work, so a launch in that stream
needs no wait. PyTorch and CuPy have a current stream. Other libraries order their work before
devmod's stream by DLPack, and the call waits.
"""

from __future__ import annotations

import sys
from ctypes import c_int64

from devmod.backend import ConversionError, array_bytes, dtype_name, parse_dtype
from devmod.errors import ArgumentError
from devmod_driver_api.api import DEVICE, HOST, PER_THREAD_STREAM, Api, DriverError
from devmod_driver_api.device import DriverDevice, DriverStream
from devmod_driver_api.handles import Memory
from devmod_runtime import DeviceArray, read_capsule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import Image, Stream

    Adopted = tuple[DeviceArray, Stream | None]
    AdoptedImage = tuple[Image, Stream | None]


class Adoption:
    """The arrays and the streams of other libraries for one kind. A subclass adds what only its
    platform has.

    Parameters
    ----------
    api
        The API.
    devices
        The function that returns the devices.

    Attributes
    ----------
    stream_attributes : mapping
        For each library, the attribute of its stream objects with the driver's handle.
    array_advice, stream_advice : str
        The end of the message for an array and for a stream of a context that is not a device's
        primary one.
    """

    array_advice = stream_advice = ""
    stream_attributes: Mapping[str, str] = {"torch": "cuda_stream", "cupy": "ptr"}

    def __init__(self, api: Api, devices: Callable[[], Sequence[DriverDevice]]) -> None:
        self.api = api
        self.devices = devices

    def adopt_array(self, value: Any) -> Adopted | AdoptedImage | None:
        """Return a devmod array or image over the memory of another library's, and the stream of
        its work; None for other objects.

        Raises
        ------
        ConversionError
            The array cannot be used; the text ends a sentence that begins with the argument.
        """
        if not self.has_dlpack(value):
            return None
        device = self.device(int(value.__dlpack_device__()[1]))
        stream = self.current_stream(value, device)
        # A stream of the library needs no order here: the launch runs in it, or the call orders the
        # streams.
        handle = -1
        if stream is None:
            order = device.current_stream
            assert isinstance(order, DriverStream)
            handle = order.handle
        capsule = export(value, handle)
        # The capsule stays unused, so its own destructor frees the tensor.
        tensor, read_only = read_capsule(capsule)
        numbers = c_int64 * tensor.ndim
        shape: tuple[int, ...] = ()
        if tensor.ndim:
            shape = tuple(numbers.from_address(tensor.shape))
        if tensor.strides and not is_contiguous(
            shape, tuple(numbers.from_address(tensor.strides)), 1
        ):
            raise strided_error(value)
        dtype = dtype_name((tensor.code, tensor.bits, tensor.lanes))
        address = (tensor.data or 0) + tensor.byte_offset
        owner = (value, capsule)
        array = self.array(device, address, shape, dtype, owner, read_only=read_only)
        return array, stream

    def adopt_stream(self, value: Any) -> DriverStream | None:
        """Return the stream over another library's stream, always the same object for the same
        stream; None for other objects.

        Raises
        ------
        ArgumentError
            The stream belongs to a context that is not a device's primary one.
        """
        handle = self.stream_handle(value)
        if handle is None:
            return None
        return self.stream_over(handle, value, self.device_of_stream(value, handle))

    def stream_over(self, handle: int, owner: object, device: DriverDevice) -> DriverStream:
        """Return the stream of `device` over a driver's handle. `owner` keeps the handle valid."""
        if handle in self.api.legacy_handles:
            return device.default_stream
        return device.foreign_stream(handle, owner)

    # -- arrays

    def has_dlpack(self, value: Any) -> bool:
        """Return whether DLPack exports an object with memory that the kernels can use."""
        find = getattr(type(value), "__dlpack_device__", None)
        return (
            find is not None
            and hasattr(type(value), "__dlpack__")
            and int(value.__dlpack_device__()[0]) in self.api.dlpack_types
        )

    def array(
        self,
        device: DriverDevice | None,
        address: int,
        shape: tuple[int, ...],
        dtype: str,
        owner: object,
        *,
        read_only: bool = False,
    ) -> DeviceArray:
        """Return the array over memory that `check_pointer` accepts. Without a device, it is on the
        device of the address.
        """
        if array_bytes(parse_dtype(dtype), shape):
            device = self.check_pointer(address, device)
            memory = Memory(address, owner)
        else:
            device = device or self.devices()[0]
            memory = device.allocate(1)
        return DeviceArray(device, memory, shape, dtype, owner, read_only=read_only)

    def check_pointer(self, address: int, expected: DriverDevice | None) -> DriverDevice:
        """Return the device whose kernels may use an address.

        Raises
        ------
        ConversionError
            The address is unknown to the driver, or it belongs to another context.
        """
        try:
            context, kind, ordinal = self.devices()[0].driver.locate(address)
        except DriverError as error:
            raise ConversionError(f"has an address that the driver refuses: {error}") from None
        if kind not in (HOST, DEVICE):
            raise ConversionError(
                f"is at {address:#x}, which is no address of {self.api.name}'s memory: its library may have freed it"
            )
        # Page-locked memory of the host, and memory of no context (managed, from a pool), is for
        # every device.
        if expected is not None and kind == HOST:
            device = expected
        else:
            device = self.device(ordinal)
        if context and kind == DEVICE and context != device.context.handle:
            raise ConversionError(
                f"belongs to another {self.api.name} context of {device}, and devmod uses the primary one, as PyTorch and CuPy do"
                f"{self.array_advice}"
            )
        return device

    def device(self, ordinal: int) -> DriverDevice:
        """Return a device by its number."""
        items = self.devices()
        if not 0 <= ordinal < len(items):
            raise ConversionError(
                f"is on {self.api.title} device {ordinal}, and this process has {len(items)}"
            )
        return items[ordinal]

    # -- streams

    def current_stream(self, value: Any, device: DriverDevice) -> DriverStream | None:
        """Return the stream in which the library of an array queues its work now; None if it has no
        current stream.
        """
        library = library_of(value)
        name = {"torch": "current_stream", "cupy": "get_current_stream"}.get(library)
        if name is None:
            return None
        stream = getattr(sys.modules[library].cuda, name)(device.index)
        return self.stream_over(getattr(stream, self.stream_attributes[library]), stream, device)

    def stream_handle(self, value: Any) -> int | None:
        """Return the driver's handle of another library's stream; None for other objects."""
        attribute = self.stream_attributes.get(library_of(value))
        if attribute is None or "Stream" not in type(value).__name__:
            return None
        handle = getattr(value, attribute, None)
        if handle is None:
            return None
        return int(handle)

    def device_of_stream(self, value: Any, handle: int) -> DriverDevice:
        """Return the device of another library's stream."""
        items = self.devices()
        driver = items[0].driver
        if handle in self.api.legacy_handles or handle == PER_THREAD_STREAM:
            # Each device has a stream with such a handle: use the device of the object, else that
            # of the thread's current context.
            return self.device_attribute(value) or self.context_device()
        try:
            context = driver.call("stream_context", handle)
            device = items[driver.context_device(context)]
        except DriverError as error:
            raise ArgumentError(
                f"stream= is a stream that the driver refuses: {error}",
                kind=self.api.kind,
                argument="stream",
            ) from error
        if device.context.handle == context:
            return device
        raise ArgumentError(
            f"stream= is a stream of a {self.api.name} context that is not a device's primary one, and devmod uses the primary contexts, "
            f"as PyTorch and CuPy do{self.stream_advice}",
            kind=self.api.kind,
            argument="stream",
        )

    def context_device(self) -> DriverDevice:
        """Return the device of the thread's current context; the first one without one."""
        items = self.devices()
        current = items[0].driver.call("current_context")
        for each in items:
            if each.is_open and each.context.handle == current:
                return each
        return items[0]

    def device_attribute(self, value: Any) -> DriverDevice | None:
        """Return the device that a stream's attribute ``device_index`` (PyTorch) or ``device_id``
        (CuPy) names; None without one.
        """
        items = self.devices()
        index = getattr(value, "device_index", getattr(value, "device_id", None))
        if isinstance(index, int) and 0 <= index < len(items):
            return items[index]
        return None


def library_of(value: object) -> str:
    """Return the name of the library that an object belongs to."""
    return type(value).__module__.partition(".")[0]


def strided_error(value: object) -> ConversionError:
    """Return the error for an array with gaps between its elements."""
    library = library_of(value)
    advice = {
        "torch": "pass tensor.contiguous()",
        "cupy": "pass cupy.ascontiguousarray(array)",
    }.get(library, "pass array.copy()")
    return ConversionError(f"is a strided {library} {type(value).__name__}; {advice}")


def export(value: Any, stream: int) -> object:
    """Return the DLPack capsule of an array, ordered before the later work of a stream (-1: not
    ordered).

    Raises
    ------
    ConversionError
        Its library does not export it; the text has the library's reason.
    """
    try:
        try:
            return value.__dlpack__(stream=stream, max_version=(1, 0))
        except TypeError:  # the library is older than DLPack 1
            return value.__dlpack__(stream=stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ConversionError(f"is not exported by its library: {error}") from None


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> bool:
    """Return whether elements of `step` units are in C order without gaps."""
    if 0 in shape:
        return True
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True
