"""Arrays in a device's memory."""

from __future__ import annotations

from math import prod
from sys import intern

from devmod import Array
from devmod.backend import (
    STRUCT_FORMATS,
    ConversionError,
    array_bytes,
    bytes_of,
    describe_value,
    dtype_name_of,
    numpy_dtype,
    parse_dtype,
    scalar_shape,
)
from devmod.errors import ArgumentError, FormatError
from devmod_runtime._device.host import HostView, host_view
from devmod_runtime._device.stream import Stream
from devmod_runtime._fork import check_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    import numpy as np

    from devmod import Device
    from devmod_runtime._device.image import Image
    from devmod_runtime._device.stream import Event

    #: What makes the error of a copy from its text and the argument.
    Refusal = Callable[[str, str], ArgumentError]
else:
    from devmod.backend import np


#: DLPack's kDLCPU, and its number.
_CPU = (1, 0)
#: DLPack's kDLCUDA, kDLROCM and kDLCUDAManaged.
_CUDA_TYPES = (2, 10, 13)
_INTEGER_BITS = (1, 2, 4, 8, 16, 32, 64, 128)
#: The bits of elements by DLPack's codes of types whose names end with them. Files keep any number.
_BITS = {
    0: _INTEGER_BITS,
    1: _INTEGER_BITS,
    2: (8, 16, 32, 64, 128),
    4: (16,),
    5: (32, 64, 128, 256),
}


class DeviceArray(Array):
    """A C-contiguous array in a device's memory, or a view of one. `Device.empty`, `Device.zeros`
    and `Device.from_numpy` return one.

    Attributes
    ----------
    device : Device
        The device that has the memory.
    memory
        The backend's object for the memory, as kernels take it; the memory is freed with it. A view
        whose start is not a multiple of the device's ``limits["view_alignment"]`` has none: it can
        be copied, and is no argument of a kernel.
    region
        The backend's object for the memory, as copies take it.
    owner
        The object of another library that owns the memory, or None. The array keeps it alive.
    read_only : bool
        Whether kernels and copies must not write to the memory.
    """

    __slots__ = ("_nbytes", "_offset", "_root", "device", "memory", "owner", "read_only", "region")

    def __init__(
        self,
        device: Device,
        memory: object,
        shape: Sequence[int],
        dtype: str,
        owner: object = None,
        *,
        read_only: bool = False,
    ) -> None:
        # Interned, so that a call compares types by identity.
        self.shape = tuple(shape)
        self.dtype = intern(dtype)
        self.device = device
        self.memory = memory
        self.owner = owner
        self.read_only = read_only
        self.region = memory
        self._nbytes = array_bytes(parse_dtype(dtype), self.shape)
        #: The array that this is a view of, and the first byte in its memory. None for an array
        #: with memory of its own.
        self._root: DeviceArray | None = None
        self._offset = 0

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @property
    def _base(self) -> DeviceArray:
        if self._root is None:
            return self
        return self._root

    def _view(self, offset: int, shape: tuple[int, ...]) -> DeviceArray:
        root = self._base
        device = self.device
        nbytes = array_bytes(parse_dtype(self.dtype), shape)
        if nbytes == self._nbytes:
            region = self.region
        elif nbytes:
            # Always a part of the root's memory: OpenCL has no part of a part.
            region = device.slice(root.memory, self._offset + offset, nbytes)
        else:
            # A view without bytes begins at the memory's start.
            offset = -self._offset
            region = device.allocate(1)
        view = self.viewed(shape, self.dtype)
        view.memory = view.region = region
        view._offset += offset
        # `Function.__call__` reads the memory, and leaves the error to `KernelCall`.
        if view.misaligned:
            del view.memory
        return view

    def viewed(self, shape: tuple[int, ...], dtype: str) -> DeviceArray:
        """Return the same memory as an array of another type, for an argument of a kernel."""
        view = DeviceArray(
            self.device, self.region, shape, dtype, self.owner, read_only=self.read_only
        )
        view._root = self._base
        view._offset = self._offset
        return view

    @property
    def misaligned(self) -> str:
        """Return the reason why the array cannot be an argument of a kernel, as the end of a
        sentence; "" if it can.
        """
        if not self._offset:
            return ""
        alignment = self.device.limits.get("view_alignment", 1)
        if self._offset % alignment == 0:
            return ""
        return (
            f"is a view that begins {self._offset} bytes into its memory, and {self.device} takes arguments that begin at a multiple of "
            f"{alignment} bytes (view_alignment); copy it: array = device.empty(view.shape, view.dtype); array.copy_from(view)"
        )

    @property
    def address(self) -> int:
        """The address of the first byte in the device's kernels (CUDA, ROCm, Vulkan), such as a
        value for a pointer in a buffer.

        The array must be alive while a kernel uses the address. Streams other than that of a kernel
        do not know of the use.

        Raises
        ------
        ArgumentError
            The device has no addresses.
        """
        try:
            return self.device.address(self.region)
        except ConversionError as error:
            raise ArgumentError(f"the array {error}", kind=self.device.kind) from None

    def overlaps(self, other: DeviceArray) -> bool:
        """Return whether two arrays of one device share bytes."""
        return share_bytes(self, other)

    @property
    def _span(self) -> tuple[int, float, float]:
        """A number of the allocation, and the first byte and the end of the array there."""
        number, first = self.device.place(self._base.memory)
        first += self._offset
        return number, first, first + self._nbytes

    def numpy(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return a copy of the elements, as `Array.numpy`, after all work queued on the device.
        Packed elements are unpacked.
        """
        if out is not None:
            return copy_to_numpy(self, out)
        base, shape, _ = scalar_shape(self.dtype, self.shape)
        result = np.empty(shape, numpy_dtype(base))
        device = self.device
        device.synchronize()
        HostView(result, self.dtype).read_from(device.read, self.region, device.default_stream)
        return result

    def read(self, out: memoryview) -> None:
        """Wait for all work queued on the device, and copy the bytes to `out`."""
        self.device.synchronize()
        if out.nbytes:
            self.device.read(self.region, out, self.device.default_stream)

    def fill(self, value: object) -> None:
        base, shape, _ = scalar_shape(self.dtype, self.shape)
        source = value
        try:
            view = host_view(value)
            if not isinstance(value, Array) and (
                view is None or (view.dtype, view.shape) != (base, shape)
            ):
                source = np.empty(shape, numpy_dtype(base))
                # NumPy before 2 only warns.
                if type(value) is int and source.dtype.kind in "iu":
                    limits = np.iinfo(source.dtype)
                    if not limits.min <= value <= limits.max:
                        raise OverflowError(f"Python integer {value} out of bounds for {base}")
                source[...] = value
        # NumPy's errors are for what it does not convert or broadcast.
        except (TypeError, ValueError, OverflowError, ConversionError) as error:
            raise ArgumentError(
                f"fill: {describe_value(value)} is no value for {self!r}: {error}", argument="value"
            ) from None
        copy(source, self, "fill")

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Raise TypeError. Without this method NumPy would make an array with this object as its
        element.
        """
        raise TypeError(
            f"this array is in the memory of {self.device}, and NumPy does not copy it to the host; call .numpy()"
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array for libraries that share memory of CUDA or ROCm, such as CuPy and Numba. Other
        arrays have no such attribute.
        """
        base, shape, _ = scalar_shape(self.dtype, self.shape)
        pointer = None
        if self.device.dlpack_type in _CUDA_TYPES and base in STRUCT_FORMATS:
            pointer = self.device.pointer(self.region)
        if pointer is None:
            raise AttributeError(
                f"an array of {self.dtype} on {self.device} has no __cuda_array_interface__"
            )
        stream = self.device.share(None)
        address = sum(pointer) if self._nbytes else 0
        data = (address, self.read_only)
        return {
            "shape": shape,
            "typestr": numpy_dtype(base).str,
            "data": data,
            "strides": None,
            "stream": stream,
            "version": 3,
        }

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a DLPack capsule.

        The capsule is in the device's memory if other libraries can use its pointers
        (`Device.pointer`). For a consumer that requests the host's memory with ``dl_device=(1, 0)``
        it shares the array's memory if host and device do (`Device.view`) and no copy is requested;
        otherwise it has a copy. The call waits for all work queued on the device, or orders it
        before the consumer's `stream` if the driver can (`Device.share`).
        """
        from devmod._arrays.dlpack import READ_ONLY, capsule, check_elements

        own_device = self.__dlpack_device__()
        target_device: tuple[int, ...] = own_device
        if dl_device is not None:
            target_device = tuple(dl_device)
        if target_device == _CPU:
            on_host = self._host_capsule(max_version, copy)
            if on_host is not None:
                return on_host
        dtype = parse_dtype(self.dtype)
        pointer = None
        if target_device == own_device and not copy:
            pointer = self.device.pointer(self.region)
        if pointer is None:
            raise BufferError(
                f"this array is in the memory of {self.device}, which DLPack consumers cannot use; request a copy on the host "
                "(dl_device=(1, 0), as numpy.from_dlpack(array, device='cpu') does), or call .numpy()"
            )
        self.device.share(stream)
        check_elements(dtype)
        versioned = max_version is not None and max_version[0] >= 1
        if self.read_only and not versioned:
            raise BufferError(
                "this array is read-only, which DLPack before version 1 cannot express: pass max_version=(1, 0)"
            )
        flags = READ_ONLY if self.read_only else 0
        return capsule(self, own_device, *pointer, self.shape, dtype, flags, versioned)

    def _host_capsule(self, max_version: tuple[int, int] | None, copy: bool | None) -> object:
        """Return a capsule in the host's memory; None if that needs a copy, and none is wanted."""
        from devmod._arrays.dlpack import host_capsule

        dtype = parse_dtype(self.dtype)
        view = None
        if not copy:
            view = self.device.view(self.region)
        if view is not None:
            self.device.synchronize()
            view = view[: self._nbytes]
            if self.read_only:
                view = view.toreadonly()
            return host_capsule(view, self.shape, dtype, max_version, copy=copy)
        if copy is False:
            return None
        data = bytearray(self._nbytes)
        self.read(memoryview(data))
        return host_capsule(memoryview(data).toreadonly(), self.shape, dtype, max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device.dlpack_type, self.device.index)

    def __repr__(self) -> str:
        return f"<Array {self.dtype}{list(self.shape)} on {self.device}>"


# -- Copies between arrays: on the host, of one device, of two devices of a kind, and between a
# device and the host.


def copy(
    source: object, target: object, name: str, stream: object = None, wait: bool = True
) -> Event | None:
    """Copy one array to another; at least one of them is devmod's.

    Parameters
    ----------
    source, target
        The arrays.
    name
        The function's name in messages.
    stream, wait
        As in `Array.copy_from`.

    Raises
    ------
    ArgumentError, LaunchError
        As for `Array.copy_from`.
    """
    on_device = _device_array(target)
    if on_device is None:
        on_device = _device_array(source)
    device = None
    kind = ""
    if on_device is not None:
        device = on_device.device
        kind = device.kind

    def refusal(text: str, argument: str) -> ArgumentError:
        return ArgumentError(f"{name}: {text}", kind=kind, argument=argument)

    given = _end(source, "source", refusal)
    taken = _end(target, "target", refusal)
    _check_ends(given, taken, refusal)
    if device is None:
        assert isinstance(given, HostView)
        assert isinstance(taken, HostView)
        if stream is not None:
            raise refusal("stream= is given, and both arrays are in the host's memory", "stream")
        taken.read_from(_read_host, given, None)
        return None
    check_driver(kind)
    copy_stream = _stream_of_copy(stream, device, refusal)
    if taken.nbytes:
        if isinstance(given, HostView):
            assert not isinstance(taken, HostView)
            write = device.write if wait else device.start_write
            write(taken.region, given.read(), copy_stream)
        elif not isinstance(taken, HostView):
            _copy_on_devices(given, taken, copy_stream)
        elif wait or not taken.is_direct:
            taken.read_from(device.read, given.region, copy_stream)
        else:
            device.start_read(given.region, bytes_of(taken.array), copy_stream)
    if wait:
        copy_stream.synchronize()
        return None
    return copy_stream.record()


def copy_to_numpy(array: Array, out: Any) -> np.ndarray[Any, Any]:
    """Copy the elements to a NumPy array, after all work queued on the array's device. Return it.

    Raises
    ------
    ArgumentError
        `out` is not a writable NumPy array of the same type and shape.
    """
    if not isinstance(out, np.ndarray):
        raise ArgumentError(
            f"numpy: expected a NumPy array as out, got {describe_value(out)}", argument="out"
        )
    on_device = _device_array(array)
    if on_device is not None:
        on_device.device.synchronize()
    copy(array, out, "numpy")
    return out


def _device_array(value: Any) -> DeviceArray | None:
    if isinstance(value, Array) and value._host_bytes is None:
        return value  # type: ignore[return-value]
    return None


def _end(value: object, role: str, refusal: Refusal) -> DeviceArray | HostView:
    """Return a device array, or the view of a host array."""
    array = _device_array(value)
    if array is not None:
        return array
    try:
        view = host_view(value)
    except ConversionError as error:
        raise refusal(f"the {role} {error}", role) from None
    if view is None:
        raise refusal(
            f"the {role} is {describe_value(value)}, expected an array of devmod or of the host",
            role,
        )
    return view


def _check_ends(
    source: DeviceArray | HostView, target: DeviceArray | HostView, refusal: Refusal
) -> None:
    source_type, source_shape, _ = scalar_shape(source.dtype, source.shape)
    target_type, target_shape, _ = scalar_shape(target.dtype, target.shape)
    if source_type != target_type:
        raise refusal(
            f"the source has elements of {source.dtype}, and the target of {target.dtype}; devmod converts no elements: convert "
            "them on the host, as in device.from_numpy(array.numpy().astype(dtype)), or with a kernel",
            "source",
        )
    if source_shape != target_shape:
        advice = ""
        if prod(source_shape) == prod(target_shape):
            advice = "; reshape one of them"
        raise refusal(
            f"the source has the shape {source_shape}, and the target {target_shape}{advice}",
            "source",
        )
    problem = ""
    if isinstance(target, HostView):
        problem = target.write_problem
    else:
        if target.read_only:
            problem = "is read-only"
        if not isinstance(source, HostView) and source.device.kind != target.device.kind:
            raise refusal(
                f"the source is on {source.device}, and the target on {target.device}; devices of two kinds share no memory: copy "
                "through the host, as in target.copy_from(source.numpy())",
                "source",
            )
    if problem:
        raise refusal(f"the target {problem}", "target")


def _stream_of_copy(stream: object, device: Device, refusal: Refusal) -> Stream:
    if stream is None:
        return device.current_stream
    if not isinstance(stream, Stream) or stream.device is not device:
        description = describe_value(stream)
        if isinstance(stream, Stream):
            description = f"a stream of {stream.device}"
        raise refusal(f"stream= is {description}, expected a stream of {device}", "stream")
    return stream


def _read_host(source: HostView, out: memoryview, _: object) -> None:
    out[:] = source.read()


def _copy_on_devices(source: DeviceArray, target: DeviceArray, stream: Stream) -> None:
    device = target.device
    nbytes = target.nbytes
    if source.device.memory_space is not device.memory_space:
        # Drivers keep the memory of two devices apart: OpenCL's have a context each.
        data = memoryview(bytearray(nbytes))
        source.read(data)
        device.write(target.region, data, stream)
    elif not source.overlaps(target):
        device.copy(source.region, target.region, nbytes, stream)
    elif source.region is not target.region:
        between = device.allocate(nbytes)  # no driver copies between overlapping parts
        device.copy(source.region, between, nbytes, stream)
        device.copy(between, target.region, nbytes, stream)


def share_bytes(one: DeviceArray | Image, other: DeviceArray | Image) -> bool:
    """Return whether arrays and images of one device share memory."""
    number, first, end = one._span
    other_number, other_first, other_end = other._span
    return number == other_number and first < other_end and other_first < end


def dtype_of(value: object) -> str:
    """Return the name of an element type given as a string, a NumPy dtype or a NumPy scalar type.

    Raises
    ------
    ArgumentError
        `value` is not an element type.
    """
    if isinstance(value, str):
        try:
            code, bits, _ = parse_dtype(value)
        except FormatError:
            pass
        else:
            if bits in _BITS.get(code, (bits,)):
                return value
    try:
        return dtype_name_of(np.dtype(value))  # type: ignore[call-overload]
    except (TypeError, FormatError):
        raise ArgumentError(
            f"{value!r} is not an element type; use a name such as 'float32', or a NumPy dtype",
            argument="dtype",
        ) from None
