"""Another value of an attribute for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["patched"]


@contextmanager
def patched(place: Any, name: str, value: Any) -> Iterator[None]:
    """Give an object another value of an attribute. The end restores its own."""
    own = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, own)
