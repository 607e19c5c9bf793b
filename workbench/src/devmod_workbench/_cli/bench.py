"""`devmod bench`: measure functions of files side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click

from devmod import Module
from devmod.backend import LAUNCH_KEYWORDS
from devmod.commands import (
    STDIN,
    WholeNumber,
    complete_function,
    debug_option,
    echo,
    echo_lines,
    json_option,
    plugins_at_work,
    print_json,
    progress,
    quiet_drivers,
)
from devmod.errors import ArgumentError, count_text, list_names
from devmod_workbench._tools.bench import combinations, functions_of, measure_elsewhere, plot_format
from devmod_workbench._tools.launches import file_settings, open_modules
from devmod_workbench._tools.options import (
    DIMS,
    devices_option,
    grid_option,
    plot_option,
    sizes_option,
    threads_option,
    timeout_option,
)
from devmod_workbench._tools.typed import typed
from devmod_workbench._tools.values import read_counts, read_launch, split_assignments


# Where to change: the command `bench`, `run` or `verify`
#   here: `workbench/src/devmod_workbench/_cli/bench.py` (`command`) and its neighbours: the
#     options. `workbench/src/devmod_workbench/_tools/bench.py` (`Measurement`, `Benchmark`): what
#     it measures, and what it prints. `workbench/src/devmod_workbench/_tools/draws.py`: the numbers
#     of `verify`'s inputs; `trials.py` there: which of them are drawn, and the launches;
#     `workbench/src/devmod_workbench/_cli/run.py` (`VALUES`): the words of `devmod run`.
#     `docs/find-out-what-is-wrong.md` lists the numbers
#   tests: `tests/test_run_and_bench.py`, `tests/test_verify.py`, `tests/test_verify_draws.py`
@click.command(
    "bench",
    short_help="Measure functions side by side.",
    epilog="""\b
Examples:
  devmod bench k.devmod saxpy --threads 65536
  devmod bench old.devmod new.devmod matmul a=random[N,N] b=random[N,N] c=zeros[N,N] n=N \\
      --threads N,N --size N=256,512,1024 --plot matmul.svg
  devmod bench k.devmod saxpy --threads 65536 --device opencl --device vulkan --block 64 --block 256
  devmod bench n.devmod columns=512 --size rows=64,1024    # a program, by the lengths of its arrays
  devmod bench net.devmod --kernels    # and the share of each of its kernels
  devmod bench k.devmod --threads 65536 --csv > times.csv

\b
Exit status:
  0  everything was measured
  1  something could not be measured, or an error
""",
)
@click.argument(
    "items",
    nargs=-1,
    required=True,
    metavar="FILE... [FUNCTION]... [NAME=VALUE]...",
    shell_complete=complete_function,
)
@threads_option
@grid_option
@click.option(
    "--block",
    "blocks",
    multiple=True,
    metavar=DIMS,
    help="The threads of a block. Several are compared.",
)
@devices_option
@sizes_option
@click.option(
    "--repeat",
    metavar="NUMBER",
    type=WholeNumber(1),
    default=20,
    show_default=True,
    help="The number of measured launches.",
)
@click.option(
    "--warmup",
    metavar="NUMBER",
    type=WholeNumber(0),
    default=3,
    show_default=True,
    help="The number of launches before them.",
)
@click.option(
    "--kernels",
    is_flag=True,
    help="Add the kernels of each program, with their shares of its time on the device.",
)
@timeout_option("The time limit for a row with its build. Default: none.")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@plot_option
@debug_option
@click.pass_context
def command(
    context: click.Context,
    /,
    items: tuple[str, ...],
    blocks: tuple[str, ...],
    devices: tuple[str, ...],
    sizes: tuple[str, ...],
    timeout: float | None,
    as_json: bool,
    as_csv: bool,
    plot: Path | None,
    **options: Any,
) -> None:
    """Measure each FUNCTION of each FILE on each device, with each size and block. Print the median
    and the quartiles.

    Without FUNCTION, all are measured, except the kernels that a program of FILE launches. The name
    of such a kernel measures it with the arguments and the threads of the program.

    NAME=VALUE is an argument as for `devmod run`; the names of --size stand for numbers in it. All
    functions with an argument of the name get it. Arguments that are missing are made from the
    interface. The launches are in another process: a row whose kernel ends it has that as its
    reason. An item that is no NAME=VALUE is a FILE if there is such a file, and else a FUNCTION.
    """
    if as_json and as_csv:
        raise click.UsageError("expected --json or --csv, got both")
    quiet_drivers()
    if plot is not None:
        plot_format(plot)
        plot.parent.stat()  # a missing folder is an error before the launches
    assignments, files, names = _split_items(items)
    given = split_assignments(assignments, "bench")
    if not files and names:
        raise click.UsageError(f"there is no file {names[0]!r}")
    if not files:
        raise click.UsageError("expected a file")
    values = read_sizes(sizes)
    check_launch(values, options)
    for block in blocks:
        check_launch(values, {"block": block})
    with plugins_at_work(), progress("measuring"):
        settings = file_settings(files)
        modules = open_modules(settings)
        _check_names(names, modules)
        functions = functions_of(modules, names or None)
        settings |= {"functions": functions, "given": given, **options}
        benchmark = measure_elsewhere(
            combinations(modules, functions, devices or (None,), values, blocks or (None,)),
            timeout,
            settings,
        )
        if plot is not None:
            benchmark.plot(plot)
    number = sum(not each.problem for each in benchmark.measurements)
    if as_json:
        print_json(benchmark.to_dict())
    elif as_csv:
        echo_lines(benchmark.to_csv().rstrip("\n"))
    else:
        echo_lines(typed(str(benchmark), LAUNCH_KEYWORDS))
        if plot is not None:
            echo(f"{plot}: a plot of {count_text(number, 'measurement')}")
    if number < len(benchmark.measurements):
        context.exit(1)


def _split_items(items: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the items that give an argument, the files, and the names of functions."""
    assignments = []
    files = []
    names = []
    for each in items:
        if "=" in each:
            assignments.append(each)
        elif each == STDIN or "://" in each or Path(each).exists():
            files.append(each)
        else:
            names.append(each)
    return assignments, files, names


def read_sizes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the numbers of each --size."""
    assignments = split_assignments(texts, "--size")
    sizes = {}
    for name, text in assignments.items():
        sizes[name] = read_counts(text, {}, f"--size {name}")
        if 0 in sizes[name]:
            raise ArgumentError(
                f"--size {name}: expected whole numbers of 1 or more, got {text!r}", argument=name
            )
    return sizes


def check_launch(sizes: Mapping[str, Sequence[int]], options: Mapping[str, Any]) -> None:
    """Raise ArgumentError for an option of a launch with neither a number nor a name of a size."""
    numbers = {name: values[0] for name, values in sizes.items()}
    read_launch(options, numbers)


def _check_names(names: Sequence[str], modules: Mapping[str, Module]) -> None:
    """Raise ArgumentError for the first name of a function that no module has."""
    known = dict.fromkeys(chain.from_iterable(modules.values()))
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"there is no file and no function {name!r}; the functions: {list_names(known)}",
                argument=name,
            )
