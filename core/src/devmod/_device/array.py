"""Arrays: memory with a shape and an element type, on the host or on a device."""

from __future__ import annotations

from sys import intern

from devmod._device.buffer import BufferBase
from devmod._device.elements import bytes_of, count_of, numpy_dtype, packing_problem, scalar_shape
from devmod._util.html import html_table
from devmod._values.dtypes import STRUCT_FORMATS, array_bytes, parse_dtype
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    import numpy as np

    from devmod._device.device import Device
else:
    from devmod._util.numpy import np

_DLPACK_HOST = 1


class Array:
    """Memory with a shape and an element type. `Device.empty`, `Device.from_numpy` and `Module.get_global` return one.

    Attributes
    ----------
    shape : tuple of int
        The length of each dimension, in elements.
    dtype : str
        The element type, such as "float32" or "float32x4".
    """

    __slots__ = ("__weakref__", "dtype", "shape")
    shape: tuple[int, ...]
    dtype: str

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return count_of(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return array_bytes(parse_dtype(self.dtype), self.shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the elements as a NumPy array. Lanes of the element type become the last dimension.

        Raises
        ------
        FormatError
            NumPy does not support the element type.
        LaunchError
            The device reports the failure of a kernel that was queued before.
        """
        raise NotImplementedError

    def _repr_html_(self) -> str:
        device = getattr(self, "device", "the host")
        rows = [("type", self.dtype), ("shape", self.shape), ("size", f"{self.nbytes:,} bytes"), ("memory", device)]
        return html_table("Array", rows)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a DLPack capsule.

        Parameters
        ----------
        stream, max_version, dl_device, copy
            As in the DLPack protocol of the Python array API.

        Raises
        ------
        BufferError
            The array cannot be exported with these parameters; the message has the ones that work.
        """
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (device type, device index)."""
        raise NotImplementedError


class HostArray(Array):
    """A read-only array in the host's memory, with the buffer protocol, DLPack and, if it is installed, NumPy.

    Parameters
    ----------
    data
        The elements in C order. The memory is not copied.
    shape
        The length of each dimension.
    dtype
        The element type. The buffer protocol has no bfloat16, fp8 or lanes: ``memoryview(array)`` has the bits of the
        first two as unsigned integers, and lanes as last dimension. It has no elements that share bytes (int4, fp6, lanes of
        a bit): `data` has their packed bytes, and `numpy` unpacks them.

    Raises
    ------
    FormatError
        The size of `data` does not match `shape` and `dtype`.
    """

    __slots__ = ("_data",)

    def __new__(cls, data: bytes | memoryview, shape: Sequence[int], dtype: str) -> HostArray:
        # Before Python 3.12 a class with a buffer cannot raise an error with a message. So a packed array has a class without a buffer.
        return super().__new__(_ViewableArray if cls is HostArray and not packing_problem(dtype) else cls)

    def __init__(self, data: bytes | memoryview, shape: Sequence[int], dtype: str) -> None:
        code = parse_dtype(dtype)
        self.shape, self.dtype = tuple(shape), dtype
        self._data = memoryview(data).toreadonly().cast("B")
        expected = array_bytes(code, self.shape)
        if self._data.nbytes != expected:
            raise FormatError(f"an array of shape {self.shape} and type {dtype} has {expected} bytes, not {self._data.nbytes}")

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    @property
    def data(self) -> memoryview:
        """The bytes of the elements."""
        return self._data

    def __buffer__(self, flags: int) -> memoryview:
        problem = packing_problem(self.dtype)
        if problem:
            raise BufferError(f"{problem}; read the packed bytes from array.data, or unpack the elements with array.numpy()")
        if flags & 1:  # PyBUF_WRITABLE
            raise BufferError("this array is read-only")
        from devmod._device.buffer import typed_view

        base, shape, width = scalar_shape(self.dtype, self.shape)
        fmt = "H" if base == "bfloat16" else STRUCT_FORMATS.get(base)
        if fmt is None:
            fmt = {1: "B", 2: "H", 4: "I", 8: "Q"}.get(width, f"{width}s")
        return typed_view(self._data, fmt, width, shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a read-only NumPy array over the same memory. Packed elements are unpacked into a copy.

        Raises
        ------
        FormatError
            NumPy does not support the element type. The package ml_dtypes adds bfloat16, fp8, fp6, fp4 and int4.
        """
        base, shape, _ = scalar_shape(self.dtype, self.shape)
        dtype = numpy_dtype(base)
        if packing_problem(self.dtype):
            from devmod._device.packed import unpack

            unpacked = unpack(self._data, parse_dtype(base)[1], count_of(shape)).view(dtype).reshape(shape)
            unpacked.flags.writeable = False
            return unpacked
        return np.frombuffer(self._data, dtype).reshape(shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        # NumPy calls this method only for a class without a buffer.
        return np.array(self.numpy(), dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        from devmod._device.dlpack import host_capsule

        return host_capsule(self._data, self.shape, parse_dtype(self.dtype), max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DLPACK_HOST, 0)

    def __repr__(self) -> str:
        return f"<HostArray {self.dtype}{list(self.shape)}>"


class _ViewableArray(HostArray, BufferBase):
    """A HostArray that exports its buffer."""

    __slots__ = ()


class DeviceArray(Array):
    """A C-contiguous array in a device's memory. `Device.empty` and `Device.from_numpy` return one.

    Attributes
    ----------
    device : Device
        The device that has the memory.
    memory
        The backend's object for the memory; the memory is freed with it.
    owner
        The object of another library that owns the memory, or None. The array keeps it alive.
    read_only : bool
        Whether kernels must not write to the memory.
    """

    __slots__ = ("_nbytes", "device", "memory", "owner", "read_only")

    def __init__(
        self, device: Device, memory: object, shape: Sequence[int], dtype: str, owner: object = None, *, read_only: bool = False
    ) -> None:
        # Interned, so that a call compares types by identity.
        self.shape, self.dtype = tuple(shape), intern(dtype)
        self.device, self.memory, self.owner, self.read_only = device, memory, owner, read_only
        self._nbytes = array_bytes(parse_dtype(dtype), self.shape)

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def numpy(self) -> np.ndarray[Any, Any]:
        """Wait for all work queued on the device, and return a copy of the elements. Packed elements are unpacked.

        Raises
        ------
        FormatError
            NumPy does not support the element type.
        LaunchError
            The device reports the failure of a kernel that was queued before.
        """
        base, shape, _ = scalar_shape(self.dtype, self.shape)
        dtype = numpy_dtype(base)
        if packing_problem(self.dtype):
            from devmod._device.packed import unpack

            packed = bytearray(self._nbytes)
            self._read(memoryview(packed))
            return unpack(memoryview(packed), parse_dtype(base)[1], count_of(shape)).view(dtype).reshape(shape)
        result = np.empty(shape, dtype)
        self._read(bytes_of(result))
        return result

    def _read(self, out: memoryview) -> None:
        self.device.synchronize()
        if out.nbytes:
            self.device.read(self.memory, out, self.device.default_stream)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Raise TypeError. Without this method NumPy would make an array with this object as its element."""
        raise TypeError(f"this array is in the memory of {self.device}, and NumPy does not copy it to the host; call .numpy()")

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a DLPack capsule in the host's memory, for a consumer that requests one with ``dl_device=(1, 0)``.

        The capsule shares the array's memory if host and device share memory (`Device.view`) and no copy is requested. Otherwise it has
        a copy.
        """
        from devmod._device.dlpack import host_capsule

        for_host = dl_device is not None and tuple(dl_device) == (_DLPACK_HOST, 0)
        view = self.device.view(self.memory) if for_host and not copy else None
        if view is not None:
            self.device.synchronize()
            return host_capsule(view[: self._nbytes], self.shape, parse_dtype(self.dtype), max_version, dl_device, copy)
        if not for_host or copy is False:
            raise BufferError(
                f"this array is in the memory of {self.device}, which DLPack consumers cannot use; request a copy on the host "
                "(dl_device=(1, 0), as numpy.from_dlpack(array, device='cpu') does), or call .numpy()"
            )
        data = bytearray(self._nbytes)
        self._read(memoryview(data))
        return host_capsule(memoryview(data).toreadonly(), self.shape, parse_dtype(self.dtype), max_version, dl_device, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device.dlpack_type, self.device.index)

    def __repr__(self) -> str:
        return f"<Array {self.dtype}{list(self.shape)} on {self.device}>"
