"""The section of tuning records: devmod and the second reader have one verdict of each, and every
reader uses a file whose section is invalid.
"""

from __future__ import annotations

import copy
import hashlib
import json
import operator
import sys
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import devmod

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

import spec_reader  # noqa: E402 - the reader that is written from docs/formats.md

from handmade import headed, row  # noqa: E402 - tools/handmade.py

RECORD: dict[str, Any] = {
    "function": "scale",
    "kind": "opencl",
    "platform": "Intel(R) OpenCL",
    "device": "AMD EPYC",
    "arch": "",
    "driver": "2026.1",
    "constants": ["BLOCK", "MODE"],
    "sizes": ["n"],
    "measured": [
        {"sizes": [100_000], "times": [[[64, "fast"], 1.2e-5], [[128, True], None]]},
        {"sizes": [-1], "times": [[[0.5, "fast"], 3]]},
    ],
}
GOOD: dict[str, Any] = {"devmod_tuning": 1, "records": [RECORD, RECORD | {"device": "H100"}]}
CODE = b"\xa2cl\x80\xc4\x01x"
#: Values at limits, beyond them, and of other types.
VALUES: list[Any] = [
    *[None, True, 0, 1, -1, 10**9, 10**9 + 1, 2**63, 2**64 - 1, -(2**63), 1.0, 0.0, 1e9, 1e-300],
    *[float("nan"), float("inf"), "", "n", "x" * 1024, "x" * 1025, b"n", [], {}, [1], ["n"]],
    *[[["n"]], [[64, "fast"], 1.0], {"sizes": [1], "times": []}, [[], 1], ["A", "A"]],
    *[list("ABCDEFGHIJKLMNOP"), list("ABCDEFGHIJKLMNOPQ"), "BLOCK", 128, [-1]],
]


def file_with(section: bytes) -> bytes:
    page = msgpack.packb(
        {
            "modules": [
                {
                    "kind": "opencl",
                    "format": "cl",
                    "rank": 0,
                    "size": len(CODE),
                    "sha256": hashlib.sha256(CODE).digest(),
                }
            ]
        }
    )
    head = {
        "candidates": 1,
        "pages": [row(page, 1, len(CODE))],
        "sections": [["tuning", len(section), hashlib.sha256(section).digest()]],
    }
    return headed(head, page, CODE.ljust(64, b"\0") + section)


def seen_by_devmod(data: bytes) -> Any:
    try:
        return [each.to_dict() for each in devmod.loads(data).tuning_records]
    except devmod.FormatError:
        return None


def seen_by_second(data: bytes) -> Any:
    """Return the records as devmod's `to_dict` has them; None for an invalid section."""
    found = spec_reader.read_bundle(data)
    try:
        records = spec_reader.read_tuning(*found["sections"]["tuning"])
    except spec_reader.SpecError:
        return None
    joined: dict[str, dict[str, Any]] = {}
    for record in records:
        times = record.pop("measured")
        joined.setdefault(json.dumps(record), {}).update(times)
    result = []
    for text, times in joined.items():
        by_sizes: dict[Any, list[Any]] = {}
        for (sizes, values), seconds in times.items():
            by_sizes.setdefault(sizes, []).append([list(values), seconds])
        measured = [{"sizes": list(sizes), "times": rows} for sizes, rows in by_sizes.items()]
        result.append(json.loads(text) | {"measured": measured})
    return result


@pytest.mark.row("R20")
def test_both_readers_read_the_same_records() -> None:
    data = file_with(msgpack.packb(GOOD))
    assert seen_by_devmod(data) == seen_by_second(data) == GOOD["records"]


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of the parts of a value."""
    paths = [path]
    keys: Any = ()
    if isinstance(value, dict):
        keys = value
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        paths += places_in(value[key], (*path, key))
    return paths


PLACES = [path for path in places_in(GOOD)[1:] if path[:2] != ("records", 1)]


def changed(place: tuple[Any, ...], change: Any) -> dict[str, Any]:
    """Return GOOD with a change of the part that holds a place."""
    result = copy.deepcopy(GOOD)
    inner: Any = result
    for key in place[:-1]:
        inner = inner[key]
    change(inner, place[-1])
    return result


@pytest.mark.row("R20")
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_both_readers_have_one_verdict_of_a_changed_value(place: tuple[Any, ...]) -> None:
    values = [changed(place, operator.delitem)]
    for value in VALUES:
        values.append(
            changed(place, lambda part, key, value=value: operator.setitem(part, key, value))
        )
    for value in values:
        data = file_with(msgpack.packb(value))
        assert seen_by_devmod(data) == seen_by_second(data), value


@pytest.mark.row("R20")
@settings(max_examples=400, deadline=None)
@given(st.data())
def test_both_readers_have_one_verdict_of_changed_bytes(draw: st.DataObject) -> None:
    section = bytearray(msgpack.packb(GOOD))
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(section) - 1))
        section[at] = draw.draw(st.integers(0, 255))
    data = file_with(bytes(section[: draw.draw(st.integers(1, len(section)))]))
    assert seen_by_devmod(data) == seen_by_second(data)
