"""The search for the fastest variant: launches that a table describes, with faults among them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest

from devmod_runtime._tuning.noise import LEAST_TURNS, Estimate
from devmod_workbench._tools.certainty import unsettled
from devmod_workbench._tools.search import LAUNCHES, MOST_MEASURED, MOST_TURNS, Search, Timing

#: Returns the factor of the time of a variant's launch.
Noise = Callable[["Table", int], float]


class Table:
    """Launches whose times a table has, each multiplied by `noise`. They alone make time pass.

    A text in place of a time is the problem of the variant. `order` has the turns.
    """

    def __init__(self, *seconds: float | str, noise: Noise = lambda table, variant: 1.0):
        self.seconds = seconds
        self.noise = noise
        self.now = 0.0
        self.order = []
        self.launches = 0

    def _launch(self, variant: int) -> float:
        self.launches += 1
        time = self.seconds[variant] * self.noise(self, variant)
        self.now += time
        return time

    def times(self, variant: int, limit: float) -> Timing:
        problem = self.seconds[variant]
        if isinstance(problem, str):
            return Timing((), problem, is_wrong=problem == "differs")
        self.order.append(variant)
        times = []
        for _ in range(LAUNCHES):
            times.append(self._launch(variant))
            if times[-1] > limit:
                break
        return Timing(tuple(times))


def jitter(width: float) -> Noise:
    """Return factors from 1 to ``1 + width``, the same in each run."""
    random = Random(1)
    return lambda table, variant: 1 + width * random.random()


def search(table: Table, variants: Any = (), **options: Any) -> Search:
    names = variants or [{"BLOCK": each} for each, _ in enumerate(table.seconds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("devmod_workbench._tools.search.monotonic", lambda: table.now)
        found = Search(table.times, names, **options)
        found.run()
    return found


def seconds_of(found: Search) -> dict[int, float | None]:
    return {variant: time.seconds for variant, time in found.results().items()}


def test_the_fastest_variant_is_found_in_noise() -> None:
    table = Table(4.0, 2.0, 1.0, 1.1, 8.0, noise=jitter(0.3))
    found = search(table)
    assert (found.best, found.is_complete) == (2, True)
    assert table.order[:5] == [0, 1, 2, 3, 4]
    counts = [len(found.timings[each].times) for each in range(5)]
    assert counts[2] == max(counts) > LAUNCHES
    assert counts[3] > LAUNCHES  # the second best has as much evidence as it needs
    assert counts[4] == LEAST_TURNS  # and the slowest no more than a launch in each turn
    assert unsettled(found.results()) == []


def test_the_turns_of_rivals_alternate() -> None:
    table = Table(1.0, 1.001, 3.0)
    search(table)
    assert table.order[:6] == [0, 1, 2, 2, 1, 0]
    assert table.order.count(2) == LEAST_TURNS
    others = [each for each in table.order if each != 2]
    assert others[:16] == [0, 1, 1, 0] * 4


def test_twins_are_no_endless_search() -> None:
    found = search(Table(1.0, 1.0, 1.0, noise=jitter(1.0)))
    assert found.is_complete
    assert unsettled(found.results()) != []  # all their turns do not tell them apart
    counts = [len(timing.times) for timing in found.timings.values()]
    assert max(counts) == MOST_TURNS * LAUNCHES

    found = search(Table(1.0, 1.0, 1.0, noise=jitter(0.01)))
    assert unsettled(found.results()) == []  # and here it does not matter which is the fastest
    assert max(len(timing.times) for timing in found.timings.values()) < MOST_TURNS


#: The machine gets slower; each fourth launch of one variant takes 50 times as long; the first
#: launches of the better one are disturbed; two launches of its first turn are.
DISTURBANCES = [
    ((1.0, 1.2), lambda table, variant: 1 + (table.launches > 10)),
    ((1.0, 1.5), lambda table, variant: 1 + 49 * (variant == 0 and table.launches % 4 == 0)),
    ((1.0, 1.5), lambda table, variant: 1 + 49 * (variant == 1 and table.launches % 4 == 0)),
    ((2.0, 1.0), lambda table, variant: 1 + 9 * (table.order == [0, 1] and table.launches == 6)),
    ((1.0, 1.05), lambda table, variant: {2: 1.1, 3: 50.0}.get(table.launches, 1.0)),
]


@pytest.mark.parametrize(("seconds", "noise"), DISTURBANCES)
def test_disturbed_launches_do_not_decide(seconds: tuple[float, float], noise: Noise) -> None:
    assert search(Table(*seconds, noise=noise)).best == seconds.index(1.0)


def busy(launches: range, factor: float) -> Noise:
    """Return the factors of a machine that is busy during some launches."""
    return lambda table, variant: factor if table.launches in launches else 1.0


def test_times_of_different_moments_are_compared_by_their_turns() -> None:
    """The third variant has all its turns before the machine gets slower."""
    table = Table(1.015, 1.0, 4.0, noise=busy(range(45, 1000), 3.0))
    found = search(table)
    assert (table.order.count(2), table.order[-1] != 2) == (LEAST_TURNS, True)
    assert table.order.count(1) > 2 * LEAST_TURNS
    first, second, third = seconds_of(found).values()
    assert (first, second, third) == pytest.approx((3.045, 3.0, 12.0))
    assert unsettled(found.results()) == []


def test_a_stopped_search_that_was_disturbed_is_measured_again() -> None:
    """Variant 1 has its only turn while the machine is busy, and the search is stopped then."""
    variants = [{"BLOCK": each} for each in range(3)]
    table = Table(1.0, 0.4, 2.0, noise=busy(range(4, 7), 26.0))
    stopped = search(table, variants, seconds=14.0)
    assert not stopped.is_complete
    assert (stopped.results()[1].seconds, stopped.results()[1].turns) == (0.4 * 26, 1)
    assert unsettled(stopped.results()) == [0, 1, 2]

    again = search(Table(1.0, 0.4, 2.0), variants, known=stopped.results())
    assert again.best == 1
    assert seconds_of(again) == pytest.approx({0: 1.0, 1: 0.4, 2: 2.0})
    assert unsettled(again.results()) == []
    table = Table(1.0, 0.4, 2.0)
    assert seconds_of(search(table, variants, known=again.results())) == seconds_of(again)
    assert table.order == [], "all is settled"


def test_a_second_search_that_is_stopped_keeps_what_is_known() -> None:
    known = {0: Estimate(1.0, 9, 0.01), 1: Estimate(1.1, 9, 0.5), 2: Estimate(3.0, 2)}
    assert unsettled(known) == [1, 2]
    table = Table(5.0, 5.0, 5.0)
    found = search(table, known=known, seconds=50.0)
    assert (found.is_complete, table.order) == (False, [0, 1, 2, 2])
    assert found.results() == known
    complete = search(Table(2.0, 2.1, 6.0), known=known)
    assert seconds_of(complete) == pytest.approx({0: 1.0, 1: 1.05, 2: 3.0})
    assert [each.turns >= LEAST_TURNS for each in complete.results().values()] == [True] * 3


def test_a_slow_variant_with_a_large_spread_is_settled() -> None:
    random = Random(2)
    noise = lambda table, variant: 1 + variant * random.random()  # noqa: E731 - as in `jitter`
    found = search(Table(1.0, 20.0, noise=noise))
    slow = found.results()[1]
    assert (slow.turns, slow.spread > 4.0) == (LEAST_TURNS, True)
    assert unsettled(found.results()) == []


def test_the_default_is_settled_when_it_is_certainly_slower_or_as_good() -> None:
    """The others are as soon as they are not certainly faster."""
    fast = Estimate(1.0, 25, 0.0)
    settled = {0.02: True, 0.2: False, 2.0: False}
    for spread, is_settled in settled.items():
        assert (unsettled({0: Estimate(1.005, 25, spread), 1: fast}) == []) is is_settled
        assert (unsettled({0: fast, 1: Estimate(1.005, 25, spread)}) == []) is is_settled
        assert (unsettled({0: Estimate(1.2, 25, spread), 1: fast}) == []) is (spread < 2)
    # The difference of 4 % matters, and is not certain.
    assert unsettled({0: Estimate(1.04, 25, 0.1), 1: fast}) == [0]
    assert unsettled({0: fast, 1: Estimate(1.04, 25, 0.1)}) == []
    # Those of another tool are exact.
    assert unsettled({0: Estimate(1.0), 1: Estimate(1.001), 2: Estimate(None)}) == []


def test_variants_that_fail_are_left_out_and_the_search_goes_on() -> None:
    found = search(Table(2.0, "differs", "takes longer than 60 s", 1.0))
    assert (found.best, found.is_complete) == (3, True)
    assert [*seconds_of(found).values()] == [2.0, False, None, 1.0]


def test_the_budget_keeps_what_is_measured() -> None:
    found = search(Table(*[1.0] * 100), seconds=20.0)
    assert not found.is_complete
    assert seconds_of(found) == dict.fromkeys(range(7), 1.0)
    assert search(Table(1.0), seconds=1e9).is_complete


def test_a_second_search_measures_what_is_new() -> None:
    """Others of the second run take the same relative to the best, on a machine twice as slow."""
    known = {0: Estimate(4.0), 1: Estimate(2.0), 2: Estimate(False)}
    table = Table(8.0, 4.0, "differs", 3.0, 100.0)
    found = search(table, known=known)
    assert seconds_of(found) == {0: 4.0, 1: 2.0, 2: False, 3: 1.5, 4: 50.0}
    assert table.order[:3] == [1, 3, 4]

    # The best variant fails now, and is no reference.
    known = {0: Estimate(4.0), 1: Estimate(2.0)}
    found = search(Table(8.0, "ends the process", 3.0), known=known)
    assert seconds_of(found) == {0: 4.0, 1: None, 2: 3.0}


def test_of_many_variants_a_part_is_measured() -> None:
    """1,000 variants, whose time grows with the distance from one of them."""
    variants = []
    seconds = []
    for x, y, z in product(range(10), repeat=3):
        variants.append({"x": x, "y": y, "z": z})
        seconds.append(1.0 + abs(x - 7) + abs(y - 2) + abs(z - 9))
    found = search(Table(*seconds), variants)
    assert (found.is_complete, found.best) == (True, seconds.index(1.0))
    assert 0 in found.timings  # the default
    assert len(found.timings) <= MOST_MEASURED

    again = search(Table(*seconds), variants, known=found.results())
    assert len(again.results()) <= MOST_MEASURED
    assert again.is_complete


def test_of_many_neighbours_of_the_best_a_part_is_measured() -> None:
    """All others are neighbours where one constant has all values."""
    found = search(Table(*range(1, 1001)))
    assert (found.is_complete, len(found.timings)) == (True, MOST_MEASURED)


def test_progress_has_the_best_so_far() -> None:
    reported = []
    search(Table(4.0, 1.0, "differs"), report=lambda *each: reported.append(each))
    assert [each[1:] for each in reported[:3]] == [(0, 4.0), (1, 1.0), (1, 1.0)]
    assert [each[0] for each in reported[:3]] == pytest.approx([1 / 3, 2 / 3, 1])
    assert {*reported[3:]} == {(1.0, 1, 1.0)}


def test_small_searches_end() -> None:
    for seconds, best in (((), None), ((1.0,), 0), (("differs", "differs"), None)):
        found = search(Table(*seconds))
        assert (found.is_complete, found.best) == (True, best)
        assert len(found.timings) == len(seconds)
