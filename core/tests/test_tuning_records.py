"""Tuning records: their checks, their map in files, another order of constants, and joining."""

from __future__ import annotations

import math
from typing import Any

import pytest
from each_case import check_errors, error_of

from devmod import TuningRecord
from devmod._values.records import join_records, read_records, write_records

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


WHERE = "the tuning record of 'scale' on 'AMD EPYC': "
NAMES = "expected at most 16 different identifiers"
NO_TEXT = "a text of a tuning record is a str of at most 1024 characters, got"


def test_an_invalid_field_is_refused_in_a_file_and_before_it_is_written() -> None:
    """tests/test_tuning_section.py has each field with more values."""
    cases = {
        f"{NO_TEXT} {'d' * 1025!r:.80}": {"driver": "d" * 1025},
        f"{WHERE}the sizes of a tuned function are ['n', 1]; {NAMES}": {"sizes": ("n", 1)},
        f"{WHERE}the sizes of a tuned function are ['n', 'n']; {NAMES}": {"sizes": ("n", "n")},
        f"{WHERE}a constant has the value nan; expected a boolean, an int of 64 bits, a finite float or a string": {
            "measured": {((1,), (64, math.nan)): 1.0}
        },
        f"{WHERE}expected an integer for each size, a value for each constant, and a time in seconds or None, got (1, 2), (64, 2) and "
        f"{10**400!r:.80}": {"measured": {((1, 2), (64, 2)): 10**400}},
    }
    check_errors(cases, lambda fields: TuningRecord.from_dict(RECORD.replace(**fields).to_dict()))
    written = {f"the tuning records cannot be written: {text}": cases[text] for text in cases}
    check_errors(written, lambda fields: write_records([RECORD.replace(**fields)]))


def test_an_invalid_map_is_refused() -> None:
    good = write_records([RECORD])
    record = RECORD.to_dict()
    cases = {
        "r.json: the value has no 'devmod_tuning'": {},
        "r.json: the version is 2, and this devmod reads version 1": good | {"devmod_tuning": 2},
        "r.json: a tuning record has no 'function'": good | {"records": [{}]},
        f"r.json: {WHERE}two times of ((1,), (64, 2))": good
        | {"records": [record | {"measured": [{"sizes": [1], "times": [[[64, 2], 1]] * 2}]}]},
        f"r.json: {WHERE}'times'": good | {"records": [record | {"measured": [{"sizes": [1]}]}]},
        f"r.json: {WHERE}the constants of a tuned function are 'AB'; {NAMES}": good
        | {"records": [record | {"constants": "AB"}]},
    }
    check_errors(cases, lambda data: read_records(data, "r.json"))


def test_another_order_of_constants_and_sizes() -> None:
    two = RECORD.replace(sizes=("n", "m"), measured={((1, 2), (64, 4)): 1.0})
    assert two.arranged(("TILE", "BLOCK"), ("m", "n")) == RECORD.replace(
        constants=("TILE", "BLOCK"), sizes=("m", "n"), measured={((2, 1), (4, 64)): 1.0}
    )
    assert two.arranged(("BLOCK",), two.sizes) is two.arranged(two.constants, ("n",)) is None


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


def test_a_file_has_at_most_4096_records() -> None:
    records = [RECORD.replace(device=str(number)) for number in range(4097)]
    data = write_records(records[1:])
    assert read_records(data, "r.json") == tuple(records[1:])
    problem = "4097 records; the limit is 4096"
    error = error_of(write_records, records)
    assert str(error) == f"the tuning records cannot be written: {problem}"
    data["records"].append(data["records"][0])
    assert str(error_of(read_records, data, "r.json")) == f"r.json: {problem}"
