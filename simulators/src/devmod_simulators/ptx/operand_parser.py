"""The parser of operands."""

from typing import Any

from .lexer import Lexer
from .ptx_types import Address, Float, Group, Integer, Name, Negation, Pair, Register, Vector


class OperandParser(Lexer):
    """The operands of instructions, whose names have a meaning in the scopes that are open."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scopes: list[dict[str, Register]] = []

    def operand(self) -> Any:
        """Parse an operand."""
        token = self.next()
        if token in ("{", "("):
            parts = []
            while not self.accept("}" if token == "{" else ")"):
                parts.append(self.operand())
                self.accept(",")
            return (Vector if token == "{" else Group)(tuple(parts))
        if token == "[":
            return self.address()
        if token == "!":
            return Negation(self.operand())
        if token == "-":
            value = self.number(self.next())
            return Integer(-value.value) if isinstance(value, Integer) else Float(-value.value, value.bits)
        if token[0].isdigit():
            return self.number(token)
        word = self.word(token)
        if self.accept("|"):
            return Pair(word, self.word(self.next()))
        if isinstance(word, Name) and self.accept("["):
            word = Name(word.text, self.integer(self.next()) * self.element_size(word.text))
            self.expect("]")
        elif isinstance(word, Name) and self.tokens[self.at] in ("+", "-"):
            word = Name(word.text, self.offset())
        return word

    def element_size(self, name: str) -> int:
        """Return the bytes of an element of a variable."""
        raise NotImplementedError

    def address(self) -> Address:
        """Parse an address after its square bracket."""
        base = self.operand_in_address()
        offset = 0
        more = []
        while not self.accept("]"):
            if self.tokens[self.at] in ("+", "-"):
                offset += self.offset()
            elif self.accept(","):
                more.append(self.operand())
            else:
                raise self.fail(f"unexpected {self.tokens[self.at]!r} in an address")
        return Address(base, offset, tuple(more))

    def operand_in_address(self) -> Any:
        """Parse the base of an address."""
        token = self.next()
        return self.number(token) if token[0].isdigit() else self.word(token)

    def offset(self) -> int:
        """Parse offsets: a sign and an integer, which can have a sign too."""
        sign = -1 if self.next() == "-" else 1
        if self.accept("-"):
            sign = -sign
        return sign * self.integer(self.next())

    def word(self, token: str) -> Any:
        """Return the register or the name that `token` means here."""
        for scope in reversed(self.scopes):
            if token in scope:
                return scope[token]
        if token == "WARP_SZ":
            return Integer(32)
        return Name(token)
