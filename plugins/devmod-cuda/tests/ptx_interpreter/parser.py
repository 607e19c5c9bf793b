"""The parser of PTX: text to functions and variables."""

import bisect
import re
import struct
from typing import Any

from .errors import PtxError, invalid_ptx
from .ptx_types import (
    DTYPES,
    Address,
    Float,
    Function,
    Group,
    Instruction,
    Integer,
    Name,
    Negation,
    Pair,
    Register,
    Text,
    Variable,
    Vector,
    is_type,
)  # fmt: skip

_TOKEN = re.compile(
    r"""(?P<skip>(?:\s+|//[^\n]*|/\*.*?\*/)+)
    |(?P<string>"(?:\\.|[^"\\])*")
    |(?P<number>0[fF][0-9a-fA-F]{8}(?![0-9a-zA-Z])|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
    |(?P<word>\.[A-Za-z_]\w*(?:::\w+)*|[%$_A-Za-z][\w$.]*(?:::[\w.]+)*)
    |(?P<mark><<|>>|.)""",
    re.VERBOSE | re.DOTALL,
)
_SPACES = {".global": "global", ".const": "const", ".shared": "shared", ".local": "local", ".param": "param"}
_LINKS = {".visible", ".extern", ".weak", ".common"}


class Parser:
    """One pass over the tokens of a module."""

    def __init__(self, text: str) -> None:
        self.text = text.split("\0", 1)[0]
        self.tokens: list[str] = []
        self.places: list[int] = []
        for match in _TOKEN.finditer(self.text):
            if match.lastgroup != "skip":
                self.tokens.append(match.group())
                self.places.append(match.start())
        self.tokens.append("")
        self.places.append(len(self.text))
        self.lines = [match.start() for match in re.finditer("\n", self.text)]
        self.at = 0
        self.result = Text("", "", {}, {})
        self.function: Function | None = None
        self.scopes: list[dict[str, Register]] = []
        self.scope_numbers: list[int] = []
        self.scope_count = 0

    def line(self, at: int | None = None) -> int:
        """Return the line of a token, by default of the next one."""
        return bisect.bisect_left(self.lines, self.places[self.at if at is None else at]) + 1

    def fail(self, text: str) -> PtxError:
        """Return an error at the next token."""
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

    def skip_braces(self) -> None:
        """Go past a group of braces."""
        self.expect("{")
        depth = 1
        while depth:
            token = self.next()
            depth += {"{": 1, "}": -1}.get(token, 0)

    # Modules

    def parse(self) -> Text:
        """Parse the whole module."""
        while token := self.tokens[self.at]:
            if token == ".version":
                self.at += 1
                self.result.version = self.next()
            elif token == ".target":
                self.at += 1
                self.result.target = self.next()
                while self.accept(","):
                    self.next()
            elif token == ".address_size":
                self.at += 1
                if self.tokens[self.at] != "64":
                    raise self.fail(f"expected '64', got {self.tokens[self.at]!r}")
                self.at += 1
            elif token == ".section":
                self.at += 1
                while self.tokens[self.at] != "{":
                    self.next()
                self.skip_braces()
            elif token == ".file":
                self.skip_line()
            elif token in (".loc", ".alias", ".pragma"):
                self.skip_line() if token == ".loc" else self.skip_statement()
            else:
                self.declaration()
        if not self.result.version:
            raise self.fail("the text has no .version")
        return self.result

    def skip_line(self) -> None:
        """Go past the tokens of the line of the next token."""
        line = self.line()
        while self.tokens[self.at] and self.line() == line:
            self.at += 1

    def declaration(self) -> None:
        """Parse a variable or a function."""
        links = set()
        while self.tokens[self.at] in _LINKS:
            links.add(self.next())
        token = self.tokens[self.at]
        if token in (".entry", ".func"):
            self.function_declaration()
        elif token in _SPACES:
            for variable in self.variables():
                variable.external = ".extern" in links
                known = self.result.variables.get(variable.name)
                if known is None or known.external:
                    self.result.variables[variable.name] = variable
        else:
            raise self.fail(f"unexpected {token!r}")

    def variables(self) -> list[Variable]:
        """Parse the variables of one statement, and its semicolon."""
        found = [self.variable()]
        first = found[0]
        while self.accept(","):
            found.append(self.variable_name(first.space, first.type, first.align, 1))
        self.expect(";")
        return found

    def variable(self) -> Variable:
        """Parse one variable or parameter."""
        space = _SPACES[self.next()]
        align, width, kind = 0, 1, ""
        while self.tokens[self.at].startswith("."):
            token = self.next()
            if token == ".align":
                align = int(self.next())
            elif token == ".attribute":
                self.expect("(")
                depth = 1
                while depth:
                    depth += {"(": 1, ")": -1}.get(self.next(), 0)
            elif token in (".v2", ".v4"):
                width = int(token[2:])
            elif token == ".ptr" or token in _SPACES:
                continue  # attributes of a pointer parameter: .ptr .global .align N
            elif is_type(token[1:]) or token in (".texref", ".samplerref", ".surfref"):
                kind = token[1:] if is_type(token[1:]) else "b64"
                if self.tokens[self.at] == ".ptr":
                    # The alignment after .ptr is that of the memory, not of the parameter.
                    while self.tokens[self.at].startswith("."):
                        if self.next() == ".align":
                            self.next()
            else:
                raise self.fail(f"unexpected {token!r} in a declaration")
        if not kind:
            raise self.fail("a declaration has no type")
        return self.variable_name(space, kind, align, width)

    def variable_name(self, space: str, kind: str, align: int, width: int) -> Variable:
        """Parse the name, the dimensions and the initial values of a variable."""
        variable = Variable(self.next(), space, kind, width, align or DTYPES[kind].itemsize * width)
        sized, count = True, width
        dimensions = 0
        while self.accept("["):
            dimensions += 1
            if self.accept("]"):
                sized = False
            else:
                count *= self.integer(self.next())
                self.expect("]")
        variable.count = count if sized else 0
        if self.accept("="):
            variable.values = self.initial(kind)
            if not sized:
                variable.count = len(variable.values)
        return variable

    def initial(self, kind: str) -> list[Any]:
        """Parse initial values."""
        if self.accept("{"):
            values: list[Any] = []
            while not self.accept("}"):
                values += self.initial(kind)
                self.accept(",")
            return values
        sign = -1 if self.accept("-") else 1
        token = self.next()
        if token[0].isdigit():
            value = self.number(token)
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
        return [(token, offset, generic)]

    # Functions

    def function_declaration(self) -> None:
        """Parse a kernel or a device function: a declaration or a definition."""
        entry = self.next() == ".entry"
        results = self.parameters() if self.tokens[self.at] == "(" else []
        line = self.line()
        function = Function(self.next(), entry, line, results=results)
        if self.tokens[self.at] == "(":
            function.params = self.parameters()
        while self.tokens[self.at] not in ("{", ";"):
            token = self.next()
            if not token.startswith("."):
                raise self.fail(f"unexpected {token!r}")
            if token == ".pragma":
                self.skip_statement()
                continue
            numbers = []
            while self.tokens[self.at][:1].isdigit():
                numbers.append(self.integer(self.next()))
                self.accept(",")
            if self.tokens[self.at] == "(":
                while self.next() != ")":
                    pass
            function.attributes[token[1:]] = tuple(numbers)
        if not self.accept(";"):
            function.body = True
            self.function = function
            self.scopes, self.scope_numbers = [], []
            for variable in function.params + function.results:
                if variable.space == "reg":
                    continue
                function.variables[variable.name] = variable
            self.block()
            self.function = None
        known = self.result.functions.get(function.name)
        if known is None or not known.body:
            self.result.functions[function.name] = function

    def parameters(self) -> list[Variable]:
        """Parse parameters in parentheses."""
        self.expect("(")
        found = []
        while not self.accept(")"):
            if self.tokens[self.at] == ".reg":
                raise self.fail("parameters in registers are not supported")
            found.append(self.variable())
            self.accept(",")
        return found

    def block(self) -> None:
        """Parse a group of statements in braces."""
        assert self.function is not None
        self.expect("{")
        self.scopes.append({})
        self.scope_count += 1
        self.scope_numbers.append(self.scope_count)
        while not self.accept("}"):
            self.statement(self.function)
        self.scopes.pop()
        self.scope_numbers.pop()

    def statement(self, function: Function) -> None:
        """Parse one statement of a function."""
        token = self.tokens[self.at]
        if token == "{":
            self.block()
        elif token == ".reg":
            self.at += 1
            self.register_declaration(function)
        elif token in _SPACES:
            for variable in self.variables():
                function.variables[variable.name] = variable
        elif token == ".loc" or token in (".file", ".section"):
            self.skip_line()
        elif token == ".pragma":
            self.skip_statement()
        elif token == ";" or token in _LINKS:
            self.at += 1
        elif token.startswith("."):
            raise self.fail(f"unexpected {token!r}")
        elif self.tokens[self.at + 1] == ":":
            self.label(function)
        else:
            self.instruction(function)

    def label(self, function: Function) -> None:
        """Parse a label, or a table or a prototype that has its form."""
        name = self.next()
        self.expect(":")
        if self.tokens[self.at] == ".branchtargets":
            self.at += 1
            names = []
            while not self.accept(";"):
                names.append(self.next())
                self.accept(",")
            function.tables[name] = names
        elif self.tokens[self.at] in (".callprototype", ".calltargets"):
            self.skip_statement()
        else:
            function.labels[self.scope_numbers[-1], name] = len(function.instructions)

    def register_declaration(self, function: Function) -> None:
        """Parse a declaration of registers."""
        kind = self.next()[1:]
        width = 1
        if kind in ("v2", "v4"):
            width, kind = int(kind[1:]), self.next()[1:]
        if not is_type(kind) or width != 1:
            raise self.fail(f"registers of type .{kind} are not supported")
        dtype = DTYPES[kind]
        while True:
            name = self.next()
            names = [name]
            if self.accept("<"):
                names = [f"{name}{number}" for number in range(self.integer(self.next()))]
                self.expect(">")
            for each in names:
                self.scopes[-1][each] = Register(len(function.registers), dtype)
                function.registers.append(dtype)
            if self.accept(";"):
                return
            self.expect(",")

    def instruction(self, function: Function) -> None:
        """Parse an instruction."""
        line = self.line()
        guard, negated = None, False
        if self.accept("@"):
            negated = self.accept("!")
            guard = self.word(self.next())
            if not isinstance(guard, Register):
                raise self.fail("the guard of an instruction is no register")
        opcode = self.next()
        operands = []
        while not self.accept(";"):
            operands.append(self.operand())
            if not self.accept(",") and self.tokens[self.at] != ";":
                if isinstance(operands[-1], Group) or self.tokens[self.at] == "(":
                    continue
                raise self.fail(f"expected ',' or ';', got {self.tokens[self.at]!r}")
        function.instructions.append(Instruction(opcode, operands, line, guard, negated, tuple(self.scope_numbers)))

    # Operands

    def operand(self) -> Any:
        """Parse an operand."""
        token = self.next()
        if token == "{":
            parts = []
            while not self.accept("}"):
                parts.append(self.operand())
                self.accept(",")
            return Vector(tuple(parts))
        if token == "(":
            parts = []
            while not self.accept(")"):
                parts.append(self.operand())
                self.accept(",")
            return Group(tuple(parts))
        if token == "[":
            return self.address()
        if token == "!":
            return Negation(self.operand())
        if token == "-":
            value = self.number(self.next())
            return Integer(-value.value) if isinstance(value, Integer) else Float(-value.value, value.bits)
        if token[0].isdigit():
            return self.number(token)
        value = self.word(token)
        if self.accept("|"):
            return Pair(value, self.word(self.next()))
        if isinstance(value, Name) and self.tokens[self.at] in ("+", "-"):
            return Name(value.text, self.offset())
        return value

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

    def integer(self, token: str) -> int:
        """Return the integer of a token."""
        value = self.number(token)
        if not isinstance(value, Integer):
            raise self.fail(f"expected an integer, got {token!r}")
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
            if kind == "0x":
                return Integer(int(digits, 16))
            if kind == "0b":
                return Integer(int(digits, 2))
            if "." in digits or "e" in digits.lower():
                return Float(float(digits), 64)
            return Integer(int(digits, 8 if len(digits) > 1 and digits.startswith("0") else 10))
        except ValueError:
            raise self.fail(f"expected a number, got {token!r}") from None


def parse(text: str) -> Text:
    """Parse a module of PTX."""
    return Parser(text).parse()
