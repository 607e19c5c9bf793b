"""HTML for notebooks (`_repr_html_`). Every text is escaped: a name may come from a stranger's
file.
"""

from __future__ import annotations

from devmod._util.text import escape_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The number of characters of a cell, and of rows.
_MAX_CELL = 300
_MAX_ROWS = 50


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
    names = 1
    items = []
    if head:
        names = 0
        items.append(_row(head, len(head)))
    items += [_row(row, names) for row in rows[:_MAX_ROWS]]
    if len(rows) > _MAX_ROWS:
        items.append(_row([f"and {len(rows) - _MAX_ROWS} more"]))
    return f"<table><caption>{_cell(title)}</caption>{''.join(items)}</table>"


def _row(cells: Sequence[object], names: int = 0) -> str:
    """Return a row. Its first `names` cells are names."""
    items = [f"<th>{_cell(each)}</th>" for each in cells[:names]]
    items += [f"<td>{_cell(each)}</td>" for each in cells[names:]]
    return f"<tr>{''.join(items)}</tr>"


def _cell(value: object) -> str:
    from html import escape

    text = str(value)
    if len(text) > _MAX_CELL:
        text = f"{text[: _MAX_CELL - 1]}…"
    return escape(escape_line(text))
