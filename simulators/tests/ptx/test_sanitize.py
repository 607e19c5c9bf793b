"""The checks: each planted fault is found at its line and its thread, and no program without one is accused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from checked_sources import CHECKS, Freed, new, reports_of

HERE = Path(__file__).resolve().parent
ARRAYS = {
    "f": lambda count: np.arange(count, dtype=np.float32),
    "i": lambda count: np.arange(count, dtype=np.int32),
    "z": lambda count: np.zeros(count, np.int32),
    "b": lambda count: np.arange(count).astype(np.uint8),
    "n": new,
    "m": lambda count: new(count, np.int32),
    "p": np.uint64,
    "F": lambda count: np.zeros(count, np.float32).view(Freed),
}


class Case(NamedTuple):
    """A program: `@ checks and a title | grid and block | arguments | what a report has`, and its source."""

    title: str
    shape: list[Any]
    arguments: list[Any]
    expected: list[str]
    source: str

    @property
    def checks(self) -> frozenset[str]:
        return CHECKS | set(self.title.split(" ")[0].split(","))

    def reports(self) -> list[Any]:
        """Run the program and return the reports."""
        options = dict(text.split("=") for text in self.expected if "=" in text and " " not in text)
        return reports_of(
            self.source.replace("__global__ void k(", 'extern "C" __global__ void k('), *self.shape, self.arguments,
            self.checks, shared=int(options.get("shared", 0)), cooperative="cooperative" in options,
        )  # fmt: skip


def argument(text: str) -> Any:
    if text[0].isalpha():
        return ARRAYS[text[0]](int(text[1:]))
    return float(text) if "." in text else int(text)


def cases(name: str) -> list[Any]:
    """Return the programs of a file."""
    result = []
    for part in re.split(r"^@ ", (HERE / name).read_text(), flags=re.MULTILINE)[1:]:
        head, _, source = part.partition("\n")
        title, shape, arguments, expected = (*(each.strip() for each in head.split("|")), "", "")[:4]
        sizes = [tuple(map(int, each.split(","))) for each in shape.split()]
        result.append(
            pytest.param(Case(title, sizes, arguments.split(), [each.strip() for each in expected.split(" ; ") if each], source), id=title)
        )
    return result


@pytest.mark.row("R49")
@pytest.mark.volume_but(
    "bounds off by one", "bounds a shared array and its neighbour", "bounds a jump into another array", "align four elements", "free a read",
    "race a missing barrier", "race a missing second barrier in a loop", "race a histogram in global memory",
    "sync a barrier in a branch of threads", "sync a shuffle in a branch", "init a branch",
)  # fmt: skip
@pytest.mark.parametrize("case", cases("faults.cu"))
def test_a_fault_is_found(case: Case) -> None:
    case = case._replace(arguments=[argument(text) for text in case.arguments])
    reports = case.reports()
    lines = {number for number, line in enumerate(case.source.splitlines(), 1) if "//!" in line or "//~" in line}
    words = [text for text in case.expected if "=" not in text or " " in text]
    texts = [report.text for report in reports]
    assert any(all(word in text for word in words) for text in texts), texts
    inside = [report for report in reports if "//~" in case.source or int(report.source.split(":")[1].split(" ")[0]) in lines]
    assert inside, texts
    assert {report.check for report in reports} <= set(case.title.split(" ")[0].split(",")), texts


@pytest.mark.volume_but(
    "- one of two arrays by a condition", "- a barrier", "- two buffers in a loop", "- an early exit before a barrier",
    "- named barriers, producer and consumer", "- a reduction with shuffles", "- the last block", "- a padded struct",
    "- the chosen of two values", "- a tile beyond the edge", "- an early exit before a shuffle",
)  # fmt: skip
@pytest.mark.parametrize("case", cases("innocents.cu"))
def test_no_innocent_is_accused(case: Case) -> None:
    case = case._replace(arguments=[argument(text) for text in case.arguments])
    assert [report.text for report in case.reports()] == []
