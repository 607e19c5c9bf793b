"""The search for the fastest variant: launches that a table describes, with faults among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest

from devmod_runtime.tools.search import LAUNCHES, MOST_MEASURED, Search, Timing


class Clock:
    """Seconds that only launches make pass."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Table:
    """Launches whose times a table has, each multiplied by the next of `noise`.

    A text in place of a time is the problem of the variant's check. `order` has the turns.
    """

    def __init__(self, seconds: Sequence[float | str], noise: Callable[[], float] = lambda: 1.0):
        self.seconds = list(seconds)
        self.noise = noise
        self.clock = Clock()
        self.checked: list[int] = []
        self.order: list[int] = []
        self.launches = 0
        #: The variants whose process ends when they are timed.
        self.fragile: set[int] = set()
        #: The launch at which somebody presses Ctrl-C.
        self.interrupted_at: int | None = None

    def _launch(self, variant: int) -> float:
        self.launches += 1
        if self.launches == self.interrupted_at:
            raise KeyboardInterrupt
        seconds = self.seconds[variant]
        assert isinstance(seconds, float)
        time = seconds * self.noise()
        self.clock.now += time
        return time

    def check(self, variant: int) -> Timing:
        self.checked.append(variant)
        seconds = self.seconds[variant]
        if isinstance(seconds, str):
            return Timing((), seconds, is_wrong=seconds == "differs")
        self._launch(variant)
        return Timing()

    def times(self, variant: int, limit: float) -> Timing:
        if variant in self.fragile:
            return Timing((), "its launch ends the process with signal 11")
        self.order.append(variant)
        times = []
        for _ in range(LAUNCHES):
            times.append(self._launch(variant))
            if times[-1] > limit:
                break
        return Timing(tuple(times))


def jitter(width: float) -> Callable[[], float]:
    """Return factors from 1 to ``1 + width``, the same in each run."""
    random = Random(1)
    return lambda: 1 + width * random.random()


def search(table: Table, variants: Sequence[dict[str, Any]] = (), **options: Any) -> Search:
    names = variants or [{"BLOCK": each} for each, _ in enumerate(table.seconds)]
    found = Search(table, names, clock=table.clock, **options)
    found.run()
    return found


def test_the_fastest_variant_is_found_in_noise() -> None:
    table = Table([4.0, 2.0, 1.0, 1.1, 8.0], jitter(0.3))
    found = search(table)
    assert (found.best, found.is_complete) == (2, True)
    assert table.checked == [0, 1, 2, 3, 4]
    counts = [len(found.timings[each].times) for each in range(5)]
    assert counts[2] == max(counts) > LAUNCHES
    assert counts[3] > LAUNCHES  # the second best has as much evidence as it needs
    assert counts[4] <= LAUNCHES  # and the slowest no more than one turn
    assert not found.timings[3].may_beat(found.timings[2])


def test_the_turns_of_rivals_alternate() -> None:
    table = Table([1.0, 1.001, 3.0])
    search(table)
    assert table.order[:3] == [0, 1, 2]
    assert table.order.count(2) == LAUNCHES  # one launch each: it may have been disturbed
    others = [each for each in table.order[3:] if each != 2]
    pairs = [sorted(others[each : each + 2]) for each in range(0, len(others), 2)]
    assert pairs == [[0, 1]] * len(pairs)
    assert others[:4] == [1, 0, 0, 1]


def test_twins_are_no_endless_search() -> None:
    table = Table([1.0, 1.0, 1.0], jitter(0.5))
    found = search(table)
    assert found.is_complete
    # All their turns do not tell them apart.
    assert {len(timing.times) for timing in found.timings.values()} == {36}


def test_a_variant_that_drifts_with_the_machine_does_not_win() -> None:
    """Each launch of the second half takes twice as long, whichever variant it is."""
    table = Table([1.0, 1.2])
    table.noise = lambda: 1 + (table.launches > 10)
    assert search(table).best == 0


@pytest.mark.parametrize("outlier", [0, 1])
def test_single_slow_launches_do_not_decide(outlier: int) -> None:
    """Each fourth launch of one variant takes 50 times as long."""
    table = Table([1.0, 1.5])

    def noise() -> float:
        is_own = bool(table.order) and table.order[-1] == outlier
        if is_own and table.launches % 4 == 0:
            return 50.0
        return 1.0

    table.noise = noise
    assert search(table).best == 0


def test_a_first_launch_that_was_disturbed_is_repeated() -> None:
    table = Table([2.0, 1.0])
    table.noise = lambda: 1 + 9 * (table.order == [0, 1] and table.launches == 6)
    assert search(table).best == 1


def test_variants_that_fail_are_left_out_and_the_search_goes_on() -> None:
    table = Table([2.0, "differs", 0.5, "takes longer than 60 s", 1.0])
    table.fragile = {2}
    found = search(table)
    assert (found.best, found.is_complete) == (4, True)
    assert found.seconds() == {0: 2.0, 1: None, 2: None, 3: None, 4: 1.0}
    wrong = [each for each, timing in found.timings.items() if timing.is_wrong]
    assert wrong == [1]
    assert found.timings[2].problem == "its launch ends the process with signal 11"


def test_all_variants_may_fail() -> None:
    found = search(Table(["differs", "differs"]))
    assert (found.best, found.seconds(), found.is_complete) == (None, {0: None, 1: None}, True)


def test_ctrl_c_keeps_what_is_measured() -> None:
    table = Table([4.0, 3.0, 2.0, 1.0])
    table.interrupted_at = 10  # in the turn of the third variant
    found = search(table)
    assert (found.is_interrupted, found.is_complete) == (True, False)
    assert found.seconds() == {0: 4.0, 1: 3.0}


def test_the_budget_ends_a_search() -> None:
    table = Table([1.0] * 100)
    found = search(table, seconds=20.0)
    assert (found.is_interrupted, found.is_complete) == (False, False)
    assert list(found.seconds().values()) == [1.0] * 5
    assert table.clock.now < 30
    assert search(Table([1.0]), seconds=1e9).is_complete


def test_a_second_search_measures_what_is_new() -> None:
    """Others of the second run take the same relative to the best, on a machine twice as slow."""
    table = Table([8.0, 4.0, "differs", 3.0, 100.0])
    found = search(table, known={0: 4.0, 1: 2.0, 2: None})
    assert table.checked == [1, 3, 4]
    assert found.seconds() == {0: 4.0, 1: 2.0, 2: None, 3: 1.5, 4: 50.0}

    table = Table([8.0, 4.0])
    found = search(table, known={0: 4.0, 1: 2.0})
    assert (table.launches, found.is_complete) == (0, True)
    assert found.seconds() == {0: 4.0, 1: 2.0}


def test_a_best_variant_that_fails_now_is_no_reference() -> None:
    table = Table([8.0, "ends the process", 3.0])
    found = search(table, known={0: 4.0, 1: 2.0})
    assert found.seconds() == {0: 4.0, 1: None, 2: 3.0}


def test_of_many_variants_a_part_is_measured() -> None:
    """1,000 variants, whose time grows with the distance from one of them."""
    variants = [dict(zip("xyz", each, strict=True)) for each in product(range(10), repeat=3)]
    seconds = []
    for each in variants:
        distance = abs(each["x"] - 7) + abs(each["y"] - 2) + abs(each["z"] - 9)
        seconds.append(1.0 + distance)
    table = Table(seconds)
    found = search(table, variants)
    assert found.is_complete
    assert found.best is not None
    assert variants[found.best] == {"x": 7, "y": 2, "z": 9}
    assert 0 in found.timings  # the default
    assert len(found.timings) <= MOST_MEASURED

    again = search(Table(seconds), variants, known=found.seconds())
    assert len(again.seconds()) <= MOST_MEASURED
    assert again.is_complete


def test_progress_has_the_best_so_far() -> None:
    reported: list[Any] = []
    search(Table([4.0, 1.0, "differs"]), report=lambda *each: reported.append(each))
    third = pytest.approx(1 / 3)
    assert reported == [(third, 0, 4.0), (pytest.approx(2 / 3), 1, 1.0), (1.0, 1, 1.0)]


def faults() -> Iterator[tuple[str, Table]]:
    yield "no variants", Table([])
    yield "one variant", Table([1.0])
    yield "times of zero", Table([0.0, 0.0])


@pytest.mark.parametrize(("name", "table"), [*faults()])
def test_small_searches_end(name: str, table: Table) -> None:
    found = search(table)
    assert found.is_complete, name
    assert len(found.timings) == len(table.seconds)
