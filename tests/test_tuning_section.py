"""The section of tuning records: devmod and the second reader have one verdict of each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stored import tuning_file

import devmod
from devmod import TuningRecord

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import spec_reader  # noqa: E402 - the reader that is written from docs/formats.md

RECORD = TuningRecord(
    "scale",
    "opencl",
    "Intel(R) OpenCL",
    "AMD EPYC",
    "",
    "2026.1",
    ("BLOCK", "MODE"),
    ("n",),
    {
        ((100_000,), (64, "fast")): 1.2e-5,
        ((100_000,), (128, True)): None,
        ((-1,), (0.5, "fast")): 3,
        ((-1,), (64, "fast")): False,
    },
)
OTHER = RECORD.replace(function="other", measured={})
GOOD = {"devmod_tuning": 1, "records": [RECORD.to_dict(), OTHER.to_dict()]}
#: Values at limits, beyond them, and of other types.
VALUES = [
    *[
        None,
        False,
        True,
        0,
        1,
        -1,
        10**9,
        10**9 + 1,
        2**63,
        2**64 - 1,
        -(2**63),
        1.0,
        0.0,
        1e9,
        1e-300,
    ],
    *[float("nan"), float("inf"), "", "n", "x" * 1024, "x" * 1025, [], {}, [1], ["n"]],
    *[[["n"]], [[64, "fast"], 1.0], {"sizes": [1], "times": []}, [[], 1], ["A", "A"]],
    *[list("ABCDEFGHIJKLMNOP"), list("ABCDEFGHIJKLMNOPQ"), "BLOCK", 128, [-1]],
]


def changed(value: Any) -> Iterator[Any]:
    """Yield a value with each of its parts left out, and with each of VALUES in its place."""
    yield from VALUES
    keys = ()
    if isinstance(value, dict):
        keys = value
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        copy = value.copy()
        del copy[key]
        yield copy
        for part in changed(value[key]):
            copy = value.copy()
            copy[key] = part
            yield copy


@pytest.mark.row("R20")
def test_both_readers_read_the_same_records_and_refuse_the_same() -> None:
    verdicts = []
    for value in (GOOD, *changed(GOOD)):
        data = tuning_file(json.dumps(value).encode())
        found = spec_reader.read_bundle(data)
        try:
            second = spec_reader.read_tuning(*found["sections"]["tuning"])
        except spec_reader.SpecError:
            second = None
        try:
            first = [each._asdict() for each in devmod.loads(data).tuning_records]
        except devmod.FormatError:
            first = None
        assert first == second, value
        verdicts.append(first)
    assert verdicts[0] == [RECORD._asdict(), OTHER._asdict()]
    assert 1000 < verdicts.count(None) < len(verdicts) - 100
