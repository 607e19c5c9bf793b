"""`devmod triton`: record what a program compiles with Triton, and build it into one file."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import click

from devmod.backend import replacing, temporary_folder
from devmod.commands import complete_kind, debug_option, echo, size
from devmod.errors import FormatError, count_text, not_installed
from devmod_targets._cli._options import no_cache_option, output_option, workers_option
from devmod_targets.writable import check_writable, noting_interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_readers.triton import Choice, Specialization

_SUFFIX = ".devmod"
_target_option = click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    shell_complete=complete_kind("devmod.targets"),
    help='A target with one or more architectures, such as "cuda -arch=sm_80,sm_90" or "rocm -arch=gfx942".',
)


@click.group(
    "triton",
    short_help="Record kernels of Triton, and build them.",
    epilog="""\b
Examples:
  devmod triton record -o kernels.json -- python -m pytest
  devmod triton build kernels.json -t "cuda -arch=sm_80,sm_90" -t "rocm -arch=gfx942" -o kernels.devmod
""",
)
@debug_option
def command() -> None:
    """Ship kernels of Triton in place of its compiler. In the program, devmod.interop.triton.serve
    takes them from the file.
    """


@command.command(
    "record",
    short_help="Record what a program compiles.",
    epilog="""\b
Examples:
  devmod triton record -o kernels.json -- python -m pytest
  devmod simulate -- devmod triton record -o kernels.json -- python train.py
  devmod triton record -t "cuda -arch=sm_90" -o kernels.devmod -- python train.py
""",
)
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...", type=click.UNPROCESSED)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="The record, to which the kernels of the run are added; with -t, the file of kernels.",
)
@_target_option
@debug_option
def record(words: tuple[str, ...], output: Path, targets: tuple[str, ...]) -> int:
    """Run COMMAND and record each specialization that Triton compiles in it and in the processes
    that it starts. The exit status is that of COMMAND.

    With -t, each is also compiled for the targets, in the process that launches it. So the file has
    functions without an import path too, such as those inside of other functions.
    """
    from devmod.worker import processors
    from devmod_readers.triton import MANAGER, RECORD_VARIABLE, TARGETS_VARIABLE, read_record
    from devmod_targets.triton.package import compiled_in, constants_of, variants_of, write

    if find_spec("devmod_runtime") is None:
        raise FormatError(
            f"nothing can be recorded here: {not_installed('devmod-runtime', 'devmod-runtime')}"
        )
    variants = variants_of(targets)
    if (output.suffix == _SUFFIX) != bool(targets):
        raise click.UsageError(
            f"{output}: a record is a file such as kernels.json, and with -t the output is a file that ends in {_SUFFIX}"
        )
    check_writable(output)
    if not targets and output.exists():
        read_record(output.read_bytes(), str(output))  # the run may take hours
    with temporary_folder() as folder, noting_interrupts(output):
        variables = os.environ | MANAGER | {RECORD_VARIABLE: folder}
        if variants:
            variables[TARGETS_VARIABLE] = "\n".join(variants)
        try:
            status = subprocess.call(words, env=variables)  # noqa: S603 - the user's command
        except OSError as error:
            raise FormatError(f"{words[0]!r} cannot be started: {error.strerror}") from error
        run = _Run(folder)
        for line in run.skipped:
            echo(f"not recorded: {line}")
        if not run.kernels:
            echo(
                f"{words[0]} compiled nothing with Triton, so {output} is as before. "
                "Give a command that launches kernels, on a GPU or below `devmod simulate`"
            )
        elif variants:
            compiled = compiled_in(folder)
            constants, problems = constants_of(variants, compiled, run.choices, processors())
            for line in problems:
                echo(line)
            write(str(output), compiled, constants)
            count = count_text(len(run.kernels), "kernel")
            echo(f"{output}: {size(output.stat().st_size)}, {count}")
        else:
            count = count_text(_merge(output, run), "kernel")
            echo(f"{output}: {count}")
    return status


class _Run:
    """What the processes of a run recorded."""

    def __init__(self, folder: str) -> None:
        from devmod_readers.triton import Choice, Specialization, lines_of

        self.kernels: dict[str, Specialization] = {}
        self.choices: list[Choice] = []
        self.skipped: list[str] = []
        self.version = ""
        for line in lines_of(folder):
            if "kernel" in line:
                kernel = Specialization(**line["kernel"])
                self.kernels[str(kernel)] = kernel
                self.version = line["triton"]
            elif "choice" in line:
                self.choices.append(Choice(**line["choice"]))
            elif line["skipped"] not in self.skipped:
                self.skipped.append(line["skipped"])


def _merge(output: Path, run: _Run) -> int:
    """Add the kernels of a run to a record, and return the number of its kernels."""
    from devmod_readers.triton import read_record, write_record

    kernels = dict(run.kernels)
    choices = run.choices
    if output.exists():
        version, before, old_choices = read_record(output.read_bytes(), str(output))
        if version != run.version:
            raise FormatError(
                f"{output} is the record of a run with Triton {version}, and this run had {run.version}: choose another file for -o"
            )
        kernels.update({str(kernel): kernel for kernel in before})
        choices = [*old_choices, *choices]
    with replacing(str(output)) as file:
        file.write(write_record(run.version, kernels.values(), choices).encode())
    return len(kernels)


@command.command(
    "build",
    short_help="Build the kernels of records into one file.",
    epilog="""\b
Example:
  devmod triton build kernels.json -t "cuda -arch=sm_80,sm_90" -t "rocm -arch=gfx942" -o kernels.devmod
""",
)
@click.argument(
    "records",
    nargs=-1,
    required=True,
    metavar="RECORD...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@_target_option
@output_option
@click.option(
    "-I",
    "--include",
    "folders",
    multiple=True,
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    help="A folder from which modules are imported, besides this one.",
)
@workers_option
@no_cache_option
@click.option("--compress", metavar="METHOD", help='Compress the kernels: "zstd" or "zstd:19".')
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if there is no failure.")
@debug_option
def build(
    records: tuple[Path, ...],
    targets: tuple[str, ...],
    output: Path,
    folders: tuple[str, ...],
    workers: int | None,
    no_cache: bool,
    compress: str | None,
    quiet: bool,
) -> int:
    """Compile the kernels of RECORDs for targets into one file. No device, driver or runtime is
    needed.

    The modules of the functions are imported, so a record may run any code. What cannot be compiled
    is a line, and the exit status is then 1; the file has the rest.
    """
    from devmod.worker import processors
    from devmod_targets.triton.package import (
        compile_all,
        constants_of,
        importing_from,
        read_records,
        variants_of,
        write,
    )

    if not targets:
        raise click.UsageError('no target is given: -t "cuda -arch=sm_80,sm_90"')
    if output.suffix != _SUFFIX:
        raise click.UsageError(f"{output} does not end in {_SUFFIX}")
    variants = variants_of(targets)
    check_writable(output)
    kernels, choices, lines = read_records([str(path) for path in records])
    for line in lines:
        echo(line)
    counts: dict[str, list[Any]] = {target: [0, 0.0] for target in variants}
    data = []
    failures = 0
    workers = workers or processors()
    with noting_interrupts(output), importing_from(*folders, os.getcwd()):
        for kernel, target, outcome in compile_all(kernels, variants, workers, cache=not no_cache):
            if outcome.error:
                failures += 1
                echo(f"failed for {target}: {kernel}: {outcome.message}")
                continue
            data.append(outcome.data)
            counts[target][0] += 1
            counts[target][1] += outcome.seconds
        if not data:
            raise FormatError(f"{output} was not written: no kernel could be compiled")
        constants, problems = constants_of(variants, data, choices, workers, cache=not no_cache)
        written = write(str(output), data, constants, compress)
    if not quiet:
        for line in problems:
            echo(line)
        for target, (count, seconds) in counts.items():
            echo(
                f"{target}: {count} of {count_text(len(kernels), 'kernel')}, {seconds:.1f} CPU seconds"
            )
        echo(f"{output}: {size(output.stat().st_size)}, {count_text(written, 'kernel')}")
    return int(failures > 0)
