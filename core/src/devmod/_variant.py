"""Variants: the architecture that a module's payload is for, as its target's spec reads it (R40)."""

from __future__ import annotations

from devmod._log import debug
from devmod._stored import StoredModule, payload_of
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._module import Module
    from devmod._payload import Binary
    from devmod.targets import TargetSpec

#: Between the variants of a module's shaders, where they differ.
_AND = "&"


def parts_of(variant: str) -> list[str]:
    """The variants that all must fit where a module of this variant fits."""
    return variant.split(_AND)


def variant_of(module: Module, parts: Sequence[Binary] = ()) -> str:
    """The architecture that a module's payload is for, as its target's spec reads it; "" where it cannot be read.

    Of a shader map it is that of its shaders, and where they differ all of them, sorted, with ``&`` between: the module
    fits a device that every one fits.

    Parameters
    ----------
    module
        The module.
    parts
        Its bytes, for a module of a class that has no ``code`` of its own.
    """
    if isinstance(module, StoredModule) and module.variant is not None:
        return module.variant
    try:
        payload = payload_of(module, parts)
    except FormatError:  # unreadable bytes are refused by the real module, at the first use
        return ""
    if payload is None or payload[0].architecture is None:
        return ""
    spec, fmt, _, code = payload
    if isinstance(code, (bytes, memoryview)):
        return _architecture(spec, fmt, code)
    return _AND.join(sorted({_architecture(spec, fmt, shader) for shader in code.values()} - {""}))


def _architecture(spec: TargetSpec, fmt: str, code: Binary) -> str:
    assert spec.architecture is not None
    try:
        return spec.architecture(fmt, code)
    except Exception as error:  # noqa: BLE001 - saving refuses no payload for what is inside it (R40), nor for a reader that fails on it
        debug(f"the architecture of a {spec.kind}/{fmt} payload could not be read: {type(error).__name__}: {error}")
        return ""
