"""The values of WGSL's constant expressions: sizes of arrays and of workgroups, bindings, defaults of overrides.

A value is a pair of its type and a Python number; that of a vector or an array has a tuple of such pairs. Types are WGSL's names, and
"int" and "float" for numbers that have taken on no type yet.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from devmod_targets.webgpu._parse import Expression, Module

    Value = tuple[str, Any]

_BITS = {"int": 64, "i32": 32, "u32": 32}
_FLOATS = ("float", "f32", "f16")
_LARGEST = {"float": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0}
#: Which types a number may still take on, in the order of preference.
_TAKES = {"int": ("i32", "u32", "float", "f32", "f16"), "float": ("f32", "f16")}
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
    """An expression whose value is not known here: an override without a value, or more of WGSL than this file reads."""


class Values:
    """The constants of a module.

    Parameters
    ----------
    module
        The module.
    given
        Values for its overrides by name, which take the place of their defaults.

    Attributes
    ----------
    touched : set of str
        The overrides that were asked for.
    """

    def __init__(self, module: Module, given: Mapping[str, Any] | None = None) -> None:
        self._module = module
        self._given = given or {}
        self._known: dict[str, tuple[Value | None, frozenset[str]]] = {}
        self._busy: set[str] = set()
        self.touched: set[str] = set()

    def of(self, name: str, at: int) -> Value:
        """The value of a const or an override.

        Raises
        ------
        Unknown
            It is not known here.
        CompileError
            It is none, or has none.
        """
        found = self._module.declared.get(name)
        if found is None or found.kind not in ("const", "override"):
            what = f"the {found.kind} {name!r}" if found else f"{name!r}, which is not declared"
            if found is None and name in ("true", "false"):
                return ("bool", name == "true")
            raise self._module.source.wrong(at, f"a constant expression is due, and here is {what}")
        if name not in self._known:
            if name in self._busy:
                raise self._module.source.wrong(found.at, f"the {found.kind} {name!r} is made from itself")
            self._busy.add(name)
            outer, self.touched = self.touched, set()
            try:
                value: Value | None = self._declared(found)
            except Unknown:
                value = None
            finally:
                self._busy.discard(name)
                mine = frozenset(self.touched | ({name} if found.kind == "override" else set()))
                self.touched = outer
            self._known[name] = (value, mine)
        value, touched = self._known[name]
        self.touched |= touched
        if value is None:
            raise Unknown
        return value

    def _declared(self, found: Any) -> Value:
        wanted = found.type[1] if found.type is not None and found.type[2] is None else ""
        if found.name in self._given:
            number = self._given[found.name]
            kind = wanted or self.type_of(found)
            return (kind, bool(number) if kind == "bool" else number)
        if found.value is None:
            raise Unknown
        value = self.evaluate(found.value)
        if not wanted or wanted not in (*_BITS, *_FLOATS, "bool"):
            # An override takes on a type; a const may stay without one.
            return self._taken(value, _TAKES.get(value[0], (value[0],))[0], found.at) if found.kind == "override" else value
        return self._taken(value, wanted, found.at)

    def type_of(self, found: Any) -> str:
        """The type of an override, as WGSL names it; "" where it cannot be told."""
        if found.type is not None:
            return str(found.type[1])
        try:
            kind = self.evaluate(found.value)[0]
        except Unknown:
            return ""
        return _TAKES.get(kind, (kind,))[0]

    def _taken(self, value: Value, kind: str, at: int) -> Value:
        if value[0] == kind:
            return value
        if kind in _TAKES.get(value[0], ()):
            return self._checked(kind, float(value[1]) if kind in _FLOATS else value[1], at)
        raise self._module.source.wrong(at, f"a value of type {kind} is due, and here is one of type {_shown(value[0])}")

    def _checked(self, kind: str, number: Any, at: int) -> Value:
        """A result in its type: concrete integers wrap around, everything else must fit."""
        if kind in _BITS:
            bits = _BITS[kind]
            if kind == "u32":
                return (kind, number & 0xFFFFFFFF)
            low, high = -(1 << bits - 1), (1 << bits - 1) - 1
            if kind == "i32":
                return (kind, (number - low) % (1 << bits) + low)
            if not low <= number <= high:
                raise self._module.source.wrong(at, "this constant expression leaves the range of 64 bits")
        elif kind in _FLOATS and not abs(number) <= _LARGEST[kind]:
            raise self._module.source.wrong(at, f"this constant expression leaves the range of {_shown(kind)}")
        return (kind, number)

    # -- expressions

    def evaluate(self, expression: Expression) -> Value:
        """The value of an expression.

        Raises
        ------
        Unknown
            It is not known here.
        CompileError
            It is no constant expression, or has no value.
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
            raise self._module.source.wrong(at, "this constant expression has no value") from None

    def _chain(self, expression: Expression) -> Value:
        """A binary expression: those that stand to the left of each other are worked off in a loop, for there may be thousands."""
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
            raise self._module.source.wrong(at, f"{text} does not fit {kind}")
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
            if one == other or other in _TAKES.get(one, ()):
                return other, self._taken(left, other, at)[1], self._taken(right, other, at)[1]
        raise self._module.source.wrong(at, f"the operands are of type {_shown(left[0])} and {_shown(right[0])}")

    def _binary(self, operator: str, left: Value, right: Value, at: int) -> Value:
        if isinstance(left[1], tuple) or isinstance(right[1], tuple):
            raise Unknown
        if operator in ("<<", ">>"):
            if left[0] not in _BITS or right[0] not in ("int", "u32") or not 0 <= right[1] < _BITS[left[0]]:
                raise self._module.source.wrong(at, "a shift takes an integer, and by less than its bits")
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
            # Towards zero, as in C; Python rounds down.
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return self._checked(kind, quotient if operator == "/" else a - b * quotient, at)
        elif kind in _BITS and operator in ("&", "|", "^"):
            return self._checked(kind, a & b if operator == "&" else a | b if operator == "|" else a ^ b, at)
        raise self._module.source.wrong(at, f"{operator!r} does not take {_shown(kind)}")

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
            raise self._module.source.wrong(at, f"there is no item {place}: there are {len(items)}")
        found: Value = items[place]
        return found


def _shown(kind: str) -> str:
    return {"int": "an integer", "float": "a floating-point number", "values": "several values"}.get(kind, kind)
