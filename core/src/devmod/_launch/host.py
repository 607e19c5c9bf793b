"""Host arrays as arguments: which objects are host arrays, and which copies a launch makes."""

from __future__ import annotations

from devmod._device.array import HostArray
from devmod._device.elements import bytes_of, dtype_name_of
from devmod._launch.scalars import ConversionError, describe_value
from devmod._values.dtypes import is_packed, parse_dtype
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
else:
    from devmod._util.numpy import np

_DLPACK_CPU = 1
#: The bound on NumPy's search for an overlap of two strided arrays. Beyond it they count as overlapping.
_MAX_WORK = 10_000


class HostView:
    """A NumPy array over one array in the host's memory.

    Attributes
    ----------
    array
        The array; an array of bytes if NumPy does not support the element type.
    dtype
        devmod's name of the element type.
    """

    __slots__ = ("array", "dtype", "staging")

    def __init__(self, array: np.ndarray[Any, Any], dtype: str) -> None:
        self.array = array
        self.dtype = dtype
        self.staging: np.ndarray[Any, Any] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.array.nbytes

    @property
    def start(self) -> int:
        """The address of the first element."""
        return int(self.array.ctypes.data)

    @property
    def contiguous(self) -> bool:
        """Whether the elements are in C order without gaps."""
        return bool(self.array.flags.c_contiguous)

    def read(self) -> memoryview:
        """Return the bytes in C order; a copy if the array is not contiguous."""
        if self.contiguous:
            return bytes_of(self.array)
        return bytes_of(np.ascontiguousarray(self.array))

    def write_target(self) -> memoryview:
        """Return memory to which a device buffer is copied. Call `finish` after the copy."""
        if self.contiguous:
            return bytes_of(self.array)
        self.staging = np.empty(self.array.shape, self.array.dtype)
        return bytes_of(self.staging)

    def finish(self) -> None:
        """Copy the bytes of `write_target` to the elements of the array, if they are separate."""
        if self.staging is not None:
            self.array[...] = self.staging
            self.staging = None


def host_view(value: object) -> HostView | None:
    """Return the view of a host array; None if `value` is not a host array.

    Raises
    ------
    ConversionError
        No device supports the elements of the host array.
    """
    if isinstance(value, HostArray):
        return HostView(np.frombuffer(value.data, np.uint8), value.dtype)
    array = _as_numpy(value)
    if array is None:
        return None
    try:
        dtype = dtype_name_of(array.dtype)
    except FormatError as error:
        raise ConversionError(f"has elements of an unsupported type: {error}") from None
    if is_packed(parse_dtype(dtype)):
        raise ConversionError(
            f"has elements of {dtype}, which have one byte each in NumPy and are packed on a device: pass device.from_numpy(array)"
        )
    return HostView(array, dtype)


def _as_numpy(value: Any) -> np.ndarray[Any, Any] | None:
    if isinstance(value, (int, float, complex, str, list, tuple, dict)) or value is None:
        return None
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, np.generic):
        return None
    try:
        return np.asarray(memoryview(value))
    except (TypeError, ValueError, BufferError, NotImplementedError):
        pass
    dlpack_device = getattr(value, "__dlpack_device__", None)
    if dlpack_device is None or not hasattr(value, "__dlpack__"):
        return None
    device_type, number = dlpack_device()
    if device_type != _DLPACK_CPU:
        raise ConversionError(
            f"is {describe_value(value)} on DLPack device ({int(device_type)}, {number}), which this backend does not support"
        )
    try:
        return np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError, NotImplementedError) as error:
        raise ConversionError(f"is {describe_value(value)} that NumPy cannot import by DLPack: {error}") from None


class Transfer:
    """The copies between one device buffer and one host array: `source` is copied in, `back` is copied back."""

    __slots__ = ("back", "source")

    def __init__(self, view: HostView) -> None:
        self.source = view
        self.back: HostView | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the device buffer."""
        return self.source.nbytes


class OverlapError(Exception):
    """Two arguments overlap in part and the kernel writes to one, so no order of copying back is correct."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)
        self.first, self.second = first, second


def plan_transfers(views: list[tuple[int, HostView, bool]]) -> tuple[list[Transfer], dict[int, int]]:
    """Return the transfers for the host arguments of a call, given as (number of the argument, view, whether it is written).

    Two arguments with the same memory share one transfer, so that the kernel gets one buffer.

    Returns
    -------
    list of Transfer, dict
        The transfers, and the number of the transfer of each argument.

    Raises
    ------
    OverlapError
        Two arguments overlap in part, and the kernel writes to one of them.
    """
    transfers: list[Transfer] = []
    transfer_of: dict[int, int] = {}
    for position, (number, view, written) in enumerate(views):
        index = None
        for other_number, other, other_written in views[:position]:
            if _same(view, other):
                index = transfer_of[other_number]
            elif (written or other_written) and _overlap(view, other):
                raise OverlapError(other_number, number)
        if index is None:
            index = len(transfers)
            transfers.append(Transfer(view))
        transfer = transfers[index]
        if view.nbytes > transfer.source.nbytes:
            transfer.source = view
        if written and (transfer.back is None or view.nbytes > transfer.back.nbytes):
            transfer.back = view
        transfer_of[number] = index
    return transfers, transfer_of


def _same(one: HostView, other: HostView) -> bool:
    if one.start != other.start or not one.nbytes or not other.nbytes:
        return False
    if one.contiguous and other.contiguous:
        return True
    return one.array.shape == other.array.shape and one.array.strides == other.array.strides


def _overlap(one: HostView, other: HostView) -> bool:
    if not np.may_share_memory(one.array, other.array):
        return False
    try:
        return bool(np.shares_memory(one.array, other.array, max_work=_MAX_WORK))  # type: ignore[arg-type]  # any int will do
    except np.exceptions.TooHardError:
        return True
