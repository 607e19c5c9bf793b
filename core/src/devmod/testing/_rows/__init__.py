"""The rows, a file for each part of the contract."""

from __future__ import annotations

from devmod.testing._row import Row
from devmod.testing._rows import building, calling, files, making, registry, running, saving, telling

_PARTS = (registry, making, saving, files, telling, building, calling, running)
_FOUND = [each for part in _PARTS for each in vars(part).values() if isinstance(each, Row)]

#: All rows, in the contract's order.
ROWS: tuple[Row, ...] = tuple(sorted(_FOUND, key=lambda row: int(row.contract[1:])))
