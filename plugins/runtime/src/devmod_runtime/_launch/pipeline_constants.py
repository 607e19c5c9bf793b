"""Constants of a pipeline, set by the receiver: `Function.specialize` for SPIR-V's constant_id and
WGSL's override.

An interface has them in two keys of its ``extra``:

- ``constants``: a list of maps. ``name``: the name in the source, "" if it is unknown. ``id``: the
  number by which the driver finds it (SPIR-V's SpecId, WGSL's ``@id``); missing if the driver uses
  the name. ``type``: "bool", "int32", "uint32", "float32" and so on. ``default``: a number or a
  bool; missing if the constant must be set: there is no default, the shader is invalid with it, or
  in SPIR-V several differ.
- ``block_constants``: present if the block of threads depends on constants. Three entries for x, y
  and z. -1: the size is fixed. A number: the size is the constant at that position of
  ``constants``. A list of positions: the size is computed from those. ``Interface.block`` has the
  sizes for the defaults. It is missing if they depend on a constant without a default, or if the
  reader cannot compute them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from devmod import Interface
from devmod.backend import ConversionError, PipelineConstant, constants_of
from devmod.errors import ArgumentError, did_you_mean, list_names
from devmod_runtime._launch.scalars import packer

Number = bool | int | float


class SetConstant(NamedTuple):
    """A constant with the value that `Function.specialize` gives it.

    Attributes
    ----------
    constant, value
        The constant, and its value: a bool, an int or a float.
    data
        The little-endian bytes of the value for the driver; a bool has four.
    """

    constant: PipelineConstant
    value: Number
    data: bytes


def specialize_constants(
    kind: str, function: str, interface: Interface | None, values: Mapping[str, object]
) -> tuple[SetConstant, ...]:
    """Return the constants of an interface that are set, in its order. The backend applies them,
    also to the interface's block.

    Parameters
    ----------
    kind, function
        For messages.
    interface
        The function's interface.
    values
        Name to value. The number of a constant is accepted as its name: ``f.specialize(**{"3":
        16})``.

    Raises
    ------
    ArgumentError
        There is no such constant, it is given twice, or the value does not fit its type.
    FormatError
        The interface is malformed.
    """

    def refusal(name: str, text: str) -> ArgumentError:
        return ArgumentError(
            f"the {kind} function {function!r}{text}", kind=kind, function=function, argument=name
        )

    constants = constants_of(interface)
    specialized: dict[int, SetConstant] = {}
    for name, value in values.items():
        position = _position(constants, name)
        if position is None:
            labels = [each.label for each in constants]
            known = f"{list_names(labels)}{did_you_mean(name, labels)}"
            raise refusal(name, f" has no constant {name!r} to specialize; it has: {known}")
        constant = constants[position]
        if position in specialized:
            raise refusal(
                name,
                f": the constant {constant.label!r} is given twice, by its name and by its number",
            )
        try:
            data = packer(constant.type, bool_bytes=4)(value)
        except ConversionError as error:
            raise refusal(name, f": the constant {constant.label!r}: {error}") from None
        specialized[position] = SetConstant(constant, _number(constant.type, value), data)
    return tuple(specialized[position] for position in sorted(specialized))


def _position(constants: Sequence[PipelineConstant], name: str) -> int | None:
    if name:
        for position, each in enumerate(constants):
            if each.name == name:
                return position
    if name.isascii() and name.isdigit() and len(name) <= 10:
        for position, each in enumerate(constants):
            if each.id == int(name):
                return position
    return None


def _number(type_name: str, value: Any) -> Number:
    if type_name == "bool":
        return bool(value)
    if type_name.startswith("float"):
        return float(value)
    return int(value)
