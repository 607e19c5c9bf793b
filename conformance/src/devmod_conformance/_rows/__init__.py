"""The rows: one file for each part of the contract."""

from __future__ import annotations

from devmod_conformance._row import Row
from devmod_conformance._rows import (
    arguments,
    arrays,
    builds,
    call_forms,
    compilation,
    creation,
    devices,
    execution,
    files,
    messages,
    processes,
    registry,
    serialization,
    timing,
)

_PARTS = (
    *(registry, creation, serialization, compilation, files, messages, builds),
    *(arguments, call_forms, execution, timing, arrays, devices, processes),
)
_ALL = [each for part in _PARTS for each in vars(part).values() if isinstance(each, Row)]

#: All rows, in the order of the contract.
ROWS: tuple[Row, ...] = tuple(sorted(_ALL, key=lambda row: int(row.contract[1:])))
