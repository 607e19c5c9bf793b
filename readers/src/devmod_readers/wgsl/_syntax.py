"""The syntax tree of a WGSL module: expressions and declarations.

An expression is a tuple with its place as the last item: ``("number", text, at)``, ``("name", name, template arguments or None, at)``,
``("call", name, template arguments or None, arguments, at)``, ``("unary", operator, operand, at)``, ``("binary", operator, left, right,
at)``, ``("member", operand, name, at)``, ``("index", operand, index, at)``. A type is an expression "name".
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_readers.wgsl._tokens import Source

    Expression = tuple[Any, ...]


class Declaration:
    """A declaration at module scope, or a member or parameter of one.

    Attributes
    ----------
    kind : str
        "var", "const", "override", "alias", "struct", "fn"; "member" and "parameter".
    name, at
        Its name, and the name's position in the text.
    attributes : dict
        The names of its attributes to their arguments.
    words : list of str
        The template list of a var: address space and access mode.
    type, value
        Its type and initial value, or None.
    members : list of Declaration
        The members of a struct, or the parameters of a function.
    uses : dict
        The names that it uses and does not declare, each to its first position.
    """

    __slots__ = ("at", "attributes", "kind", "members", "name", "type", "uses", "value", "words")

    def __init__(self, kind: str, name: str, at: int, attributes: dict[str, list[Expression]]) -> None:
        self.kind, self.name, self.at, self.attributes = kind, name, at, attributes
        self.words: list[str] = []
        self.type: Expression | None = None
        self.value: Expression | None = None
        self.members: list[Declaration] = []
        self.uses: dict[str, int] = {}


class WgslModule:
    """The declarations of a WGSL text.

    Attributes
    ----------
    source : Source
        The text.
    enabled : dict
        The enabled extensions, each to its position.
    declared : dict
        The declarations by name.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.enabled: dict[str, int] = {}
        self.declared: dict[str, Declaration] = {}
