"""The parser of PTX: text to functions and variables."""

from __future__ import annotations

import re
from pathlib import Path

from devmod_simulators.ptx.operand_parser import SPACES, OperandParser
from devmod_simulators.ptx.ptx_types import (
    DTYPES,
    Function,
    Group,
    Instruction,
    Register,
    Text,
    Variable,
)

#: The most registers that a text of no length declares. Each byte of it permits one more.
_REGISTERS = 1 << 16
#: What a program links with for barriers of its grid (numba-cuda) and for conditional nodes.
_DEVICE_RUNTIME = Path(__file__).with_name("cudadevrt.ptx")
_DEVICE_FUNCTIONS = re.compile(
    r"\.extern\s[^;{]*\b(cudaCGGetIntrinsicHandle|cudaCGSynchronize|cudaGraphSetConditional)\b"
)
#: The numbers of files of a text, among several that are linked.
_MOST_FILES = 1 << 20
#: The limit on the numbers of a place: those of the functions that are inlined in each other.
_MOST_NUMBERS = 192
#: The most braces around a statement, each of which is in its scopes.
_SCOPES = 256
_LINKS = {".visible", ".extern", ".weak", ".common"}
#: nvcc writes the bytes of a file's name beyond ASCII in octal.
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


def _file_name(token: str) -> str:
    """Return the name of a file in a directive."""
    name = _OCTAL.sub(lambda found: bytes([int(found[1], 8)]), token.strip('"').encode())
    return name.decode(errors="replace")


class Parser(OperandParser):
    """The parser of modules and functions."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.result = Text({}, {})
        self.function: Function | None = None
        self.scope_numbers: list[int] = []
        self.scope_count = 0
        self.register_count = 0
        self.source: tuple[int, ...] = (0, 0, 0)
        #: The key of a place by its file, line and column, as the last .loc has it: these, and
        #: those of the place where it is inlined.
        self.latest: dict[tuple[int, ...], tuple[int, ...]] = {}
        #: Is added to the numbers of files: each text of several that are linked has its own.
        self.first_file = -_MOST_FILES

    def element_size(self, name: str) -> int:
        """Return the bytes of an element of a variable."""
        variable = (self.function.variables if self.function else {}).get(
            name
        ) or self.result.variables.get(name)
        if variable is None:
            raise self.fail(f"there is no variable {name!r}")
        return DTYPES[variable.type].itemsize

    def place(self, numbers: list[int]) -> tuple[int, ...]:
        """Return the place in a source: its file, the line and the column."""
        file, *others = numbers
        return (self.first_file + file, *others)

    # Modules

    def parse(self) -> Text:
        """Parse the whole module."""
        while token := self.tokens[self.at]:
            if self.accept(".version"):
                self.next()
                self.first_file += _MOST_FILES
            elif self.accept(".target"):
                self.next()
                while self.accept(","):
                    self.next()
            elif self.accept(".address_size"):
                self.expect("64")
            elif token == ".section":
                while self.tokens[self.at] != "{":
                    self.next()
                self.skip_group("{", "}")
            elif token == ".file":
                number = self.first_file + self.integer(self.tokens[self.at + 1])
                self.result.files[number] = _file_name(self.tokens[self.at + 2])
                self.skip_line()
            elif self.accept(".pragma"):
                name, _, value = self.next().strip('"').partition(" ")
                if name == "maxrregcount":
                    self.result.most_registers = self.integer(value)
                self.skip_statement()
            elif token in (".loc", ".alias"):
                self.skip_line() if token == ".loc" else self.skip_statement()
            else:
                self.declaration()
        if self.first_file < 0:
            raise self.fail("the text has no .version")
        return self.result

    def declaration(self) -> None:
        """Parse a variable or a function."""
        links = set()
        while self.tokens[self.at] in _LINKS:
            links.add(self.next())
        token = self.tokens[self.at]
        if token in (".entry", ".func"):
            self.function_declaration()
        elif token in SPACES:
            for variable in self.variables():
                variable.external = ".extern" in links
                known = self.result.variables.get(variable.name)
                if known is None or known.external:
                    self.result.variables[variable.name] = variable
        else:
            raise self.fail(f"unexpected {token!r}")

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
                if numbers[-1] >> 32:
                    raise self.fail(f"{token} {numbers[-1]} has more than 32 bits")
                self.accept(",")
            if self.tokens[self.at] == "(":
                self.skip_group("(", ")")
            function.attributes[token[1:]] = tuple(numbers)
        if not self.accept(";"):
            function.body = True
            self.function = function
            self.mentions = function.mentions
            self.scopes = []
            self.scope_numbers = []
            self.source = (0, 0, 0)
            function.variables |= {
                variable.name: variable for variable in function.params + function.results
            }
            self.body(function)
            self.function = None
        known = self.result.functions.get(function.name)
        if known is None or not known.body:
            self.result.functions[function.name] = function

    def parameters(self) -> list[Variable]:
        """Parse parameters in parentheses."""
        self.expect("(")
        variables = []
        while not self.accept(")"):
            if self.tokens[self.at] == ".reg":
                raise self.fail("parameters in registers are not supported")
            variables.append(self.variable())
            self.accept(",")
        return variables

    def body(self, function: Function) -> None:
        """Parse the statements of a function. Groups in braces have scopes of their own."""
        self.expect("{")
        self.open_scope()
        while self.scopes:
            if self.accept("{"):
                self.open_scope()
            elif self.accept("}"):
                self.scopes.pop()
                self.scope_numbers.pop()
            else:
                self.statement(function)

    def open_scope(self) -> None:
        """Begin a group in braces."""
        if len(self.scopes) == _SCOPES:
            raise self.fail(f"more than {_SCOPES} braces are nested")
        self.scopes.append({})
        self.scope_count += 1
        self.scope_numbers.append(self.scope_count)

    def statement(self, function: Function) -> None:
        """Parse one statement of a function."""
        token = self.tokens[self.at]
        if self.accept(".reg"):
            self.register_declaration(function)
        elif token in SPACES:
            for variable in self.variables():
                function.variables[variable.name] = variable.joined(
                    function.variables.get(variable.name)
                )
        elif token == ".loc":
            begin = self.at + 1
            self.skip_line()
            numbers = [
                self.integer(token) for token in self.tokens[begin : self.at] if token.isdigit()
            ]
            self.source = place = self.place(numbers[:3])
            if "inlined_at" in self.tokens[begin : self.at]:
                # A line of a header is inlined at many places: each has a key of its own.
                use = self.place(numbers[-3:])
                use = self.latest.get(use, use)[:_MOST_NUMBERS]
                self.source = (*place, *use)
                self.result.inlined[self.source] = use
            self.latest[place] = self.source
        elif token in (".file", ".section"):
            self.skip_line()
        elif token == ".pragma":
            self.skip_statement()
        elif token == ";" or token in _LINKS:
            self.at += 1
        elif token.startswith("."):
            raise self.fail(f"unexpected {token!r}")
        elif self.tokens[self.at + 1 : self.at + 2] == [":"]:
            self.label(function)
        else:
            self.instruction(function)

    def label(self, function: Function) -> None:
        """Parse a label, or a table or a prototype that has its form."""
        name = self.next()
        self.expect(":")
        if self.accept(".branchtargets"):
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
        if kind not in DTYPES:
            raise self.fail(f"registers of type .{kind} are not supported")
        dtype = DTYPES[kind]
        while True:
            name = self.next()
            names = [name]
            if self.accept("<"):
                count = self.integer(self.next())
                if self.register_count + count > _REGISTERS + len(self.text):
                    raise self.fail(f"{count} registers are too many")
                self.register_count += count
                names = [f"{name}{number}" for number in range(count)]
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
        guard = None
        negated = False
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
        function.instructions.append(
            Instruction(
                opcode, operands, line, guard, negated, tuple(self.scope_numbers), self.source
            )
        )


def parse(text: str) -> Text:
    """Parse a module of PTX."""
    if _DEVICE_FUNCTIONS.search(text):
        text += _DEVICE_RUNTIME.read_text(encoding="utf-8")
    return Parser(text).parse()
