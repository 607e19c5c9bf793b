"""The search for the fastest variant: launches that a table describes, with faults among them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest

from devmod_runtime.tools.search import LAUNCHES, MOST_MEASURED, Search, Timing

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
        patch.setattr("devmod_runtime.tools.search.monotonic", lambda: table.now)
        found = Search(table.times, names, **options)
        found.run()
    return found


def test_the_fastest_variant_is_found_in_noise() -> None:
    table = Table(4.0, 2.0, 1.0, 1.1, 8.0, noise=jitter(0.3))
    found = search(table)
    assert (found.best, found.is_complete) == (2, True)
    assert table.order[:5] == [0, 1, 2, 3, 4]
    counts = [len(found.timings[each].times) for each in range(5)]
    assert counts[2] == max(counts) > LAUNCHES
    assert counts[3] > LAUNCHES  # the second best has as much evidence as it needs
    assert counts[4] <= LAUNCHES  # and the slowest no more than one turn
    assert not found.timings[3].may_beat(found.timings[2])


def test_the_turns_of_rivals_alternate() -> None:
    table = Table(1.0, 1.001, 3.0)
    search(table)
    assert table.order[:3] == [0, 1, 2]
    assert table.order.count(2) == LAUNCHES  # one launch each: it may have been disturbed
    others = [each for each in table.order[3:] if each != 2]
    assert others[:8] == [1, 0, 0, 1, 1, 0, 0, 1]


def test_twins_are_no_endless_search() -> None:
    found = search(Table(1.0, 1.0, 1.0, noise=jitter(0.5)))
    assert found.is_complete
    # All their turns do not tell them apart.
    assert {len(timing.times) for timing in found.timings.values()} == {36}


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


def test_variants_that_fail_are_left_out_and_the_search_goes_on() -> None:
    found = search(Table(2.0, "differs", "takes longer than 60 s", 1.0))
    assert (found.best, found.is_complete) == (3, True)
    assert [*found.seconds().values()] == [2.0, False, None, 1.0]


def test_the_budget_keeps_what_is_measured() -> None:
    found = search(Table(*[1.0] * 100), seconds=20.0)
    assert not found.is_complete
    assert found.seconds() == dict.fromkeys(range(7), 1.0)
    assert search(Table(1.0), seconds=1e9).is_complete


def test_a_second_search_measures_what_is_new() -> None:
    """Others of the second run take the same relative to the best, on a machine twice as slow."""
    known = {0: 4.0, 1: 2.0, 2: False}
    table = Table(8.0, 4.0, "differs", 3.0, 100.0)
    assert search(table, known=known).seconds() == {**known, 3: 1.5, 4: 50.0}
    assert table.order[:3] == [1, 3, 4]

    # The best variant fails now, and is no reference.
    found = search(Table(8.0, "ends the process", 3.0), known={0: 4.0, 1: 2.0})
    assert found.seconds() == {0: 4.0, 1: None, 2: 3.0}


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

    again = search(Table(*seconds), variants, known=found.seconds())
    assert len(again.seconds()) <= MOST_MEASURED
    assert again.is_complete


def test_of_many_neighbours_of_the_best_a_part_is_measured() -> None:
    """All others are neighbours where one constant has all values."""
    found = search(Table(*range(1, 1001)))
    assert (found.is_complete, len(found.timings)) == (True, MOST_MEASURED)


def test_progress_has_the_best_so_far() -> None:
    reported = []
    search(Table(4.0, 1.0, "differs"), report=lambda *each: reported.append(each))
    assert [each[1:] for each in reported] == [(0, 4.0), (1, 1.0), (1, 1.0)]
    assert [each[0] for each in reported] == pytest.approx([1 / 3, 2 / 3, 1])


def test_small_searches_end() -> None:
    for seconds, best in (((), None), ((1.0,), 0), (("differs", "differs"), None)):
        found = search(Table(*seconds))
        assert (found.is_complete, found.best) == (True, best)
        assert len(found.timings) == len(seconds)
