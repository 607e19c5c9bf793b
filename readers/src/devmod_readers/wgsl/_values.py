"""Evaluate WGSL's constant expressions: sizes of arrays and workgroups, bindings, defaults of overrides.

`Values` walks over the expressions, and `Arithmetic` has the operations.
"""

from __future__ import annotations

import math
import struct

from devmod_readers.wgsl._scalars import CONVERSIONS, FLOATS, INTEGERS, OVERRIDES, SCALARS, SUFFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from devmod_readers.wgsl._parse import Expression, WgslModule
    from devmod_readers.wgsl._tokens import Source

    Value = tuple[str, Any]


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


# -- The values: numbers, operators and functions.
#
# A value is a pair of a type and a Python number. Types are WGSL's names; "int" and "float" are the abstract types. A vector or an array
# has the type "values" and a pair in place of the number: the type of its elements, and a tuple of values that convert to it when they
# are used.
#
# Each floating-point operation is computed in double precision and then rounded to its type, which gives the same result as one operation
# of that type. An expression whose result implementations may round differently is unknown.


_UNSIGNED = frozenset(name for name in INTEGERS if name[0] == "u")
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
    "fract": lambda x: x - math.floor(x),
}
_EXACT_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp2": lambda x: _exact_power(2, x),
    "log2": lambda x: _exact_log2(x),
}
_BIT_FUNCTIONS: dict[str, Callable[[int], int]] = {
    "countOneBits": lambda x: x.bit_count(),
    "countLeadingZeros": lambda x: 32 - x.bit_length(),
    "countTrailingZeros": lambda x: (x & -x).bit_length() - 1 if x else 32,
    "firstTrailingBit": lambda x: (x & -x).bit_length() - 1 if x else 0xFFFFFFFF,
}


class Unknown(Exception):
    """The value of an expression is unknown: it depends on an override without a valid value, or this file does not implement it."""


class InvalidValue(ValueError):
    """The operands of an expression have valid types, but it has no valid value. The arguments are a message and its place in the text."""


class Arithmetic:
    """The operations on constant values of a text.

    Each raises CompileError for operands of invalid types, `InvalidValue` or ArithmeticError for invalid values, and `Unknown` if it is not
    implemented.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def converted(self, value: Value, kind: str, at: int) -> Value:
        """Return a value in a type to which its own type converts."""
        if value[0] == kind:
            return value
        if kind in CONVERSIONS.get(value[0], ()):
            return self._checked(kind, value[1], at)
        raise self._source.error(at, f"expected a value of type {kind}, got {_kind_text(value[0])}")

    def concrete(self, value: Value, at: int) -> Value:
        """Return a value in a concrete type."""
        if isinstance(value[1], tuple):
            if value[1][0] == "values":
                raise Unknown  # nested lists may be of any length
            return (value[0], (CONVERSIONS.get(value[1][0], value[1])[0], value[1][1]))
        return self.converted(value, CONVERSIONS.get(value[0], value)[0], at)

    def _checked(self, kind: str, number: Any, at: int) -> Value:
        """Return a result in its type. Concrete integers wrap around; floating-point numbers are rounded; other values must be in range."""
        if kind in INTEGERS:
            low, high = _range(kind)
            if kind in SCALARS:
                return (kind, (number - low) % (1 << INTEGERS[kind]) + low)
            if not low <= number <= high:
                raise InvalidValue("the value of this constant expression exceeds 64 bits", at)
        elif kind in FLOATS:
            if kind in SCALARS and float(number) != number:
                raise Unknown  # a large integer would be rounded twice
            try:
                number = struct.unpack(FLOATS[kind], struct.pack(FLOATS[kind], number))[0]
            except OverflowError:
                number = math.inf
            if not math.isfinite(number):
                raise InvalidValue(f"the value of this constant expression exceeds the range of {_kind_text(kind)}", at)
        return (kind, number)

    def number(self, text: str, at: int) -> Value:
        """Return the value of a number in the text."""
        lower = text.lower()
        hexadecimal = lower.startswith("0x")
        exponent = hexadecimal and "p" in lower
        kind = SUFFIXES.get(lower[-1], "")
        if kind in FLOATS and hexadecimal and not exponent:
            kind = ""  # the letter is a digit
        digits = lower[:-1] if kind else lower
        if "." in digits or exponent or kind in FLOATS or (not hexadecimal and "e" in digits):
            number = float.fromhex(digits) if hexadecimal else float(digits)
            value = self._checked(kind or "float", number, at)
            if kind and len({self._checked(kind, math.nextafter(number, side), at) for side in (-math.inf, math.inf)}) > 1:
                raise Unknown  # the text is rounded to double precision first, and some implementations do not do so
            return value
        if len(digits) > 40:
            raise OverflowError
        whole = int(digits, 16 if hexadecimal else 10)
        if kind and whole > _range(kind)[1]:
            raise self._source.error(at, f"{text} exceeds the range of {kind}")
        return self._checked(kind or "int", whole, at)

    def unary(self, operator: str, value: Value, at: int) -> Value:
        """Return the value of a unary operator."""
        kind, number = value
        if operator == "-" and kind in (*INTEGERS, *FLOATS) and kind not in _UNSIGNED:
            return self._checked(kind, -number, at)
        if operator == "!" and kind == "bool":
            return (kind, not number)
        if operator == "~" and kind in INTEGERS:
            return self._checked(kind, ~number, at)
        raise Unknown

    def _both(self, left: Value, right: Value, at: int) -> tuple[str, Any, Any]:
        for one, other in ((left[0], right[0]), (right[0], left[0])):
            if one == other or other in CONVERSIONS.get(one, ()):
                return other, self.converted(left, other, at)[1], self.converted(right, other, at)[1]
        raise self._source.error(at, f"the operands have different types, {_kind_text(left[0])} and {_kind_text(right[0])}")

    def binary(self, operator: str, left: Value, right: Value, at: int) -> Value:
        """Return the value of a binary operator."""
        if isinstance(left[1], tuple) or isinstance(right[1], tuple):
            raise Unknown
        if operator in ("<<", ">>"):
            message = "invalid shift; expected an integer and a distance less than its number of bits"
            if left[0] not in INTEGERS or right[0] not in ("int", "u32"):
                raise self._source.error(at, message)
            if not 0 <= right[1] < INTEGERS[left[0]]:
                raise InvalidValue(message, at)
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
            if kind in FLOATS:
                return self._checked(kind, a / b if operator == "/" else math.fmod(a, b), at)
            # WGSL truncates the quotient as C does; Python rounds down.
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return self._checked(kind, quotient if operator == "/" else a - b * quotient, at)
        elif kind in INTEGERS and operator in ("&", "|", "^"):
            return self._checked(kind, a & b if operator == "&" else a | b if operator == "|" else a ^ b, at)
        raise self._source.error(at, f"the operator {operator!r} does not accept {_kind_text(kind)}")

    def composite(self, name: str, kind: str, values: list[Value], at: int) -> Value:
        """Return the value of a vector or an array.

        Parameters
        ----------
        name
            The name of the type.
        kind
            The scalar type of the elements; "" if their values give it.
        values
            The elements. Those of a vector may be vectors.
        at
            The place of the expression.
        """
        if name != "array":
            lanes = int(name[3])
            if sum(len(value[1][1]) if isinstance(value[1], tuple) else 1 for value in values) not in (1, lanes):
                raise Unknown
            values = [element for value in values for element in self._elements(value, at)]
            values *= lanes // len(values)
        if any(isinstance(value[1], tuple) for value in values):
            if kind or len({value[1][0] if isinstance(value[1], tuple) else "" for value in values}) > 1:
                raise Unknown
            return ("values", ("values", tuple(values)))
        if not values:
            raise Unknown
        if not kind:
            kind = values[0][0]
            for value in values:
                kind = self._both((kind, 0), (value[0], 0), at)[0]
        return ("values", (kind, tuple(values)))

    def _elements(self, value: Value, at: int) -> list[Value]:
        """Return the elements of a vector, or a list of the scalar."""
        if not isinstance(value[1], tuple):
            return [value]
        return [self.item(value, place, at) for place in range(len(value[1][1]))]

    def call(self, name: str, values: list[Value], at: int) -> Value:
        """Return the value of a call of a predeclared function or scalar type."""
        numbers = [value[1] for value in values]
        if any(isinstance(number, tuple) for number in numbers):
            raise Unknown
        if len(values) == 1:
            return self._call_of_one(name, values[0], at)
        if name in ("min", "max") and len(values) == 2:
            kind, a, b = self._both(values[0], values[1], at)
            return (kind, min(a, b) if name == "min" else max(a, b))
        if name == "pow" and len(values) == 2:
            kind, a, b = self._both(values[0], values[1], at)
            return self._exact(kind, _exact_power(a, b), at)
        if name == "clamp" and len(values) == 3:
            return self.call("min", [self.call("max", values[:2], at), values[2]], at)
        if name == "select" and len(values) == 3 and values[2][0] == "bool":
            kind, a, b = self._both(values[0], values[1], at)
            return (kind, b if values[2][1] else a)
        raise Unknown

    def _exact(self, kind: str, number: float, at: int) -> Value:
        """Return a result of a function on floating-point numbers that implementations round differently, if it needs no rounding."""
        value = self._checked("float" if kind == "int" else kind, number, at)
        if value[1] != number:
            raise Unknown
        return value

    def _call_of_one(self, name: str, value: Value, at: int) -> Value:
        kind, number = value
        if name == "bool":
            return (name, bool(number))
        if name in SCALARS and name in INTEGERS:
            if kind in FLOATS:
                low, high = _range(name)
                number = max(math.trunc(number), low)
                if number > high:
                    raise Unknown  # the result is the limit of the integer, or the next lower number of the floating-point type
            return self._checked(name, int(number), at)
        if name in SCALARS:
            return self._checked(name, number, at)
        if name == "abs" and kind != "bool":
            return self._checked(kind, abs(number), at)
        if name == "sign" and kind != "bool":
            return (kind, type(number)((number > 0) - (number < 0)))
        if name in _FLOAT_FUNCTIONS and kind != "bool":
            return self._checked("float" if kind == "int" else kind, _FLOAT_FUNCTIONS[name](number), at)
        if name in _EXACT_FUNCTIONS and kind != "bool":
            return self._exact(kind, _EXACT_FUNCTIONS[name](number), at)
        if name in _BIT_FUNCTIONS and kind in INTEGERS:
            kind = "i32" if kind == "int" else kind
            return self._checked(kind, _BIT_FUNCTIONS[name](number & 0xFFFFFFFF), at)
        raise Unknown

    def item(self, value: Value, place: Any, at: int) -> Value:
        """Return an element of a vector or an array."""
        if not isinstance(value[1], tuple) or not isinstance(place, int):
            raise Unknown
        kind, items = value[1]
        if not 0 <= place < len(items):
            raise InvalidValue(f"the index {place} is out of range; expected 0 to {len(items) - 1}", at)
        item: Value = items[place]
        if kind in (item[0], *CONVERSIONS.get(item[0], ())):
            return self.converted(item, kind, at)
        return self._call_of_one(kind, item, at)


def shown_value(value: Any) -> str:
    """Return a value for a message. Nested lists may be of any length, so lists are not printed."""
    return "a list of values" if isinstance(value, tuple) else repr(value)


def _exact_power(base: float, exponent: float) -> float:
    """Return a power that is an integer or a power of two. Implementations may round other powers differently."""
    result = math.pow(base, exponent)
    if base == 2 and exponent == int(exponent):
        return math.ldexp(1.0, int(exponent))
    if base < 1 or base != int(base) or exponent < 0 or exponent != int(exponent) or result > 1 << 53:
        raise Unknown
    return float(int(base) ** int(exponent))


def _exact_log2(number: float) -> int:
    """Return the logarithm of a power of two. Implementations may round other logarithms differently."""
    mantissa, exponent = math.frexp(number)
    if mantissa != 0.5:
        raise Unknown
    return exponent - 1


def _range(kind: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = INTEGERS[kind]
    return (0, (1 << bits) - 1) if kind in _UNSIGNED else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _kind_text(kind: str) -> str:
    return {"int": "an integer", "float": "a floating-point number", "values": "several values"}.get(kind, kind)
