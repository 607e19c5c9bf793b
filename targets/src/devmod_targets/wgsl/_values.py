"""Evaluate WGSL's constant expressions: sizes of arrays and workgroups, bindings, defaults of overrides.

`devmod_targets.wgsl._arithmetic` has the operations and the form of a value.
"""

from __future__ import annotations

from devmod_targets.wgsl._arithmetic import Arithmetic, Unknown
from devmod_targets.wgsl._scalars import CONVERSIONS, OVERRIDES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod_targets.wgsl._arithmetic import Value
    from devmod_targets.wgsl._syntax import Expression, WgslModule


class Values:
    """The constants of a module.

    Parameters
    ----------
    module
        The module.
    override_values
        Values of its overrides by name, which replace their defaults.

    Attributes
    ----------
    used_overrides : int
        The overrides used so far: bit n for the n-th override of the text. For a chain of overrides, sets of names would take memory
        that grows with the square of its length.
    overrides : list of str
        The names of the overrides, in the order of the text.
    """

    def __init__(self, module: WgslModule, override_values: Mapping[str, Any] | None = None) -> None:
        self._module = module
        self._arithmetic = Arithmetic(module.source)
        self._override_values = override_values or {}
        self._known: dict[str, tuple[Value | None, int]] = {}
        self._busy: set[str] = set()
        self.used_overrides = 0
        self.overrides = [name for name, declared in module.declared.items() if declared.kind == "override"]
        self._bits = {name: 1 << number for number, name in enumerate(self.overrides)}

    def of(self, name: str, at: int) -> Value:
        """Return the value of a const or an override.

        Raises
        ------
        Unknown
            The value is unknown.
        CompileError
            The name is not a constant, or its expression is invalid.
        """
        declared = self._module.declared.get(name)
        if declared is None or declared.kind not in ("const", "override"):
            declaration = f"the {declared.kind} {name!r}" if declared else f"the undeclared name {name!r}"
            if declared is None and name in ("true", "false"):
                return ("bool", name == "true")
            raise self._module.source.error(at, f"expected a constant expression, got {declaration}")
        if name not in self._known:
            if name in self._busy:
                raise self._module.source.error(declared.at, f"the {declared.kind} {name!r} depends on itself")
            self._busy.add(name)
            outer, self.used_overrides = self.used_overrides, 0
            try:
                value: Value | None = self._declared(declared)
            except Unknown:
                value = None
            finally:
                self._busy.discard(name)
                mine = self.used_overrides | self._bits.get(name, 0)
                self.used_overrides = outer
            self._known[name] = (value, mine)
        value, used_overrides = self._known[name]
        self.used_overrides |= used_overrides
        if value is None:
            raise Unknown
        return value

    def _declared(self, declared: Any) -> Value:
        expected = declared.type[1] if declared.type is not None and declared.type[2] is None else ""
        if declared.name in self._override_values:
            number = self._override_values[declared.name]
            kind = expected or self.type_of(declared)
            return (kind, bool(number) if kind == "bool" else number)
        if declared.value is None:
            raise Unknown
        value = self.evaluate(declared.value)
        if not expected or expected not in OVERRIDES:
            # An override has a concrete type; a const may have an abstract one.
            return (
                self._arithmetic.converted(value, CONVERSIONS.get(value[0], (value[0],))[0], declared.at)
                if declared.kind == "override"
                else value
            )
        return self._arithmetic.converted(value, expected, declared.at)

    def type_of(self, declared: Any) -> str:
        """Return the WGSL type of an override; "" if it is unknown."""
        if declared.type is not None:
            return str(declared.type[1])
        try:
            kind = self.evaluate(declared.value)[0]
        except Unknown:
            return ""
        return CONVERSIONS.get(kind, (kind,))[0]

    # -- expressions

    def evaluate(self, expression: Expression) -> Value:
        """Return the value of an expression.

        Raises
        ------
        Unknown
            The value is unknown.
        CompileError
            The expression is not constant, or is invalid.
        """
        form, at = expression[0], expression[-1]
        try:
            if form == "number":
                return self._arithmetic.number(expression[1], at)
            if form == "name":
                return self.of(expression[1], at)
            if form == "unary":
                return self._arithmetic.unary(expression[1], self.evaluate(expression[2]), at)
            if form == "binary":
                return self._chain(expression)
            if form == "call":
                values = [self.evaluate(each) for each in expression[3]]
                return self._arithmetic.call(self._predeclared_name(expression[1]), values, at)
            if form == "index":
                return self._arithmetic.item(self.evaluate(expression[1]), self.evaluate(expression[2])[1], at)
            operand = self.evaluate(expression[1])
            place = next((letters.find(expression[2]) for letters in ("xyzw", "rgba") if expression[2] in letters), -1)
            if len(expression[2]) != 1 or place < 0:
                raise Unknown
            return self._arithmetic.item(operand, place, at)
        except (OverflowError, ValueError, ZeroDivisionError, TypeError):
            raise self._module.source.error(at, "this constant expression is invalid: its value is undefined or out of range") from None

    def _chain(self, expression: Expression) -> Value:
        """Evaluate a binary expression. A loop handles its left operands, because a chain may have thousands."""
        pending = []
        while expression[0] == "binary":
            pending.append(expression)
            expression = expression[2]
        value = self.evaluate(expression)
        for each in reversed(pending):
            operator, at = each[1], each[-1]
            if operator in ("&&", "||") and value[0] == "bool" and value[1] == (operator == "||"):
                continue
            value = self._arithmetic.binary(operator, value, self.evaluate(each[3]), at)
        return value

    def _predeclared_name(self, name: str) -> str:
        """Return the predeclared name to which an alias refers. Raise Unknown for any other declared name."""
        declared = self._module.declared.get(name)
        for _ in range(64):
            if declared is None or declared.kind != "alias" or declared.type is None:
                break
            name = declared.type[1]
            declared = self._module.declared.get(name)
        if declared is not None:
            raise Unknown
        return name
