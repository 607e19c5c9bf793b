"""The text of a program's declarations, and of the integer expressions of their shapes.

An expression is an int, a name, or a sequence of an operator and its operands. Files of strangers may have anything in its place.
"""

from __future__ import annotations

from devmod._values.param import type_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod._values.param import Param

#: The operators between operands, with how strongly they bind. The others are functions.
INFIX = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}
#: The depth to which an expression is shown: that of the deepest that a program may have.
_MAX_DEPTH = 16


def expression_text(expression: Any, binding: int = 0, depth: int = 0) -> str:
    """Return an expression as Python has it: ``rows * (columns + 1)``. `binding` is that of the operator around it."""
    if not isinstance(expression, (list, tuple)):
        return str(expression)
    if depth > _MAX_DEPTH or len(expression) < 2:
        return "…"
    name, *operands = expression
    strength = INFIX.get(name, 0) if isinstance(name, str) else 0
    if not strength:
        return f"{name}({', '.join(expression_text(each, 0, depth + 1) for each in operands)})"
    first, *others = operands
    parts = [expression_text(first, strength, depth + 1), *(expression_text(each, strength + 1, depth + 1) for each in others)]
    text = f" {name} ".join(parts)
    return f"({text})" if strength < binding else text


def declaration_text(param: Param) -> str:
    """Return a parameter of a program as it is declared: ``x: float32[rows, columns]``, ``epsilon: float32 = 1e-05``."""
    shape = param.extra.get("shape")
    if not isinstance(shape, (list, tuple)):
        value = param.extra.get("value")
        return f"{param.name}: {type_text(param)}{'' if value is None else f' = {value!r}'}"
    lengths = ", ".join(map(expression_text, shape))
    access = " rw" if param.extra.get("role") == "update" else ""
    return f"{param.name}: {param.format or param.type or '?'}[{lengths}]{access}"
