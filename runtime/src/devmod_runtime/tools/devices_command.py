"""`devmod devices`: the devices of the installed runtimes."""

from __future__ import annotations

from typing import Any

import click

from devmod import registered
from devmod._plugins.devices import probe
from devmod.commands import FiniteRange, debug_option, echo, plugins_at_work, print_json, print_table, quiet_drivers, size
from devmod.errors import DevmodError, describe_error, pip_install
from devmod.worker import answer_items, answers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import Device

#: The width of an architecture in the table: Vulkan's has every capability. `--json` prints all of it.
_ARCH_WIDTH = 24
_FIELDS = ("kind", "index", "name", "vendor", "driver_version", "arch", "memory")


@click.command(
    "devices",
    short_help="List the devices of the installed runtimes.",
    epilog="""\b
Examples:
  devmod devices
  devmod devices --json
""",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--timeout", type=FiniteRange(0, min_open=True), default=60, show_default=True, metavar="SECONDS",
              help="The time limit for the devices of one runtime.")  # fmt: skip
@debug_option
def command(as_json: bool, timeout: float) -> None:
    """List the devices of every installed runtime.

    This opens the drivers, in another process: a driver that crashes or does not answer is listed as a problem.
    """
    quiet_drivers()
    results: list[dict[str, object]] = []
    problems: list[str] = []
    claims = dict(sorted(registered("devmod.device").items()))
    with plugins_at_work():  # runtimes that are registered in this process list their devices here
        listed = answers(__name__, [*claims], _probe, timeout, here=lambda kind: claims[kind].object is not None)
        for (kind, claim), (answer, end) in zip(claims.items(), listed, strict=True):
            devices, problem = answer if end is None else ([], f"listing the devices of {claim.provider} {end}")
            results += devices
            if problem or not devices:
                problems.append(f"{kind}: {problem or 'its runtime is installed and finds no device'}")
    if as_json:
        print_json({"devices": results, "problems": problems})
        return
    if results:
        rows = [
            {**each, "arch": _cut(str(each["arch"])), "memory": size(int(str(each["memory"]))) if each["memory"] else ""}
            for each in results
        ]
        print_table(_FIELDS, [[str(each[name]) for name in _FIELDS] for each in rows])
    elif not claims:
        echo(f"No runtime is installed, so there is no device. One that runs on any CPU: {pip_install('devmod-opencl[pocl]')}")
    for problem in problems:
        echo(f"! {problem}")


def main(request: dict[str, Any]) -> None:
    """Run in the new process: answer with the devices and the problem of each kind."""
    answer_items(request, _probe)


def _probe(kind: str) -> tuple[list[dict[str, object]], str]:
    """Return the devices of a kind, and its problem or "". A runtime without its driver must not hide the devices of the others."""
    try:
        return [_description(device) for device in probe(kind)], ""
    except KeyboardInterrupt:
        raise
    except DevmodError as error:
        return [], str(error)
    except BaseException as error:  # noqa: BLE001 - as above, also for exceptions that do not derive from Exception
        return [], describe_error(error)


def _description(device: Device) -> dict[str, object]:
    values = {name: getattr(device, name) for name in _FIELDS}
    return {name: value if isinstance(value, (str, int)) else str(value) for name, value in values.items()}


def _cut(arch: str) -> str:
    return arch if len(arch) <= _ARCH_WIDTH else f"{arch[: _ARCH_WIDTH - 1]}…"
