"""Constants of a pipeline, set where it is received: `Function.specialize` for SPIR-V's constant_id and WGSL's override.

An interface carries them in two keys of its ``extra``:

- ``constants``: a list of maps. ``name``: as in the source, "" where it is not known. ``id``: the number that the driver goes by
  (SPIR-V's SpecId, WGSL's ``@id``); missing where the driver goes by the name. ``type``: "bool", "int32", "uint32", "float32" and so
  on. ``default``: the value that it has unless set, a number or a bool; missing where there is none, so that it must be set.
- ``block_constants``, where the block of threads depends on them: three entries for x, y and z. -1: it is fixed. A number: it is
  the constant at that position of ``constants``. A list of positions: it is worked out from those. ``Interface.block`` has what
  comes of the defaults.
"""

from __future__ import annotations

from devmod._info import Interface, _Value
from devmod._launch.scalars import Unfit, packer
from devmod.errors import ArgumentError, FormatError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Number = bool | int | float

_TYPES = frozenset(("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"))


class Constant(_Value):
    """A constant of a pipeline.

    Parameters
    ----------
    name
        As in the source; "" where it is not known.
    type
        Its type, such as "int32".
    id
        The number that the driver goes by; None where it goes by the name.
    default
        The value that it has unless set; None where it has none.

    Raises
    ------
    FormatError
        A field is not one of the above.
    """

    __slots__ = ("default", "id", "name", "type")
    name: str
    type: str
    id: int | None
    default: Number | None

    def __init__(self, name: str, type: str, id: int | None = None, default: Number | None = None) -> None:  # noqa: A002 - the format's names
        if not isinstance(name, str):
            raise FormatError("a constant's name is a string")
        if not isinstance(type, str) or type not in _TYPES:
            raise FormatError(f"the constant {name!r} has the type {type!r}, which is none of a number or a bool")
        if id is not None and (not _whole(id) or not 0 <= id < 2**32):
            raise FormatError(f"the constant {name!r} has the id {id!r}; an id is a number from 0 to 2**32 - 1")
        if default is not None and not isinstance(default, (bool, int, float)):
            raise FormatError(f"the constant {name!r} has the default {default!r}, which is no number")
        if id is None and not name:
            raise FormatError("a constant has neither a name nor an id")
        self._set(name=name, type=type, id=id, default=default)

    @property
    def shown(self) -> str:
        """How it is called in `Function.specialize`: by its name, else by its number."""
        return self.name or str(self.id)

    def to_dict(self) -> dict[str, Any]:
        """The map that the interface holds."""
        made: dict[str, Any] = {"name": self.name}
        if self.id is not None:
            made["id"] = self.id
        made["type"] = self.type
        if self.default is not None:
            made["default"] = self.default
        return made

    @classmethod
    def from_dict(cls, data: object) -> Constant:
        """The constant in a map as `to_dict` makes it; FormatError where it is none."""
        if not isinstance(data, dict):
            raise FormatError("a constant of an interface is a map")
        return cls(data.get("name", ""), data.get("type", ""), data.get("id"), data.get("default"))


class Specialized(_Value):
    """An interface with constants set.

    Parameters
    ----------
    interface
        The interface, its block that of the constants; None for the block where it cannot be told, so that the caller has to give it.
    values
        The constants that are set, in the order of the interface, and their values: a bool, an int or a float.
    data
        For each of `values` its bytes as a driver takes them, little-endian; a bool has four.
    """

    __slots__ = ("data", "interface", "values")
    interface: Interface
    values: tuple[tuple[Constant, Number], ...]
    data: tuple[bytes, ...]

    def __init__(self, interface: Interface, values: Sequence[tuple[Constant, Number]], data: Sequence[bytes]) -> None:
        self._set(interface=interface, values=tuple(values), data=tuple(data))


def constants_of(interface: Interface | None) -> tuple[Constant, ...]:
    """The constants that an interface carries.

    Raises
    ------
    FormatError
        What stands there is no list of them.
    """
    listed = interface.extra.get("constants", []) if interface is not None else []
    if not isinstance(listed, list):
        raise FormatError("the constants of an interface are a list")
    return tuple(map(Constant.from_dict, listed))


def specialize_constants(kind: str, function: str, interface: Interface | None, given: Mapping[str, object]) -> Specialized:
    """An interface with constants set.

    Parameters
    ----------
    kind, function
        For messages.
    interface
        The function's.
    given
        Name to value. A constant may be named by its number as well: ``f.specialize(**{"3": 16})``.

    Raises
    ------
    ArgumentError
        There is no such constant, it is named twice, or the value does not fit its type.
    FormatError
        The interface is malformed.
    """
    constants = constants_of(interface)
    found: dict[int, tuple[Number, bytes]] = {}
    for name, value in given.items():
        position = _position(constants, name)
        if position is None:
            known = quoted(each.shown for each in constants) if constants else "none"
            raise ArgumentError(
                f"the {kind} function {function!r} has no constant {name!r} to specialize; it has: {known}",
                kind=kind,
                function=function,
                argument=name,
            )
        constant = constants[position]
        if position in found:
            raise ArgumentError(
                f"the {kind} function {function!r}: the constant {constant.shown!r} is given twice, by its name and by its number",
                kind=kind,
                function=function,
                argument=name,
            )
        try:
            data = packer(constant.type, bool_bytes=4)(value)
        except Unfit as error:
            raise ArgumentError(
                f"the {kind} function {function!r}: the constant {constant.shown!r}: {error}", kind=kind, function=function, argument=name
            ) from None
        found[position] = (_number(constant.type, value), data)
    assert interface is not None or not found
    set_ = sorted(found)
    return Specialized(
        _with_block(kind, function, interface or Interface(), constants, {position: found[position][0] for position in set_}),
        [(constants[position], found[position][0]) for position in set_],
        [found[position][1] for position in set_],
    )


def _position(constants: Sequence[Constant], name: str) -> int | None:
    by_name = next((position for position, each in enumerate(constants) if each.name == name and name), None)
    if by_name is not None or not (name.isascii() and name.isdigit() and len(name) <= 10):
        return by_name
    return next((position for position, each in enumerate(constants) if each.id == int(name)), None)


def _number(type_name: str, value: Any) -> Number:
    if type_name == "bool":
        return bool(value)
    return float(value) if type_name.startswith("float") else int(value)


def _with_block(kind: str, function: str, interface: Interface, constants: Sequence[Constant], values: Mapping[int, Number]) -> Interface:
    sources = interface.extra.get("block_constants")
    if sources is None or interface.block is None:
        return interface
    if not isinstance(sources, list) or len(sources) != 3 or not all(_sound(source, len(constants)) for source in sources):
        raise FormatError(f"the {kind} function {function!r} has a list block_constants that is not three positions of constants")
    block = list(interface.block)
    for axis, source in enumerate(sources):
        if isinstance(source, list):
            if any(position in values for position in source):
                return Interface(interface.params, interface.blocks, None, interface.extra)
        elif source in values:
            size = values[source]
            if size < 1:
                name = constants[source].shown
                raise ArgumentError(
                    f"the {kind} function {function!r}: the constant {name!r} is the block's size in {'xyz'[axis]}, which is 1 or more, "
                    f"not {size!r}",
                    kind=kind,
                    function=function,
                    argument=name,
                )
            block[axis] = int(size)
    return Interface(interface.params, interface.blocks, block, interface.extra)


def _sound(source: object, count: int) -> bool:
    if isinstance(source, list):
        return all(_whole(position) and 0 <= position < count for position in source)
    return _whole(source) and -1 <= source < count  # type: ignore[operator]


def _whole(value: object) -> bool:
    return type(value) is int
