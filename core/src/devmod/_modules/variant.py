"""The payload of any module, and its variant: the architecture, as read by the target's spec
(R40).
"""

from __future__ import annotations

from devmod._formats.wire import decode
from devmod._modules.payload import PayloadModule
from devmod._modules.stored import StoredModule
from devmod._plugins.specs import find_spec
from devmod._util.environment import debug
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._modules.module import Module
    from devmod._values.code import Binary, Code, Functions
    from devmod._values.spec import TargetSpec

#: The separator of the different variants of a module's shaders.
_SEPARATOR = "&"


def payload_of(
    module: Module, parts: Sequence[Binary] = ()
) -> tuple[TargetSpec, str, Functions, Code] | None:
    """Return a module's target spec, format, functions and code; None for a kind without a spec.

    Parameters
    ----------
    module
        Any module, real, fallback or stored.
    parts
        Its bytes, if the caller has them. A module of a class without ``code`` is read from them.

    Raises
    ------
    FormatError
        Its bytes are not of the kind's form.
    """
    spec = find_spec(module.kind)
    if spec is None:
        return None
    if isinstance(module, (PayloadModule, StoredModule)):
        return spec, spec.canonical_format(module.format), module.functions, module.code
    fmt, fmap, code = decode(spec, b"".join(parts or module.wire_parts()))
    return spec, fmt, fmap, code


def parts_of(variant: str) -> list[str]:
    """Return the variants in `variant`. A module fits a device only if all of them fit."""
    return variant.split(_SEPARATOR)


def variant_of(module: Module, parts: Sequence[Binary] = ()) -> str:
    """Return the architecture of a module's payload, as read by its target's spec; "" if it cannot
    be read.

    For a shader map the result is the architecture of its shaders. Different architectures are
    sorted and joined with ``&``: the module fits a device only if each of them does.

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
    if payload is None:
        return ""
    return variant_of_code(payload[0], payload[1], payload[3])


def variant_of_code(spec: TargetSpec, fmt: str, code: Code) -> str:
    """Return the architecture of code in one of the formats of its target; "" if it cannot be
    read.
    """
    if spec.architecture is None:
        return ""
    if isinstance(code, (bytes, memoryview)):
        return _architecture(spec, fmt, code)
    shaders = {id(shader): shader for shader in code.values()}  # equal ones may be one object
    variants = {_architecture(spec, fmt, shader) for shader in shaders.values()}
    return _SEPARATOR.join(sorted(variants - {""}))


def _architecture(spec: TargetSpec, fmt: str, code: Binary) -> str:
    assert spec.architecture is not None
    try:
        return spec.architecture(fmt, code)
    except Exception as error:  # noqa: BLE001 - saving accepts any content (R40), also if a reader fails on it
        debug(
            f"the architecture of a {spec.kind}/{fmt} payload could not be read: {type(error).__name__}: {error}"
        )
        return ""
