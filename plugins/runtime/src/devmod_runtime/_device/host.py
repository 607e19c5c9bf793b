"""Host arrays: which objects are host arrays, and their bytes."""

from __future__ import annotations

import sys

from devmod import Array
from devmod._arrays.elements import unpack
from devmod.backend import (
    ConversionError,
    bytes_of,
    describe_value,
    dtype_name_of,
    elements_of,
    is_packed,
    parse_dtype,
)
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy as np

    NumPyArray = np.ndarray[Any, Any]
    #: The length of each dimension.
    Shape = tuple[int, ...]
else:
    from devmod.backend import np

#: DLPack's kDLCPU, kDLCUDAHost and kDLROCMHost.
_HOST_TYPES = (1, 3, 11)
#: The names of DLPack's other device types in messages.
_DEVICE_NAMES = {
    2: "CUDA",
    4: "OpenCL",
    7: "Vulkan",
    8: "Metal",
    10: "ROCm",
    13: "CUDA (managed)",
    14: "oneAPI",
    15: "WebGPU",
}


class HostView:
    """A NumPy array over one array in the host's memory.

    Attributes
    ----------
    array
        The array; an array of bytes or of unsigned integers if NumPy does not support the element
        type.
    dtype
        devmod's name of the element type.
    shape
        The length of each dimension.
    packed
        Whether the elements have one byte each here, and less on a device.
    """

    __slots__ = ("array", "dtype", "packed", "shape")

    def __init__(self, array: NumPyArray, dtype: str) -> None:
        self.array = array
        self.dtype = dtype
        self.shape: Shape = array.shape
        self.packed = is_packed(parse_dtype(dtype))

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.array.nbytes

    @property
    def write_problem(self) -> str:
        """Why no result can be written to the array: a part of a message; "" if one can."""
        if not self.array.flags.writeable:
            return "is read-only"
        nbytes = self.array.itemsize
        dimensions = zip(map(abs, self.array.strides), self.array.shape, strict=True)
        for stride, length in sorted(dimensions):
            if length > 1 and stride < nbytes and self.array.size:
                return f"has elements that share memory (its strides are {self.array.strides})"
            nbytes += stride * (length - 1)
        return ""

    def read(self) -> memoryview:
        """Return the bytes in C order, as a device has them; a copy if the array is not contiguous,
        or is packed.
        """
        array = self.array
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        if self.packed:
            return elements_of(array)
        return bytes_of(array)

    @property
    def is_direct(self) -> bool:
        """Whether the memory of the array has the bytes as a device has them."""
        return self.array.flags.c_contiguous and not self.packed

    def read_from(
        self, read: Callable[[Any, memoryview, Any], None], memory: Any, stream: Any
    ) -> None:
        """Copy device memory or an image to the array, by `read`: `Device.read` or
        `Device.read_image`.
        """
        array = self.array
        if not array.nbytes:
            return
        if self.is_direct:
            read(memory, bytes_of(array), stream)
        elif self.packed:
            bits = parse_dtype(self.dtype)[1]
            data = memoryview(bytearray(-(-array.size * bits // 8)))
            read(memory, data, stream)
            array[...] = unpack(data, bits, array.size).view(array.dtype).reshape(self.shape)
        else:
            copy = np.empty(array.shape, array.dtype)
            read(memory, bytes_of(copy), stream)
            array[...] = copy


def address_of(data: memoryview) -> int:
    """Return the address of contiguous memory of the host, which may be read-only."""
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


def host_view(value: object) -> HostView | None:
    """Return the view of a host array; None if `value` is not a host array.

    Raises
    ------
    ConversionError
        No device supports the elements of the host array, or its memory is not the host's.
    """
    if isinstance(value, Array):
        data = value._host_bytes
        if data is None:
            return None
        view = HostView(np.frombuffer(data, np.uint8), value.dtype)
        view.shape = value.shape
        view.packed = False
        return view
    result = _as_numpy(value)
    if result is None:
        return None
    array, dtype = result
    try:
        return HostView(array, dtype or dtype_name_of(array.dtype))
    except FormatError as error:
        raise ConversionError(f"has elements of an unsupported type: {error}") from None


def plain_array(value: Any, *, takes_exports: bool = True) -> NumPyArray | None:
    """Return a NumPy array over a host array in 1 µs, where `host_view` takes 40; None if
    `host_view` decides.

    With `takes_exports`, an array of another library, whose elements NumPy has, becomes one by
    NumPy's own `from_dlpack`. Before NumPy 2.2 that is read-only.
    """
    numpy: Any = sys.modules["numpy"]  # a name of `np` takes 0.6 µs
    if isinstance(value, (Array, numpy.generic)):
        return None
    array: NumPyArray | None = None
    try:
        # A failed memoryview takes twice as long as `from_dlpack`, which gives read-only arrays for
        # those of NumPy before 2.2.
        is_own = isinstance(value, numpy.ndarray) or not hasattr(value, "__dlpack_device__")
        if is_own or not takes_exports:
            array = numpy.asarray(memoryview(value))
        # Older versions of PyTorch export capsules without a flag, which NumPy takes as read-only.
        elif type(value).__module__ == "torch":
            array = value.numpy()
        elif value.__dlpack_device__()[0] in _HOST_TYPES:
            array = numpy.from_dlpack(value)
    except Exception:  # noqa: BLE001 - `host_view` raises the error
        return None
    return array


def _as_numpy(value: Any) -> tuple[NumPyArray, str] | None:
    """Return a NumPy array over a host array, and the name of its element type if NumPy does not
    support it.
    """
    if isinstance(value, np.ndarray):
        return np.asarray(value), ""
    array = plain_array(value, takes_exports=False)
    if array is not None:
        return array, ""
    from devmod_runtime._device.dlpack_import import device_of, import_array, is_capsule

    if not is_capsule(value) and not (
        hasattr(value, "__dlpack_device__") and hasattr(value, "__dlpack__")
    ):
        return None
    try:
        device_type, number = device_of(value)
        if device_type not in _HOST_TYPES:
            name = _DEVICE_NAMES.get(device_type, f"DLPack type {int(device_type)}")
            raise ConversionError(
                f"is {describe_value(value)} on {name} device {number}, whose memory this backend cannot use; copy it to the host first: "
                "tensor.cpu() in PyTorch, array.get() in CuPy, jax.device_get(array) in JAX"
            )
        return import_array(value)
    except ConversionError:
        raise
    except (
        TypeError,
        ValueError,
        OverflowError,
        RuntimeError,
        BufferError,
        NotImplementedError,
    ) as error:
        raise ConversionError(
            f"is {describe_value(value)} that its library does not export by DLPack: {error}"
        ) from None
