"""The devices of this machine on which a function or a program runs."""

from __future__ import annotations

from devmod._modules.choice import candidates_on, program_verdicts
from devmod._modules.module import walk
from devmod._modules.programs import read_program
from devmod._plugins.devices import devices_of_kinds
from devmod.targets import PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Device
    from devmod._modules.module import Module


def fitting_devices(name: str, owners: Sequence[Module]) -> list[Device]:
    """Return the devices of this machine on which a function runs, in the order of
    `devmod.devices`. Nothing is loaded or compiled.

    Parameters
    ----------
    name, owners
        The function, and its candidates; or a program, and the modules that have it.
    """
    devices = devices_of_kinds(each.kind for each in walk(*owners))
    return [each for each in devices if _runs_on(name, owners, each)]


def _runs_on(name: str, owners: Sequence[Module], device: Device) -> bool:
    if owners[0].kind == PROGRAM:
        found = program_verdicts(name, owners, device, read=read_program)
        return any(fitting is not None for _, _, fitting, _, _ in found)
    return any(candidates_on(name, owners, device))
