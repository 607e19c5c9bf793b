"""Evaluate WGSL's constant expressions: sizes of arrays and workgroups, bindings, defaults of overrides.

A value is a pair of a type and a Python number. The value of a vector or an array has a tuple of such pairs. Types are WGSL's names;
"int" and "float" are the abstract types.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from devmod_targets.wgsl._syntax import Expression, WgslModule

    Value = tuple[str, Any]

_BITS = {"int": 64, "i32": 32, "u32": 32}
_FLOATS = ("float", "f32", "f16")
_LARGEST = {"float": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0}
#: The abstract types to the types that they convert to, in the order of preference.
_CONVERSIONS = {"int": ("i32", "u32", "float", "f32", "f16"), "float": ("f32", "f16")}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    ">": lambda a, b: bool(a > b),
    "<=": lambda a, b: bool(a <= b),
    ">=": lambda a, b: bool(a >= b),
}
_FLOAT_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
    "trunc": math.trunc,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "exp2": lambda x: math.pow(2.0, x),
    "log": math.log,
    "log2": math.log2,
    "fract": lambda x: x - math.floor(x),
}
_BIT_FUNCTIONS: dict[str, Callable[[int], int]] = {
    "countOneBits": lambda x: x.bit_count(),
    "countLeadingZeros": lambda x: 32 - x.bit_length(),
    "countTrailingZeros": lambda x: (x & -x).bit_length() - 1 if x else 32,
    "firstTrailingBit": lambda x: (x & -x).bit_length() - 1 if x else 0xFFFFFFFF,
}


class Unknown(Exception):
    """The value of an expression is unknown: an override has no value, or this file does not implement the expression."""


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
        wanted = declared.type[1] if declared.type is not None and declared.type[2] is None else ""
        if declared.name in self._override_values:
            number = self._override_values[declared.name]
            kind = wanted or self.type_of(declared)
            return (kind, bool(number) if kind == "bool" else number)
        if declared.value is None:
            raise Unknown
        value = self.evaluate(declared.value)
        if not wanted or wanted not in (*_BITS, *_FLOATS, "bool"):
            # An override has a concrete type; a const may have an abstract one.
            return self._converted(value, _CONVERSIONS.get(value[0], (value[0],))[0], declared.at) if declared.kind == "override" else value
        return self._converted(value, wanted, declared.at)

    def type_of(self, declared: Any) -> str:
        """Return the WGSL type of an override; "" if it is unknown."""
        if declared.type is not None:
            return str(declared.type[1])
        try:
            kind = self.evaluate(declared.value)[0]
        except Unknown:
            return ""
        return _CONVERSIONS.get(kind, (kind,))[0]

    def _converted(self, value: Value, kind: str, at: int) -> Value:
        if value[0] == kind:
            return value
        if kind in _CONVERSIONS.get(value[0], ()):
            return self._checked(kind, float(value[1]) if kind in _FLOATS else value[1], at)
        raise self._module.source.error(at, f"expected a value of type {kind}, got {_shown(value[0])}")

    def _checked(self, kind: str, number: Any, at: int) -> Value:
        """Return a result in its type. Concrete integers wrap around; other values must be in range."""
        if kind in _BITS:
            bits = _BITS[kind]
            if kind == "u32":
                return (kind, number & 0xFFFFFFFF)
            low, high = -(1 << bits - 1), (1 << bits - 1) - 1
            if kind == "i32":
                return (kind, (number - low) % (1 << bits) + low)
            if not low <= number <= high:
                raise self._module.source.error(at, "the value of this constant expression exceeds 64 bits")
        elif kind in _FLOATS and not abs(number) <= _LARGEST[kind]:
            raise self._module.source.error(at, f"the value of this constant expression exceeds the range of {_shown(kind)}")
        return (kind, number)

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
        what, at = expression[0], expression[-1]
        try:
            if what == "number":
                return self._number(expression[1], at)
            if what == "name":
                return self.of(expression[1], at)
            if what == "unary":
                return self._unary(expression[1], self.evaluate(expression[2]), at)
            if what == "binary":
                return self._chain(expression)
            if what == "call":
                return self._call(expression[1], [self.evaluate(each) for each in expression[3]], at)
            if what == "index":
                return self._item(self.evaluate(expression[1]), self.evaluate(expression[2])[1], at)
            operand = self.evaluate(expression[1])
            place = next((letters.find(expression[2]) for letters in ("xyzw", "rgba") if expression[2] in letters), -1)
            if len(expression[2]) != 1 or place < 0:
                raise Unknown
            return self._item(operand, place, at)
        except (OverflowError, ValueError, ZeroDivisionError, TypeError):
            raise self._module.source.error(at, "this constant expression is invalid: its value is undefined or out of range") from None

    def _chain(self, expression: Expression) -> Value:
        """Evaluate a binary expression. A loop handles its left operands, because a chain may have thousands."""
        waiting = []
        while expression[0] == "binary":
            waiting.append(expression)
            expression = expression[2]
        value = self.evaluate(expression)
        for each in reversed(waiting):
            operator, at = each[1], each[-1]
            if operator in ("&&", "||") and value[0] == "bool" and value[1] == (operator == "||"):
                continue
            value = self._binary(operator, value, self.evaluate(each[3]), at)
        return value

    def _number(self, text: str, at: int) -> Value:
        lower = text.lower()
        hexadecimal = lower.startswith("0x")
        exponent = hexadecimal and "p" in lower
        kind = {"i": "i32", "u": "u32"}.get(lower[-1], "")
        if not kind and (not hexadecimal or exponent):
            kind = {"f": "f32", "h": "f16"}.get(lower[-1], "")
        digits = lower[:-1] if kind else lower
        if "." in digits or exponent or kind in _FLOATS or (not hexadecimal and "e" in digits):
            number = float.fromhex(digits) if hexadecimal else float(digits)
            return self._checked(kind or "float", number, at)
        if len(digits) > 40:
            raise OverflowError
        whole = int(digits, 16 if hexadecimal else 10)
        if kind and not whole < (1 << 32 if kind == "u32" else 1 << 31):
            raise self._module.source.error(at, f"{text} exceeds the range of {kind}")
        return self._checked(kind or "int", whole, at)

    def _unary(self, operator: str, value: Value, at: int) -> Value:
        kind, number = value
        if operator == "-" and kind in (*_BITS, *_FLOATS) and kind != "u32":
            return self._checked(kind, -number, at)
        if operator == "!" and kind == "bool":
            return (kind, not number)
        if operator == "~" and kind in _BITS:
            return self._checked(kind, ~number, at)
        raise Unknown

    def _both(self, left: Value, right: Value, at: int) -> tuple[str, Any, Any]:
        for one, other in ((left[0], right[0]), (right[0], left[0])):
            if one == other or other in _CONVERSIONS.get(one, ()):
                return other, self._converted(left, other, at)[1], self._converted(right, other, at)[1]
        raise self._module.source.error(at, f"the operands have different types, {_shown(left[0])} and {_shown(right[0])}")

    def _binary(self, operator: str, left: Value, right: Value, at: int) -> Value:
        if isinstance(left[1], tuple) or isinstance(right[1], tuple):
            raise Unknown
        if operator in ("<<", ">>"):
            if left[0] not in _BITS or right[0] not in ("int", "u32") or not 0 <= right[1] < _BITS[left[0]]:
                raise self._module.source.error(at, "invalid shift; expected an integer and a distance less than its number of bits")
            return self._checked(left[0], left[1] << right[1] if operator == "<<" else left[1] >> right[1], at)
        kind, a, b = self._both(left, right, at)
        if operator in _COMPARE:
            return ("bool", _COMPARE[operator](a, b))
        if kind == "bool":
            if operator in ("&&", "&"):
                return (kind, a and b)
            if operator in ("||", "|"):
                return (kind, a or b)
        elif operator in ("+", "-", "*"):
            return self._checked(kind, a + b if operator == "+" else a - b if operator == "-" else a * b, at)
        elif operator in ("/", "%"):
            if kind in _FLOATS:
                return self._checked(kind, a / b if operator == "/" else math.fmod(a, b), at)
            # WGSL truncates the quotient as C does; Python rounds down.
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return self._checked(kind, quotient if operator == "/" else a - b * quotient, at)
        elif kind in _BITS and operator in ("&", "|", "^"):
            return self._checked(kind, a & b if operator == "&" else a | b if operator == "|" else a ^ b, at)
        raise self._module.source.error(at, f"the operator {operator!r} does not accept {_shown(kind)}")

    def _call(self, name: str, values: list[Value], at: int) -> Value:
        declared = self._module.declared.get(name)
        for _ in range(64):
            if declared is None or declared.kind != "alias" or declared.type is None:
                break
            name = declared.type[1]
            declared = self._module.declared.get(name)
        if declared is not None:
            raise Unknown
        if name == "array" or (name[:3] == "vec" and name[3:4] in ("2", "3", "4")):
            if name != "array" and len(values) == 1 and not isinstance(values[0][1], tuple):
                values = values * int(name[3])
            return ("values", tuple(values))
        numbers = [value[1] for value in values]
        if any(isinstance(number, tuple) for number in numbers):
            raise Unknown
        if len(values) == 1:
            return self._call_of_one(name, values[0], at)
        if name in ("min", "max", "pow") and len(values) == 2:
            kind, a, b = self._both(values[0], values[1], at)
            return self._checked(kind, min(a, b) if name == "min" else max(a, b) if name == "max" else math.pow(a, b), at)
        if name == "clamp" and len(values) == 3:
            return self._call("min", [self._call("max", values[:2], at), values[2]], at)
        if name == "select" and len(values) == 3 and values[2][0] == "bool":
            kind, a, b = self._both(values[0], values[1], at)
            return (kind, b if values[2][1] else a)
        raise Unknown

    def _call_of_one(self, name: str, value: Value, at: int) -> Value:
        kind, number = value
        if name == "bool":
            return (name, bool(number))
        if name in ("i32", "u32"):
            if kind in _FLOATS:
                low, high = (0, 0xFFFFFFFF) if name == "u32" else (-(1 << 31), (1 << 31) - 1)
                number = min(max(math.trunc(number), low), high)
            return self._checked(name, int(number), at)
        if name in ("f32", "f16"):
            return self._checked(name, float(number), at)
        if name == "abs" and kind != "bool":
            return self._checked(kind, abs(number), at)
        if name == "sign" and kind != "bool":
            return (kind, type(number)((number > 0) - (number < 0)))
        if name in _FLOAT_FUNCTIONS and kind != "bool":
            kind = "float" if kind == "int" else kind
            return self._checked(kind, float(_FLOAT_FUNCTIONS[name](number)), at)
        if name in _BIT_FUNCTIONS and kind in _BITS:
            kind = "i32" if kind == "int" else kind
            return self._checked(kind, _BIT_FUNCTIONS[name](number & 0xFFFFFFFF), at)
        raise Unknown

    def _item(self, value: Value, place: Any, at: int) -> Value:
        items = value[1]
        if not isinstance(items, tuple) or not isinstance(place, int):
            raise Unknown
        if not 0 <= place < len(items):
            raise self._module.source.error(at, f"the index {place} is out of range; expected 0 to {len(items) - 1}")
        declared: Value = items[place]
        return declared


def shown_value(value: Any) -> str:
    """Return a value for a message. Nested lists may be of any length, so lists are not printed."""
    return "a list of values" if isinstance(value, tuple) else repr(value)


def _shown(kind: str) -> str:
    return {"int": "an integer", "float": "a floating-point number", "values": "several values"}.get(kind, kind)
