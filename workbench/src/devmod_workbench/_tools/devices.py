"""The devices of one kind, for `devmod devices`. Other processes list them, and do not import the
command line.
"""

from __future__ import annotations

from devmod._plugins.devices import probe
from devmod.errors import DevmodError, describe_error
from devmod.worker import answer_items

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Where to change: what `devmod devices` lists of a device: a column, or a key of --json
#   here: `FIELDS`
#   also: `workbench/src/devmod_workbench/_cli/devices.py` (`command`) for the table
#   tests: `workbench/tests/test_cli.py`
FIELDS = ("kind", "index", "name", "vendor", "driver_version", "arch", "memory")


def main(request: dict[str, Any]) -> None:
    """Run in the new process: answer with the devices and the problem of each kind."""
    answer_items(request, listing)


def listing(kind: str) -> tuple[list[dict[str, object]], str]:
    """Return the devices of a kind, and its problem or "". A runtime without its driver must not
    hide the devices of the others.
    """
    try:
        return [{name: getattr(device, name) for name in FIELDS} for device in probe(kind)], ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - as above, also for exceptions that do not derive from Exception
        return [], text_of(error)


def text_of(error: BaseException) -> str:
    """Return the text of an error; with its type if it is not devmod's."""
    if isinstance(error, DevmodError):
        return str(error)
    return describe_error(error)
