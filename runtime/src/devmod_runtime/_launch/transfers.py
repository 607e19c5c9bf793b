"""The copies of the host arrays of a launch."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np

    from devmod._arrays.host import HostView
else:
    from devmod._util.numpy import np

#: The bound on NumPy's search for an overlap of two strided arrays. Beyond it they count as overlapping.
_MAX_WORK = 10_000


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
