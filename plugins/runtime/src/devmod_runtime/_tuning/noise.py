"""Which times of tuning records are settled: the rule of `devmod.tune` and of calls.

docs/design/runtime.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, nan, sqrt
from typing import NamedTuple

#: A time of fewer turns is not settled.
LEAST_TURNS = 6
#: A variant that takes this part of another one's time or more is as good.
_AS_GOOD = 0.97
#: What is certain is so in 99 of 100 cases: the deviations of a normal distribution.
_CERTAIN = 2.33
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
        return max(_CERTAIN * error, _LEAST_NOISE / self.turns)


def is_certain(ratios: Sequence[float], is_default: bool) -> bool:
    """Return whether the times of a variant by those of the fastest one in the same turns are
    enough: a sign test, since a busy machine may have two speeds, between which a median changes.
    """
    if not is_default:
        return _is_rare(ratios, lambda ratio: ratio < _AS_GOOD)
    return _is_rare(ratios, lambda ratio: ratio < 1) or _is_rare(
        ratios, lambda ratio: ratio * _AS_GOOD > 1
    )


def _is_rare(ratios: Sequence[float], holds: Callable[[float], bool]) -> bool:
    """Return whether something certainly holds for less than half of the turns."""
    count = sum(map(holds, ratios))
    turns = len(ratios)
    return count <= turns / 2 - _CERTAIN * sqrt(turns) / 2


def fastest(times: Mapping[int, Estimate]) -> int | None:
    """Return the variant with the shortest time of enough turns; None without one."""
    timed = [variant for variant, time in times.items() if time.seconds and time.noise < inf]
    return min(timed, key=lambda variant: times[variant].seconds or inf, default=None)


def unsettled(times: Mapping[int, Estimate]) -> list[int]:
    """Return the variants whose times do not tell whether they are faster than the fastest one.

    Variant 0 is the default, which calls take unless it is certainly slower: it is settled if it is
    that, or certainly as good.
    """
    best = fastest(times)
    least = 0.0
    if best is not None:
        least = times[best].seconds or 0.0
    found = []
    for variant, time in times.items():
        if variant == best or not time.seconds:
            continue
        low = time.seconds * (1 - time.noise)
        high = time.seconds * (1 + time.noise)
        if variant == 0:
            is_settled = low > least or high * _AS_GOOD <= least
        else:
            is_settled = low >= least * _AS_GOOD
        if not is_settled:
            found.append(variant)
    return found
