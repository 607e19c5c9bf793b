"""The tokens of PTX, and its numbers."""

from __future__ import annotations

import bisect
import re
import struct

from devmod_simulators.ptx.errors import PtxError, invalid_ptx
from devmod_simulators.ptx.ptx_types import Float, Integer

_TOKEN = re.compile(
    r"""(?P<skip>(?:\s+|//[^\n]*|/\*.*?\*/)+)
    |(?P<string>"(?:\\.|[^"\\])*")
    |(?P<number>0[fF][0-9a-fA-F]{8}(?![0-9a-zA-Z])|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
    |(?P<word>\.[A-Za-z_]\w*(?:::\w+)*|[%$_A-Za-z][\w$.]*(?:::[\w.]+)*)
    |(?P<open>/\*|")
    |(?P<mark><<|>>|.)""",
    re.VERBOSE | re.DOTALL,
)

#: The most characters of an error, which may show a token.
_LONGEST_ERROR = 200


class Lexer:
    """The tokens of a text, and a place among them."""

    def __init__(self, text: str) -> None:
        self.text = text.split("\0", 1)[0]
        self.tokens: list[str] = []
        self.places: list[int] = []
        self.lines = [match.start() for match in re.finditer("\n", self.text)]
        self.at = 0
        for match in _TOKEN.finditer(self.text):
            if match.lastgroup == "open":
                # The search for an end took the whole text: it must not begin again.
                what = "comment" if match.group() == "/*" else "string"
                line = bisect.bisect_left(self.lines, match.start()) + 1
                raise invalid_ptx(line, f"the {what} has no end")
            if match.lastgroup != "skip":
                self.tokens.append(match.group())
                self.places.append(match.start())
        self.tokens.append("")
        self.places.append(len(self.text))

    def line(self) -> int:
        """Return the line of the next token."""
        return bisect.bisect_left(self.lines, self.places[self.at]) + 1

    def fail(self, text: str) -> PtxError:
        """Return an error at the next token."""
        if len(text) > _LONGEST_ERROR:
            text = f"{text[:_LONGEST_ERROR]} …"
        return invalid_ptx(self.line(), text)

    def next(self) -> str:
        """Return the next token and go past it."""
        token = self.tokens[self.at]
        if not token:
            raise self.fail("unexpected end of the text")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Go past the next token if it is `token`."""
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        """Go past `token`."""
        if not self.accept(token):
            raise self.fail(f"expected {token!r}, got {self.tokens[self.at]!r}")

    def skip_statement(self) -> None:
        """Go past the next semicolon."""
        while self.next() != ";":
            pass

    def skip_group(self, opening: str, closing: str) -> None:
        """Go past a group of braces or parentheses."""
        self.expect(opening)
        depth = 1
        while depth:
            depth += {opening: 1, closing: -1}.get(self.next(), 0)

    def skip_line(self) -> None:
        """Go past the tokens of the line of the next token."""
        line = self.line()
        while self.tokens[self.at] and self.line() == line:
            self.at += 1

    def integer(self, token: str) -> int:
        """Return the integer of a token."""
        value = self.number(token)
        if not isinstance(value, Integer):
            raise self.fail(f"expected an integer, got {token!r}")
        if value.value >> 64:
            raise self.fail(f"expected an integer of 64 bits, got {token!r}")
        return value.value

    def number(self, token: str) -> Integer | Float:
        """Return the number of a token."""
        kind = token[:2].lower()
        try:
            if kind == "0f":
                return Float(struct.unpack(">f", bytes.fromhex(token[2:]))[0], 32)
            if kind == "0d":
                return Float(struct.unpack(">d", bytes.fromhex(token[2:]))[0], 64)
            digits = token.rstrip("U")
            if kind in ("0x", "0b"):
                return Integer(int(digits, 0))
            if "." in digits or "e" in digits.lower():
                return Float(float(digits), 64)
            return Integer(int(digits, 8 if len(digits) > 1 and digits.startswith("0") else 10))
        except ValueError:
            raise self.fail(f"expected a number, got {token!r}") from None
