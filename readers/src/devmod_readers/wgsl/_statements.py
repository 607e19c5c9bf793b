"""The parser of WGSL's statements. Of a function body it records only the names that the body uses and does not declare."""

from __future__ import annotations

from devmod_readers.wgsl._expressions import KEYWORDS, ExpressionParser
from devmod_readers.wgsl._tokens import END, WORD


class StatementParser(ExpressionParser):
    """Parse statements, with the scopes of the names that they declare."""

    def _declare_local(self, name: str) -> None:
        if name not in self._scopes[-1]:
            self._scopes[-1].add(name)
            self._local_counts[name] = self._local_counts.get(name, 0) + 1

    def _leave_scope(self) -> None:
        for name in self._scopes.pop():
            self._local_counts[name] -= 1

    def _block(self, *, own_scope: bool = True) -> None:
        self._expect("{", "the previous token")
        self._enter()
        if own_scope:
            self._scopes.append(set())
        while not self._accept("}"):
            if self._token.kind == END:
                self._fail("'}'")
            self._statement()
        if own_scope:
            self._leave_scope()
        self._depth -= 1

    def _compound(self) -> None:
        self._attributes()
        self._block()

    def _statement(self) -> None:
        if self._accept(";"):
            return
        attributes = self._attributes()
        word = self._token.text if self._token.kind == WORD else ""
        keyword_statement = getattr(self, f"_{word}_statement", None) if word in KEYWORDS else None
        if self._is("{"):
            self._block()
        elif keyword_statement is not None:
            self._advance()
            keyword_statement()
        elif attributes:
            self._fail("a statement that accepts attributes")
        else:
            self._simple()
            self._expect(";", "a statement")

    def _return_statement(self) -> None:
        if not self._is(";"):
            self._expression()
        self._expect(";", "'return' and its value")

    def _if_statement(self) -> None:
        self._expression()
        self._compound()
        while self._accept("else"):
            if not self._accept("if"):
                self._compound()
                return
            self._expression()
            self._compound()

    def _while_statement(self) -> None:
        self._expression()
        self._compound()

    def _loop_statement(self) -> None:
        self._compound()

    def _continuing_statement(self) -> None:
        self._compound()

    def _switch_statement(self) -> None:
        self._expression()
        self._attributes()
        self._expect("{", "the value of 'switch'")
        while not self._accept("}"):
            if self._accept("case"):
                self._selector()
                while self._accept(","):
                    if self._is(":") or self._is("{"):
                        break
                    self._selector()
            elif not self._accept("default"):
                self._fail("'case', 'default' or '}'")
            self._accept(":")
            self._compound()

    def _selector(self) -> None:
        if not self._accept("default"):
            self._expression()

    def _for_statement(self) -> None:
        self._expect("(", "'for'")
        self._scopes.append(set())
        if not self._is(";"):
            self._simple()
        self._expect(";", "the beginning of 'for'")
        if not self._is(";"):
            self._expression()
        self._expect(";", "the condition of 'for'")
        if not self._is(")"):
            self._simple()
        self._expect(")", "the step of 'for'")
        self._compound()
        self._leave_scope()

    def _break_statement(self) -> None:
        if self._accept("if"):
            self._expression()
        self._expect(";", "'break'")

    def _continue_statement(self) -> None:
        self._expect(";", "'continue'")

    def _discard_statement(self) -> None:
        self._expect(";", "'discard'")

    def _const_assert_statement(self) -> None:
        self._expression()
        self._expect(";", "const_assert")

    def _simple(self) -> None:
        """Parse a statement that is also allowed in the header of 'for': a variable, a call or an assignment."""
        word = self._token.text if self._token.kind == WORD else ""
        if word in ("var", "let", "const"):
            self._advance()
            if word == "var":
                self._template_words()
            name = self._name(f"a name after {word!r}")
            if self._accept(":"):
                self._type()
            if self._accept("="):
                self._expression()
            elif word != "var":
                self._fail(f"'=' and a value after the {word} {name.text!r}")
            # After the value, which may use an outer name that this one shadows.
            self._declare_local(name.text)
            return
        if word == "_":
            self._advance()
            self._expect("=", "'_'")
            self._expression()
            return
        left = self._unary()
        operator, width = self._operator()
        if operator in ("++", "--"):
            self._skip(2)
        elif operator.endswith("=") and operator not in ("==", "!=", "<=", ">="):
            self._skip(width)
            self._expression()
        elif left[0] != "call":
            self._fail("an assignment or a call")
