"""`devmod devices`: the devices of the installed runtimes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from devmod import registered
from devmod._plugins.devices import probe
from devmod.commands import FiniteRange, debug_option, echo, plugins_at_work, print_json, print_table, quiet_drivers, size
from devmod.errors import DevmodError, describe_error, pip_install
from devmod.worker import answer_items, answers, can_start_python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import Device
    from devmod.plugins import Claim

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
    for kind, devices, problem in _devices(claims, timeout):
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


def _devices(claims: Mapping[str, Claim], seconds: float) -> Iterator[tuple[str, list[dict[str, object]], str]]:
    """Yield each kind with its devices and its problem or "". Runtimes registered in this process are called in this process."""
    remote = [kind for kind, claim in claims.items() if claim.object is None and can_start_python()]
    remote_answers = answers(__name__, remote, seconds)
    for kind, claim in claims.items():
        if kind in remote:
            answer, end = next(remote_answers)
            devices, problem = answer if answer is not None else ([], f"listing the devices of {claim.provider} {end}")
        else:
            with plugins_at_work():
                devices, problem = _probe(kind)
        yield kind, devices, problem


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
