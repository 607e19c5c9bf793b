"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path

import click

from devmod.commands import WholeNumber

output_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="The file to write.",
)
workers_option = click.option(
    "-j",
    "--workers",
    metavar="N",
    type=WholeNumber(min=1),
    help="The number of worker processes. [default: the number of processors]",
)
no_cache_option = click.option(
    "--no-cache", is_flag=True, help="Compile everything, and store nothing."
)
