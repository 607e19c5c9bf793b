"""`devmod pin`: print the digest that an address of a file may end with."""

from __future__ import annotations

import click

from devmod._formats.index import head_length, read_head
from devmod._formats.ranges import PIN, read_head_of
from devmod.backend import HEADER, open_regular
from devmod_workbench._cli._known import KNOWN
from devmod_workbench._cli._options import debug_option
from devmod_workbench._cli._output import STDIN, echo


@click.command(
    "pin",
    short_help=KNOWN["pin"].help,
    epilog="""\b
Examples:
  devmod pin k.devmod                          # prints #devmod-head=4f…
  URL=https://example.com/k.devmod$(devmod pin k.devmod)
  devmod pin https://example.com/k.devmod      # of the file that is there now
""",
)
@click.argument("file", type=click.Path())
@debug_option
def command(file: str) -> None:
    """Print what the URL of FILE may end with, so that no other file is taken from there: the
    SHA-256 of its head, which has the digests of all parts.

    `devmod.load`, the package devmod-webgpu and the reader in C compare it. FILE is a bundle, also
    at a URL. Only its head is checked: `devmod inspect --verify` checks the rest.
    """
    if "://" in file:
        head, _ = read_head_of(file)
        data = memoryview(head.data)
        place = head.place
    elif file == STDIN:
        raise click.UsageError("FILE is a path or a URL: standard input has no address")
    else:
        place = repr(file)
        with open_regular(file) as opened:
            first = opened.read(HEADER)
            data = memoryview(first + opened.read(head_length(memoryview(first), place)))
    read_head(data, place)
    echo(f"{PIN}{bytes(data[16:HEADER]).hex()}")
