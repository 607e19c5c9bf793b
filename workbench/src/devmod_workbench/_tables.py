"""Tables of text."""

from __future__ import annotations

from collections.abc import Sequence

from devmod.backend import escape_line


def aligned(rows: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """Return the lines of a table. The cells of its first `left` columns are at the left, by
    default those of all, and others at the right.
    """
    table = [[escape_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [*map(str.ljust, row[:left], widths)]
        if left is not None:
            cells += map(str.rjust, row[left:], widths[left:])
        lines.append("  ".join(cells).rstrip())
    return lines
