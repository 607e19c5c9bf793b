"""`devmod doctor`: check the installation, the drivers and the compilers, and print the next step
for each gap.
"""

from __future__ import annotations

import click

from devmod_workbench._cli._known import KNOWN
from devmod_workbench._cli._options import (
    FiniteRange,
    complete_kind,
    debug_option,
    json_option,
    quiet_drivers,
)
from devmod_workbench._cli._output import echo_all, plugins_at_work, print_json
from devmod_workbench._tools.typed import typed_compile


@click.command(
    "doctor",
    short_help=KNOWN["doctor"].help,
    epilog="""\b
Examples:
  devmod doctor              # every kind
  devmod doctor cuda         # one kind, which must be installed
  devmod doctor --json

\b
Exit status:
  0  what is installed works
  1  a part has a problem: a driver without a device, a broken plugin, versions that differ, a cache folder that cannot be used
""",
)
@click.argument(
    "kinds", nargs=-1, metavar="[KIND]...", shell_complete=complete_kind("devmod.targets")
)
@json_option
@click.option(
    "--timeout",
    type=FiniteRange(0, min_open=True),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="The time limit for the devices of one kind, and for the plugins' checks of it.",
)
@debug_option
@click.pass_context
def command(context: click.Context, kinds: tuple[str, ...], as_json: bool, timeout: float) -> None:
    """Check the versions, the caches, and for each KIND the runtime, the driver with its devices,
    and the compiler.

    The next step for each gap is printed below its line. Plugins and drivers run in another
    process, where a crash is a problem in the report. A kind whose runtime is not installed is no
    problem, unless it is named. With KIND, versions and caches are printed only if they have a
    problem.
    """
    from devmod import doctor

    quiet_drivers()
    with plugins_at_work():
        report = doctor(kinds, timeout=timeout)
    if as_json:
        print_json(report.to_dict())
    else:
        echo_all(map(typed_compile, str(report).splitlines()))
    if report.problems:
        context.exit(1)
