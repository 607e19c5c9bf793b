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

_ALL = [
    each
    for part in (modules, serialization, builds, calls, execution, images, processes)
    for each in vars(part).values()
    if isinstance(each, Row)
]

#: All rows, in the order of the contract.
ROWS: tuple[Row, ...] = tuple(sorted(_ALL, key=lambda row: int(row.contract[1:])))
