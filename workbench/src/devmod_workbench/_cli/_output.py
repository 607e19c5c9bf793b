"""The output of commands: lines, tables, JSON. With rich, tables in a terminal have borders; all
other output is plain text.

Every command prints through this module, which escapes control characters and the commands of CI
runners: names, logs and messages come from untrusted files, compilers and plugins.
"""

from __future__ import annotations

import json
import os
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from json.encoder import encode_basestring, encode_basestring_ascii
from math import isfinite
from typing import Any, Literal, Protocol

import click

from devmod._util.text import has_command
from devmod.backend import escape, escape_line
from devmod_workbench._tables import aligned

#: Prints text.
Write = Callable[[str], None]

#: Patterns of what stands out in a text, each with its style: its last group, or the whole. Texts
#: are of strangers, so a pattern takes a time linear in their length.
Marks = Sequence[tuple[str, str]]
#: The styles. The numbers are colours of 256 whose contrast is 3.8 or more on black and on white;
#: of a terminal's own 16, cyan, green and yellow cannot be read on white.
STYLES: Mapping[str, dict[str, Any]] = {
    "name": {"bold": True},
    "kind": {"fg": 30, "bold": True},
    "good": {"fg": 28, "bold": True},
    "bad": {"fg": 160, "bold": True},
    "care": {"fg": 164, "bold": True},
    "aside": {"dim": True},
}
#: The beginning of a message on standard error.
_MESSAGE = (
    (r"^(devmod: error:)", "bad"),
    (r"^(devmod: warning:)", "care"),
    (r"^(devmod: note:)", "name"),
)

#: The number of characters that are printed at once.
_BATCH = 1 << 16

#: The file name of standard input and standard output.
STDIN = STDOUT = "-"


def standard_input() -> bytes:
    """Read all of standard input.

    Raises
    ------
    click.UsageError
        Standard input is a terminal, or closed.
    """
    if sys.stdin is None or sys.stdin.isatty():
        state = "closed" if sys.stdin is None else "a terminal"
        raise click.UsageError(
            f"the file is standard input (-), which is {state}; redirect a file or a pipe to it"
        )
    return sys.stdin.buffer.read()


def write_standard_output(data: bytes) -> None:
    """Write bytes to standard output.

    Raises
    ------
    click.UsageError
        Standard output is a terminal.
    """
    if sys.stdout is None:
        return
    if sys.stdout.isatty():
        raise click.UsageError(
            "the output is standard output (-), which is a terminal; redirect it to a file or a pipe"
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


@contextmanager
def plugins_at_work() -> Iterator[None]:
    """Redirect standard output to standard error while plugins and drivers run: only the command
    prints to standard output.
    """
    try:
        sys.stdout.flush()
        saved_stdout = os.dup(1)
    except (AttributeError, OSError):  # standard output is closed
        yield
        return
    try:
        with suppress(OSError):
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)


def echo(text: str = "", *, err: bool = False, marks: Marks = ()) -> None:
    """Print one line. In a terminal with colours, what `marks` match is styled; on standard error
    also the beginning of a message.
    """
    click.echo(_marked(escape_line(text), marks, err), err=err)


def echo_lines(text: str, *, err: bool = False, marks: Marks = ()) -> None:
    """Print text of several lines, such as a compiler's log, as `echo` does."""
    click.echo(_marked(escape(text), marks, err), err=err)


def annotate(level: str, text: str, *, err: bool = False, **properties: str) -> None:
    """Print a command of GitHub Actions, which shows `text` beside a source: the only command for a
    CI runner that devmod prints.

    Parameters
    ----------
    level
        "error", "warning" or "notice".
    text
        The text, of any number of lines.
    err
        Print to standard error.
    properties
        ``title``, ``file`` and ``line``. An empty one is left out.
    """
    values = {
        name: _command_data(value).replace(":", "%3A").replace(",", "%2C")
        for name, value in properties.items()
        if value
    }
    places = ",".join(f"{name}={value}" for name, value in values.items())
    click.echo(f"::{level} {places}::{_command_data(text)}", err=err)


def _command_data(text: str) -> str:
    # `escape` leaves no other line break.
    return escape(text).replace("%", "%25").replace("\n", "%0A")


def echo_all(lines: Iterable[str], *, marks: Marks = ()) -> None:
    """Print lines, as `echo` does; there may be many. Tabs are not escaped: a line may be one of a
    source.
    """
    with _batched() as write:
        for line in lines:
            text = escape(line.replace("\n", r"\n"))
            write(_marked(text, marks, err=False) + "\n")


def has_colours(stream: Any) -> bool:
    """Return whether a stream is a terminal that shows colours, and the user wants some:
    https://no-color.org.
    """
    if stream is None or not stream.isatty():
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _marked(text: str, marks: Marks, err: bool) -> str:
    """Return escaped text, with the styles of `marks` if it is for a terminal with colours."""
    if err:
        marks = (*marks, *_MESSAGE)
    if not marks or not has_colours(sys.stderr if err else sys.stdout):
        return text
    spans = []
    for pattern, style in marks:
        for match in re.finditer(pattern, text, re.MULTILINE):
            spans.append((*match.span(match.lastindex or 0), style))

    parts = []
    at = 0
    for begin, end, style in sorted(spans):
        if begin >= at:  # the first of two that overlap
            parts += [text[at:begin], click.style(text[begin:end], **STYLES[style])]
            at = end
    return "".join([*parts, text[at:]])


def print_json(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print data as JSON (RFC 8259).

    Bytes become ``{"base64": text}``; the floats without a JSON form become "NaN", "Infinity" and
    "-Infinity". Any iterable is an array. A function is replaced by its result, which is made when
    it is printed.
    The text is printed in pieces: the text of a large file is many times its size.
    """
    with _batched() as write:
        _write_json(write, data, "\n")
        write("\n")


@contextmanager
def _batched() -> Iterator[Write]:
    """Yield a function that prints text in large pieces."""
    parts = []
    length = 0

    def write(text: str) -> None:
        nonlocal length
        parts.append(text)
        length += len(text)
        if length > _BATCH:
            click.echo("".join(parts), nl=False)
            parts.clear()
            length = 0

    yield write
    click.echo("".join(parts), nl=False)


def _write_json(write: Write, value: Any, newline: str) -> None:
    if isinstance(value, str):
        _write_string(write, value)
    elif isinstance(value, float) and not isfinite(value):
        write(f'"{json.dumps(value)}"')  # JSON has no number for it
    elif value is None or isinstance(value, (int, float)):
        write(json.dumps(value))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        _write_json(write, {"base64": b64encode(value).decode("ascii")}, newline)
    elif callable(value):
        _write_json(write, value(), newline)
    elif isinstance(value, Mapping):
        items = ((str(key), each) for key, each in value.items())
        _write_items(write, "{}", items, newline)
    else:
        _write_items(write, "[]", ((None, each) for each in value), newline)


def _write_items(
    write: Write, brackets: str, items: Iterable[tuple[str | None, Any]], newline: str
) -> None:
    """Write the items of an object, each with its key, or those of an array."""
    inner = newline + "  "
    before = brackets[0] + inner
    for key, each in items:
        write(before)
        if key is not None:
            _write_string(write, key)
            write(": ")
        _write_json(write, each, inner)
        before = "," + inner
    if before[0] == ",":
        write(newline + brackets[1])
    else:
        write(brackets)


def _write_string(write: Write, text: str) -> None:
    """Write a string of JSON in slices: the escapes of a large text may take six times its
    memory.
    """
    commands = has_command(text)
    for at in range(0, len(text) or 1, _BATCH):
        part = text[at : at + _BATCH]
        encoded = encode_basestring(part)
        if not encoded.isprintable():
            encoded = encode_basestring_ascii(part).replace("\x7f", r"\u007f")
        if commands:
            encoded = encoded.replace("#", r"\u0023")
        # The quotes are at the ends of the text alone.
        if at > 0:
            encoded = encoded[1:]
        if at + _BATCH < len(text):
            encoded = encoded[:-1]
        write(encoded)


class ShowProgress(Protocol):
    """Shows a line about the work, and on a bar the share that is done, from 0 to 1."""

    def __call__(self, text: str, share: float = 0.0, /) -> None: ...


@contextmanager
def progress(
    text: str = "", *, quiet: bool = False, has_end: bool = False
) -> Iterator[ShowProgress]:
    """Yield a function that shows a line about work that may take more than five seconds, and its
    time: in a terminal alone, and with rich. The line disappears at the end.

    Parameters
    ----------
    text
        The first line.
    quiet
        Show nothing.
    has_end
        Show a bar and the time left, too. The function gets the part that is done, such as 0.5,
        after the text.
    """
    bars: Any = None
    if not quiet and sys.stderr is not None and sys.stderr.isatty():
        with suppress(ImportError):
            from rich import progress as parts
            from rich.console import Console
            from rich.theme import Theme

            columns = [
                parts.SpinnerColumn(),
                parts.TextColumn("{task.description}", markup=False),
            ]
            if has_end:
                columns += [parts.BarColumn(20), parts.TimeRemainingColumn(compact=True)]
            columns.append(parts.TimeElapsedColumn())
            # rich's yellow, cyan and green cannot be read on white.
            names = ("progress.elapsed", "progress.remaining", "progress.spinner")
            theme = Theme(dict.fromkeys(names, "default"))
            console = Console(stderr=True, theme=theme)
            # Standard output stays itself: commands ask whether it is a terminal, and write bytes.
            bars = parts.Progress(
                *columns,
                console=console,
                transient=True,
                redirect_stdout=False,
            )
    if bars is None:
        yield lambda *_: None
        return
    task = bars.add_task(escape_line(text), total=1.0)

    def show(text: str, share: float = 0.0, /) -> None:
        bars.update(task, description=escape_line(text), completed=share)

    with bars:
        yield show


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    marks: Marks = (),
    plain: Sequence[str] = (),
) -> None:
    """Print a table.

    Parameters
    ----------
    columns, rows
        The titles and the cells.
    marks
        What is styled in a cell, as for `echo`.
    plain
        The lines outside of a terminal. Default: the table without borders.
    """
    if sys.stdout is not None and sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            pass
        else:
            header = ""
            colours: Literal["256"] | None = None
            if has_colours(sys.stdout):
                header = "bold"
                colours = "256"  # with fewer, rich takes the terminal's own, such as green
            table = Table(*columns, header_style=header)
            for row in rows:
                cells = [_marked(escape_line(cell), marks, err=False) for cell in row]
                table.add_row(*map(Text.from_ansi, cells))
            Console(color_system=colours).print(table)
            return
    for line in plain or aligned([columns, *rows]):
        echo(line, marks=marks)


def size(count: int) -> str:
    """Format a number of bytes."""
    if count < 1000:
        return f"{count} B"
    amount = count / 1000
    for unit in ("kB", "MB"):
        if amount < 1000:
            return f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
