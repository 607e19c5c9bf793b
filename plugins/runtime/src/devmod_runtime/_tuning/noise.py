"""How far the times of tuning records may be wrong, for `devmod.tune` and for calls.

docs/design/runtime.md has the reasons.
"""

from __future__ import annotations

from math import inf, nan, sqrt
from typing import NamedTuple

#: A time of fewer turns is not settled.
LEAST_TURNS = 6
#: What is certain is so in 99 of 100 cases: the deviations of a normal distribution.
CERTAIN = 2.33
#: The standard error of a median, in spreads by the root of the number of turns (McGill, Tukey and
#: Larsen, Variations of Box Plots, 1978).
_ERROR = 1.25 / 1.35
#: The least noise of a time, relative to it, by the number of turns: a few are equal by chance.
_LEAST_NOISE = 0.25


class Estimate(NamedTuple):
    """The time of a variant.

    Attributes
    ----------
    seconds
        The median of the turns; None if it failed, False if its results were wrong.
    turns, spread
        As in `devmod.TuningRecord.turns`; 0 turns: unknown, such as of another tool.
    quartile1
        The first quartile of the turns; nan for that of a record.
    """

    seconds: float | None
    turns: int = 0
    spread: float = 0.0
    quartile1: float = nan

    @property
    def noise(self) -> float:
        """By which part of itself the time may be wrong; inf: too few turns tell nothing.

        A time without turns is that of another tool, and exact: a user decided to import it.
        """
        if not self.seconds or not self.turns:
            return 0.0
        if self.turns < LEAST_TURNS:
            return inf
        error = _ERROR * self.spread / sqrt(self.turns) / self.seconds
        return max(CERTAIN * error, _LEAST_NOISE / self.turns)
