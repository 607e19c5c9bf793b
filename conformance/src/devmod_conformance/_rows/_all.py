"""All rows: one file for each part of the contract."""

from __future__ import annotations

from devmod_conformance._row import Row
from devmod_conformance._rows import (
    builds,
    calls,
    execution,
    images,
    modules,
    processes,
    serialization,
)

# Where to change: a row of the conformance kit
#   here: `conformance/src/devmod_conformance/_rows/`, by what it checks; its mark in
#     `docs/contract.md`, if it is a new one
#   tests: `conformance/tests/test_conformance_kit.py`: a fault of
#     `conformance/tests/toy/toy_faults/` that the row alone notices
_ALL = [
    each
    for part in (modules, serialization, builds, calls, execution, images, processes)
    for each in vars(part).values()
    if isinstance(each, Row)
]

#: All rows, in the order of the contract.
ROWS: tuple[Row, ...] = tuple(sorted(_ALL, key=lambda row: int(row.contract[1:])))
