"""Tuning records: their checks, their map in files, another order of constants, and joining."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import devmod
from devmod import TuningRecord
from devmod._values.records import join_records, read_records, write_records

MEASURED = {
    ((100_000,), (64, 2)): 1.2e-5,
    ((100_000,), (128, 2)): None,
    ((1,), (64, 2)): 3e-6,
}


def record(**fields: Any) -> TuningRecord:
    defaults: dict[str, Any] = {
        "platform": "Intel(R) OpenCL",
        "device": "AMD EPYC",
        "driver": "2026.1",
        "constants": ("BLOCK", "TILE"),
        "sizes": ("n",),
        "measured": MEASURED,
    }
    return TuningRecord("scale", "opencl", **(defaults | fields))


def refusal(act: Any) -> str:
    with pytest.raises(devmod.FormatError) as caught:
        act()
    return str(caught.value)


def test_a_record_has_the_map_that_files_have() -> None:
    assert record().to_dict() == {
        "function": "scale",
        "kind": "opencl",
        "platform": "Intel(R) OpenCL",
        "device": "AMD EPYC",
        "arch": "",
        "driver": "2026.1",
        "constants": ["BLOCK", "TILE"],
        "sizes": ["n"],
        "measured": [
            {"sizes": [100_000], "times": [[[64, 2], 1.2e-5], [[128, 2], None]]},
            {"sizes": [1], "times": [[[64, 2], 3e-6]]},
        ],
    }


VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(max_size=5),
)
CASES = st.tuples(st.tuples(st.integers(-(2**63), 2**63 - 1)), st.tuples(VALUES, VALUES))
TIMES = st.one_of(st.none(), st.floats(1e-9, 1e9), st.integers(1, 10**9))


@given(st.dictionaries(CASES, TIMES, max_size=6))
def test_a_record_survives_a_round_trip_through_its_map(measured: Any) -> None:
    before = record(measured=measured)
    after = TuningRecord.from_dict(before.to_dict())
    assert after == before
    assert after.measured == measured
    assert pickle.loads(pickle.dumps(before)) == before


def test_keys_that_a_later_devmod_adds_are_ignored() -> None:
    assert TuningRecord.from_dict(record().to_dict() | {"of tomorrow": 1}) == record()


WHERE = "the tuning record of 'scale' on 'AMD EPYC': "


def not_a_text(value: object) -> str:
    return f"a text of a tuning record is a str of at most 1024 characters, got {value!r:.80}"


def not_a_constant(value: object) -> str:
    return f"{WHERE}a constant has the value {value!r}; expected a boolean, an int of 64 bits, a finite float or a string"


def not_a_time(sizes: object, values: object, seconds: object) -> str:
    return (
        f"{WHERE}expected an integer for each size, a value for each constant, and a time in seconds or None, got {sizes!r}, "
        f"{values!r} and {seconds!r:.80}"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"device": 7}, not_a_text(7)),
        ({"driver": "d" * 1025}, not_a_text("d" * 1025)),
        ({"sizes": ("n", 1)}, f"{WHERE}{not_a_text(1)}"),
        ({"sizes": ("n", "n")}, f"{WHERE}expected at most 16 different sizes, got ('n', 'n')"),
        (
            {"measured": {((1, 2), (64, 2)): 1.0}},
            not_a_time((1, 2), (64, 2), 1.0),
        ),
        ({"measured": {((1.5,), (64, 2)): 1.0}}, not_a_time((1.5,), (64, 2), 1.0)),
        ({"measured": {((1,), (64, math.nan)): 1.0}}, not_a_constant(math.nan)),
        *[
            ({"measured": {((1,), (64, 2)): seconds}}, not_a_time((1,), (64, 2), seconds))
            for seconds in (0, math.nan, 10**400, True)
        ],
        (
            {"measured": {((n,), (64, 2)): 1.0 for n in range(2**16 + 1)}},
            f"{WHERE}65537 times; the limit is 65536",
        ),
    ],
)
def test_an_invalid_field_is_refused_in_a_file_and_before_it_is_written(
    fields: dict[str, Any], message: str
) -> None:
    invalid = record(**fields)
    assert refusal(lambda: TuningRecord.from_dict(invalid.to_dict())) == message
    assert (
        refusal(lambda: write_records([invalid]))
        == f"the tuning records cannot be written: {message}"
    )


def test_the_limits_are_allowed() -> None:
    names = tuple("ABCDEFGHIJKLMNOP")
    values = (2**63 - 1, -(2**63), "x" * 1024, 1.5, False, *range(11))
    write_records(
        [
            record(
                device="d" * 1024,
                constants=names,
                measured={((2**63 - 1,), values): 10**9, ((-(2**63),), values): None},
            ),
            record(measured={((n,), (64, 2)): 1.0 for n in range(2**16)}),
        ]
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([], "a tuning record is a map with string keys, not list"),
        ({"kind": None}, not_a_text(None)),
        ({"measured": {}}, f"{WHERE}the measurements are a list, not dict"),
        ({"measured": [{"sizes": [1]}]}, f"{WHERE}'times'"),
        (
            {"measured": [{"sizes": [1], "times": [[[[], 2], 1]]}]},
            not_a_constant([]),
        ),
        ({"constants": "AB"}, f"{WHERE}constants are a list, not str"),
    ],
)
def test_an_invalid_map_is_refused(change: Any, message: str) -> None:
    data = change
    if change:
        data = record().to_dict() | change
    assert refusal(lambda: TuningRecord.from_dict(data)) == message


def test_another_order_of_constants_and_sizes() -> None:
    two = record(sizes=("n", "m"), measured={((1, 2), (64, 4)): 1.0, ((1, 2), (128, 8)): None})
    assert two.arranged(("TILE", "BLOCK"), ("m", "n")) == record(
        constants=("TILE", "BLOCK"),
        sizes=("m", "n"),
        measured={((2, 1), (4, 64)): 1.0, ((2, 1), (8, 128)): None},
    )
    assert two.arranged(("BLOCK", "TILE"), ("n", "m")) == two
    assert two.arranged(("BLOCK",), ("n", "m")) is None
    assert two.arranged(("BLOCK", "TILE"), ("n",)) is None


def test_records_of_one_device_join_and_later_times_win() -> None:
    later = record(measured={((1,), (64, 2)): 4e-6, ((7,), (256, 2)): None})
    joined = record(measured=MEASURED | later.measured)
    assert join_records([record(), later]) == (joined,)
    assert joined.measured[(1,), (64, 2)] == 4e-6


@pytest.mark.parametrize(
    "other",
    [
        {"platform": "Portable Computing Language"},
        {"device": "AMD EPYC 9"},
        {"device": "AMD EPY"},
        {"arch": "sm_90"},
        {"driver": "2026.2"},
        {"constants": ("BLOCK", "WIDTH")},
        {"sizes": ("m",)},
    ],
)
def test_records_of_another_device_driver_or_function_stay_apart(other: dict[str, Any]) -> None:
    assert join_records([record(), record(**other)]) == (record(), record(**other))


def test_a_file_has_at_most_4096_records() -> None:
    records = [record(device=str(number)) for number in range(4097)]
    data = write_records(records[:4096])
    assert read_records(data, "r.json") == tuple(records[:4096])
    problem = "4097 records; the limit is 4096"
    assert refusal(lambda: write_records(records)).endswith(f" cannot be written: {problem}")
    data["records"].append(data["records"][0])
    assert refusal(lambda: read_records(data, "r.json")) == f"r.json: {problem}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "the value has no 'devmod_tuning'"),
        ({"devmod_tuning": 2, "records": []}, "the version is 2, and this devmod reads version 1"),
        ({"devmod_tuning": 1, "records": [{}]}, "a tuning record has no 'function'"),
    ],
)
def test_an_invalid_file_is_refused(data: Any, message: str) -> None:
    assert refusal(lambda: read_records(data, "r.json")) == f"r.json: {message}"
