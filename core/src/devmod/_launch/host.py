"""Host memory as an argument: what counts as it, and which copies a launch makes of it."""

from __future__ import annotations

from devmod._launch.scalars import Unfit, _shown
from devmod._memory.array import HostArray, bytes_of, name_of
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

_DLPACK_CPU = 1
#: How hard NumPy may look whether two strided arrays meet, before they are taken to.
_MAX_WORK = 10_000


class HostView:
    """One array in the host's memory, as a NumPy array over it.

    Attributes
    ----------
    array
        The array; of bytes where NumPy does not know the element type.
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
        """Whether the elements lie in C order without gaps."""
        return bool(self.array.flags.c_contiguous)

    def read(self) -> memoryview:
        """The bytes in C order; a copy where they do not lie so."""
        if self.contiguous:
            return bytes_of(self.array)
        import numpy as np

        return bytes_of(np.ascontiguousarray(self.array))

    def write_target(self) -> memoryview:
        """Bytes that the device's are copied to; `finish` brings them home."""
        if self.contiguous:
            return bytes_of(self.array)
        import numpy as np

        self.staging = np.empty(self.array.shape, self.array.dtype)
        return bytes_of(self.staging)

    def finish(self) -> None:
        """Copy what is in the bytes of `write_target` to where the elements lie."""
        if self.staging is not None:
            self.array[...] = self.staging
            self.staging = None


def host_view(value: object) -> HostView | None:
    """The view of a host array; None for what is not one.

    Raises
    ------
    Unfit
        It is one, and its elements cannot go to a device.
    """
    if isinstance(value, HostArray):
        import numpy as np

        return HostView(np.frombuffer(value.data, np.uint8), value.dtype)
    array = _as_numpy(value)
    if array is None:
        return None
    try:
        return HostView(array, name_of(array.dtype))
    except FormatError as error:
        raise Unfit(f"has elements of a type that no device knows: {error}") from None


def _as_numpy(value: Any) -> np.ndarray[Any, Any] | None:
    if isinstance(value, (int, float, complex, str, list, tuple, dict)) or value is None:
        return None
    import numpy as np

    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if isinstance(value, np.generic):
        return None
    try:
        return np.asarray(memoryview(value))
    except (TypeError, ValueError, BufferError, NotImplementedError):
        pass
    where = getattr(value, "__dlpack_device__", None)
    if where is None or not hasattr(value, "__dlpack__"):
        return None
    device_type, number = where()
    if device_type != _DLPACK_CPU:
        raise Unfit(f"is {_shown(value)} on DLPack device ({int(device_type)}, {number}), which this backend does not know")
    try:
        return np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError, NotImplementedError) as error:
        raise Unfit(f"is {_shown(value)} that NumPy cannot take by DLPack: {error}") from None


class Transfer:
    """One device buffer for one piece of host memory: what is copied in, and what is copied back."""

    __slots__ = ("back", "source")

    def __init__(self, view: HostView) -> None:
        self.source = view
        self.back: HostView | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the device buffer."""
        return self.source.nbytes


class Overlap(Exception):
    """Two arguments share memory in part, and the kernel writes to one: there is no right order of copying back."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)
        self.first, self.second = first, second


def plan_transfers(views: list[tuple[int, HostView, bool]]) -> tuple[list[Transfer], dict[int, int]]:
    """The transfers for the host arguments of a call, given as (number of the argument, view, whether it is written).

    The same memory given twice is one transfer, so that the kernel sees one buffer as the host does.

    Returns
    -------
    list of Transfer, dict
        The transfers, and for each argument the number of its transfer.

    Raises
    ------
    Overlap
        Two arguments overlap otherwise, and one of them is written.
    """
    transfers: list[Transfer] = []
    of: dict[int, int] = {}
    for position, (number, view, written) in enumerate(views):
        found = None
        for other_number, other, other_written in views[:position]:
            if _same(view, other):
                found = of[other_number]
            elif (written or other_written) and _overlap(view, other):
                raise Overlap(other_number, number)
        if found is None:
            found = len(transfers)
            transfers.append(Transfer(view))
        transfer = transfers[found]
        if view.nbytes > transfer.source.nbytes:
            transfer.source = view
        if written and (transfer.back is None or view.nbytes > transfer.back.nbytes):
            transfer.back = view
        of[number] = found
    return transfers, of


def _same(one: HostView, other: HostView) -> bool:
    if one.start != other.start or not one.nbytes or not other.nbytes:
        return False
    if one.contiguous and other.contiguous:
        return True
    return one.array.shape == other.array.shape and one.array.strides == other.array.strides


def _overlap(one: HostView, other: HostView) -> bool:
    import numpy as np

    if not np.may_share_memory(one.array, other.array):
        return False
    try:
        return bool(np.shares_memory(one.array, other.array, max_work=_MAX_WORK))  # type: ignore[arg-type]  # any int will do
    except np.exceptions.TooHardError:
        return True
