"""A parser of WGSL: the declarations of a module, and for each the names that it uses.

The whole grammar is read, so that a mistake of syntax is found where there is no compiler. Of function bodies nothing is kept but the names
in them that are not the body's own: that is what "statically used" means. What the names are, and whether types fit, is not this
file's business.

An expression is a tuple, its place the last item: ``("number", text, at)``, ``("name", name, template arguments or None, at)``,
``("call", name, template arguments or None, arguments, at)``, ``("unary", operator, operand, at)``, ``("binary", operator, left, right,
at)``, ``("member", operand, name, at)``, ``("index", operand, index, at)``. A type is such a name.
"""

from __future__ import annotations

from devmod_targets.webgpu._tokens import END, MOST_DEPTH, NUMBER, WORD, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from devmod_targets.webgpu._tokens import Source, Token

    Expression = tuple[Any, ...]

_PRECEDENCE = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}
_PRECEDENCE |= dict.fromkeys(("==", "!="), 6) | dict.fromkeys(("<", ">", "<=", ">="), 7)
_KEYWORDS = frozenset(
    [
        "alias",
        "break",
        "case",
        "const",
        "const_assert",
        "continue",
        "continuing",
        "default",
        "diagnostic",
        "discard",
        "else",
        "enable",
        "false",
        "fn",
        "for",
        "if",
        "let",
        "loop",
        "override",
        "requires",
        "return",
        "struct",
        "switch",
        "true",
        "var",
        "while",
    ]
)
#: Attributes whose arguments are words of their own, and no expressions.
_OF_WORDS = ("builtin", "interpolate", "diagnostic")


class Declaration:
    """A declaration at module scope, or a member or parameter of one.

    Attributes
    ----------
    kind : str
        "var", "const", "override", "alias", "struct", "fn"; "member" and "parameter".
    name, at
        Its name, and where that stands.
    attributes : dict
        The attributes' names to their arguments.
    words : list of str
        What stands in the template list of a var: address space and access mode.
    type, value
        Its type and initial value; None where there is none.
    members : list of Declaration
        A struct's members, a function's parameters.
    uses : dict
        The names that it uses and that are not its own, each to the first place.
    """

    __slots__ = ("at", "attributes", "kind", "members", "name", "type", "uses", "value", "words")

    def __init__(self, kind: str, name: str, at: int, attributes: dict[str, list[Expression]]) -> None:
        self.kind, self.name, self.at, self.attributes = kind, name, at, attributes
        self.words: list[str] = []
        self.type: Expression | None = None
        self.value: Expression | None = None
        self.members: list[Declaration] = []
        self.uses: dict[str, int] = {}


class Module:
    """What a WGSL text declares.

    Attributes
    ----------
    source : Source
        The text.
    enabled : dict
        The extensions that it enables, each to its place.
    declared : dict
        Its declarations by name.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.enabled: dict[str, int] = {}
        self.declared: dict[str, Declaration] = {}


def parse(source: Source) -> Module:
    """The module in a text.

    Raises
    ------
    CompileError
        It is no WGSL; the message has the line and the column.
    """
    try:
        return _Parser(source).module()
    except RecursionError:
        raise source.wrong(0, "it is nested deeper than this Python can follow") from None


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._tokens = tokens(source)
        self._at = 0
        self._token = self._tokens[0]
        self._depth = 0
        self._uses: dict[str, int] = {}
        self._scopes: list[set[str]] = []

    # -- tokens

    def _next(self) -> Token:
        token = self._token
        if token.kind != END:
            self._at += 1
            self._token = self._tokens[self._at]
        return token

    def _is(self, text: str) -> bool:
        return self._token.text == text and self._token.kind != NUMBER

    def _take(self, text: str) -> bool:
        if self._is(text):
            self._next()
            return True
        return False

    def _expect(self, text: str, behind: str) -> Token:
        if not self._is(text):
            self._wrong(f"{text!r} is due behind {behind}")
        return self._next()

    def _name(self, what: str) -> Token:
        token = self._token
        if token.kind != WORD or token.text in _KEYWORDS:
            self._wrong(f"{what} is due")
        if token.text == "_" or token.text.startswith("__"):
            raise self._source.wrong(token.at, f"{token.text!r} cannot be a name: it is '_', or begins with two of them")
        return self._next()

    def _wrong(self, text: str) -> NoReturn:
        found = "the end of the source" if self._token.kind == END else repr(self._token.text)
        raise self._source.wrong(self._token.at, f"{text}, and here is {found}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._source.wrong(self._token.at, f"expressions and statements stand more than {MOST_DEPTH} deep in each other")

    def _list(self, close: str, item: Callable[[], Any], what: str) -> list[Any]:
        """Items with commas between, up to and with `close`; one more comma may stand before it."""
        found = []
        while not self._take(close):
            found.append(item())
            if not self._take(","):
                self._expect(close, what)
                break
        return found

    # -- module scope

    def module(self) -> Module:
        made = Module(self._source)
        while self._token.kind != END:
            if self._take(";"):
                continue
            if self._token.text in ("enable", "requires") and self._token.kind == WORD:
                word, first = self._next().text, self._token
                names = self._list(";", lambda: self._name("an extension's name"), f"{word}")
                if not names:
                    raise self._source.wrong(first.at, f"an extension's name is due behind {word!r}")
                if made.declared:
                    raise self._source.wrong(first.at, f"{word!r} stands before all declarations")
                if word == "enable":
                    made.enabled |= {name.text: name.at for name in names}
            elif self._take("diagnostic"):
                self._skip_brackets()
                self._expect(";", "a diagnostic directive")
            else:
                self._declare(made, self._declaration())
        return made

    def _declare(self, made: Module, found: Declaration | None) -> None:
        if found is None:
            return
        other = made.declared.setdefault(found.name, found)
        if other is not found:
            raise self._source.wrong(found.at, f"{found.name!r} is declared twice; the first time in line {self._source.line(other.at)}")

    def _declaration(self) -> Declaration | None:
        self._uses = {}
        attributes = self._attributes()
        kind = self._token.text if self._token.kind == WORD else ""
        if kind == "const_assert":
            self._next()
            self._expression()
            self._expect(";", "const_assert")
            return None
        if kind not in ("var", "const", "override", "alias", "struct", "fn"):
            hint = "; 'let' stands in functions only, a constant of the module is a 'const'" if kind == "let" else ""
            self._wrong(f"a declaration is due (var, const, override, alias, struct, fn){hint}")
        self._next()
        words = self._words() if kind == "var" else []
        name = self._name(f"a name behind {kind!r}")
        found = Declaration(kind, name.text, name.at, attributes)
        found.words = words
        if kind == "fn":
            self._function(found)
        elif kind == "struct":
            self._expect("{", "a struct's name")
            found.members = self._list("}", lambda: self._member("member"), "a member")
            self._check_names(found)
        elif kind == "alias":
            self._expect("=", "an alias")
            found.type = self._type()
        else:
            found.type = self._type() if self._take(":") else None
            found.value = self._expression() if self._take("=") else None
            if kind == "const" and found.value is None:
                self._wrong(f"'=' and a value are due behind the const {name.text!r}")
        if kind not in ("fn", "struct"):
            self._expect(";", f"the {kind} {name.text!r}")
        found.uses = self._uses
        return found

    def _words(self) -> list[str]:
        """The words in the template list of a var."""
        if not self._is("<"):
            return []
        self._next()
        return self._list(">", lambda: self._name("an address space or an access mode").text, "an address space")

    def _member(self, kind: str) -> Declaration:
        attributes = self._attributes()
        name = self._name(f"a {kind}'s name")
        made = Declaration(kind, name.text, name.at, attributes)
        self._expect(":", f"the {kind} {name.text!r}")
        made.type = self._type()
        return made

    def _check_names(self, found: Declaration) -> None:
        seen: set[str] = set()
        for member in found.members:
            if member.name in seen:
                raise self._source.wrong(member.at, f"{found.name!r} has two {member.kind}s {member.name!r}")
            seen.add(member.name)

    def _attributes(self) -> dict[str, list[Expression]]:
        found: dict[str, list[Expression]] = {}
        while self._take("@"):
            if self._token.kind != WORD:
                self._wrong("an attribute's name is due behind '@'")
            name = self._next()
            if name.text in found and name.text != "diagnostic":
                raise self._source.wrong(name.at, f"the attribute '@{name.text}' stands here twice")
            found[name.text] = []
            if self._is("("):
                if name.text in _OF_WORDS:
                    self._skip_brackets()
                else:
                    self._next()
                    found[name.text] = self._list(")", self._expression, f"the value of '@{name.text}'")
        return found

    def _skip_brackets(self) -> None:
        self._expect("(", "this word")
        while not self._take(")"):
            if self._token.kind == END or self._token.text in ("(", "{", "}", ";"):
                self._wrong("')' is due")
            self._next()

    # -- functions

    def _function(self, found: Declaration) -> None:
        self._expect("(", "a function's name")
        found.members = self._list(")", lambda: self._member("parameter"), "a parameter")
        self._check_names(found)
        if self._is("-"):
            self._next()
            self._expect(">", "'-'")
            self._attributes()
            found.type = self._type()
        self._attributes()
        self._scopes = [{member.name for member in found.members}]
        # The parameters and the body are one scope.
        self._block(own_scope=False)
        self._scopes = []

    def _block(self, *, own_scope: bool = True) -> None:
        self._expect("{", "what stands before it")
        self._deeper()
        if own_scope:
            self._scopes.append(set())
        while not self._take("}"):
            if self._token.kind == END:
                self._wrong("'}' is due")
            self._statement()
        if own_scope:
            self._scopes.pop()
        self._depth -= 1

    def _compound(self) -> None:
        self._attributes()
        self._block()

    def _statement(self) -> None:
        if self._take(";"):
            return
        attributes = self._attributes()
        word = self._token.text if self._token.kind == WORD else ""
        special = getattr(self, f"_{word}_statement", None) if word in _KEYWORDS else None
        if self._is("{"):
            self._block()
        elif special is not None:
            self._next()
            special()
        elif attributes:
            self._wrong("a statement that takes attributes is due")
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
        while self._take("else"):
            if not self._take("if"):
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
        self._expect("{", "what 'switch' looks at")
        while not self._take("}"):
            if self._take("case"):
                self._selector()
                while self._take(","):
                    if self._is(":") or self._is("{"):
                        break
                    self._selector()
            elif not self._take("default"):
                self._wrong("'case', 'default' or '}' is due")
            self._take(":")
            self._compound()

    def _selector(self) -> None:
        if not self._take("default"):
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
        self._scopes.pop()

    def _break_statement(self) -> None:
        if self._take("if"):
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
        """What 'for' takes too: a variable, a call, an assignment."""
        word = self._token.text if self._token.kind == WORD else ""
        if word in ("var", "let", "const"):
            self._next()
            if word == "var":
                self._words()
            name = self._name(f"a name behind {word!r}")
            if self._take(":"):
                self._type()
            if self._take("="):
                self._expression()
            elif word != "var":
                self._wrong(f"'=' and a value are due behind the {word} {name.text!r}")
            # Only now: the value may name what this one hides.
            self._scopes[-1].add(name.text)
            return
        if word == "_":
            self._next()
            self._expect("=", "'_'")
            self._expression()
            return
        left = self._unary()
        operator, width = self._joined()
        if operator in ("++", "--"):
            self._skip(2)
        elif operator.endswith("=") and operator not in ("==", "!=", "<=", ">="):
            self._skip(width)
            self._expression()
        elif left[0] != "call":
            self._wrong("an assignment or a call is due")

    # -- expressions

    def _skip(self, count: int) -> None:
        for _ in range(count):
            self._next()

    def _joined(self) -> tuple[str, int]:
        """The operator here, as the longest that its characters give, and how many tokens it is."""
        text, at = "", self._at
        first = self._tokens[at]
        while len(text) < 3:
            token = self._tokens[at]
            if token.kind in (WORD, NUMBER, END) or token.template or token.at != first.at + len(text):
                break
            longer = text + token.text
            if text and longer not in _OPERATORS:
                break
            text, at = longer, at + 1
        return text, len(text)

    def _expression(self, least: int = 1) -> Expression:
        self._deeper()
        left = self._unary()
        while True:
            operator, width = self._joined()
            if operator == "--":  # a statement of its own, and here a minus before a negative
                operator, width = "-", 1
            precedence = _PRECEDENCE.get(operator, 0)
            if precedence < least:
                break
            at = self._token.at
            self._skip(width)
            left = ("binary", operator, left, self._expression(precedence + 1), at)
        self._depth -= 1
        return left

    def _unary(self) -> Expression:
        token = self._token
        if token.text in ("-", "!", "~", "*", "&"):
            self._next()
            self._deeper()
            made = ("unary", token.text, self._unary(), token.at)
            self._depth -= 1
            return made
        return self._postfix()

    def _postfix(self) -> Expression:
        found = self._primary()
        while True:
            token = self._token
            if self._take("."):
                if self._token.kind != WORD:
                    self._wrong("a member's name is due behind '.'")
                found = ("member", found, self._next().text, token.at)
            elif self._take("["):
                found = ("index", found, self._expression(), token.at)
                self._expect("]", "an index")
            else:
                return found

    def _primary(self) -> Expression:
        token = self._token
        if token.kind == NUMBER:
            self._next()
            self._note_type(token)
            return ("number", token.text, token.at)
        if self._take("("):
            found = self._expression()
            self._expect(")", "an expression")
            return found
        if token.kind != WORD or (token.text in _KEYWORDS and token.text not in ("true", "false")):
            self._wrong("an expression is due")
        return self._named()

    def _note_type(self, number: Token) -> None:
        """A number with such a suffix uses a type that is not always there."""
        suffix, hexadecimal = number.text[-2:].lower(), number.text[:2].lower() == "0x"
        if suffix in ("li", "lu", "lf"):
            self._uses.setdefault(f"{suffix[1]}64", number.at)
        elif suffix.endswith("h") and (not hexadecimal or "p" in number.text.lower()):
            self._uses.setdefault("f16", number.at)

    def _type(self) -> Expression:
        if self._token.kind != WORD or self._token.text in _KEYWORDS:
            self._wrong("a type is due")
        self._deeper()
        made = self._named(call=False)
        self._depth -= 1
        return made

    def _named(self, *, call: bool = True) -> Expression:
        """A name with its template list, and its arguments where it is called."""
        name = self._next()
        if not any(name.text in scope for scope in self._scopes):
            self._uses.setdefault(name.text, name.at)
        arguments = None
        if self._is("<") and self._token.template:
            self._next()
            arguments = self._list(">", self._expression, "a template list")
        if call and self._take("("):
            return ("call", name.text, arguments, self._list(")", self._expression, "an argument"), name.at)
        return ("name", name.text, arguments, name.at)


_OPERATORS = frozenset(
    (*_PRECEDENCE, "++", "--", "!", "~", "=", *(f"{each}=" for each in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")))
)
