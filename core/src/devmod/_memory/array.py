"""Arrays: memory with a shape and an element type, on the host or on a device."""

from __future__ import annotations

from sys import intern

from devmod._dtypes import dtype_bytes, dtype_name, parse_dtype
from devmod._memory.buffer import BufferBase
from devmod.errors import ArgumentError, FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    import numpy as np

    from devmod._memory.device import Device

#: Element types to the struct module's characters. What is not here shows its bits or its bytes in the buffer protocol.
_FORMATS = {
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "Zf",
    "complex128": "Zd",
    "bool": "?",
    "uint1": "?",
    "bfloat16": "H",
}
_DLPACK_OPENCL, _DLPACK_HOST = 4, 1


class Array:
    """Memory with a shape and an element type. Made by `Device.empty`, `Device.from_numpy` and `Module.get_global`.

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
        return self.size * dtype_bytes(parse_dtype(self.dtype))

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as a NumPy array. Lanes of the element type make a last dimension.

        Raises
        ------
        FormatError
            NumPy has no such element type.
        LaunchError
            The device reports that a kernel failed which was queued before.
        """
        raise NotImplementedError

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
        """A DLPack capsule.

        Parameters
        ----------
        stream, max_version, dl_device, copy
            As in the DLPack protocol of the Python array API.

        Raises
        ------
        BufferError
            The array cannot be handed on in this way; the message says how it can.
        """
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (device type, device index)."""
        raise NotImplementedError


class HostArray(Array, BufferBase):
    """A read-only array in the host's memory: buffer protocol, DLPack and, where it is installed, NumPy.

    Parameters
    ----------
    data
        The elements in C order. The memory is not copied.
    shape
        The length of each dimension.
    dtype
        The element type. The buffer protocol has no bfloat16, fp8 or lanes: ``memoryview(array)`` shows the bits of the
        first two as unsigned integers, and lanes as a last dimension.

    Raises
    ------
    FormatError
        `data` does not have the bytes that shape and dtype say.
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes | memoryview, shape: Sequence[int], dtype: str) -> None:
        code = parse_dtype(dtype)
        self.shape, self.dtype = tuple(shape), dtype
        self._data = memoryview(data).toreadonly().cast("B")
        wanted = count_of(self.shape) * dtype_bytes(code)
        if self._data.nbytes != wanted:
            raise FormatError(f"an array of shape {self.shape} and type {dtype} has {wanted} bytes, not {self._data.nbytes}")

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    @property
    def data(self) -> memoryview:
        """The bytes of the elements."""
        return self._data

    def __buffer__(self, flags: int) -> memoryview:
        if flags & 1:  # PyBUF_WRITABLE
            raise BufferError("this array is read-only")
        from devmod._memory.buffer import typed_view

        base, shape, width = _scalar_shape(self.dtype, self.shape)
        fmt = _FORMATS.get(base)
        if fmt is None:
            fmt = {1: "B", 2: "H", 4: "I", 8: "Q"}.get(width, f"{width}s")
        return typed_view(self._data, fmt, width, shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array over the same memory.

        Raises
        ------
        FormatError
            NumPy has no such element type; bfloat16 and fp8 come with the package ml_dtypes.
        """
        import numpy as np

        base, shape, _ = _scalar_shape(self.dtype, self.shape)
        return np.frombuffer(self._data, numpy_dtype(base)).reshape(shape)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        from devmod._memory.dlpack import host_capsule

        return host_capsule(self._data, self.shape, parse_dtype(self.dtype), max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DLPACK_HOST, 0)

    def __repr__(self) -> str:
        return f"<HostArray {self.dtype}{list(self.shape)}>"


class DeviceArray(Array):
    """An array in a device's memory, C-contiguous. `Device.empty` and `Device.from_numpy` make one.

    Attributes
    ----------
    device : Device
        Where it is.
    memory
        The backend's own object for the memory; the memory is freed with it.
    owner
        What else must live as long as the memory is used; for memory that another library owns.
    """

    __slots__ = ("_nbytes", "device", "memory", "owner")

    def __init__(self, device: Device, memory: object, shape: Sequence[int], dtype: str, owner: object = None) -> None:
        # Interned, so that a call finds the type it wants by identity.
        self.shape, self.dtype = tuple(shape), intern(dtype)
        self.device, self.memory, self.owner = device, memory, owner
        self._nbytes = count_of(self.shape) * dtype_bytes(parse_dtype(dtype))

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the elements, after everything queued on the device is done.

        Raises
        ------
        FormatError
            NumPy has no such element type.
        LaunchError
            The device reports that a kernel failed which was queued before.
        """
        import numpy as np

        base, shape, _ = _scalar_shape(self.dtype, self.shape)
        made = np.empty(shape, numpy_dtype(base))
        self._read(bytes_of(made))
        return made

    def _read(self, out: memoryview) -> None:
        self.device.synchronize()
        if out.nbytes:
            self.device.read(self.memory, out, self.device.default_stream)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Refuse: NumPy would otherwise make an array that holds this object, and compute with that."""
        raise TypeError(f"this array is in the memory of {self.device}, and is not copied to the host unasked; call .numpy()")

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule in the host's memory, for a consumer that asks for one: ``dl_device=(1, 0)``.

        Where host and device share memory (`Device.view`) it is the array's own, unless a copy is asked for; else it is a copy.
        """
        from devmod._memory.dlpack import host_capsule

        wanted = dl_device is not None and tuple(dl_device) == (_DLPACK_HOST, 0)
        view = self.device.view(self.memory) if wanted and not copy else None
        if view is not None:
            self.device.synchronize()
            return host_capsule(view[: self._nbytes], self.shape, parse_dtype(self.dtype), max_version, dl_device, copy)
        if dl_device is None or tuple(dl_device) != (_DLPACK_HOST, 0) or copy is False:
            raise BufferError(
                f"this array is in the memory of {self.device}, which DLPack consumers cannot use; ask for a copy on the host "
                "(dl_device=(1, 0), as numpy.from_dlpack(array, device='cpu') does), or call .numpy()"
            )
        data = bytearray(self._nbytes)
        self._read(memoryview(data))
        return host_capsule(memoryview(data).toreadonly(), self.shape, parse_dtype(self.dtype), max_version, dl_device, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device.dlpack_type, self.device.index)

    def __repr__(self) -> str:
        return f"<Array {self.dtype}{list(self.shape)} on {self.device}>"


def count_of(shape: Sequence[int]) -> int:
    """The number of elements of an array of that shape."""
    count = 1
    for length in shape:
        count *= length
    return count


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype for an element type without lanes.

    Raises
    ------
    FormatError
        NumPy has none; bfloat16 and fp8 come with the package ml_dtypes.
    """
    import numpy as np

    try:
        return np.dtype("bool" if name == "uint1" else name)
    except TypeError:
        pass
    from importlib import import_module

    try:
        found: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), name))
        return found
    except (ImportError, AttributeError):
        raise FormatError(
            f"NumPy has no {name} by itself: pip install ml_dtypes, or read the bits through memoryview(array) (a host array's)"
        ) from None


def bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of a C-contiguous NumPy array, writable where it is."""
    import numpy as np

    flat = array.reshape(-1)
    return flat.view(np.uint8).data if flat.dtype.itemsize else memoryview(b"")


def dtype_of(value: object) -> str:
    """The element type that a caller gave as a string, a NumPy dtype or a NumPy scalar type.

    Raises
    ------
    ArgumentError
        It is no element type.
    """
    if isinstance(value, str):
        try:
            parse_dtype(value)
        except FormatError:
            pass
        else:
            return value
    import numpy as np

    try:
        return name_of(np.dtype(value))  # type: ignore[call-overload]
    except (TypeError, FormatError):
        raise ArgumentError(f"{value!r} is not an element type; use a name such as 'float32', or a NumPy dtype", argument="dtype") from None


def name_of(dtype: np.dtype[Any]) -> str:
    """The name of a NumPy dtype; a structured one is "uint8xN", N being its bytes.

    Raises
    ------
    FormatError
        It holds Python objects, text or times, which no device knows, or has another byte order than this machine.
    """
    if not dtype.isnative:
        raise FormatError(f"{dtype} is in another byte order than this machine's; pass array.astype(array.dtype.newbyteorder('='))")
    if dtype.kind == "V" and dtype.name.startswith("void") and not dtype.hasobject:
        return "uint8" if dtype.itemsize == 1 else f"uint8x{dtype.itemsize}"
    if dtype.kind in "OSUMm":
        raise FormatError(f"{dtype} is not a type that a device knows")
    return dtype_name(parse_dtype(dtype.name))


def shape_of(value: object) -> tuple[int, ...]:
    """A shape that a caller gave: a length or a sequence of lengths.

    Raises
    ------
    ArgumentError
        It is none.
    """
    lengths = value if isinstance(value, (tuple, list)) else (value,)
    made = []
    for length in lengths:
        try:
            number = length.__index__()
        except (AttributeError, TypeError):
            number = -1
        if number < 0:
            raise ArgumentError(f"{value!r} is not a shape; a shape is a length, or a tuple of lengths, from 0 up", argument="shape")
        made.append(number)
    return tuple(made)


def _scalar_shape(dtype: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...], int]:
    """The element type without its lanes, the shape with the lanes as a last dimension, and the bytes of one lane."""
    code, bits, lanes = parse_dtype(dtype)
    base = (code, bits, 1)
    return dtype_name(base), shape if lanes == 1 else (*shape, lanes), dtype_bytes(base)
