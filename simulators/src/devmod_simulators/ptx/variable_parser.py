"""The parser of variables and parameters."""

from typing import Any

from .operand_parser import OperandParser
from .ptx_types import DTYPES, Variable

SPACES = {".global": "global", ".const": "const", ".shared": "shared", ".local": "local", ".param": "param"}


class VariableParser(OperandParser):
    """The declarations of variables, with their initial values."""

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
        space = SPACES[token]
        align, width, kind = 0, 1, ""
        while self.tokens[self.at].startswith("."):
            token = self.next()
            if token == ".align":
                align = self.integer(self.next())
                if align < 1 or align & (align - 1):
                    raise self.fail(f"the alignment {align} is no power of two")
            elif token == ".attribute":
                self.skip_group("(", ")")
            elif token in (".v2", ".v4"):
                width = int(token[2:])
            elif token == ".ptr" or token in SPACES:
                continue  # attributes of a pointer parameter: .ptr .global .align N
            elif token[1:] in DTYPES or token in (".texref", ".samplerref", ".surfref"):
                kind = token[1:] if token[1:] in DTYPES else "b64"
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
        while self.accept("["):
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
