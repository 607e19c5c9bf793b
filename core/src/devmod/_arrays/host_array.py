"""Read-only arrays in the host's memory."""

from __future__ import annotations

from math import prod

from devmod import _runtime
from devmod._arrays.array import Array
from devmod._arrays.buffer import BufferBase
from devmod._arrays.elements import packing_problem, scalar_shape, unpack
from devmod._values.dtypes import STRUCT_FORMATS, array_bytes, parse_dtype
from devmod._values.param import numpy_dtype
from devmod.errors import ArgumentError, FormatError, count_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
else:
    from devmod._util.numpy import np

_DLPACK_HOST = 1


class HostArray(Array):
    """A read-only array in the host's memory, with the buffer protocol, DLPack and, if it is
    installed, NumPy.

    Parameters
    ----------
    data
        The elements in C order. The memory is not copied.
    shape
        The length of each dimension.
    dtype
        The element type. The buffer protocol has no bfloat16, fp8 or lanes: ``memoryview(array)``
        has the bits of the first two as unsigned integers, and lanes as last dimension. It has no
        elements that share bytes (int4, fp6, lanes of a bit): `data` has their packed bytes, and
        `numpy` unpacks them.

    Raises
    ------
    FormatError
        The size of `data` does not match `shape` and `dtype`.
    """

    __slots__ = ("_data",)

    def __new__(cls, data: bytes | memoryview, shape: Sequence[int], dtype: str) -> HostArray:
        # Before Python 3.12 a class with a buffer cannot raise an error with a message. So a packed
        # array has a class without a buffer.
        if cls is HostArray and not packing_problem(dtype):
            return super().__new__(_ViewableArray)
        return super().__new__(cls)

    def __init__(self, data: bytes | memoryview, shape: Sequence[int], dtype: str) -> None:
        code = parse_dtype(dtype)
        self.shape = tuple(shape)
        self.dtype = dtype
        self._data = memoryview(data).toreadonly().cast("B")
        expected = array_bytes(code, self.shape)
        if self._data.nbytes != expected:
            raise FormatError(
                f"an array of shape {self.shape} and type {dtype} has {count_text(expected, 'byte')}, not {self._data.nbytes}"
            )

    @property
    def data(self) -> memoryview:
        """The bytes of the elements."""
        return self._data

    def __buffer__(self, flags: int) -> memoryview:
        problem = packing_problem(self.dtype)
        if problem:
            raise BufferError(
                f"{problem}; read the packed bytes from array.data, or unpack the elements with array.numpy()"
            )
        if flags & 1:  # PyBUF_WRITABLE
            raise BufferError("this array is read-only")
        from devmod._arrays.buffer import typed_view

        base, shape, width = scalar_shape(self.dtype, self.shape)
        fmt = STRUCT_FORMATS.get(base)
        if base == "bfloat16":
            fmt = "H"
        if fmt is None:
            fmt = {1: "B", 2: "H", 4: "I", 8: "Q"}.get(width, f"{width}s")
        return typed_view(self._data, fmt, width, shape)

    def numpy(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return a read-only NumPy array over the same memory, or `out`, as `Array.numpy`. Packed
        elements are unpacked into a copy.
        """
        if out is not None:
            copied: np.ndarray[Any, Any] = _runtime("Array.numpy(out=…)").copy_to_numpy(self, out)
            return copied
        base, shape, _ = scalar_shape(self.dtype, self.shape)
        dtype = numpy_dtype(base)
        if packing_problem(self.dtype):
            unpacked = (
                unpack(self._data, parse_dtype(base)[1], prod(shape)).view(dtype).reshape(shape)
            )
            unpacked.flags.writeable = False
            return unpacked
        return np.frombuffer(self._data, dtype).reshape(shape)

    def fill(self, value: object) -> None:
        raise ArgumentError("fill: the array is read-only", argument="value")

    @property
    def _host_bytes(self) -> memoryview:
        return self._data

    def _view(self, offset: int, shape: tuple[int, ...]) -> HostArray:
        nbytes = array_bytes(parse_dtype(self.dtype), shape)
        return HostArray(self._data[offset : offset + nbytes], shape, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        # NumPy calls this method only for a class without a buffer. NumPy 1 has no copy=None.
        array = np.asarray(self.numpy(), dtype)
        if copy:
            return array.copy()
        return array

    def __dlpack__(self, *, stream: object = None, **options: Any) -> object:
        from devmod._arrays.dlpack import host_capsule

        return host_capsule(self._data, self.shape, parse_dtype(self.dtype), **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DLPACK_HOST, 0)

    def __repr__(self) -> str:
        return f"<HostArray {self.dtype}{list(self.shape)}>"


class _ViewableArray(HostArray, BufferBase):
    """A HostArray that exports its buffer."""

    __slots__ = ()
