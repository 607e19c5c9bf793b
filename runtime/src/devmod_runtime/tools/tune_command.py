"""`devmod tune`: measure the variants of tuned functions here, and write the times into the
file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from devmod import Interface, Module, TuningRecord
from devmod._cli._describe import open_file
from devmod.backend import (
    add_tuning_records,
    check_unsigned,
    read_tuning_file,
    tuning_of,
    walk,
    write_tuning_file,
)
from devmod.commands import (
    STDIN,
    FiniteRange,
    complete_function,
    complete_kind,
    debug_option,
    echo,
    echo_lines,
    plugins_at_work,
    print_json,
    progress,
    quiet_drivers,
)
from devmod.errors import DevmodError
from devmod_runtime._tuning.overlay import read_own, write_own
from devmod_runtime.tools.bench import plot_format
from devmod_runtime.tools.bench_command import read_sizes
from devmod_runtime.tools.tune import TIMEOUT, Tuner, TuningResult, names_to_tune
from devmod_runtime.tools.tuning_results import read_results, record_on
from devmod_runtime.tools.values import split_assignments

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
@click.argument("file", type=click.Path(allow_dash=True))
@click.argument("function", required=False, shell_complete=complete_function)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=NUMBER[,NUMBER...]",
    help="What NAME stands for. Each is measured. An integer argument of this name gets it.",
)
@click.option(
    "--threads",
    metavar="X[,Y[,Z]]",
    help="The threads in each dimension, for a function without a grid of its own.",
)
@click.option(
    "--grid", metavar="X[,Y[,Z]]", help="The blocks in each dimension, in place of --threads."
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="KIND[:NUMBER]",
    shell_complete=complete_kind("devmod.device"),
    help="The device. Several are measured.",
)
@click.option(
    "--budget",
    type=_seconds,
    metavar="TIME",
    help="How long the search may take, such as 90s or 10m. Default: no limit.",
)
@click.option(
    "--timeout",
    type=FiniteRange(0, min_open=True),
    default=TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="The limit for three launches of a variant, the first with its build.",
)
@click.option(
    "--rtol",
    type=FiniteRange(0),
    help="The tolerance of the comparison with the first variant. Default: by the type.",
)
@click.option("--atol", type=FiniteRange(0), help="The absolute tolerance. Default: by the type.")
@click.option("--again", is_flag=True, help="Measure known variants too.")
@click.option(
    "--here", is_flag=True, help="Write the times to the cache folder of this user, not to FILE."
)
@click.option(
    "--export",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the times to a file of JSON, not to FILE. It may have others.",
)
@click.option(
    "--import",
    "imported",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the times of such a file into FILE, and measure nothing; also of results of Kernel Tuner (T4) or Triton (*.autotune.json).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a plot of the times by variant and size: .svg, .png or .pdf.",
)
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

    NAME=VALUE is an argument as for `devmod run`; the names of --size stand for numbers in it.
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
    module = open_file(file)[1]
    devices = options["devices"] or (None,)
    if options["imported"]:
        _import(file, module, function, devices[0], counts, options["imported"])
        return

    target = _target(file, module, options)
    known: Sequence[TuningRecord] = ()
    if not options["again"]:
        known = [*module.tuning_records, *target.records]
    launch = {name: options[name] for name in ("threads", "grid", "rtol", "atol")}
    names = names_to_tune(module, function)
    with plugins_at_work(), progress("measuring", has_end=True) as report:
        tuner = Tuner(module, names, counts, devices, known, options["timeout"], report)
        result = tuner.run(given, launch, options["budget"])
        if result.records:
            target.write(result.records)
        if plot is not None:
            result.plot(plot)
    _print(result, target.label, options)
    if result.is_interrupted:
        context.exit(130)


def _print(result: TuningResult, label: str, options: Mapping[str, Any]) -> None:
    if options["as_json"]:
        print_json(result.to_dict())
        return
    echo_lines(str(result))
    if result.records:
        echo(f"{label}: {_count(result.records)} times written")
    if options["plot"] is not None:
        echo(f"{options['plot']}: a plot of {len(result.times)} times")


def _import(
    file: str,
    module: Module,
    name: str | None,
    device: str | None,
    counts: Mapping[str, Sequence[int]],
    sources: Sequence[Path],
) -> None:
    """Write the records of files into a file."""
    like = None
    if name is not None:
        function = module[name]
        if device is not None:
            function = function.on(device)
        like = record_on(function)
    sizes = {size: numbers[0] for size, numbers in counts.items()}
    records: list[TuningRecord] = []
    for each in sources:
        records.extend(read_results(each, like, sizes))
    add_tuning_records(file, records)
    echo(f"{file}: {_count(records)} times written")


def _count(records: Sequence[TuningRecord]) -> int:
    return sum(len(each.measured) for each in records)


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
        path.parent.stat()
        known: Sequence[TuningRecord] = ()
        if path.exists():
            known = read_tuning_file(path)
        return _Target(
            str(path), known, lambda records: write_tuning_file(path, [*known, *records])
        )
    if file == STDIN or "://" in file:
        raise click.UsageError(
            f"{file} cannot be written: give --export FILE or --here, or a file of this machine"
        )
    check_unsigned(file)
    return _Target(file, (), partial(add_tuning_records, file))


def _own_target(module: Module) -> _Target:
    """Return the records of this user, in the cache folder."""
    known: list[TuningRecord] = []
    interfaces: dict[tuple[str, str], Interface] = {}
    for leaf in walk(module):
        for name, info in leaf.functions.items():
            if info.interface is not None and tuning_of(info.interface) is not None:
                interfaces[name, leaf.kind] = info.interface
                known.extend(read_own(name, leaf.kind, info.interface))

    def write(records: Sequence[TuningRecord]) -> None:
        for each in records:
            key = (each.function, each.kind)
            if not write_own(*key, interfaces[key], [each]):
                raise DevmodError(
                    "the times cannot be written to the cache folder: set DEVMOD_CACHE_DIR to another folder, or give --export FILE"
                )

    return _Target("the records of this user", known, write)
