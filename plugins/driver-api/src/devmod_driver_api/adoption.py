"""Use arrays and streams of other libraries as devmod's, without a copy.

An array is adopted with the stream in which its library queues its work, so a launch in that stream
needs no wait. PyTorch and CuPy have a current stream. Other libraries order their work before
devmod's stream by DLPack, and the call waits.
"""

from __future__ import annotations

import sys
from ctypes import c_int64

from devmod.backend import (
    ConversionError,
    array_bytes,
    describe_value,
    dtype_name,
    parse_dtype,
)
from devmod.errors import ArgumentError, DevmodError, describe_error
from devmod_driver_api.api import DEVICE, HOST, PER_THREAD_STREAM, Api, DriverError
from devmod_driver_api.contexts import AdoptedDevices
from devmod_driver_api.device import DriverDevice, DriverStream
from devmod_driver_api.handles import Memory
from devmod_runtime import DeviceArray, check_driver, read_capsule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import Image, Stream

    Adopted = tuple[DeviceArray, Stream | None]
    AdoptedImage = tuple[Image, Stream | None]


#: The exceptions of other libraries for a closed object, and of reading an attribute that has
#: another form than its protocol.
FOREIGN_ERRORS = (
    AttributeError,
    BufferError,
    LookupError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)


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
    advice : str
        How to get the device of a context, in the message for one that has none.
    """

    advice = "devmod.device(context)"
    stream_attributes: Mapping[str, str] = {"torch": "cuda_stream", "cupy": "ptr"}

    def __init__(self, api: Api, devices: Callable[[], Sequence[DriverDevice]]) -> None:
        self.api = api
        self.devices = devices
        self.adopted = AdoptedDevices(devices)

    def adopt_device(self, value: Any) -> DriverDevice | None:
        """Return the device over a context or a stream of another library, the same one for the
        same object; None for other objects. It is a listed device for a primary context and its
        default stream.

        Raises
        ------
        ArgumentError
            The object cannot be used: its library has destroyed it.
        """
        check_driver(self.api.kind)
        title = f"{describe_value(value)} of {library_of(value)}"
        try:
            return self._adopt_device(value, title)
        except DevmodError:
            raise
        except DriverError as error:
            reason = f"is refused by the driver: {error}. Its library may have destroyed it"
        except FOREIGN_ERRORS as error:
            reason = f"is not exported by its library: {describe_error(error)}"
        raise ArgumentError(f"device: {title} {reason}", kind=self.api.kind, argument="kind")

    def _adopt_device(self, value: Any, title: str) -> DriverDevice | None:
        handle = self.context_handle(value)
        if handle is not None:
            return self.adopted.over_context(handle, value, title)
        handle = self.stream_handle(value)
        if handle is None:
            return None
        device = self.own_device(value, handle, title)
        if handle in self.api.legacy_handles:
            return device
        return self.adopted.over_stream(handle, value, device, title)

    def own_device(self, value: Any, handle: int, title: str) -> DriverDevice:
        """Return the device over the context of another library's stream. The stream keeps the
        context.
        """
        if self.is_special(handle):
            return self.device_of_special(value)
        context = self.devices()[0].driver.call("stream_context", handle)
        return self.adopted.over_context(context, value, f"the context of {title}")

    def context_handle(self, value: Any) -> int | None:
        """Return the driver's handle of another library's context; None for other objects."""
        return None

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
        if stream is None:
            device.order_queues(handle)
        elif array.device is not device:
            stream = self.stream_over(stream.handle, stream.owner, array.device)  # type: ignore[arg-type]
        return array, stream

    def adopt_stream(self, value: Any) -> DriverStream | None:
        """Return the stream over another library's stream, always the same object for the same
        stream; None for other objects.

        Raises
        ------
        ArgumentError
            The stream belongs to a context that has no device.
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
            device = device or self.context_device()
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
        if not context or kind != DEVICE:
            return device
        found = self.adopted.find(context, device.index)
        if found is None:
            raise ConversionError(
                f"belongs to another {self.api.name} context of {device}, which has no device of devmod: make one with "
                f"{self.advice}, and keep it during the call"
            )
        return found

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
        return number_of(handle)

    def is_special(self, handle: int) -> bool:
        """Return whether each context has a stream with a handle."""
        return handle in self.api.legacy_handles or handle == PER_THREAD_STREAM

    def device_of_special(self, value: Any) -> DriverDevice:
        """Return the device of another library's stream that each context has: that of the object,
        else that of the thread's current context.
        """
        return self.device_attribute(value) or self.context_device()

    def device_of_stream(self, value: Any, handle: int) -> DriverDevice:
        """Return the device of another library's stream."""
        if self.is_special(handle):
            return self.device_of_special(value)
        driver = self.devices()[0].driver
        try:
            context = driver.call("stream_context", handle)
            device = self.adopted.find(context, driver.context_device(context))
        except DriverError as error:
            raise ArgumentError(
                f"stream= is a stream that the driver refuses: {error}",
                kind=self.api.kind,
                argument="stream",
            ) from error
        if device is not None:
            return device
        raise ArgumentError(
            f"stream= is a stream of a {self.api.name} context that has no device of devmod: make one with {self.advice}, and keep it "
            "during the call",
            kind=self.api.kind,
            argument="stream",
        )

    def context_device(self) -> DriverDevice:
        """Return the device of the thread's current context; the first one without one."""
        first = self.devices()[0]
        current = first.driver.call("current_context")
        if current == first.driver.no_context:
            return first
        try:
            return self.adopted.find(current, first.driver.context_device(current)) or first
        except DriverError:  # it was destroyed in another thread
            return first

    def default_order(self, device: DriverDevice) -> DriverStream | None:
        """Return the stream of memory whose library uses the default one unless a call names
        another; None for the order of the callers' streams, if one has a device.
        """
        if device.has_queues:
            return None
        return device.default_stream

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


def number_of(handle: Any) -> int:
    """Return another library's handle, an int or an object of ctypes, as an int."""
    return int(getattr(handle, "value", handle) or 0)


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
