"""The parser of WGSL: the declarations of a module, and the names that each of them uses.

It reads the whole grammar, so that syntax errors are found without a compiler. Of function bodies it records only the names that WGSL
calls "statically used". Names are not resolved and types are not checked here.
"""

from __future__ import annotations

from devmod_readers.wgsl._statements import StatementParser
from devmod_readers.wgsl._tokens import END, WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_readers.wgsl._tokens import Source

    Expression = tuple[Any, ...]


def parse(source: Source) -> WgslModule:
    """Parse a WGSL text and return its module.

    Raises
    ------
    CompileError
        The text has a syntax error. The message contains the line and the column.
    """
    try:
        return _ModuleParser(source).module()
    except RecursionError:
        raise source.error(0, "its nesting exceeds Python's recursion limit") from None


class _ModuleParser(StatementParser):
    """Parse the declarations of a module."""

    def module(self) -> WgslModule:
        module = WgslModule(self._source)
        while self._token.kind != END:
            if self._accept(";"):
                continue
            if self._token.text in ("enable", "requires") and self._token.kind == WORD:
                word, first = self._advance().text, self._token
                names = self._list(";", lambda: self._name("an extension's name"), f"{word}")
                if not names:
                    raise self._source.error(first.at, f"expected an extension's name after {word!r}")
                if module.declared:
                    raise self._source.error(first.at, f"{word!r} must precede all declarations")
                if word == "enable":
                    module.enabled |= {name.text: name.at for name in names}
            elif self._accept("diagnostic"):
                self._skip_brackets()
                self._expect(";", "a diagnostic directive")
            else:
                self._declare(module, self._declaration())
        return module

    def _declare(self, module: WgslModule, declared: Declaration | None) -> None:
        if declared is None:
            return
        other = module.declared.setdefault(declared.name, declared)
        if other is not declared:
            raise self._source.error(
                declared.at, f"{declared.name!r} is declared twice; the first time in line {self._source.line(other.at)}"
            )

    def _declaration(self) -> Declaration | None:
        self._uses = {}
        attributes = self._attributes()
        kind = self._token.text if self._token.kind == WORD else ""
        if kind == "const_assert":
            self._advance()
            self._expression()
            self._expect(";", "const_assert")
            return None
        if kind not in ("var", "const", "override", "alias", "struct", "fn"):
            hint = "; 'let' is allowed in functions only, use 'const' at module scope" if kind == "let" else ""
            self._fail("a declaration (var, const, override, alias, struct, fn)", hint)
        self._advance()
        words = self._template_words() if kind == "var" else []
        name = self._name(f"a name after {kind!r}")
        declared = Declaration(kind, name.text, name.at, attributes)
        declared.words = words
        if kind == "fn":
            self._function(declared)
        elif kind == "struct":
            self._expect("{", "a struct's name")
            declared.members = self._list("}", lambda: self._member("member"), "a member")
            self._check_names(declared)
        elif kind == "alias":
            self._expect("=", "an alias")
            declared.type = self._type()
        else:
            declared.type = self._type() if self._accept(":") else None
            declared.value = self._expression() if self._accept("=") else None
            if kind == "const" and declared.value is None:
                self._fail(f"'=' and a value after the const {name.text!r}")
        if kind not in ("fn", "struct"):
            self._expect(";", f"the {kind} {name.text!r}")
        declared.uses = self._uses
        return declared

    def _member(self, kind: str) -> Declaration:
        attributes = self._attributes()
        name = self._name(f"a {kind}'s name")
        member = Declaration(kind, name.text, name.at, attributes)
        self._expect(":", f"the {kind} {name.text!r}")
        member.type = self._type()
        return member

    def _check_names(self, declared: Declaration) -> None:
        names: set[str] = set()
        for member in declared.members:
            if member.name in names:
                raise self._source.error(member.at, f"{declared.name!r} has two {member.kind}s {member.name!r}")
            names.add(member.name)

    def _function(self, function: Declaration) -> None:
        self._expect("(", "a function's name")
        function.members = self._list(")", lambda: self._member("parameter"), "a parameter")
        self._check_names(function)
        if self._is("-"):
            self._advance()
            self._expect(">", "'-'")
            self._attributes()
            function.type = self._type()
        self._attributes()
        # The parameters and the body are one scope.
        self._scopes.append(set())
        for member in function.members:
            self._declare_local(member.name)
        self._block(own_scope=False)
        self._leave_scope()


# -- The syntax tree of a WGSL module: expressions and declarations.
#
# An expression is a tuple with its place as the last item: ``("number", text, at)``, ``("name", name, template arguments or None,
# at)``,
# ``("call", name, template arguments or None, arguments, at)``, ``("unary", operator, operand, at)``, ``("binary", operator, left,
# right,
# at)``, ``("member", operand, name, at)``, ``("index", operand, index, at)``. A type is an expression "name".


class Declaration:
    """A declaration at module scope, or a member or parameter of one.

    Attributes
    ----------
    kind : str
        "var", "const", "override", "alias", "struct", "fn"; "member" and "parameter".
    name, at
        Its name, and the name's position in the text.
    attributes : dict
        The names of its attributes to their arguments.
    words : list of str
        The template list of a var: address space and access mode.
    type, value
        Its type and initial value, or None.
    members : list of Declaration
        The members of a struct, or the parameters of a function.
    uses : dict
        The names that it uses and does not declare, each to its first position.
    """

    __slots__ = ("at", "attributes", "kind", "members", "name", "type", "uses", "value", "words")

    def __init__(self, kind: str, name: str, at: int, attributes: dict[str, list[Expression]]) -> None:
        self.kind, self.name, self.at, self.attributes = kind, name, at, attributes
        self.words: list[str] = []
        self.type: Expression | None = None
        self.value: Expression | None = None
        self.members: list[Declaration] = []
        self.uses: dict[str, int] = {}


class WgslModule:
    """The declarations of a WGSL text.

    Attributes
    ----------
    source : Source
        The text.
    enabled : dict
        The enabled extensions, each to its position.
    declared : dict
        The declarations by name.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.enabled: dict[str, int] = {}
        self.declared: dict[str, Declaration] = {}
