"""The parser of operands, and of variables and parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from devmod_simulators.ptx.lexer import Lexer
from devmod_simulators.ptx.memory import WINDOWS
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    Address,
    Float,
    Group,
    Integer,
    Name,
    Negation,
    Pair,
    Register,
    Variable,
    Vector,
)

SPACES = {f".{space}" for space in WINDOWS}
#: The bits of an address in an initial value. 0xFF00(name) has one byte of it.
_ALL_BITS = (1 << 64) - 1
#: The most brackets around an operand or an initial value.
_DEPTH = 64
#: The largest alignment of a variable.
_ALIGNMENT = 1 << 16


class OperandParser(Lexer):
    """The operands of instructions, whose names have a meaning in the scopes that are open, and
    declarations of variables.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scopes: list[dict[str, Register]] = []
        self.depth = 0
        #: Of the function's registers.
        self.mentions: Counter[int] = Counter()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Count a level of brackets."""
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.fail(f"more than {_DEPTH} brackets are nested")
        yield
        self.depth -= 1

    def operand(self) -> Any:
        """Parse an operand."""
        token = self.next()
        if token in ("{", "(", "[", "!"):
            with self.nested():
                return self.bracket(token)
        if token == "-":
            value = self.number(self.next())
            if isinstance(value, Integer):
                return Integer(-value.value)
            return Float(-value.value, value.bits)
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

    def bracket(self, token: str) -> Any:
        """Parse an operand in brackets, or one with an exclamation mark."""
        if token == "{":
            return Vector(self.parts("}"))
        if token == "(":
            return Group(self.parts(")"))
        if token == "[":
            return self.address()
        return Negation(self.operand())

    def parts(self, close: str) -> tuple[Any, ...]:
        """Parse operands up to a closing bracket."""
        parts = []
        while not self.accept(close):
            parts.append(self.operand())
            self.accept(",")
        return tuple(parts)

    def element_size(self, name: str) -> int:
        """Return the bytes of an element of a variable."""
        raise NotImplementedError

    def address(self) -> Address:
        """Parse an address after its square bracket."""
        base = self.operand()
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
                register = scope[token]
                self.mentions[register.number] += 1
                return register
        if token == "WARP_SZ":
            return Integer(32)
        return Name(token)

    # Variables, with their initial values

    def variables(self) -> list[Variable]:
        """Parse the variables of one statement, and its semicolon."""
        variables = [self.variable()]
        first = variables[0]
        while self.accept(","):
            variables.append(self.variable_name(first.space, first.type, first.align, 1))
        self.expect(";")
        return variables

    def variable(self) -> Variable:
        """Parse one variable or parameter."""
        token = self.next()
        if token not in SPACES:
            raise self.fail(f"expected a variable, got {token!r}")
        space = token[1:]
        align = 0
        width = 1
        kind = ""
        attributes: list[str] = []
        while self.tokens[self.at].startswith("."):
            token = self.next()
            if token == ".align":
                align = self.alignment()
            elif token == ".attribute":
                begin = self.at
                self.skip_group("(", ")")
                attributes += self.tokens[begin : self.at]
            elif token in (".v2", ".v4"):
                width = int(token[2:])
            elif token == ".ptr" or token in SPACES:
                # Attributes of a pointer parameter: .ptr .global .align N.
                continue
            elif token[1:] in DTYPES:
                kind = token[1:]
                self.skip_pointer()
            elif token in (".texref", ".samplerref", ".surfref"):
                kind = "b64"
                self.skip_pointer()
            else:
                raise self.fail(f"unexpected {token!r} in a declaration")
        if not kind:
            raise self.fail("a declaration has no type")
        variable = self.variable_name(space, kind, align, width)
        variable.managed = ".managed" in attributes
        return variable

    def alignment(self) -> int:
        """Parse an alignment."""
        align = self.integer(self.next())
        if align < 1 or align & (align - 1):
            raise self.fail(f"the alignment {align} is no power of two")
        if align > _ALIGNMENT:
            raise self.fail(f"the alignment {align} is larger than {_ALIGNMENT}")
        return align

    def skip_pointer(self) -> None:
        """Skip what follows the type of a pointer parameter: the alignment is that of the memory,
        not of the parameter.
        """
        if self.tokens[self.at] == ".ptr":
            while self.tokens[self.at].startswith("."):
                if self.next() == ".align":
                    self.next()

    def variable_name(self, space: str, kind: str, align: int, width: int) -> Variable:
        """Parse the name, the dimensions and the initial values of a variable."""
        variable = Variable(self.next(), space, kind, width, align or DTYPES[kind].itemsize * width)
        sized = True
        count = width
        while self.accept("["):
            if self.accept("]"):
                sized = False
            else:
                count *= self.integer(self.next())
                self.expect("]")
        if not sized:
            count = 0
        variable.count = count
        if self.accept("="):
            variable.values = self.initial(kind)
            if not sized:
                variable.count = len(variable.values)
        return variable

    def initial(self, kind: str) -> list[Any]:
        """Parse initial values."""
        values: list[Any]
        if self.accept("{"):
            values = []
            with self.nested():
                while not self.accept("}"):
                    values += self.initial(kind)
                    self.accept(",")
            return values
        sign = -1 if self.accept("-") else 1
        token = self.next()
        if token[0].isdigit():
            value = self.number(token)
            if sign > 0 and self.accept("("):
                with self.nested():
                    values = self.initial(kind)
                self.expect(")")
                mask = value.value
                if (
                    not isinstance(mask, int)
                    or mask <= 0
                    or not values
                    or not isinstance(values[0], tuple)
                ):
                    raise self.fail(f"expected an address behind the mask {token}")
                name, offset, _ = values[0]
                return [(name, offset, mask)]
            return [value.value * sign]
        generic = token == "generic"
        if generic:
            self.expect("(")
            token = self.next()
        offset = 0
        if self.accept("+"):
            offset = self.integer(self.next())
        if generic:
            self.expect(")")
            if self.accept("+"):
                offset = self.integer(self.next())
        return [(token, offset, _ALL_BITS)]
