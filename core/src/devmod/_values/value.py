"""The base class of immutable values."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self


#: The fields that a repr omits, in addition to empty ones.
_HIDDEN = (("align", 0), ("size", 0), ("open_block", False), ("shared_memory", 0))


class Value:
    """An immutable value. Equality, hash and, by default, repr follow from its slots."""

    __slots__: tuple[str, ...] = ()

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one")

    def replace(self, **fields: object) -> Self:
        """Return a copy with the given fields changed. The constructor checks all fields."""
        return type(self)(**({name: getattr(self, name) for name in type(self).__annotations__} | fields))

    def _written(self, names: Sequence[str], always: Sequence[str]) -> dict[str, Any]:
        """Return the map of some fields for a file. Empty ones are omitted, those of `always` only if they are None."""
        result: dict[str, Any] = {}
        for name in names:
            value = getattr(self, name)
            if value or (name in always and value is not None):
                if type(value) is tuple:
                    value = [each.to_dict() if hasattr(each, "to_dict") else each for each in value]
                result[name] = dict(value) if type(value) is dict else value
        return result

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._text())

    def __repr__(self) -> str:
        return self._text()

    def _text(self) -> str:
        # The annotations are in the order of the constructor, the slots in alphabetical order.
        fields = {name: getattr(self, name) for name in type(self).__annotations__}
        text = ", ".join(
            f"{name}={_text(value)}" for name, value in fields.items() if value not in ("", (), {}, None) and (name, value) not in _HIDDEN
        )
        return f"{type(self).__name__}({text})"

    # copy and pickle need this for immutable objects with slots. Process pools pickle values.
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._fields())


def _text(value: object) -> str:
    """Return the repr of a field, with all fields of the values in it: a class may have a shorter repr."""
    if isinstance(value, Value):
        return value._text()
    if isinstance(value, tuple) and value and isinstance(value[0], Value):
        return f"({', '.join(map(_text, value))})"
    return repr(value)


def _rebuild(cls: type[Value], fields: Sequence[object]) -> Value:
    result = cls.__new__(cls)
    result._set(**dict(zip(cls.__slots__, fields, strict=True)))
    return result
