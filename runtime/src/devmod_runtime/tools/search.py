"""The search of `devmod.tune` for the fastest variant with one set of inputs. It launches nothing
itself.

docs/design/runtime.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, sqrt
from random import Random
from statistics import median, quantiles
from time import monotonic
from typing import Any, NamedTuple

#: Up to so many variants, all are measured; of more a sample, then the neighbours of the best.
MOST_MEASURED = 200
_SAMPLE = 100
#: A turn is so many launches of one variant; `_MOST_TURNS` of each variant decide.
LAUNCHES = 3
_MOST_TURNS = 12
#: A variant whose launches take so many times the median of the best gets no further turns.
_FAR = 2.0
#: The least noise of a median, relative to it: clocks have steps.
_LEAST_NOISE = 0.005

Constants = Mapping[str, Any]


class Timing(NamedTuple):
    """What was measured of one variant.

    Attributes
    ----------
    times
        The seconds of each launch; empty if it failed.
    problem
        Why it failed; "" if it did not.
    is_wrong
        Whether its results differ from those of the first variant.
    is_refused
        Whether its arguments were refused, so that nothing was launched.
    """

    times: tuple[float, ...] = ()
    problem: str = ""
    is_wrong: bool = False
    is_refused: bool = False

    @property
    def median(self) -> float:
        """The median of the times."""
        return median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The times below which a quarter and three quarters of the launches are."""
        if len(self.times) == 1:
            return self.times[0], self.times[0]
        low, _, high = quantiles(self.times, n=4, method="inclusive")
        return low, high

    @property
    def noise(self) -> float:
        """By how much the median may be wrong: half the notch of a box plot (McGill, Tukey and
        Larsen, Variations of Box Plots, 1978).
        """
        low, high = self.quartiles
        notch = 1.57 * (high - low) / sqrt(len(self.times))
        return max(notch, _LEAST_NOISE * self.median)

    @property
    def far(self) -> float:
        """The time from which on a launch of another variant is much slower. If the machine is
        busy, that of the slowest launch.
        """
        return max(_FAR * self.median, max(self.times))

    def may_beat(self, best: Timing) -> bool:
        """Return whether the variant may be as fast as another one, whose median is lower."""
        if len(self.times) < LAUNCHES:  # what disturbs a launch may disturb the next one too
            return True
        if len(self.times) == LAUNCHES:
            return min(self.times) <= best.far
        return self.median - self.noise <= best.median + best.noise


class _BudgetSpentError(Exception):
    """The time of the search is over."""


class Search:
    """The search for the fastest of the variants of a function.

    Parameters
    ----------
    launch
        Returns the seconds of some launches of a variant, which is a number in the order of the
        function's variants. After one of more than the limit, its second argument, there is no
        other. The results are compared with those of the first variant before. A `Timing` with a
        problem is the last of its variant.
    variants
        The constants of each variant, the default first.
    known
        The seconds of variants that were measured before; None or False for one that failed.
    seconds
        How long the search may take. Default: no limit.
    report
        Called after each turn with the part of the variants that were measured, the best so far
        (None before the first), and its seconds.

    Attributes
    ----------
    timings
        The number of each variant that was measured, and its `Timing`.
    known
        The parameter.
    is_complete
        Whether the search came to its end: neither an exception nor the limit ended it.
    """

    def __init__(
        self,
        launch: Callable[[int, float], Timing],
        variants: Sequence[Constants],
        *,
        known: Mapping[int, float | None] = {},
        seconds: float = inf,
        report: Callable[[float, int | None, float], object] = lambda *_: None,
    ) -> None:
        self._launch = launch
        self._variants = variants
        self.known = known
        self._end = monotonic() + seconds
        self._report = report
        #: The best of the known variants, with which the others are compared.
        self._anchor = _fastest(self.known)
        self.timings: dict[int, Timing] = {}
        self.is_complete = False

    def run(self) -> None:
        """Measure all variants that are not known, or the promising ones of many."""
        try:
            for batch in self._batches():
                for variant in batch:
                    self._time(variant)
                self._decide()
            self.is_complete = True
        except _BudgetSpentError:
            pass

    @property
    def best(self) -> int | None:
        """The number of the fastest variant that was measured here; None if all failed."""
        return _fastest({each: self.timings[each].median for each in self._usable()})

    def seconds(self) -> dict[int, float | None]:
        """Return the median of each variant, with those that were known before, in the order of the
        variants. None is one that failed, and False one with wrong results.

        The machine may be slower today than when the others were measured: the best of those is
        measured again, and the new times are scaled by its change.
        """
        found = dict(self.known)
        scale = 1.0
        if self._anchor is not None and self._anchor in self._usable():
            scale = (self.known[self._anchor] or 0.0) / self.timings[self._anchor].median
        for variant, timing in self.timings.items():
            if timing.is_wrong:
                found[variant] = False
            elif timing.problem:
                found[variant] = None
            elif variant not in self.known:
                found[variant] = timing.median * scale
        return dict(sorted(found.items()))

    # -- Which variants.

    def _batches(self) -> Iterator[list[int]]:
        new = [each for each in range(len(self._variants)) if each not in self.known]
        if not new:
            return
        if self._anchor is not None:
            yield [self._anchor]
        if len(self._variants) <= MOST_MEASURED:
            yield new
            return

        count = min(max(_SAMPLE - len(self.known), 0), len(new))
        sample = Random(0).sample(new, count)  # noqa: S311 - the same for all
        if 0 in new:  # the default is compared with all others
            sample.insert(0, 0)
        yield list(dict.fromkeys(sample))
        yield from self._climb()

    def _climb(self) -> Iterator[list[int]]:
        """Yield the neighbours of the best variant, until none of them is better."""
        before = None
        best = _fastest(self.seconds())
        while best is not None and best != before:
            room = MOST_MEASURED - len(self.seconds())
            yield self._neighbours(best)[: max(room, 0)]
            before = best
            best = _fastest(self.seconds())

    def _neighbours(self, variant: int) -> list[int]:
        """Return the variants without a time that differ from one in a single constant."""
        own = self._variants[variant]
        measured = self.seconds()
        found = []
        for number, other in enumerate(self._variants):
            changes = [name for name in own if own[name] != other[name]]
            if len(changes) == 1 and number not in measured:
                found.append(number)
        return found

    # -- The times.

    def _usable(self) -> list[int]:
        return [each for each, timing in self.timings.items() if not timing.problem]

    def _decide(self) -> None:
        """Give turns to the variants that may be the best, until one is left, or each had
        enough.
        """
        for turn in range(1, _MOST_TURNS):
            rivals = self._rivals()
            if len(rivals) < 2:
                return
            if turn % 2:  # what changes over time changes both alike
                rivals.reverse()
            for each in rivals:
                self._time(each)

    def _rivals(self) -> list[int]:
        """Return the variants that may be the best by what was measured."""
        best = self.best
        if best is None:
            return []
        fastest = self.timings[best]
        rivals = []
        for each in self._usable():
            timing = self.timings[each]
            is_open = len(timing.times) < LAUNCHES * _MOST_TURNS or each == best
            if is_open and timing.may_beat(fastest):
                rivals.append(each)
        return rivals

    def _time(self, variant: int) -> None:
        """Give a variant a turn."""
        if monotonic() >= self._end:
            raise _BudgetSpentError
        limit = inf
        if self.best is not None:
            limit = self.timings[self.best].far
        timing = self._launch(variant, limit)
        if not timing.problem and variant in self.timings:
            timing = Timing((*self.timings[variant].times, *timing.times))
        self.timings[variant] = timing

        seconds = 0.0
        if self.best is not None:
            seconds = self.timings[self.best].median
        share = len(self.seconds()) / min(len(self._variants), MOST_MEASURED)
        self._report(min(share, 1.0), self.best, seconds)


def _fastest(times: Mapping[int, float | None]) -> int | None:
    """Return the variant with the shortest time; None without a time."""
    found = [(time, each) for each, time in times.items() if time]
    if not found:
        return None
    return min(found)[1]
