"""Tuning records: devmod and the second reader have one verdict of each, in the page of a function
and in a file of JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from stored import tuning_file

import devmod
from devmod import TuningRecord
from devmod.backend import read_tuning_file

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
    {((100_000,), (64, "fast")): (7, 1e-6)},
)
OTHER = RECORD.replace(function="other", kind="cuda", device="", measured={}, turns={})
GOOD = {"devmod_tuning": 1, "records": [RECORD.to_dict(), OTHER.to_dict()]}
#: A value in 30 arrays.
NESTED: list[Any] = []
for _ in range(29):
    NESTED = [NESTED]
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
def test_both_readers_read_the_same_file_of_json_and_refuse_the_same(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    verdicts = []
    for value in (GOOD, *changed(GOOD)):
        data = json.dumps(value).encode()
        path.write_bytes(data)
        try:
            second = spec_reader.read_tuning_file(data)
        except spec_reader.SpecError:
            second = None
        try:
            first = [each._asdict() for each in read_tuning_file(path)]
        except devmod.FormatError:
            first = None
        assert first == second, value
        verdicts.append(first)
    assert verdicts[0] == [RECORD._asdict(), OTHER._asdict()]
    assert 1000 < verdicts.count(None) < len(verdicts) - 100


@pytest.mark.parametrize(
    "text",
    [
        '{"devmod_tuning": 1, "devmod_tuning": 1, "records": []}',
        '{"devmod_tuning": true, "records": []}',
        '{"devmod_tuning": 1.0, "records": []}',
        '{"devmod_tuning": 1, "records": [{"function": "f", "kind": "cuda", "kind": "cuda"}]}',
        '{"devmod_tuning": 1, "records": [], "later": NaN}',
        '{"devmod_tuning": 1, "records": [], "later": [-Infinity]}',
        "[" * 100_000,
    ],
)
def test_json_that_both_readers_refuse(text: str, tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(spec_reader.SpecError):
        spec_reader.read_tuning_file(path.read_bytes())
    with pytest.raises(devmod.FormatError):
        read_tuning_file(path)


def in_a_file(records: list[Any]) -> list[Any]:
    """Return records of the function `f` as an attachment has them: without its name."""
    maps = []
    for each in records:
        maps.append({key: value for key, value in each.items() if key != "function"})
    return maps


def verdicts_of(data: bytes) -> tuple[list[Any], int]:
    """Return the records in the attachment of a file, and how many are skipped, for both
    readers.
    """
    (attachment,) = spec_reader.read_bundle(data)["attached"]
    second, problems = spec_reader.read_tuning(attachment)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = [each._asdict() for each in devmod.loads(data).tuning_records]
    assert first == second
    assert len(caught) == len(problems)
    return first, len(problems)


@pytest.mark.row("R20")
def test_both_readers_skip_the_same_records_of_a_function() -> None:
    good = in_a_file(GOOD["records"])
    expected = [RECORD.replace(function="f")._asdict(), OTHER.replace(function="f")._asdict()]
    assert verdicts_of(tuning_file(good)) == (expected, 0)
    skipped = []
    for value in changed(good):
        if not _fits(value):
            continue
        skipped.append(verdicts_of(tuning_file(value))[1])
    assert {0, 1} <= {*skipped}
    assert 1000 < len(skipped) - skipped.count(0) < len(skipped) - 100


def _fits(value: Any) -> bool:
    """Return whether msgpack has all integers in a value."""
    try:
        msgpack.packb(value)
    except OverflowError:
        return False
    return True


def record_with(count: int) -> dict[str, Any]:
    """Return a record with so many times."""
    times = [[[number], 1.0] for number in range(count)]
    return {"kind": "cuda", "constants": ["B"], "measured": [{"sizes": [], "times": times}]}


ATTACHMENTS: dict[str, tuple[Any, int]] = {
    "no records": ([], 0),
    "a map": ({}, 1),
    "no msgpack": (b"\xc1", 1),
    "two objects": (b"\x90\x90", 1),
    "a key twice": (b"\x91\x82\xa4kind\xa1a\xa4kind\xa1a", 1),
    "a name of another function": ([{"kind": "cuda", "function": 3}], 0),
    "the most times": ([record_with(2**16)], 0),
    "too many times": ([record_with(2**15), record_with(2**15), record_with(1)], 1),
    "too many records": ([{"kind": "cuda", "device": str(each)} for each in range(4097)], 1),
    "the most records beside another": (
        [{"kind": "cuda", "device": str(each)} for each in range(4096)] + [{}],
        1,
    ),
    "deep": ([{"kind": "cuda", "later": NESTED}], 0),
    "too deep": ([{"kind": "cuda", "later": [[NESTED]]}], 1),
    "further items of a time": (
        [{"kind": "cuda", "measured": [{"sizes": [], "times": [[[], 1.0, 2, 0.5, None, [1]]]}]}],
        0,
    ),
    "too many bytes": ([{"kind": "cuda", "later": bytes(2**22)}], 1),
    "too many arrays": ([{"kind": "cuda", "later": [[]] * 2**19}], 1),
}


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_both_readers_have_the_same_limits_of_an_attachment(name: str) -> None:
    records, skipped = ATTACHMENTS[name]
    assert verdicts_of(tuning_file(records))[1] == skipped
