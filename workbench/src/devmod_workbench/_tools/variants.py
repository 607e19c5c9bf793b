"""The variants that calls of a tuned function take, for `devmod.explain`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from devmod import Module, TuningRecord
from devmod.backend import interface_of, tuning_of
from devmod_runtime._tuning.offers import offers, tuned_candidates
from devmod_runtime._tuning.overlay import chooser_of


def explain_variants(
    name: str,
    module: Module,
    owners: Sequence[Module],
    device: Any,
    records: Iterable[TuningRecord],
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the constants of the variants that calls take on a device, and why: one for each of the
    measured sizes, or one for all.

    Parameters
    ----------
    name, module, owners
        The function, the best candidate, and the candidates of its kind.
    device, records
        The device, or the description of one, and the records of the file.
    """
    interface = interface_of(module, name)
    tuning = tuning_of(interface)
    assert interface is not None
    assert tuning is not None
    joined = tuned_candidates(name, owners, tuning)
    found = offers(name, joined, device, interface)
    chooser = chooser_of(name, interface, found, device, records)
    for sizes in chooser.measured or [()]:
        choice = chooser.choose(sizes)
        yield found[choice.values].variant.constants, choice.why
