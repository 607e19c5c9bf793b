"""The rows, a file for each part of the contract."""

from __future__ import annotations

from devmod.testing._row import Row

#: All rows, in the contract's order.
ROWS: tuple[Row, ...] = ()
