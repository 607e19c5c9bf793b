"""`devmod devices`: the devices of the installed runtimes."""

from __future__ import annotations

from collections.abc import Mapping

import click

from devmod import registered
from devmod.commands import (
    debug_option,
    echo,
    json_option,
    plugins_at_work,
    print_json,
    print_table,
    quiet_drivers,
    size,
)
from devmod.errors import pip_install
from devmod.worker import answers, processors
from devmod_workbench._tools.devices import FIELDS, listing
from devmod_workbench._tools.options import timeout_option

#: The width of an architecture in the table: Vulkan's has every capability. `--json` prints all of
#: it.
_ARCH_WIDTH = 24


@click.command(
    "devices",
    short_help="List the devices of the installed runtimes.",
    epilog="""\b
Examples:
  devmod devices
  devmod devices --json
""",
)
@json_option
@timeout_option("The time limit for the devices of one runtime.", default=60)
@debug_option
def command(as_json: bool, timeout: float) -> None:
    """List the devices of every installed runtime.

    This opens the drivers, in other processes: a driver that crashes or does not answer is listed
    as a problem.
    """
    quiet_drivers()
    results = []
    problems = []
    claims = registered("devmod.device")
    kinds = sorted(claims, reverse=True)  # webgpu first: wgpu takes the longest to import
    with plugins_at_work():  # runtimes that are registered in this process list their devices here
        listed = answers(
            listing.__module__,
            kinds,
            listing,
            timeout,
            here=lambda kind: claims[kind].object is not None,
            processes=processors(),
        )
        for kind, (answer, end) in sorted(zip(kinds, listed, strict=True)):
            devices = []
            if end is None:
                devices, problem = answer
            else:
                problem = f"listing the devices of {claims[kind].provider} {end}"
            results += devices
            if not devices:
                problem = problem or "its runtime is installed and finds no device"
            if problem:
                problems.append(f"{kind}: {problem}")
    if as_json:
        print_json({"devices": results, "problems": problems})
        return
    if results:
        print_table(FIELDS, [_row(each) for each in results])
    elif not claims:
        echo(
            f"No runtime is installed, so there is no device. One for the CPU of Linux on x86-64: {pip_install('devmod-opencl[pocl]')}"
        )
    for problem in problems:
        echo(f"! {problem}")


def _row(description: Mapping[str, object]) -> list[str]:
    """Return the texts of a device in the table."""
    texts = {name: str(description[name]) for name in FIELDS}
    if len(texts["arch"]) > _ARCH_WIDTH:
        texts["arch"] = f"{texts['arch'][: _ARCH_WIDTH - 1]}…"
    if description["memory"]:
        texts["memory"] = size(int(texts["memory"]))
    else:
        texts["memory"] = ""
    return [*texts.values()]
