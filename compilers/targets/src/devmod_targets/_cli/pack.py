"""`devmod pack` and `devmod unpack`: the payloads in a folder or a wheel as one file, and as files
again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from devmod.commands import debug_option, echo, size
from devmod.errors import count_text
from devmod_targets import packing
from devmod_targets._cli._options import output_option
from devmod_targets.writable import check_writable, noting_interrupts


@click.command(
    "pack",
    short_help="Join the binaries in a folder or a wheel into one file.",
    epilog="""\b
Examples:
  devmod pack kernels/ -o library.devmod
  devmod pack kernels-1.0-py3-none-any.whl -o library.devmod --compress zstd --opaque
""",
)
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="FOLDER|WHEEL|FILE...",
    type=click.Path(exists=True, path_type=Path),
)
@output_option
@click.option(
    "--compress",
    metavar="METHOD",
    help='Compress the payloads: "zstd", or "zstd:19" for another level than 3.',
)
@click.option(
    "--opaque",
    is_flag=True,
    help="Take also kernels of unknown types. A parameter is then bytes of its size, or an array if it has 8.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if there is no error.")
@debug_option
def command(
    paths: tuple[Path, ...], output: Path, compress: str | None, opaque: bool, quiet: bool
) -> None:
    """Write every cubin, PTX, code object, SPIR-V, metallib and WGSL into one file. Nothing of them
    is run.

    Each module has the name of its file, and the functions that the file has, or those of a
    .tvm_meta.json beside it. Links are not followed. `devmod unpack` writes the files again.
    """
    if output.suffix.lower() in (*packing.SUFFIXES, ".whl"):
        raise click.UsageError(
            f"{output} may be one of the files to pack; writing to it would overwrite it. Choose the suffix .devmod"
        )
    check_writable(output)
    with noting_interrupts(output):
        files = packing.payload_files(paths)
        with click.progressbar(
            length=len(files),
            label="packing",
            file=sys.stderr,
            hidden=quiet or not sys.stderr.isatty(),
        ) as bar:
            unknown = packing.pack(files, output, opaque=opaque, compress=compress, done=bar.update)
    if not quiet:
        echo(f"{output}: {size(output.stat().st_size)}, {count_text(len(files), 'file')}")
        if unknown:
            echo(
                f"{count_text(unknown, 'function')} with the sizes of the parameters alone: a call gives bytes or arrays by position."
            )


@click.command(
    "unpack",
    short_help="Write the binaries of a packed file as files again.",
    epilog="\b\nExample:\n  devmod unpack library.devmod -o kernels",
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    required=True,
    type=click.Path(path_type=Path),
    help="A new folder.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if there is no error.")
@debug_option
def unpack_command(file: Path, output: Path, quiet: bool) -> None:
    """Write each payload of FILE under the name that its file had for `devmod pack`, byte for
    byte.
    """
    count = packing.unpack(file, output)
    if not quiet:
        echo(f"{output}: {count_text(count, 'file')}")
