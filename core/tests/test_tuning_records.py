"""Tuning records: their checks, their map in files, another order of constants, and joining."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import pytest
from each_case import check_errors, error_of

from devmod import TuningRecord
from devmod._formats.tuning import pack_records
from devmod._values.records import join_records, read_records

RECORD = TuningRecord(
    "scale",
    "opencl",
    "Intel(R) OpenCL",
    "AMD EPYC",
    "",
    "2026.1",
    ("BLOCK", "TILE"),
    ("n",),
    {
        ((100_000,), (64, 2)): 1.2e-5,
        ((100_000,), (128, 0.5)): None,
        ((-1,), ("x", True)): 3,
    },
)


def test_a_record_has_the_map_that_files_have() -> None:
    data = RECORD.to_dict()
    assert data["constants"] == ["BLOCK", "TILE"]
    assert data["measured"] == [
        {"sizes": [100_000], "times": [[[64, 2], 1.2e-5], [[128, 0.5], None]]},
        {"sizes": [-1], "times": [[["x", True], 3]]},
    ]
    assert TuningRecord.from_dict(data | {"of tomorrow": 1}) == RECORD


WHERE = "r.json: the tuning record of 'scale' on 'AMD EPYC': "
NAMES = "expected at most 16 different identifiers"
TURNS = "expected a number of turns and a spread in seconds, got"
NUMBERS = "expected an integer for each size, a value for each constant, and a time in seconds or None or False, got"


def measured(*times: object) -> dict[str, object]:
    """Return the key of a map with times at n=1."""
    return {"measured": [{"sizes": [1], "times": list(times)}]}


def test_an_invalid_map_is_refused() -> None:
    """tests/test_tuning_verdicts.py has each field with more values."""
    good = {"devmod_tuning": 1, "records": []}
    maps = {
        "r.json: the value has no 'devmod_tuning'": {},
        "r.json: the version is 2, and this devmod reads version 1": good | {"devmod_tuning": 2},
        "r.json: the version is True, and this devmod reads version 1": good
        | {"devmod_tuning": True},
        "r.json: the version is 1.0, and this devmod reads version 1": good
        | {"devmod_tuning": 1.0},
        "r.json: a tuning record has no 'function'": good | {"records": [{}]},
        "r.json: 'scale' has 4097 records; the limit for a function is 4096": good
        | {"records": [RECORD.to_dict()] * 4097},
    }
    fields = {
        f"r.json: a text of a tuning record is a str of at most 1024 characters, got {'d' * 1025!r:.80}": {
            "driver": "d" * 1025
        },
        f"{WHERE}the sizes of a tuned function are ['n', 1]; {NAMES}": {"sizes": ["n", 1]},
        f"{WHERE}'times'": {"measured": [{"sizes": [1]}]},
        f"{WHERE}a constant has the value nan; expected a boolean, an int of 64 bits, a finite float or a string": measured(
            [[64, math.nan], 1]
        ),
        f"{WHERE}two times of ((1,), (64, 2))": measured([[64, 2], 1], [[64, 2], 1]),
        f"{WHERE}{NUMBERS} (1,), (64, 2) and {10**400!r:.80}": measured([[64, 2], 10**400]),
        f"{WHERE}{TURNS} [-1]": measured([[64, 2], 1, -1]),
        f"{WHERE}{TURNS} [True]": measured([[64, 2], 1, True]),
        f"{WHERE}{TURNS} [4294967296, 0]": measured([[64, 2], 1, 2**32, 0]),
        f"{WHERE}{TURNS} [5, -0.5]": measured([[64, 2], 1, 5, -0.5]),
        f"{WHERE}{TURNS} [5, nan]": measured([[64, 2], 1, 5, math.nan]),
        f"{WHERE}{TURNS} [5, None]": measured([[64, 2], 1, 5, None]),
    }
    for text, changes in fields.items():
        maps[text] = good | {"records": [RECORD.to_dict() | changes]}
    check_errors(maps, lambda data: read_records(data, "r.json"))
    error = error_of(pack_records, [RECORD.replace(device=str(number)) for number in range(4097)])
    assert str(error) == (
        "the tuning records cannot be written: 'scale' has 4097 records; the limit for a function is 4096"
    )


def test_turns_and_their_spread_survive_and_go_with_their_times() -> None:
    one, two = ((100_000,), (64, 2)), ((-1,), ("x", True))
    record = RECORD.replace(turns={one: (7, 2.5e-7), two: (2**32 - 1, 0.0)})
    data = record.to_dict()
    assert data["measured"][0]["times"][0] == [[64, 2], 1.2e-5, 7, 2.5e-7]
    assert TuningRecord.from_dict(data) == record
    data["measured"][0]["times"][0].append("of tomorrow")
    assert TuningRecord.from_dict(data) == record

    assert record.arranged(("TILE", "BLOCK"), ("n",)) == RECORD.arranged(
        ("TILE", "BLOCK"), ("n",)
    ).replace(turns={((100_000,), (2, 64)): (7, 2.5e-7), ((-1,), (True, "x")): (2**32 - 1, 0.0)})

    again = RECORD.replace(measured={one: 3e-6}, turns={})
    (joined,) = join_records([record, again])
    assert (joined.measured[one], joined.turns) == (3e-6, {two: (2**32 - 1, 0.0)})
    (joined,) = join_records([again, record])
    assert (joined.measured[one], joined.turns) == (1.2e-5, record.turns)


def test_another_order_of_constants_and_sizes() -> None:
    two = RECORD.replace(sizes=("n", "m"), measured={((1, 2), (64, 4)): 1.0})
    assert two.arranged(("TILE", "BLOCK"), ("m", "n")) == RECORD.replace(
        constants=("TILE", "BLOCK"), sizes=("m", "n"), measured={((2, 1), (4, 64)): 1.0}
    )
    assert two.arranged(("BLOCK",), two.sizes) is two.arranged(two.constants, ("n",)) is None


def test_each_order_of_three_constants_and_three_sizes() -> None:
    """An exchange of two is its own inverse; a cyclic order of three is not."""
    numbers = {"A": 1, "B": 2, "C": 3, "n": 4, "m": 5, "k": 6}

    def ordered(constants: tuple[str, ...], sizes: tuple[str, ...]) -> TuningRecord:
        case = (
            tuple([numbers[each] for each in sizes]),
            tuple([numbers[each] for each in constants]),
        )
        return RECORD.replace(constants=constants, sizes=sizes, measured={case: 1.0})

    record = ordered(("A", "B", "C"), ("n", "m", "k"))
    for constants in permutations("ABC"):
        for sizes in permutations("nmk"):
            assert record.arranged(constants, sizes) == ordered(constants, sizes)


def test_records_of_one_device_join_and_later_times_win() -> None:
    later = {((100_000,), (64, 2)): 4e-6, ((7,), (256, 2)): None}
    joined = RECORD.replace(measured=dict(RECORD.measured) | later)
    assert join_records([RECORD, RECORD.replace(measured=later)]) == (joined,)


@pytest.mark.parametrize(
    "other",
    [
        {"function": "scales"},
        {"kind": "cuda"},
        {"platform": "Portable Computing Language"},
        {"device": "AMD EPY"},
        {"arch": "sm_90"},
        {"driver": "2026.2"},
        {"constants": ("BLOCK", "WIDTH")},
        {"sizes": ("m",)},
    ],
)
def test_records_of_another_device_driver_or_function_stay_apart(other: dict[str, Any]) -> None:
    apart = (RECORD, RECORD.replace(**other))
    assert join_records(apart) == apart
