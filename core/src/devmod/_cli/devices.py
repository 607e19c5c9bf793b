"""`devmod devices`: the devices of the installed runtimes."""

from __future__ import annotations

import click

from devmod._cli._drivers import quiet_drivers
from devmod._cli._known import KNOWN
from devmod._cli._options import debug_option
from devmod._cli._output import echo, plugins_at_work, print_json, print_table, size
from devmod._device.find import GROUP, probe
from devmod._plugins import registry
from devmod.errors import DevmodError, describe_error

#: The width of an architecture in the table: Vulkan's has every capability. `--json` prints all of it.
_ARCH_WIDTH = 24
_FIELDS = ("kind", "index", "name", "vendor", "driver_version", "arch", "memory")


@click.command(
    "devices",
    short_help=KNOWN["devices"].help,
    epilog="""\b
Examples:
  devmod devices
  devmod devices --json
""",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def command(as_json: bool) -> None:
    """List the devices of every installed runtime. This opens the drivers."""
    quiet_drivers()
    found: list[dict[str, object]] = []
    problems: list[str] = []
    kinds = list(registry.registered(GROUP))
    for kind in kinds:
        # A runtime without its driver must not hide the devices of the others: its error becomes a line of the output.
        try:
            with plugins_at_work():
                devices = probe(kind)
            found += [{name: getattr(device, name) for name in _FIELDS} for device in devices]
            if not devices:
                problems.append(f"{kind}: its runtime is installed and finds no device")
        except KeyboardInterrupt:
            raise
        except DevmodError as error:
            problems.append(f"{kind}: {error}")
        except BaseException as error:  # noqa: BLE001 - as above, also for exceptions that do not derive from Exception
            problems.append(f"{kind}: {describe_error(error)}")
    if as_json:
        print_json({"devices": found, "problems": problems})
        return
    if found:
        shown = [
            {**each, "arch": _cut(str(each["arch"])), "memory": size(int(str(each["memory"]))) if each["memory"] else ""} for each in found
        ]
        print_table(_FIELDS, [[str(each[name]) for name in _FIELDS] for each in shown])
    elif not kinds:
        echo("No runtime is installed, so there is no device. One that runs on any CPU: pip install 'devmod-opencl[pocl]'")
    for problem in problems:
        echo(f"! {problem}")


def _cut(arch: str) -> str:
    return arch if len(arch) <= _ARCH_WIDTH else f"{arch[: _ARCH_WIDTH - 1]}…"
