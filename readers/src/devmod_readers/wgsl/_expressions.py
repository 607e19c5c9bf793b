"""The parser of WGSL's expressions and types, and of the attributes in front of declarations and statements."""

from __future__ import annotations

from devmod_readers.wgsl._scalars import EXTENSIONS, SUFFIXES, UNSUPPORTED
from devmod_readers.wgsl._tokens import END, MAX_DEPTH, NUMBER, WORD, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from devmod_readers.wgsl._parse import Expression
    from devmod_readers.wgsl._tokens import Source, Token

_PRECEDENCE = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}
_PRECEDENCE |= dict.fromkeys(("==", "!="), 6) | dict.fromkeys(("<", ">", "<=", ">="), 7)
_OPERATORS = frozenset(
    (*_PRECEDENCE, "++", "--", "!", "~", "=", *(f"{each}=" for each in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")))
)
#: The keywords that the grammar uses.
KEYWORDS = frozenset(
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
#: Attributes whose arguments are words, not expressions.
_WORD_ATTRIBUTES = ("builtin", "interpolate", "diagnostic")


class ExpressionParser:
    """Parse expressions and types, and record the names that they use."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._tokens = tokens(source)
        self._at = 0
        self._token = self._tokens[0]
        self._depth = 0
        self._uses: dict[str, int] = {}
        self._scopes: list[set[str]] = []
        #: Each name of the open scopes to the number of scopes that declare it.
        self._local_counts: dict[str, int] = {}

    def _advance(self) -> Token:
        token = self._token
        if token.kind != END:
            self._at += 1
            self._token = self._tokens[self._at]
        return token

    def _is(self, text: str) -> bool:
        return self._token.text == text and self._token.kind != NUMBER

    def _accept(self, text: str) -> bool:
        if self._is(text):
            self._advance()
            return True
        return False

    def _expect(self, text: str, previous: str) -> Token:
        """Consume the token `text`, which follows the construct `previous`."""
        if not self._is(text):
            self._fail(f"{text!r} after {previous}")
        return self._advance()

    def _name(self, description: str) -> Token:
        token = self._token
        if token.kind != WORD or token.text in KEYWORDS:
            self._fail(description)
        if token.text == "_" or token.text.startswith("__"):
            raise self._source.error(token.at, f"{token.text!r} is not a valid name: a name cannot be '_' or begin with '__'")
        return self._advance()

    def _fail(self, expected: str, hint: str = "") -> NoReturn:
        token = "the end of the source" if self._token.kind == END else repr(self._token.text)
        raise self._source.error(self._token.at, f"expected {expected}, got {token}{hint}")

    def _enter(self) -> None:
        """Enter a nested construct."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._source.error(self._token.at, f"expressions and statements are nested more than {MAX_DEPTH} levels deep")

    def _list(self, close: str, parse_item: Callable[[], Any], description: str) -> list[Any]:
        """Parse items with commas between them, an optional last comma and `close`."""
        items = []
        while not self._accept(close):
            items.append(parse_item())
            if not self._accept(","):
                self._expect(close, description)
                break
        return items

    def _skip(self, count: int) -> None:
        for _ in range(count):
            self._advance()

    def _operator(self) -> tuple[str, int]:
        """Return the longest operator at this position, and its number of tokens."""
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
        self._enter()
        left = self._unary()
        while True:
            operator, width = self._operator()
            if operator == "--":  # a decrement is a statement; in an expression this is a minus before a negation
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
            self._advance()
            self._enter()
            operand = self._unary()
            self._depth -= 1
            return ("unary", token.text, operand, token.at)
        return self._postfix()

    def _postfix(self) -> Expression:
        expression = self._primary()
        while True:
            token = self._token
            if self._accept("."):
                if self._token.kind != WORD:
                    self._fail("a member's name after '.'")
                expression = ("member", expression, self._advance().text, token.at)
            elif self._accept("["):
                expression = ("index", expression, self._expression(), token.at)
                self._expect("]", "an index")
            else:
                return expression

    def _primary(self) -> Expression:
        token = self._token
        if token.kind == NUMBER:
            self._advance()
            self._record_suffix(token)
            return ("number", token.text, token.at)
        if self._accept("("):
            expression = self._expression()
            self._expect(")", "an expression")
            return expression
        if token.kind != WORD or (token.text in KEYWORDS and token.text not in ("true", "false")):
            self._fail("an expression")
        return self._named()

    def _record_suffix(self, number: Token) -> None:
        """Record the optional type that a number's suffix uses."""
        text = number.text.lower()
        for name, suffix in UNSUPPORTED.items():
            if text.endswith(suffix):
                self._uses.setdefault(name, number.at)
        name = SUFFIXES.get(text[-1], "")
        if name in EXTENSIONS and (not text.startswith("0x") or "p" in text):
            self._uses.setdefault(name, number.at)

    def _type(self) -> Expression:
        if self._token.kind != WORD or self._token.text in KEYWORDS:
            self._fail("a type")
        self._enter()
        expression = self._named(call=False)
        self._depth -= 1
        return expression

    def _named(self, *, call: bool = True) -> Expression:
        """Parse a name with its template list, and the arguments of a call."""
        name = self._advance()
        if not self._local_counts.get(name.text):
            self._uses.setdefault(name.text, name.at)
        arguments = None
        if self._is("<") and self._token.template:
            self._advance()
            arguments = self._list(">", self._expression, "a template list")
        if call and self._accept("("):
            return ("call", name.text, arguments, self._list(")", self._expression, "an argument"), name.at)
        return ("name", name.text, arguments, name.at)

    def _attributes(self) -> dict[str, list[Expression]]:
        attributes: dict[str, list[Expression]] = {}
        while self._accept("@"):
            if self._token.kind != WORD:
                self._fail("an attribute's name after '@'")
            name = self._advance()
            if name.text in attributes and name.text != "diagnostic":
                raise self._source.error(name.at, f"the attribute '@{name.text}' is repeated")
            attributes[name.text] = []
            if self._is("("):
                if name.text in _WORD_ATTRIBUTES:
                    self._skip_brackets()
                else:
                    self._advance()
                    attributes[name.text] = self._list(")", self._expression, f"the value of '@{name.text}'")
        return attributes

    def _skip_brackets(self) -> None:
        self._expect("(", "this word")
        while not self._accept(")"):
            if self._token.kind == END or self._token.text in ("(", "{", "}", ";"):
                self._fail("')'")
            self._advance()

    def _template_words(self) -> list[str]:
        """Parse the words in the template list of a var."""
        if not self._is("<"):
            return []
        self._advance()
        return self._list(">", lambda: self._name("an address space or an access mode").text, "an address space")
