"""Arrays: memory with a shape and an element type, on the host or on a device."""

from __future__ import annotations

from math import prod

from devmod import _runtime
from devmod._util.html import html_table
from devmod._util.pickling import ProcessLocal
from devmod._values.dtypes import array_bytes, describe_value, is_packed, parse_dtype
from devmod.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np

    from devmod import Event, Stream


class Array(ProcessLocal):
    """Memory with a shape and an element type. `Device.empty`, `Device.zeros`, `Device.from_numpy`
    and `Module.get_global` return one.

    Slices of the first axis and `reshape` are views: they share the array's memory and keep it
    alive.

    Attributes
    ----------
    shape : tuple of int
        The length of each dimension, in elements.
    dtype : str
        The element type, such as "float32" or "float32x4".
    """

    __slots__ = ("__weakref__", "dtype", "shape")
    _pickle_advice = "pass array.numpy()"
    shape: tuple[int, ...]
    dtype: str

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return array_bytes(parse_dtype(self.dtype), self.shape)

    def numpy(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return the elements as a NumPy array. Lanes of the element type become the last
        dimension.

        Parameters
        ----------
        out
            An array of the same type and shape, which gets the elements and is returned. Default: a
            new one.

        Raises
        ------
        ArgumentError
            `out` is not a writable NumPy array of the same type and shape.
        FormatError
            NumPy does not support the element type. The package ml_dtypes adds bfloat16, fp8, fp6,
            fp4 and int4.
        LaunchError
            The device reports the failure of a kernel that was queued before.
        """
        raise NotImplementedError

    def _repr_html_(self) -> str:
        device = getattr(self, "device", "the host")
        rows = [
            ("type", self.dtype),
            ("shape", self.shape),
            ("size", f"{self.nbytes:,} bytes"),
            ("memory", device),
        ]
        return html_table("Array", rows)

    def copy_from(
        self, source: object, stream: Stream | None = None, wait: bool = True
    ) -> Event | None:
        """Copy the elements of another array to this one, in the order of a stream.

        The types must be equal: devmod converts no elements, so an array has no ``astype``. Convert
        on the host with NumPy, or with a kernel. Between arrays of one device the elements do not
        pass the host. Between two devices of a kind they do, and the call waits.

        Parameters
        ----------
        source
            A devmod array, a NumPy array, or another object with a buffer or DLPack in the host's
            memory. It has this array's shape, with the lanes of the element type as last dimension.
        stream
            A stream of this array's device. Default: the device's current stream.
        wait
            Whether to wait until the copy is done.

        Returns
        -------
        Event or None
            With ``wait=False`` the event at the end of the copy. A host array must not change
            before. It is kept alive until then.

        Raises
        ------
        ArgumentError
            The arrays have different shapes or types, are on devices of different kinds, or this
            one is read-only. Nothing was copied.
        LaunchError
            The device reports the failure of the copy, or of a kernel that was queued before.
        """
        return _runtime("Array.copy_from").copy(source, self, "copy_from", stream, wait)  # type: ignore[no-any-return]

    def copy_to(
        self, target: object, stream: Stream | None = None, wait: bool = True
    ) -> Event | None:
        """Copy the elements of this array to another one, in the order of a stream.

        Parameters
        ----------
        target
            A devmod array, or a writable host array as for `copy_from`.
        stream
            A stream of the target's device, or of this array's if the target is in the host's
            memory. Default: the device's current stream.
        wait
            Whether to wait until the copy is done.

        Returns
        -------
        Event or None
            With ``wait=False`` the event at the end of the copy. A host array has the elements when
            the event is reached. It is kept alive until then.

        Raises
        ------
        ArgumentError, LaunchError
            As for `copy_from`.
        """
        return _runtime("Array.copy_to").copy(self, target, "copy_to", stream, wait)  # type: ignore[no-any-return]

    def fill(self, value: object) -> None:
        """Set all elements to a value, in the order of the device's current stream. ``array[2:5] =
        value`` sets some rows.

        Parameters
        ----------
        value
            A number, or a host array or a sequence that NumPy broadcasts to the shape and converts
            to the type. The lanes of the type are the last dimension. An array of devmod is copied
            as by `copy_from`: it has this array's shape and type.

        Raises
        ------
        ArgumentError
            NumPy does not convert or broadcast the value, or this array is read-only. Nothing has
            changed.
        LaunchError
            As for `copy_from`.
        """
        raise NotImplementedError

    def __setitem__(self, key: object, value: object) -> None:
        """Set some rows, or with ``array[...]`` all elements, as `fill` does. `key` is otherwise a
        slice as for a view.
        """
        if key is Ellipsis:
            self.fill(value)
        else:
            self[key].fill(value)  # type: ignore[index]

    def reshape(self, *shape: int | Sequence[int]) -> Array:
        """Return a view of the same memory with another shape. One length may be -1: it follows
        from the others.

        Raises
        ------
        ArgumentError
            The shape has another number of elements.
        """
        lengths: Sequence[object] = shape
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            lengths = tuple(shape[0])
        numbers = _read_shape(lengths)
        new = list(numbers)
        if -1 in numbers:
            known = prod(each for each in numbers if each != -1)
            if known:
                new[numbers.index(-1)] = self.size // known
        if -1 in new or prod(new) != self.size:
            raise ArgumentError(
                f"an array of shape {self.shape} has {self.size} elements, which do not fill the shape {tuple(numbers)}",
                argument="shape",
            )
        return self._view(0, tuple(new))

    def __getitem__(self, key: slice) -> Array:
        """Return a view of some rows: a slice of the first axis, such as ``array[2:5]``, without a
        copy.

        Negative bounds count from the end. Bounds past the end are an error, unlike in NumPy.

        Raises
        ------
        ArgumentError
            `key` is not a slice of the first axis, has a step, or is out of range.
        """
        shape = self.shape
        if not shape:
            raise _index_error("an array without dimensions has no slices")
        if not isinstance(key, slice):
            hint = ""
            if _integer(key) is not None:
                hint = "; array[i:i+1] is the view of one element, and array.numpy()[i] its value"
            raise _index_error(
                f"an array takes one slice of the first axis, such as array[2:5], not {describe_value(key)}{hint}"
            )
        if key.step is not None and _integer(key.step) != 1:
            raise _index_error(
                f"a slice of an array has no step, got {describe_value(key.step)}; copy the elements: array.numpy()[start:stop:step]"
            )
        length = shape[0]
        start = _bound(key.start, 0, length, "begins")
        stop = _bound(key.stop, length, length, "ends")
        if start > stop:
            raise _index_error(f"the slice begins at {start} and ends before it, at {stop}")
        dtype = parse_dtype(self.dtype)
        row = shape[1:]
        first = start * prod(row)
        if is_packed(dtype) and first * dtype[1] * dtype[2] % 8:
            raise _index_error(
                f"the slice begins within a byte: elements of {self.dtype} are packed"
            )
        return self._view(array_bytes(dtype, (first,)), (stop - start, *row))

    def _view(self, offset: int, shape: tuple[int, ...]) -> Array:
        """Return a view that begins at byte `offset` of this array."""
        raise NotImplementedError

    @property
    def _host_bytes(self) -> memoryview | None:
        """The bytes in the host's memory; None for an array on a device."""
        return None

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


def _bound(value: object, default: int, length: int, verb: str) -> int:
    if value is None:
        return default
    number = _integer(value)
    if number is None:
        raise _index_error(f"the bounds of a slice are integers, not {describe_value(value)}")
    if not -length <= number <= length:
        raise _index_error(
            f"the slice {verb} at {number}, outside of the first axis, which has {length}"
        )
    if number < 0:
        number += length
    return number


def _read_shape(lengths: Sequence[object]) -> list[int]:
    """Return the lengths of a shape, with at most one -1."""
    numbers = []
    for each in lengths:
        number = _integer(each)
        if number is not None and number >= -1:
            numbers.append(number)
    if len(numbers) != len(lengths) or numbers.count(-1) > 1:
        raise ArgumentError(
            f"{lengths!r} is not a shape; a shape has lengths from 0 up, and at most one -1 for the length that follows from the "
            "others",
            argument="shape",
        )
    return numbers


def _integer(value: object) -> int | None:
    try:
        return value.__index__()  # type: ignore[attr-defined, no-any-return]
    except (AttributeError, TypeError):
        return None


def _index_error(text: str) -> ArgumentError:
    return ArgumentError(text, argument="index")
