"""The parser of WGSL: the declarations of a module, and the names that each of them uses.

It reads the whole grammar, so that syntax errors are found without a compiler. Of function bodies it records only the names that WGSL
calls "statically used". Names are not resolved and types are not checked here.
"""

from __future__ import annotations

from devmod_readers.wgsl._statements import StatementParser
from devmod_readers.wgsl._syntax import Declaration, WgslModule
from devmod_readers.wgsl._tokens import END, WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_readers.wgsl._tokens import Source


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
