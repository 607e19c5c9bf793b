"""Batches of a stream: the ``with`` statement that gathers submissions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_vulkan._stream import VulkanStream


class BatchToken:
    """Marks a batch as active for as long as it is referenced."""

    __slots__ = ("__weakref__",)


class Batch:
    """Gathers the submissions to a stream while the body of the ``with`` statement runs.

    An interrupt in `__enter__` or `__exit__` leaves no active batch: this object owns the tokens, and the ``with`` statement owns it.
    """

    def __init__(self, stream: VulkanStream) -> None:
        self._stream = stream
        self._tokens: list[BatchToken] = []

    def __enter__(self) -> None:
        self._tokens.append(BatchToken())
        self._stream.enter_batch(self._tokens[-1])

    def __exit__(self, *_: object) -> None:
        self._tokens.pop()
        self._stream.leave_batch()
