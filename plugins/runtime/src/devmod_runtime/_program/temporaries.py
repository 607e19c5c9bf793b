"""The memory of temporaries: those that do not live at the same time share a buffer or an image,
and the calls in a stream share these.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from devmod.backend import RLock
from devmod_runtime._device.image import Image
from devmod_runtime._device.stream import Stream
from devmod_runtime._fork import fork_safe

Shapes = Any  # its module imports this one

#: The number of forms whose images a stream keeps.
_MAX_FORMS = 16

#: The number of streams whose buffers are kept. A stream that the program forgot may live on in the
#: caches of launches.
_MAX_STREAMS = 32


# Where to change: which temporaries of a program share memory
#   here: by `compilers/readers/src/devmod_readers/programs/_model.py` (`lifetimes`)
#   tests: `tests/test_program_memory.py`
def share(
    sizes: Mapping[str, int], lifetimes: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, int], list[int]]:
    """Return the number of the buffer of each temporary, and the sizes of the buffers, the largest
    first.

    Parameters
    ----------
    sizes
        The bytes of each temporary.
    lifetimes
        The first and the last step of each.
    """
    # In the order of their steps, those of one size take the fewest buffers. One that no step uses
    # needs no memory.
    names = sorted(
        sizes.keys() & lifetimes.keys(), key=lambda each: (-sizes[each], *lifetimes[each], each)
    )
    numbers, largest = _share(tuple([(name, *lifetimes[name]) for name in names]))
    return numbers, [sizes[name] for name in largest]


@lru_cache(64)
def _share(temporaries: tuple[tuple[str, int, int], ...]) -> tuple[dict[str, int], list[str]]:
    """Return the number of the buffer of each temporary, and the first in each buffer. Most shapes
    of a program have them in one order.
    """
    buffers: list[list[tuple[int, int]]] = []  # the lifetimes in each, sorted
    results: dict[str, int] = {}
    largest: list[str] = []
    for name, first, last in temporaries:
        number = 0
        for spans in buffers:
            at = bisect_left(spans, (first, last))
            if (at == 0 or spans[at - 1][1] < first) and (at == len(spans) or last < spans[at][0]):
                break
            number += 1
        else:
            spans = []
            buffers.append(spans)
            largest.append(name)
        insort(spans, (first, last))
        results[name] = number
    return results, largest


#: The format and the lengths of images that may share memory.
ImageForm = tuple[str, tuple[int, ...]]


class StreamMemory:
    """The buffers and the images of the temporaries of all programs in one stream."""

    def __init__(self) -> None:
        #: A call has the lock while it queues its launches. One by a signal's handler, within
        #: another one, gets memory of its own.
        self.lock = fork_safe(RLock())
        self.is_used = False
        self._generation: object = None
        self._buffers: list[tuple[int, Any]] = []  # the largest first
        self._images: dict[ImageForm, list[Image]] = {}
        #: The last shapes, and what they took.
        self._shapes: Shapes = None
        self._taken: Sequence[Any] = ()

    def take(self, shapes: Shapes, stream: Stream) -> Sequence[Any]:
        """Return the memory of the parts of the temporaries, and their images.

        Those of earlier calls are used again: the stream is in order.
        """
        generation = stream.device.generation
        if generation is not self._generation:
            self._generation = generation
            self._buffers.clear()
            self._images.clear()
        elif shapes is self._shapes:
            return self._taken
        self._shapes = None  # until all is there
        self._taken = ()
        for place, size in enumerate(shapes.sizes):
            if place < len(self._buffers):
                if self._buffers[place][0] >= size:
                    continue
                del self._buffers[place]  # first, so that both need not fit
            self._buffers.insert(place, (size, stream.device.allocate(max(size, 1))))
        memories = [memory for _, memory in self._buffers]
        result: list[Any] = shapes.parts_of(memories, stream.device)
        if len(self._images.keys() | shapes.images.keys()) > _MAX_FORMS:
            self._images.clear()
        for form, count in shapes.images.items():
            kept = self._images.setdefault(form, [])
            while len(kept) < count:
                kept.append(stream.device.image(form[1][::-1], form[0]))
            result += kept[:count]
        self._taken = result
        self._shapes = shapes
        return result


_memories: WeakKeyDictionary[Stream, StreamMemory] = WeakKeyDictionary()
_lock = fork_safe(RLock())  # a signal's handler may call a program


def memory_of(stream: Stream) -> StreamMemory:
    """Return the memory of a stream."""
    with _lock:
        result = _memories.get(stream)
        if result is None:
            if len(_memories) >= _MAX_STREAMS:
                # A call that has it goes on with its buffers, and the next call in that stream
                # takes others.
                del _memories[next(iter(_memories))]
            result = _memories[stream] = StreamMemory()
        return result
