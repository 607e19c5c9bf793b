"""HTML for notebooks (`_repr_html_`). Every text is escaped:

names may come from strangers' files.
"""

from __future__ import annotations

from devmod._util.text import escape_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The number of characters of a cell, and of rows.
_MAX_CELL, _MAX_ROWS = 300, 50


def html_table(title: str, rows: Sequence[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return a table. Long cells are cut, and the rows after the fiftieth are counted.

    Parameters
    ----------
    title
        The caption.
    rows
        The cells of each row.
    head
        The names of the columns. Without them the first cell of each row is its name.
    """
    items = [_row(row, 0 if head else 1) for row in rows[:_MAX_ROWS]]
    if len(rows) > _MAX_ROWS:
        items.append(_row([f"and {len(rows) - _MAX_ROWS} more"]))
    return f"<table><caption>{_cell(title)}</caption>{_row(head, len(head)) if head else ''}{''.join(items)}</table>"


def _row(cells: Sequence[object], names: int = 0) -> str:
    """Return a row. Its first `names` cells are names."""
    tags = ["th" if number < names else "td" for number in range(len(cells))]
    return f"<tr>{''.join(f'<{tag}>{_cell(cell)}</{tag}>' for tag, cell in zip(tags, cells, strict=True))}</tr>"


def _cell(value: object) -> str:
    from html import escape

    text = str(value)
    return escape(escape_line(text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"))
