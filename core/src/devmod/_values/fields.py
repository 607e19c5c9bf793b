"""Checks of the fields of values that files have."""

from __future__ import annotations

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    #: The place of an argument or a block: None (its number), an index, a pair, or "push".
    Place = int | str | tuple[int, int] | None


def check_count(value: object, subject: str, least: int = 0) -> None:
    """Raise FormatError if `value` is not an int from `least` to 2**63 - 1."""
    if type(value) is not int or not least <= value < 2**63:
        raise FormatError(f"{subject} is invalid: expected an int of at least {least}, got {value!r}")


def read_place(at: object, subject: str, *, push: bool = False) -> Place:
    """Return a place; with `push` also "push". Raise FormatError for other objects."""
    if at is None or (push and at == "push"):
        return "push" if at == "push" else None
    if type(at) is int and 0 <= at < 2**63:
        return at
    if isinstance(at, (list, tuple)) and len(at) == 2 and all(type(part) is int and 0 <= part < 2**63 for part in at):
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
    """Return a copy of a map with string keys, and `required` ones among them. Raise FormatError for other objects."""
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise FormatError(f"{subject} is a map with string keys, not {type(data).__name__}")
    if not data.keys() >= {*required}:
        raise FormatError(f"{subject} has no {next(key for key in required if key not in data)!r}")
    return dict(data)
