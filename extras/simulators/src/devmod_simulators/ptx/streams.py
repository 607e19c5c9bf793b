"""The order of the operations of streams: what each one knows to be done when it runs."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from devmod_simulators.ptx.ptx_types import Array

#: A stream, and the number of an operation there. (0, 0) is one that comes after all others.
Work = tuple[int, int]
_WAITS = 4
_QUEUED = 5
_REACHED = 7
#: The operations that are compared with later ones.
_RECENT = 256


class Order:
    """The operations that a driver has queued, and those that have run."""

    def __init__(self) -> None:
        self.host: dict[int, int] = {}  # by stream: the work that the host knows to be done
        self.clocks: dict[Work, dict[int, int]] = {}
        self.waits: dict[int, list[Work]] = {}
        self.begun: list[tuple[int, Work, str]] = []  # the times at which operations began
        self.unknown: set[Work] = set()
        self.places: dict[Work, str] = {}

    def take(self, kind: int, stream: int, number: int, operation: int, place: str) -> None:
        """Take a note of the driver."""
        if kind == _WAITS:
            self.waits.setdefault(operation, []).append((stream, number))
        elif kind == _QUEUED:
            clock = dict(self.host)
            for work in [*self.waits.pop(operation, []), (stream, number - 1)]:
                self.join(clock, work)
            clock[stream] = number
            self.clocks[stream, number] = clock
            self.places[stream, number] = place
        elif kind == _REACHED:
            # What waits for the operation was queued before it knew what it has waited for.
            for clock in self.clocks.values():
                if clock.get(stream, 0) >= number:
                    for work in self.waits.get(operation, []):
                        self.join(clock, work)
            self.waits.pop(operation, None)
        else:
            self.join(self.host, (stream, number))

    def join(self, clock: dict[int, int], work: Work) -> None:
        """Let a clock know an operation, and what that one knew."""
        for stream, number in (self.clocks.get(work) or {work[0]: work[1]}).items():
            clock[stream] = max(clock.get(stream, 0), number)

    def begin(self, work: Work, what: str, time: int) -> int:
        """Note that an operation begins. Return the time from which on there are accesses that have
        no order with it.
        """
        clock = self.clocks.get(work)
        self.unknown = set()
        first = time
        if clock is not None:
            for began, other, _ in self.begun[-_RECENT:]:
                if other != work and clock.get(other[0], 0) < other[1]:
                    self.unknown.add(other)
                    first = min(first, began)
        place = self.places.pop(work, "")
        if place:
            what += f" of {place}"
        self.begun.append((time, work, what))
        if len(self.begun) > 2 * _RECENT:
            for _, other, _ in self.begun[:_RECENT]:
                self.clocks.pop(other, None)
            del self.begun[:_RECENT]
        return first

    def at(self, time: int) -> tuple[int, Work, str]:
        """Return the operation that ran at a time."""
        return self.begun[
            max(bisect.bisect_right(self.begun, time, key=lambda each: each[0]) - 1, 0)
        ]

    def unordered(self, times: Array) -> Array:
        """Return whether the operations of earlier times have no order with the one that runs."""
        known: dict[int, Any] = {
            int(time): self.at(int(time))[1] in self.unknown for time in np.unique(times)
        }
        return np.array([known[int(time)] for time in times], bool)

    def describe(self, time: int) -> str:
        """Return the operation of a time in words."""
        return self.at(time)[2]
