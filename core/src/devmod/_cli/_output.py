"""What the commands print: tables, sizes, JSON. Plain text in a pipe and without rich; a drawn table in a terminal with it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

import click


@contextmanager
def plugins_at_work() -> Iterator[None]:
    """While the body runs, what plugins and their drivers print goes to standard error: standard output is the command's alone."""
    try:
        sys.stdout.flush()
        ours = os.dup(1)
    except (AttributeError, OSError):  # it is closed, and takes nobody's words
        yield
        return
    try:
        with suppress(OSError):
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(ours, 1)
        os.close(ours)


def print_json(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print data for programs."""
    click.echo(json.dumps(data, ensure_ascii=False, indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    if sys.stdout is not None and sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            pass
        else:
            table = Table(*columns, header_style="bold")
            for row in rows:
                table.add_row(*map(Text, map(printable, row)))
            Console().print(table)
            return
    widths = [max(len(printable(row[index])) for row in [columns, *rows]) for index in range(len(columns))]
    for row in [columns, *rows]:
        click.echo("  ".join(printable(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def printable(text: str) -> str:
    """`text` with its control characters escaped: names come from strangers' files, and must not drive the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def size(count: int) -> str:
    """A number of bytes for people."""
    if count < 1000:
        return f"{count} B"
    amount = count / 1000
    for unit in ("kB", "MB"):
        if amount < 1000:
            return f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
