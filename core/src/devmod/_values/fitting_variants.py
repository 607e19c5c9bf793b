"""The variants of a tuned function that have what a device needs."""

from __future__ import annotations

from devmod._values.requirements import fits, requirements
from devmod._values.tuning import tuning_of, variant_interface
from devmod.errors import DevmodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod._values.info import Interface
    from devmod._values.requirements import Capabilities
    from devmod._values.tuning import Variant


def interface_with_block(interface: Interface, variant: Variant) -> Interface:
    """Return the interface of a variant, which has the block of its expressions."""
    result = variant_interface(interface, variant)
    block = variant.block_of()
    if not block:
        return result
    return result.replace(block=(*block, 1, 1)[:3])


def fitting_variants(
    interface: Interface, fmt: str, capabilities: Capabilities | None, problems: list[str]
) -> Iterator[tuple[Variant, Interface]]:
    """Yield the variants of an interface that fit a device, with their interfaces. `problems` gets
    why others do not.

    Raises
    ------
    FormatError, ExpressionError
        The key ``tune`` or a variant is invalid.
    """
    tuning = tuning_of(interface)
    assert tuning is not None
    for variant in tuning.variants:
        own = interface_with_block(interface, variant)
        problem = fits(requirements(own, fmt), capabilities)
        if problem:
            problems.append(problem)
        else:
            yield variant, own


def lacking(interface: Interface, fmt: str, capabilities: Capabilities | None) -> str:
    """Return why no variant of a tuned function fits a device, as `fits` does; "" if one does."""
    problems: list[str] = []
    try:
        if next(fitting_variants(interface, fmt, capabilities, problems), None) is not None:
            return ""
    except (DevmodError, ValueError):  # the first use raises it
        return ""
    return problems[0]
