"""A type in a mangled name."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The limit on the nesting of types, and on the characters of a spelling. Substitutions would otherwise grow it beyond any bound.
MAX_DEPTH, MAX_TEXT = 64, 1 << 16


class UnsupportedName(Exception):
    """The name has a part that kernels do not have, or it is invalid."""


class TypeNode:
    """A type in a mangled name.

    Attributes
    ----------
    kind
        "builtin", "name", "pointer", "reference", "array", "function", or "pack" for the types of a parameter pack.
    text
        The spelling of a builtin, or the qualified name of a class or enum.
    target
        The type behind a pointer or reference, or of an array's elements.
    const
        Whether the type is const.
    items
        The types of a pack.
    """

    __slots__ = ("const", "items", "kind", "target", "text")

    def __init__(
        self, kind: str, text: str = "", target: TypeNode | None = None, const: bool = False, items: Sequence[TypeNode] = ()
    ) -> None:
        self.kind, self.text, self.target, self.const, self.items = kind, text, target, const, tuple(items)

    def spelling(self, depth: int = 0) -> str:
        """Return the type as in C++."""
        if depth > MAX_DEPTH:
            raise UnsupportedName
        const = "const " if self.const else ""
        if self.kind in ("pointer", "reference") and self.target is not None:
            mark = "*" if self.kind == "pointer" else "&"
            text = f"{self.target.spelling(depth + 1)}{mark}{' const' if self.const else ''}"
        elif self.kind == "array" and self.target is not None:
            text = f"{const}{self.target.spelling(depth + 1)}[{self.text}]"
        elif self.kind == "pack":
            text = ", ".join(item.spelling(depth + 1) for item in self.items)
        else:
            text = const + (self.text or "function")
        if len(text) > MAX_TEXT:
            raise UnsupportedName
        return text
