"""The values of the conditions of WGSL's preprocessor: integers of 64 bits with the operators of
C.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

#: The limit on nested parentheses and signs.
_MAX_NESTING = 32
_TOKEN = re.compile(r"\w+|&&|\|\||==|!=|<=|>=|<<|>>|\S")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,19})[iuUlL]{0,3}", re.ASCII)
_WORD = re.compile(r"[^\W\d]\w*")
#: The operators from the weakest to the strongest.
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
_STRENGTH = {
    operator: level for level, operators in enumerate(_LEVELS) for operator in operators.split()
}

_UNARY: Mapping[str, Callable[[int], int]] = {
    "!": operator.not_,
    "~": operator.invert,
    "-": operator.neg,
    "+": int,
}


def _divide(left: int, right: int) -> int:
    if not right:
        raise ValueError("it divides by zero")
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        return -quotient
    return quotient


_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "||": lambda left, right: bool(left) | bool(right),
    "&&": lambda left, right: bool(left) & bool(right),
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": lambda left, right: left - right * _divide(left, right),
}


def evaluate(text: str) -> int:
    """Return the value of an expression without macros. A name has the value 0, and ``true`` 1.

    Raises
    ------
    ValueError
        The expression is not valid, or a value exceeds 64 bits. The text is the reason.
    """
    parser = _Evaluator(_TOKEN.findall(text))
    value = parser.expression(0, live=True)
    if parser.next:
        raise ValueError(f"expected an operator, got {parser.next!r}")
    return value


class _Evaluator:
    """Evaluate tokens while reading them. An operand that C does not evaluate is read with `live`
    false, and may divide by zero.
    """

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = iter(tokens)
        self._depth = 0
        self.next = next(self._tokens, "")

    def expression(self, strength: int, *, live: bool) -> int:
        """Return the value of operands with operators of a strength or stronger ones."""
        value = self._operand(live=live)
        while _STRENGTH.get(self.next, -1) >= strength:
            word = self._advance()
            is_decided = (word == "||" and value) or (word == "&&" and not value)
            is_needed = live and not is_decided
            right = self.expression(_STRENGTH[word] + 1, live=is_needed)
            if is_needed and word in ("<<", ">>") and not 0 <= right < 64:
                raise ValueError(f"it shifts by {right}; expected 0 to 63")
            if is_needed:
                value = _checked(_BINARY[word](value, right))
            else:
                value = int(bool(value))
        return value

    def _advance(self) -> str:
        word = self.next
        self.next = next(self._tokens, "")
        return word

    def _operand(self, *, live: bool) -> int:
        word = self._advance()
        if word in _UNARY or word == "(":
            self._depth += 1
            if self._depth > _MAX_NESTING:
                raise ValueError(f"it is nested more than {_MAX_NESTING} deep")
            if word in _UNARY:
                value = _checked(_UNARY[word](self._operand(live=live)))
            else:
                value = self.expression(0, live=live)
                if self._advance() != ")":
                    raise ValueError("a '(' has no ')'")
            self._depth -= 1
            return value
        number = _NUMBER.fullmatch(word)
        if number:
            return _checked(int(number[1], 0))
        if _WORD.fullmatch(word) and word != "defined":
            return int(word == "true")
        if not word:
            raise ValueError("expected an integer at its end")
        raise ValueError(f"expected an integer, got {word!r}")


def _checked(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("a value exceeds 64 bits")
    return int(value)
