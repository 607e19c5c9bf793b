"""The constants of a pipeline, which `Function.specialize` sets. Few kernels have some."""

from __future__ import annotations

from devmod._values.dtypes import NUMBERS
from devmod._values.value import Value, is_count, read_list, read_map
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod._values.info import Interface

    Number = bool | int | float

_CONSTANT_TYPES = NUMBERS | {"bool"}


class PipelineConstant(Value):
    """A constant of a pipeline.

    Parameters
    ----------
    name
        The name in the source; "" if it is unknown.
    type
        Its type, such as "int32".
    id
        The number by which the driver identifies it; None if the driver uses the name.
    default
        The default value; None if there is none.

    Raises
    ------
    FormatError
        A field is invalid.
    """

    __slots__ = ("default", "id", "name", "type")
    name: str
    type: str
    id: int | None
    default: Number | None

    def __init__(
        self,
        name: str,
        type: str,  # noqa: A002 - the format's name
        id: int | None = None,  # noqa: A002 - the format's name
        default: Number | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise FormatError("a constant's name is a string")
        if not isinstance(type, str) or type not in _CONSTANT_TYPES:
            raise FormatError(
                f"the constant {name!r} has the type {type!r}; expected a number type or 'bool'"
            )
        if id is not None and (not is_count(id) or id >= 2**32):
            raise FormatError(
                f"the constant {name!r} has the id {id!r}; an id is a number from 0 to 2**32 - 1"
            )
        if default is not None and not isinstance(default, (bool, int, float)):
            raise FormatError(
                f"the constant {name!r} has the default {default!r}; expected a number"
            )
        if id is None and not name:
            raise FormatError("a constant has neither a name nor an id")
        self._set(name=name, type=type, id=id, default=default)

    @property
    def label(self) -> str:
        """Its key in `Function.specialize`: the name, or the number if it has no name."""
        return self.name or str(self.id)

    @property
    def keyword(self) -> str:
        """How a message shows its argument of `Function.specialize`: ``N=…``, or ``**{'3': …}`` if
        the label is no identifier.
        """
        if self.label.isidentifier():
            return f"{self.label}=…"
        return f"**{{{self.label!r}: …}}"

    def to_dict(self) -> dict[str, Any]:
        """Return the map that files have."""
        return self._written(("name", "id", "default"), "name", "id", "type", "default")

    @classmethod
    def from_dict(cls, data: object) -> PipelineConstant:
        """Return the constant of a map from `to_dict`. Raise FormatError for other objects."""
        fields = read_map(data, "a constant of an interface")
        return cls(**({"name": "", "type": ""} | cls._taken(fields)))


def constants_of(interface: Interface | None) -> tuple[PipelineConstant, ...]:
    """Return the constants of an interface.

    Raises
    ------
    FormatError
        The entry ``constants`` is not a list of constants.
    """
    if interface is None:
        return ()
    fields = read_list(interface.extra.get("constants", []), "the constants of an interface")
    return tuple(map(PipelineConstant.from_dict, fields))
