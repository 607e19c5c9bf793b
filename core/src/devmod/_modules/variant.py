"""Variants: the architecture of a module's payload, as read by its target's spec (R40)."""

from __future__ import annotations

from devmod._modules.stored import StoredModule, payload_of
from devmod._util.log import debug
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._modules.module import Module
    from devmod._values.code import Binary
    from devmod._values.spec import TargetSpec

#: The separator of the different variants of a module's shaders.
_SEPARATOR = "&"


def parts_of(variant: str) -> list[str]:
    """Return the variants in `variant`. A module fits a device only if all of them fit."""
    return variant.split(_SEPARATOR)


def variant_of(module: Module, parts: Sequence[Binary] = ()) -> str:
    """Return the architecture of a module's payload, as read by its target's spec; "" if it cannot be read.

    For a shader map the result is the architecture of its shaders. Different architectures are sorted and joined with ``&``: the
    module fits a device only if each of them does.

    Parameters
    ----------
    module
        The module.
    parts
        The module's bytes, for a class without ``code``.
    """
    if isinstance(module, StoredModule) and module.variant is not None:
        return module.variant
    try:
        payload = payload_of(module, parts)
    except FormatError:  # the runtime raises the error at the first use
        return ""
    if payload is None or payload[0].architecture is None:
        return ""
    spec, fmt, _, code = payload
    if isinstance(code, (bytes, memoryview)):
        return _architecture(spec, fmt, code)
    return _SEPARATOR.join(sorted({_architecture(spec, fmt, shader) for shader in code.values()} - {""}))


def _architecture(spec: TargetSpec, fmt: str, code: Binary) -> str:
    assert spec.architecture is not None
    try:
        return spec.architecture(fmt, code)
    except Exception as error:  # noqa: BLE001 - saving accepts any content (R40), also if a reader fails on it
        debug(f"the architecture of a {spec.kind}/{fmt} payload could not be read: {type(error).__name__}: {error}")
        return ""
