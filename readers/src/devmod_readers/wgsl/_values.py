"""Evaluate WGSL's constant expressions: sizes of arrays and workgroups, bindings, defaults of overrides.

`devmod_readers.wgsl._arithmetic` has the operations and the form of a value.
"""

from __future__ import annotations

from devmod_readers.wgsl._arithmetic import Arithmetic, InvalidValue, Unknown
from devmod_readers.wgsl._scalars import CONVERSIONS, INTEGERS, OVERRIDES, SUFFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod_readers.wgsl._arithmetic import Value
    from devmod_readers.wgsl._parse import Expression, WgslModule


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
        #: The overrides whose default or given value depends on no other override.
        self._independent = 0
        self._invalid_defaults = 0
        self._set_overrides = sum(self._bits.get(name, 0) for name in self._override_values)

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
            except InvalidValue as error:
                raise self._module.source.error(error.args[1], error.args[0]) from None
            finally:
                self._busy.discard(name)
                mine = self.used_overrides | self._bits.get(name, 0)
                self.used_overrides = outer
            self._known[name] = (value, mine)
            if mine == self._bits.get(name):
                self._independent |= mine
        value, used_overrides = self._known[name]
        self.used_overrides |= used_overrides
        if value is None:
            raise Unknown
        return value

    def _declared(self, declared: Any) -> Value:
        if declared.name in self._override_values:
            number, kind = self._override_values[declared.name], self.type_of(declared)
            self.used_overrides = 0  # its default is not used
            if not kind:
                raise Unknown
            return (kind, bool(number)) if kind == "bool" else self._arithmetic.converted(("int", number), kind, declared.at)
        if declared.value is None:
            raise Unknown
        value = self.evaluate(declared.value)
        if declared.type is None:
            return self._arithmetic.concrete(value, declared.at) if declared.kind == "override" else value
        name, kind = self._predeclared_type(declared.type)
        if name in OVERRIDES:
            return self._arithmetic.converted(value, name, declared.at)
        if not isinstance(value[1], tuple) or not kind:
            raise Unknown
        return (value[0], (kind, value[1][1]))

    def type_of(self, declared: Any) -> str:
        """Return the WGSL type of an override; "" if it is unknown."""
        try:
            if declared.type is not None:
                return self._predeclared_type(declared.type)[0]
            kind = self.evaluate(declared.value)[0]
        except Unknown:
            return ""
        return CONVERSIONS.get(kind, (kind,))[0]

    # -- expressions

    def size(self, expression: Expression) -> Value:
        """Return the value of a size and set `used_overrides` to the overrides that it depends on.

        Raises
        ------
        Unknown
            The size is unknown. An integer that is not a size is unknown if another value of an override may replace it.
        CompileError
            The expression is not constant, or is invalid.
        """
        self.used_overrides = 0
        kind, number = self.evaluate(expression)
        if kind in INTEGERS and not 1 <= number < 2**31:
            self._check_overrides()
        return kind, number

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
        outer, self.used_overrides = self.used_overrides, 0
        try:
            if form == "number":
                return self._arithmetic.number(expression[1], at)
            if form == "name":
                return self.of(expression[1], at)
            if form == "unary":
                value = self._arithmetic.unary(expression[1], self.evaluate(expression[2]), at)
            elif form == "binary":
                value = self._chain(expression)
            elif form == "call":
                values = [self.evaluate(each) for each in expression[3]]
                name, kind = self._predeclared_type(expression)
                if _is_composite(name):
                    value = self._arithmetic.composite(name, kind, values, at)
                else:
                    value = self._arithmetic.call(name, values, at)
            elif form == "index":
                value = self._arithmetic.item(self.evaluate(expression[1]), self.evaluate(expression[2])[1], at)
            else:
                operand = self.evaluate(expression[1])
                place = next((letters.find(expression[2]) for letters in ("xyzw", "rgba") if expression[2] in letters), -1)
                if len(expression[2]) != 1 or place < 0:
                    raise Unknown
                value = self._arithmetic.item(operand, place, at)
            return self._concrete(value, at)
        except InvalidValue as error:
            self._check_overrides()
            raise self._module.source.error(error.args[1], error.args[0]) from None
        except (ArithmeticError, ValueError, TypeError):
            self._check_overrides()
            raise self._module.source.error(at, "this constant expression is invalid: its value is undefined or out of range") from None
        finally:
            self.used_overrides = self.used_overrides | outer if self.used_overrides else outer

    def _check_overrides(self) -> None:
        """Raise Unknown if an invalid expression uses the default of an override, since another value may make it valid.

        A default that is computed from set overrides cannot be the cause.
        """
        defaults = self.used_overrides & self._independent & ~self._set_overrides
        self._invalid_defaults |= defaults
        if defaults:
            raise Unknown from None

    def has_invalid_default(self, name: str) -> bool:
        """Return whether an expression was invalid because of the default of an override."""
        return bool(self._invalid_defaults & self._bits[name])

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
            value = self._concrete(self._arithmetic.binary(operator, value, self.evaluate(each[3]), at), at)
        return value

    def _concrete(self, value: Value, at: int) -> Value:
        """Return the value of an expression, whose type is abstract only in a const-expression."""
        return self._arithmetic.concrete(value, at) if self.used_overrides else value

    def _predeclared_type(self, expression: Expression) -> tuple[str, str]:
        """Return the predeclared name in a type or a call, and the scalar type of its elements; "" if there is none.

        Raises
        ------
        Unknown
            It is another declared name, or its elements are not scalars.
        """
        name, arguments = self._resolve_alias(expression[1], expression[2])
        kind = SUFFIXES.get(name[4:], "") if _is_composite(name) and name != "array" else ""
        if arguments and not kind:
            kind = self._resolve_alias(*arguments[0][1:3])[0] if arguments[0][0] == "name" else ""
            if kind not in OVERRIDES:
                raise Unknown
        return name, kind

    def _resolve_alias(self, name: str, arguments: Any) -> tuple[str, Any]:
        """Return the predeclared name to which an alias refers, with its template arguments. Raise Unknown for any other declared name."""
        declared = self._module.declared.get(name)
        for _ in range(64):
            if declared is None or declared.kind != "alias" or declared.type is None:
                break
            name, arguments = declared.type[1:3]
            declared = self._module.declared.get(name)
        if declared is not None:
            raise Unknown
        return name, arguments


def _is_composite(name: str) -> bool:
    return name == "array" or (name[:3] == "vec" and name[3:4] in ("2", "3", "4"))
