"""Evaluate the constant expressions that decide a shader's interface: sizes of workgroups and
arrays, bindings, defaults of overrides.

The receiver's compiler evaluates the others, and reports operands of invalid types.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devmod.errors import CompileError
from devmod_readers.c_numbers import quotient, remainder
from devmod_wgsl._parse import Declaration, Expression, WgslModule
from devmod_wgsl._scalars import CONVERSIONS, FLOATS, INTEGERS, OVERRIDES, SCALARS, SUFFIXES

#: A type and a Python number. Types are WGSL's names; "int" and "float" are the abstract types. A
#: vector or an array has the type "values" and the tuple of its elements.
Value = tuple[str, Any]
Operation = Callable[[Any, Any], Any]

_LANES = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}
_UNSIGNED = frozenset(name for name in INTEGERS if name[0] == "u")
_COMPARE: dict[str, Operation] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_LOGIC = {"&&": operator.and_, "||": operator.or_, "&": operator.and_, "|": operator.or_}
_FLOAT_OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": math.fmod,
}

_INTEGER_OPERATORS: dict[str, Operation] = {
    **_FLOAT_OPERATORS,
    "/": quotient,
    "%": remainder,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


class Unknown(Exception):
    """The value of an expression is unknown: it depends on an override without a valid value, or
    this file does not implement it.
    """


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
        The overrides used so far: bit n for the n-th override of the text. For a chain of
        overrides, sets of names would take memory that grows with the square of its length.
    overrides : list of str
        The names of the overrides, in the order of the text.
    """

    def __init__(
        self, module: WgslModule, override_values: Mapping[str, Any] | None = None
    ) -> None:
        self._module = module
        self._override_values = override_values or {}
        self._known: dict[str, tuple[Value | None, int]] = {}
        self._busy: set[str] = set()
        self.used_overrides = 0
        self.overrides = [
            name for name, declared in module.declared.items() if declared.kind == "override"
        ]
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
            The name is not a constant, or its value is undefined or out of range.
        """
        declared = self._module.declared.get(name)
        if declared is None:
            if name in ("true", "false"):
                return ("bool", name == "true")
            raise self._module.source.error(
                at, f"expected a constant expression, got the undeclared name {name!r}"
            )
        if declared.kind not in ("const", "override"):
            raise self._module.source.error(
                at, f"expected a constant expression, got the {declared.kind} {name!r}"
            )
        # No function of its own: a chain of constants is as long as Python's recursion allows.
        if name not in self._known:
            if name in self._busy:
                raise self._module.source.error(
                    declared.at, f"the {declared.kind} {name!r} depends on itself"
                )
            self._busy.add(name)
            outer = self.used_overrides
            self.used_overrides = 0
            try:
                value: Value | None = self._declared(declared)
            except Unknown:
                value = None
            except ArithmeticError:
                raise self._invalid(declared.at) from None
            finally:
                self._busy.discard(name)
                used = self.used_overrides | self._bits.get(name, 0)
                self.used_overrides = outer
            self._known[name] = (value, used)
            if used == self._bits.get(name):
                self._independent |= used
        value, used = self._known[name]
        self.used_overrides |= used
        if value is None:
            raise Unknown
        return value

    def _declared(self, declared: Declaration) -> Value:
        if declared.name in self._override_values:
            number = self._override_values[declared.name]
            kind = self.type_of(declared)
            # Its default is not used.
            self.used_overrides = 0
            if not kind:
                raise Unknown
            if kind == "bool":
                return (kind, bool(number))
            return _converted(("int", number), kind)
        if declared.value is None:
            raise Unknown
        value = self.evaluate(declared.value)
        if declared.type is None:
            if declared.kind == "override":
                return _concrete(value)
            return value
        name, kind = self._predeclared_type(declared.type)
        if value[0] == "values" and _is_composite(name):
            return _composite(kind, value[1])
        return _converted(value, name)

    def type_of(self, declared: Declaration) -> str:
        """Return the WGSL type of an override; "" if it is unknown."""
        try:
            if declared.type is not None:
                kind, _ = self._predeclared_type(declared.type)
                return kind
            if declared.value is None:
                return ""
            kind, _ = self.evaluate(declared.value)
        except Unknown:
            return ""
        return CONVERSIONS.get(kind, (kind,))[0]

    # -- expressions

    def size(self, expression: Expression) -> Value:
        """Return the value of a size and set `used_overrides` to the overrides that it depends on.

        Raises
        ------
        Unknown
            The size is unknown. An integer that is not a size is unknown if another value of an
            override may replace it.
        CompileError
            The expression is not constant, or its value is undefined or out of range.
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
            The expression is not constant, or its value is undefined or out of range.
        """
        form = expression[0]
        at = expression[-1]
        outer = self.used_overrides
        self.used_overrides = 0
        try:
            if form == "number":
                return _number(expression[1])
            if form == "name":
                return self.of(expression[1], at)
            if form == "unary":
                value = _unary(expression[1], self.evaluate(expression[2]))
            elif form == "binary":
                value = self._chain(expression)
            elif form == "call":
                values = [self.evaluate(each) for each in expression[3]]
                name, kind = self._predeclared_type(expression)
                if _is_composite(name):
                    value = _construct(name, kind, values)
                else:
                    value = _call(name, values)
            elif form == "index":
                whole = self.evaluate(expression[1])
                _, place = self.evaluate(expression[2])
                value = _item(whole, place)
            else:
                value = _item(self.evaluate(expression[1]), _LANES.get(expression[2]))
            return self._concrete(value)
        except (ArithmeticError, ValueError):
            raise self._invalid(at) from None
        finally:
            # An operation on a number of many bits copies it.
            if self.used_overrides:
                self.used_overrides |= outer
            else:
                self.used_overrides = outer

    def _invalid(self, at: int) -> CompileError:
        """Return the error for an expression without a valid value. Raise Unknown if the default of
        an override is the cause.
        """
        self._check_overrides()
        return self._module.source.error(
            at, "this constant expression is invalid: its value is undefined or out of range"
        )

    def _check_overrides(self) -> None:
        """Raise Unknown if an invalid expression uses the default of an override, since another
        value may make it valid.

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
        """Evaluate a binary expression. A loop handles its left operands, because a chain may have
        thousands.
        """
        pending = []
        while expression[0] == "binary":
            pending.append(expression)
            expression = expression[2]
        value = self.evaluate(expression)
        for each in reversed(pending):
            symbol = each[1]
            if symbol in ("&&", "||") and value[0] == "bool" and value[1] == (symbol == "||"):
                continue
            value = self._concrete(_binary(symbol, value, self.evaluate(each[3])))
        return value

    def _concrete(self, value: Value) -> Value:
        """Return the value of an expression, whose type is abstract only in a const-expression."""
        if not self.used_overrides:
            return value
        return _concrete(value)

    def _predeclared_type(self, expression: Expression) -> tuple[str, str]:
        """Return the predeclared name in a type or a call, and the scalar type of its elements; ""
        if there is none.

        Raises
        ------
        Unknown
            It is another declared name, or its elements are not scalars.
        """
        name, arguments = self._resolve_alias(expression[1], expression[2])
        kind = ""
        if _is_composite(name) and name != "array":
            # The suffix of a vector.
            kind = SUFFIXES.get(name[4:], "")
        if arguments and not kind:
            first = arguments[0]
            if first[0] != "name":
                raise Unknown
            kind, _ = self._resolve_alias(first[1], first[2])
            if kind not in OVERRIDES:
                raise Unknown
        return name, kind

    def _resolve_alias(self, name: str, arguments: Any) -> tuple[str, Any]:
        """Return the predeclared name to which an alias refers, with its template arguments. Raise
        Unknown for any other declared name.
        """
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


# -- The values. Each function raises ArithmeticError or ValueError for a value that is undefined or
# out of range, and `Unknown` for what it does not implement, such as operands of invalid types.
#
# Each floating-point operation is computed in double precision and then rounded to its type, which
# gives the same result as one operation of that type.


def _converted(value: Value, kind: str) -> Value:
    """Return a value in a type to which its own type converts."""
    if value[0] == kind:
        return value
    if kind in CONVERSIONS.get(value[0], ()):
        return _checked(kind, value[1])
    raise Unknown


def _concrete(value: Value) -> Value:
    """Return a value in a concrete type."""
    if value[0] == "values":
        return ("values", tuple(map(_concrete, value[1])))
    return _converted(value, CONVERSIONS.get(value[0], value)[0])


def _checked(kind: str, number: Any) -> Value:
    """Return a result in its type. Concrete integers wrap around; floating-point numbers are
    rounded; other values must be in range.
    """
    if kind in INTEGERS:
        low, high = _range(kind)
        if kind in SCALARS:
            return (kind, (number - low) % (1 << INTEGERS[kind]) + low)
        if not low <= number <= high:
            raise OverflowError
    elif kind in FLOATS:
        if kind in SCALARS and float(number) != number:
            # A large integer would be rounded twice.
            raise Unknown
        number = struct.unpack(FLOATS[kind], struct.pack(FLOATS[kind], float(number)))[0]
        if not math.isfinite(number):
            raise OverflowError
    return (kind, number)


def _number(text: str) -> Value:
    """Return the value of a number in the text."""
    lower = text.lower()
    hexadecimal = lower.startswith("0x")
    kind = SUFFIXES.get(lower[-1], "")
    if kind in FLOATS and hexadecimal and "p" not in lower:
        # The letter is a digit.
        kind = ""
    digits = lower[:-1] if kind else lower
    exponent = "p" if hexadecimal else "e"
    if kind in FLOATS or "." in digits or exponent in digits:
        return _float(digits, kind, hexadecimal=hexadecimal)
    if len(digits) > 40:
        raise OverflowError
    whole = int(digits, 16 if hexadecimal else 10)
    if kind and whole > _range(kind)[1]:
        raise OverflowError
    return _checked(kind or "int", whole)


def _float(digits: str, kind: str, *, hexadecimal: bool) -> Value:
    number = float.fromhex(digits) if hexadecimal else float(digits)
    if not kind:
        return _checked("float", number)
    # The text is rounded to double precision first, and some implementations do not do so.
    below = _checked(kind, math.nextafter(number, -math.inf))
    above = _checked(kind, math.nextafter(number, math.inf))
    if below != above:
        raise Unknown
    return _checked(kind, number)


def _unary(symbol: str, value: Value) -> Value:
    kind, number = value
    if symbol == "-" and kind in (*INTEGERS, *FLOATS) and kind not in _UNSIGNED:
        return _checked(kind, -number)
    if symbol == "!" and kind == "bool":
        return (kind, not number)
    if symbol == "~" and kind in INTEGERS:
        return _checked(kind, ~number)
    raise Unknown


def _both(left: Value, right: Value) -> tuple[str, Any, Any]:
    """Return the common type of two scalars, and their numbers in it."""
    for one, other in ((left[0], right[0]), (right[0], left[0])):
        if (one == other and one != "values") or other in CONVERSIONS.get(one, ()):
            return other, _converted(left, other)[1], _converted(right, other)[1]
    raise Unknown


# Where to change: an operator or a function of WGSL's constants
#   here: `_binary`, `_call`
#   tests: `compilers/wgsl/tests/test_wgsl.py`
def _binary(symbol: str, left: Value, right: Value) -> Value:
    if symbol in ("<<", ">>"):
        if left[0] not in INTEGERS or right[0] not in ("int", "u32"):
            raise Unknown
        if not 0 <= right[1] < INTEGERS[left[0]]:
            raise OverflowError
        shift = operator.lshift if symbol == "<<" else operator.rshift
        return _checked(left[0], shift(left[1], right[1]))
    kind, a, b = _both(left, right)
    if symbol in _COMPARE:
        return ("bool", _COMPARE[symbol](a, b))
    if kind == "bool":
        operators: Mapping[str, Operation] = _LOGIC
    elif kind in INTEGERS:
        operators = _INTEGER_OPERATORS
    else:
        operators = _FLOAT_OPERATORS
    if symbol not in operators:
        raise Unknown
    return _checked(kind, operators[symbol](a, b))


def _call(name: str, values: Sequence[Value]) -> Value:
    """Return the value of a call of a scalar type, or of a predeclared function of which sizes are
    computed.
    """
    if len(values) == 1:
        return _call_of_one(name, values[0])
    if len(values) == 2 and name in ("min", "max"):
        kind, a, b = _both(*values)
        return (kind, min(a, b) if name == "min" else max(a, b))
    if len(values) != 3:
        raise Unknown
    if name == "clamp":
        return _call("min", [_call("max", values[:2]), values[2]])
    if name == "select" and values[2][0] == "bool":
        kind, a, b = _both(values[0], values[1])
        return (kind, b if values[2][1] else a)
    raise Unknown


def _call_of_one(name: str, value: Value) -> Value:
    kind, number = value
    if kind == "values":
        raise Unknown
    if name == "bool":
        return (name, bool(number))
    if name in SCALARS:
        if name in INTEGERS and kind in FLOATS:
            number = _truncated(name, number)
        return _checked(name, number)
    if name == "abs" and kind != "bool":
        return _checked(kind, abs(number))
    raise Unknown


def _truncated(kind: str, number: float) -> int:
    """Return a floating-point number as an integer of a type."""
    low, high = _range(kind)
    if number > high:
        # The result is the limit of the integer, or the next lower number of the floating-point
        # type.
        raise Unknown
    return max(math.trunc(number), low)


def _construct(name: str, kind: str, values: Sequence[Value]) -> Value:
    """Return the value of a vector or an array of scalars. `kind` is the type of its elements; ""
    if their values give it.
    """
    if name != "array":
        lanes = int(name[3])
        if len(values) == 1:
            values = [values[0]] * lanes
        if len(values) != lanes:
            raise Unknown
    return _composite(kind or _common_type(values), values)


def _common_type(values: Sequence[Value]) -> str:
    """Return the type to which all of some scalars convert; "" for no scalars."""
    if not values:
        return ""
    kind: str = values[0][0]
    for other, _ in values[1:]:
        kind, _, _ = _both((kind, 0), (other, 0))
    return kind


def _composite(kind: str, values: Sequence[Value]) -> Value:
    if kind == "values":
        raise Unknown
    return ("values", tuple(_converted(value, kind) for value in values))


def _item(value: Value, place: Any) -> Value:
    """Return an element of a vector or an array."""
    if value[0] != "values" or not isinstance(place, int):
        raise Unknown
    if not 0 <= place < len(value[1]):
        raise ArithmeticError
    item: Value = value[1][place]
    return item


def shown_value(value: Any) -> str:
    """Return a value for a message. Lists may be of any length, so they are not printed."""
    if isinstance(value, tuple):
        return "a list of values"
    return repr(value)


def _range(kind: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = INTEGERS[kind]
    if kind in _UNSIGNED:
        return 0, (1 << bits) - 1
    half = 1 << bits - 1
    return -half, half - 1
