"""`devmod devices`: what the installed runtimes can run on."""

from __future__ import annotations

import click

from devmod import _registry
from devmod._cli import debug_option
from devmod._cli._output import plugins_at_work, print_json, print_table, printable, size
from devmod._memory.device import GROUP, probe
from devmod.errors import DevmodError

#: How much of an architecture a table shows: Vulkan's names every capability. `--json` gives all of it.
_ARCH_WIDTH = 24
_FIELDS = ("kind", "index", "name", "vendor", "driver_version", "arch", "memory")


@click.command(
    "devices",
    short_help="List what the installed runtimes can run on.",
    epilog="""\b
Examples:
  devmod devices
  devmod devices --json
""",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def command(as_json: bool) -> None:
    """List the devices of every runtime that is installed. This opens their drivers."""
    found: list[dict[str, object]] = []
    problems: list[str] = []
    kinds = list(_registry.registered(GROUP))
    for kind in kinds:
        # One runtime without its driver must not hide the devices of the others, so what it raises becomes a line here.
        try:
            with plugins_at_work():
                devices = probe(kind)
            found += [{name: getattr(device, name) for name in _FIELDS} for device in devices]
            if not devices:
                problems.append(f"{kind}: its runtime is installed and finds no device")
        except DevmodError as error:
            problems.append(f"{kind}: {error}")
    if as_json:
        print_json({"devices": found, "problems": problems})
        return
    if found:
        shown = [
            {**each, "arch": _cut(str(each["arch"])), "memory": size(int(str(each["memory"]))) if each["memory"] else ""} for each in found
        ]
        print_table(_FIELDS, [[str(each[name]) for name in _FIELDS] for each in shown])
    elif not kinds:
        click.echo("No runtime is installed, so there is no device. One that runs on any CPU: pip install 'devmod-opencl[pocl]'")
    for problem in problems:
        click.echo(printable(f"! {problem}"))


def _cut(arch: str) -> str:
    return arch if len(arch) <= _ARCH_WIDTH else f"{arch[: _ARCH_WIDTH - 1]}…"
