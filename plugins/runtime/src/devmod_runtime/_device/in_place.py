"""Host arrays that kernels use where they are, without copies, on devices whose memory is the
host's.
"""

from __future__ import annotations

from _weakref import ref
from bisect import bisect_left, insort

from devmod.backend import RLock
from devmod.errors import DevmodError
from devmod_runtime._device.host import HostView, address_of
from devmod_runtime._fork import fork_safe
from devmod_runtime._uninterrupted import start_uninterrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_runtime._device.stream import Stream


class InPlace:
    """The host arrays that kernels use where they are, of a call that waits for its kernels. A
    ``with`` statement has the call.

    Parameters
    ----------
    stream
        The stream of the call.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        #: The first byte and the end of each array, sorted.
        self._spans: list[tuple[int, int]] = []
        #: What kernels use: the device's memory, which keeps the bytes, and the arrays.
        self._used: list[Any] = []
        #: The memory that kernels may write to.
        self._written: list[Any] = []

    def __enter__(self) -> InPlace:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """Keep the arrays if the body has failed while kernels may use them."""
        if error is None or not self:
            return
        start_uninterrupted(lambda call: call._stream.synchronize(), self)
        if not isinstance(error, DevmodError):
            error.add_note(
                "a kernel of this call may still run, and write to the call's arrays; devmod keeps them until it has ended"
            )

    def take(self, data: memoryview, *, written: bool) -> Any:
        """Return the device's memory for bytes of the host, which kernels may write to if
        `written`; None if they are to be copied.

        Bytes that a call uses, this one or one of another thread, are copied: for a driver, they
        are undefined in two objects.
        """
        start = address_of(data)
        device = self._stream.device
        if device.copies_all or start % device.in_place_unit:
            return None
        end = start + data.nbytes
        with _lock:
            if _is_used(start, end):
                return None
            if not self._spans:
                _calls.add(ref(self, _calls.discard))
            insort(self._spans, (start, end))
        memory = device.use_in_place(data, start, written=written)
        if memory is None:
            self._spans.remove((start, end))
            return None
        self._used.append(memory)
        if written:
            self._written.append(memory)
        return memory

    def take_view(self, view: HostView, *, written: bool) -> Any:
        """Do the same as `take` for an array that is large enough; None if a copy has other bytes
        than the array.
        """
        if view.nbytes < self._stream.device.in_place_from or not view.is_direct:
            return None
        if written and not view.array.flags.writeable:
            return None
        self._used.append(view.array)
        return self.take(view.read(), written=written)

    def __bool__(self) -> bool:
        """Whether kernels use an array."""
        return bool(self._spans)

    def finish(self) -> None:
        """Wait for the kernels, and let the host read what they have written."""
        for memory in self._written:
            self._stream.device.finish_in_place(memory, self._stream)
        if not self._written:
            self._stream.synchronize()


def _is_used(start: int, end: int) -> bool:
    """Return whether a call uses some of the bytes."""
    for reference in [*_calls]:
        spans = getattr(reference(), "_spans", ())
        at = bisect_left(spans, (start, end))
        if (at and spans[at - 1][1] > start) or (at < len(spans) and spans[at][0] < end):
            return True
    return False


_lock = fork_safe(RLock())  # a handler of a signal may call too
#: The calls that use arrays: each as long as something references it.
_calls: set[ref[InPlace]] = set()
