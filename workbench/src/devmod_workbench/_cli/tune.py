"""`devmod tune`: measure the variants of tuned functions here, and write the times into the
file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from devmod import Module, TuningRecord
from devmod.backend import (
    LAUNCH_KEYWORDS,
    read_tuning_file,
    replacing,
    tuning_of,
    usable_functions,
    walk,
)
from devmod.commands import (
    STDIN,
    debug_option,
    echo,
    echo_lines,
    json_option,
    plugins_at_work,
    print_json,
    progress,
    quiet_drivers,
)
from devmod.errors import ArgumentError, DevmodError, count_text
from devmod_runtime._tuning.overlay import own_key, read_own, write_own
from devmod_workbench._cli._describe import open_file
from devmod_workbench._cli.bench import check_launch, read_sizes
from devmod_workbench._tools.bench import plot_format
from devmod_workbench._tools.options import (
    OUTPUT,
    atol_option,
    call_arguments,
    devices_option,
    grid_option,
    plot_option,
    rtol_option,
    sizes_option,
    threads_option,
    timeout_option,
)
from devmod_workbench._tools.tune import TIMEOUT, Tuner, TuningResult
from devmod_workbench._tools.tuning_files import (
    add_tuning_records,
    check_unsigned,
    write_tuning_file,
)
from devmod_workbench._tools.tuning_results import read_results, record_on
from devmod_workbench._tools.typed import typed
from devmod_workbench._tools.values import split_assignments

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def _seconds(text: str) -> float:
    """Return the seconds of a text: 90, 90s, 10m, 1.5h."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text)
    if match is None:
        raise click.UsageError(f"--budget: expected a time such as 90s, 10m or 1h, got {text!r}")
    return float(match[1]) * _UNITS[match[2]]


@click.command(
    "tune",
    short_help="Measure variants of functions, and write times into the file.",
    epilog="""\b
Examples:
  devmod tune k.devmod saxpy x=random[n] y=random[n] a=2 --size n=1e5,1e6,1e7
  devmod tune k.devmod --budget 10m --plot times.svg
  devmod tune k.devmod --export r.json    # for a signed file, or another machine's
  devmod tune k.devmod --import r.json --import other.json
  devmod tune k.devmod --here             # for this user of this machine alone

\b
Exit status:
  0    done, also within --budget
  1    an error, such as a function of which no variant can be used
  130  Ctrl-C; what was measured until then is written
""",
)
@call_arguments
@sizes_option
@threads_option
@grid_option
@devices_option
@click.option(
    "--budget",
    type=_seconds,
    metavar="TIME",
    help="How long the search may take, such as 90s or 10m. Default: no limit.",
)
@timeout_option(
    "The limit for four launches of a variant, the first with its build.", default=TIMEOUT
)
@rtol_option
@atol_option
@click.option("--again", is_flag=True, help="Measure known variants too.")
@click.option(
    "--here", is_flag=True, help="Write the times to the cache folder of this user, not to FILE."
)
@click.option(
    "--export",
    type=OUTPUT,
    metavar="FILE",
    help="Write the times to a file of JSON, not to FILE. It may have others.",
)
@click.option(
    "--import",
    "imported",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the times of such a file, and measure nothing; also of results of Kernel Tuner (T4) or Triton (*.autotune.json).",
)
@json_option
@plot_option
@debug_option
@click.pass_context
def command(
    context: click.Context,
    /,
    file: str,
    function: str | None,
    arguments: tuple[str, ...],
    sizes: tuple[str, ...],
    **options: Any,
) -> None:
    """Measure each variant of FUNCTION, or of all tuned functions of FILE, on a device of this
    machine, and write the times into FILE. A call then chooses the variant by them.

    NAME=VALUE is an argument as for `devmod run`; the names of --size stand for numbers in it. An
    integer argument gets the size of its name.
    Each variant is compared with the first one, and launched in another process: one that differs,
    ends the process or takes too long has failed. The others are timed in turns, until the best two
    differ by more than their noise. A second run measures only what is new.
    """
    quiet_drivers()
    plot = options["plot"]
    if plot is not None:
        plot_format(plot)
        plot.parent.stat()  # a missing folder is an error before the launches
    if function and "=" in function:
        arguments = (function, *arguments)
        function = None
    given = split_assignments(arguments, "tune")
    counts = read_sizes(sizes)
    check_launch(counts, options)
    module = open_file(file)[1]
    devices = options["devices"] or (None,)
    target = _target(file, module, options)
    if options["imported"]:
        like = None
        if function is not None:
            like = record_on(module[function], devices[0])
        records = _imported(options["imported"], like, counts)
        target.write(records)
        _report(target, records)
        return

    known = [*module.tuning_records, *target.records]
    if options["again"]:
        known = []
    failure = None
    with plugins_at_work(), progress("measuring", has_end=True) as report:
        timeout = options["timeout"]
        tuner = Tuner(module, function, counts, devices, known, timeout, report)
        launch = {name: options[name] for name in ("threads", "grid", "rtol", "atol")}
        try:
            tuner.run(given, launch, options["budget"])
        except DevmodError as error:
            failure = error
    _finish(context, tuner.result, failure, target, options)


def _finish(
    context: click.Context,
    result: TuningResult,
    failure: DevmodError | None,
    target: _Target,
    options: Mapping[str, Any],
) -> None:
    """Write and print a result, and raise the error that ended the search."""
    if failure is not None and not result.records:
        raise failure
    as_json = options["as_json"]
    try:
        if result.records:
            target.write(result.records)
    finally:  # the times are printed too if they cannot be written
        if as_json:
            print_json(result.to_dict())
        else:
            echo_lines(typed(str(result), LAUNCH_KEYWORDS))
    if result.records and not as_json:
        _report(target, result.records)
    path = options["plot"]
    if path is not None:
        result.plot(path)
        if not as_json:
            echo(f"{path}: a plot of {count_text(len(result.times), 'time')}")
    if failure is not None:  # of a function behind those with times
        raise failure
    if result.is_interrupted:
        context.exit(130)


def _imported(
    sources: Sequence[Path], like: TuningRecord | None, counts: Mapping[str, Sequence[int]]
) -> list[TuningRecord]:
    """Return the records of files."""
    sizes = {}
    for size, (number, *others) in counts.items():
        if others:
            raise click.UsageError(f"--size {size}: expected one number with --import, got several")
        sizes[size] = number
    records: list[TuningRecord] = []
    for each in sources:
        records.extend(read_results(each, like, sizes))
    return records


def _report(target: _Target, records: Sequence[TuningRecord]) -> None:
    """Print how many times were written."""
    count = sum(len(each.measured) for each in records)
    echo(f"{target.label}: {count_text(count, 'time')} written")


class _Target(NamedTuple):
    """What gets the records: its name, the records that it has beside those of the module, and
    what adds some.
    """

    label: str
    records: Sequence[TuningRecord]
    write: Callable[[Sequence[TuningRecord]], object]


def _target(file: str, module: Module, options: Mapping[str, Any]) -> _Target:
    """Return what gets the records. What it cannot take is an error before the launches."""
    path = options["export"]
    if options["here"]:
        if path is not None:
            raise click.UsageError("expected --here or --export, got both")
        return _own_target(module)
    if path is not None:
        _check_writable(path)
        known: Sequence[TuningRecord] = ()
        if path.exists():
            known = read_tuning_file(path)
        return _Target(str(path), known, partial(write_tuning_file, path, adds=True))
    if file == STDIN or "://" in file:
        raise click.UsageError(
            f"{file} cannot be written: give --export FILE or --here, or a file of this machine"
        )
    check_unsigned(file)
    _check_writable(file)
    return _Target(file, (), partial(add_tuning_records, file))


class _NotWritten(Exception):
    """Ends the write of a file that stays as it is."""


def _check_writable(path: str | Path) -> None:
    """Raise the error with which a file could not be replaced after a long search."""
    with suppress(_NotWritten), replacing(path):
        raise _NotWritten


def _own_target(module: Module) -> _Target:
    """Return the records of this user, in the cache folder."""
    known: list[TuningRecord] = []
    keys = {}
    for leaf in walk(module):
        for name, info in usable_functions(leaf.functions):
            if info.interface is not None and tuning_of(info.interface) is not None:
                key = keys[name, leaf.kind] = own_key(name, leaf.kind, info.interface)
                write_own(key, ())  # an error before the launches
                known.extend(read_own(key))

    def write(records: Sequence[TuningRecord]) -> None:
        for each in records:
            key = keys.get((each.function, each.kind))
            if key is None:
                raise ArgumentError(
                    f"the records are of {each.function!r} for {each.kind}, and the file has no such tuned function"
                )
            write_own(key, [each])

    return _Target("the records of this user", known, write)
