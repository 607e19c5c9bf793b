"""Instructions with a guard: they run for the lanes alone whose predicate holds."""

from collections.abc import Callable

import numpy as np

from .lanes import Lanes

Step = Callable[[Lanes], None]


def guarded(step: Step, guard: int, negated: bool, reads: list[int], writes: list[int]) -> Step:
    """Return `step` for the lanes alone whose predicate holds."""

    def run(lanes: Lanes) -> None:
        holds = lanes.r[guard]
        if negated:
            holds = ~holds
        if len(holds) == 1:
            if holds[0]:
                step(lanes)
            return
        positions = np.flatnonzero(holds)
        if len(positions) == lanes.count:
            step(lanes)
        elif len(positions):
            part = lanes.select(positions, reads)
            step(part)
            for number in writes:
                value = part.r[number]
                old = lanes.r[number]
                new = lanes.spread(old).view(value.dtype).copy()
                new[positions] = value
                lanes.r[number] = new

    return run
