"""The variants of a tuned function that run on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from devmod import Interface, Module
from devmod._modules.choice import candidates_on
from devmod.backend import Tuning, Variant, interface_of, tuning_of, variants_on
from devmod.errors import DevmodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import Device

Values = tuple[Any, ...]


class Offer(NamedTuple):
    """A variant of a tuned function.

    Attributes
    ----------
    module
        The candidate that has it.
    variant, interface
        The variant, and its interface, with its block.
    """

    module: Module
    variant: Variant
    interface: Interface


def tuned_candidates(name: str, modules: Sequence[Module], tuning: Tuning) -> list[Module]:
    """Return the candidates whose variants join those of one of them: they have the same constants
    and sizes.
    """
    found = []
    for module in modules:
        try:
            other = tuning_of(interface_of(module, name))
        except DevmodError:  # the first use raises it
            continue
        if other is None or {*other.constants} != {*tuning.constants}:
            continue
        if {*other.sizes} == {*tuning.sizes}:
            found.append(module)
    return found


def offers(
    name: str, modules: Sequence[Module], device: Device, like: Interface
) -> dict[Values, Offer]:
    """Return the variants of candidates of one kind that fit a device, by the values of the
    constants, in the order of the file. Of the same values, that of the best candidate.

    They have the constants and the arguments of the interface `like`, in its order.
    """
    of_all = tuning_of(like)
    assert of_all is not None
    ranked = modules
    if len(modules) > 1:  # a call of the only one asks its driver
        ranked = list(candidates_on(name, modules, device))
    found: dict[Values, Offer] = {}
    for module in modules:
        interface = interface_of(module, name)
        if module not in ranked or interface is None:
            continue
        for variant, own, problem in variants_on(interface, module.format, device.capabilities):
            if problem or _form(own) != _form(like):
                continue
            values = tuple([variant.constants[each] for each in of_all.constants])
            offer = Offer(module, variant, own)
            other = found.setdefault(values, offer)
            if ranked.index(module) < ranked.index(other.module):
                found[values] = offer
    return found


def _form(interface: Interface) -> list[tuple[object, ...]]:
    """Return what a call converts and copies by: variants of another form cannot share one."""
    return [(each.name, each.kind, each.type, each.access == "r") for each in interface.params]
