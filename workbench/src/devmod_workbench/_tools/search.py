"""The search of `devmod.tune` for the fastest variant with one set of inputs. It launches nothing
itself.

docs/design/runtime.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from random import Random
from statistics import median, quantiles
from time import monotonic
from typing import Any, NamedTuple

from devmod_runtime._tuning.noise import LEAST_TURNS, Estimate
from devmod_workbench._tools.certainty import fastest, is_certain, unsettled

#: Up to so many variants, all are measured; of more a sample, then the neighbours of the best.
MOST_MEASURED = 200
_SAMPLE = 100
#: A turn is so many launches of one variant, and at most so many of its turns decide.
LAUNCHES = 3
MOST_TURNS = 60
#: After a launch that takes so many times the slowest turn of the best variant, a turn ends.
_FAR = 2.0

#: The seconds of a variant by the number of the round, each the shortest of a turn: what else runs
#: on the machine only adds to a time.
Turns = dict[int, float]
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


class _BudgetSpentError(Exception):
    """The time of the search is over."""


# Where to change: a strategy of tuning: which variants `devmod tune` measures, and how often
#   here: `Search`; `workbench/src/devmod_workbench/_tools/certainty.py` decides whether one is the
#     fastest, `plugins/runtime/src/devmod_runtime/_tuning/noise.py` how far times differ by chance
#   tests: `workbench/tests/toy/test_search.py`, `tests/test_tune.py`
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
        What was measured of variants before. Those that are not settled are measured again.
    seconds
        How long the search may take. Default: no limit.
    report
        Called after each turn with the part of the variants that were measured, the best so far
        (None before the first), and its seconds.

    Attributes
    ----------
    timings
        The number of each variant that was measured, and all its launches.
    best
        The number of the fastest of the variants that were last compared; None if all failed.
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
        known: Mapping[int, Estimate] = {},
        seconds: float = inf,
        report: Callable[[float, int | None, float], object] = lambda *_: None,
    ) -> None:
        self._launch = launch
        self._variants = variants
        self.known = known
        self._end = monotonic() + seconds
        self._report = report
        self.timings: dict[int, Timing] = {}
        self.best: int | None = None
        self.is_complete = False
        #: What is known of the variants that are not compared now.
        self._found = dict(known)
        #: The variants that are compared now, and the number of the round.
        self._turns: dict[int, Turns] = {}
        self._round = 0

    def run(self) -> None:
        """Measure all variants that are not known, or the promising ones of many."""
        try:
            for batch in self._batches():
                self._compare(batch)
            self.is_complete = True
        except _BudgetSpentError:
            pass

    def results(self) -> dict[int, Estimate]:
        """Return what is known of each variant, in the order of the variants.

        The machine may be slower today than when the others were measured: the best of those is
        measured again, and the new times are scaled by its change.
        """
        found = dict(self._found)
        for variant, time in self._estimates().items():
            before = found.get(variant)
            if before is None or time.turns >= LEAST_TURNS:
                found[variant] = time
        for variant, timing in self.timings.items():
            if timing.is_wrong:
                found[variant] = Estimate(False)
            elif timing.problem:
                found[variant] = Estimate(None)
        return dict(sorted(found.items()))

    def unsettled(self) -> list[int]:
        """Return the variants of which it is not known whether they are faster than the best."""
        found = unsettled(self.results())
        for each in self._turns:
            if self.best in (None, each) or each in found:
                continue
            if not is_certain(self._ratios(each, self.best), each == 0):
                found.append(each)
        return found

    # -- Which variants.

    def _batches(self) -> Iterator[list[int]]:
        again = unsettled(self.known)
        new = [each for each in range(len(self._variants)) if each not in self.known]
        if not new and not again:
            return
        if len(self._variants) <= MOST_MEASURED:
            yield sorted([*again, *new])
            return

        count = min(max(_SAMPLE - len(self.known), 0), len(new))
        sample = Random(0).sample(new, count)  # noqa: S311 - the same for all
        if 0 in new:  # the default is compared with all others
            sample.insert(0, 0)
        yield list(dict.fromkeys([*again, *sample]))
        yield from self._climb()

    def _climb(self) -> Iterator[list[int]]:
        """Yield the neighbours of the best variant, until none of them is better."""
        before = None
        best = fastest(self.results())
        while best is not None and best != before:
            room = MOST_MEASURED - len(self.results())
            yield self._neighbours(best)[: max(room, 0)]
            before = best
            best = fastest(self.results())

    def _neighbours(self, variant: int) -> list[int]:
        """Return the variants without a time that differ from one in a single constant."""
        own = self._variants[variant]
        measured = self.results()
        found = []
        for number, other in enumerate(self._variants):
            changes = [name for name in own if own[name] != other[name]]
            if len(changes) == 1 and number not in measured:
                found.append(number)
        return found

    # -- The times.

    def _compare(self, batch: Sequence[int]) -> None:
        """Give turns to variants beside the best one that is known, until all are settled, or have
        had enough.
        """
        self._found = self.results()
        self._turns = {}
        anchor = fastest(self._found)
        self.best = None
        rivals = list(batch)
        if anchor is not None:
            rivals.insert(0, anchor)
        while rivals:
            self._give_turns(dict.fromkeys(rivals))
            rivals = []
            for each in self.unsettled():
                if len(self._turns.get(each, ())) < MOST_TURNS:
                    rivals.append(each)
            if self.best is not None and rivals:
                rivals.append(self.best)
            # What changes over time changes all alike.
            rivals.sort(reverse=self._round % 2 == 1)

    def _give_turns(self, variants: Iterable[int]) -> None:
        """Give each variant a turn: a round."""
        self._round += 1
        for each in variants:
            self._time(each)
        self._find_best(self._turns)

    def _time(self, variant: int) -> None:
        """Give a variant a turn."""
        if monotonic() >= self._end:
            raise _BudgetSpentError
        limit = inf
        if self.best is not None:
            limit = _FAR * max(self._turns[self.best].values())
        timing = self._launch(variant, limit)
        if timing.problem:
            self.timings[variant] = timing
            self._turns.pop(variant, None)
            if self.best == variant:
                self.best = None
                self._find_best(self._turns)
        else:
            before = self.timings.get(variant, Timing())
            self.timings[variant] = Timing((*before.times, *timing.times))
            self._turns.setdefault(variant, {})[self._round] = min(timing.times)
            self._find_best([variant])

        seconds = 0.0
        if self.best is not None:
            seconds = median(self._turns[self.best].values())
        measured = self._found.keys() | self.timings.keys()
        share = len(measured) / min(len(self._variants), MOST_MEASURED)
        self._report(min(share, 1.0), self.best, seconds)

    def _find_best(self, variants: Iterable[int]) -> None:
        """Replace the best variant by those of others that are faster in the same rounds."""
        for each in variants:
            if self.best is None:
                self.best = each
            ratios = self._ratios(each, self.best)
            if ratios and median(ratios) < 1:
                self.best = each

    def _ratios(self, variant: int, other: int) -> list[float]:
        """Return the times of a variant by those of another one in the same rounds."""
        others = self._turns[other]
        ratios = []
        for number, seconds in self._turns[variant].items():
            if number in others:
                ratios.append(seconds / others[number])
        return ratios

    def _estimates(self) -> dict[int, Estimate]:
        """Return the times of the variants that are compared now: those of the best one, and what
        others took of its time in the same rounds.
        """
        best = self.best
        if best is None:
            return {}
        usual = median(self._turns[best].values())
        base = usual
        anchor = fastest(self._found)
        if anchor is not None and anchor in self._turns:
            ratios = self._ratios(anchor, best)
            if ratios:
                base = (self._found[anchor].seconds or base) / median(ratios)
        found = {}
        for each, turns in self._turns.items():
            if each == best:
                parts = [seconds / usual for seconds in turns.values()]
            else:
                parts = self._ratios(each, best)
            if not parts:
                continue
            low, high = _quartiles(parts)
            time = Estimate(base * median(parts), len(parts), base * (high - low), base * low)
            if each == anchor:  # what others are scaled by keeps its time
                before = self._found[each]
                time = before._replace(turns=time.turns, spread=time.spread)
            found[each] = time
        return found


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the first and the third quartile."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high
