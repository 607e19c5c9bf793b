"""Values that cannot be converted: the error, and their text in a message."""

from __future__ import annotations


class ConversionError(ValueError):
    """A value cannot be passed as a type. The text is the reason; it begins with the value or its type."""


def describe_value(value: object) -> str:
    """Return a value as text for a message: the repr of numbers and short strings, the type's name otherwise."""
    if isinstance(value, (int, float, complex)) or (isinstance(value, str) and len(value) < 30) or value is None:
        text = repr(value)
        return text if len(text) < 60 else f"an int of {len(text)} digits"
    name = type(value).__name__
    dimensions = getattr(value, "shape", None)
    if isinstance(dimensions, tuple) and dimensions:
        return f"an array of shape {dimensions}"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
