"""The base class of immutable values, and checks of the fields that files have."""

from __future__ import annotations

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self, TypeGuard

    #: The place of an argument or a block: None (its number), an index, a pair, or "push".
    Place = int | str | tuple[int, int] | None


#: The fields that a repr omits, in addition to empty ones.
_HIDDEN = (("align", 0), ("size", 0), ("open_block", False), ("shared_memory", 0))


class Value:
    """An immutable value. Equality, hash and, by default, repr follow from its slots."""

    __slots__: tuple[str, ...] = ()

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one")

    __delattr__ = __setattr__

    def replace(self, **fields: object) -> Self:
        """Return a copy with the given fields changed. The constructor checks all fields."""
        current = {name: getattr(self, name) for name in type(self).__annotations__}
        return type(self)(**(current | fields))

    def _written(self, always: Sequence[str], *names: str) -> dict[str, Any]:
        """Return the map of some fields for a file, or of all and the keys of `extra`. Empty fields
        are omitted, those of `always` only if they are None.
        """
        result = {}
        for name in names or type(self).__annotations__:
            value = getattr(self, name)
            if name == "extra" or (not value and (name not in always or value is None)):
                continue
            if type(value) is tuple and value and hasattr(value[0], "to_dict"):
                value = [each.to_dict() for each in value]
            elif type(value) is tuple:
                value = list(value)
            elif type(value) is dict:
                value = dict(value)
            result[name] = value
        if names:
            return result
        return result | getattr(self, "extra", {})

    @classmethod
    def _taken(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the class in a map of a file. Those that it does not know remain in
        the map.
        """
        known = cls.__annotations__
        return {name: fields.pop(name) for name in [*fields] if name in known and name != "extra"}

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
        parts = []
        for name in type(self).__annotations__:
            value = getattr(self, name)
            if value not in ("", (), {}, None) and (name, value) not in _HIDDEN:
                parts.append(f"{name}={_text(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"

    # copy and pickle need this for immutable objects with slots. Process pools pickle values.
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._fields())


def _text(value: object) -> str:
    """Return the repr of a field, with all fields of the values in it: a class may have a shorter
    repr.
    """
    if isinstance(value, Value):
        return value._text()
    if isinstance(value, tuple) and value and isinstance(value[0], Value):
        return f"({', '.join(map(_text, value))})"
    return repr(value)


def _rebuild(cls: type[Value], fields: Sequence[object]) -> Value:
    result = cls.__new__(cls)
    result._set(**dict(zip(cls.__slots__, fields, strict=True)))
    return result


# -- checks of fields


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value of a file is an integer from 0 to 2**63 - 1."""
    return type(value) is int and 0 <= value < 2**63


def check_count(value: object, subject: str, least: int = 0) -> None:
    """Raise FormatError if `value` is not an int from `least` to 2**63 - 1."""
    if type(value) is not int or not least <= value < 2**63:
        raise FormatError(
            f"{subject} is invalid: expected an int of at least {least}, got {value!r}"
        )


def read_place(at: object, subject: str, *, push: bool = False) -> Place:
    """Return a place; with `push` also "push". Raise FormatError for other objects."""
    if at is None:
        return None
    if push and at == "push":
        return "push"
    if is_count(at):
        return at
    if isinstance(at, (list, tuple)) and len(at) == 2 and all(map(is_count, at)):
        return (at[0], at[1])
    raise FormatError(f"{subject} has the place {at!r}; a place is an index or a pair of indices")


def read_counts(data: object, subject: str) -> tuple[int, ...]:
    """Return a sequence of counts. Raise FormatError for other objects."""
    if not isinstance(data, (list, tuple)):
        raise FormatError(f"{subject} is a list, not {type(data).__name__}")
    for value in data:
        check_count(value, subject)
    return tuple(data)


def read_list(data: object, subject: str) -> list[Any]:
    """Return `data`. Raise FormatError if it is not a list."""
    if not isinstance(data, list):
        raise FormatError(f"{subject} are a list, not {type(data).__name__}")
    return data


def read_map(data: object, subject: str, *required: str) -> dict[str, Any]:
    """Return a copy of a map with string keys, and `required` ones among them. Raise FormatError
    for other objects.
    """
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise FormatError(f"{subject} is a map with string keys, not {type(data).__name__}")
    for key in required:
        if key not in data:
            raise FormatError(f"{subject} has no {key!r}")
    return dict(data)
