"""The parser of WGSL: the declarations of a module, and the names that each of them uses.

It reads the whole grammar, so that syntax errors are found without a compiler. Of function bodies
it records only the names that WGSL calls "statically used". Names are not resolved and types are
not checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from devmod_wgsl._scalars import EXTENSIONS, SUFFIXES, UNSUPPORTED
from devmod_wgsl._tokens import END, MAX_DEPTH, NUMBER, WORD, Source, Token, tokens

Expression = tuple[Any, ...]
#: The arguments of attributes by name.
Attributes = dict[str, list[Expression]]

_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
_PRECEDENCE |= dict.fromkeys(("==", "!="), 6) | dict.fromkeys(("<", ">", "<=", ">="), 7)
_OPERATORS = frozenset(
    (
        *_PRECEDENCE,
        "++",
        "--",
        "!",
        "~",
        "=",
        "+=",
        "-=",
        "*=",
        "/=",
        "%=",
        "&=",
        "|=",
        "^=",
        "<<=",
        ">>=",
    )
)
#: The keywords that the grammar uses.
_WORDS = (
    "alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop override "
    "requires return struct switch true var while"
)
_KEYWORDS = frozenset(_WORDS.split())
#: The words that WGSL keeps for later versions. No device takes one as a name.
_RESERVED_WORDS = """NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become cast catch class
    co_await co_return co_yield coherent column_major common compile compile_fragment concept const_cast consteval constexpr constinit
    crate debugger decltype delete demote demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough filter
    final finally friend from fxgroup get goto groupshared highp impl implements import inline instanceof interface layout lowp macro
    macro_rules match mediump meta mod module move mut mutable namespace new nil noexcept noinline nointerpolation non_coherent
    noncoherent noperspective null nullptr of operator package packoffset pass patch pixelfragment precise precision premerge priv
    protected pub public readonly ref regardless register reinterpret_cast require resource restrict self set shared sizeof smooth snorm
    static static_assert static_cast std subroutine super target template this thread_local throw trait try type typedef typeid typename
    typeof union unless unorm unsafe unsized use using varying virtual volatile wgsl where with writeonly yield"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
#: Attributes whose arguments are words, not expressions.
_WORD_ATTRIBUTES = ("builtin", "interpolate", "diagnostic")


# An expression is a tuple with its place as the last item: ``("number", text, at)``, ``("name",
# name, template arguments or None, at)``, ``("call", name, template arguments or None, arguments,
# at)``, ``("unary", operator, operand, at)``, ``("binary", operator, left, right, at)``,
# ``("member", operand, name, at)``, ``("index", operand, index, at)``. A type is an expression
# "name".


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

    def __init__(self, kind: str, name: str, at: int, attributes: Attributes) -> None:
        self.kind = kind
        self.name = name
        self.at = at
        self.attributes = attributes
        self.words: list[str] = []
        self.type: Expression | None = None
        self.value: Expression | None = None
        self.members: list[Declaration] = []
        self.uses: dict[str, int] = {}

    @property
    def space(self) -> str:
        """The address space of a var; "" without one."""
        return next(iter(self.words), "")


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


def parse(source: Source) -> WgslModule:
    """Parse a WGSL text and return its module.

    Raises
    ------
    CompileError
        The text has a syntax error. The message contains the line and the column.
    """
    try:
        return _Parser(source).module()
    except RecursionError:
        raise source.error(0, "its nesting exceeds Python's recursion limit") from None


class _Parser:
    """Parse the declarations of a module, with their statements and expressions, and record the
    names that they use.
    """

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

    def _word(self) -> str:
        """Return this token if it is a word, else ""."""
        if self._token.kind == WORD:
            return self._token.text
        return ""

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
        if token.kind != WORD or token.text in _KEYWORDS:
            self._fail(description)
        if token.text == "_" or token.text.startswith("__"):
            raise self._source.error(
                token.at,
                f"{token.text!r} is not a valid name: a name cannot be '_' or begin with '__'",
            )
        if token.text in _RESERVED:
            raise self._source.error(
                token.at,
                f"{token.text!r} is not a valid name: WGSL reserves the word. Choose another name",
            )
        return self._advance()

    def _fail(self, expected: str, hint: str = "") -> NoReturn:
        found = repr(self._token.text)
        if self._token.kind == END:
            found = "the end of the source"
        raise self._source.error(self._token.at, f"expected {expected}, got {found}{hint}")

    def _enter(self) -> None:
        """Enter a nested construct."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._source.error(
                self._token.at,
                f"expressions and statements are nested more than {MAX_DEPTH} levels deep",
            )

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

    def _operator(self) -> str:
        """Return the longest operator at this position. It has a token for each character."""
        text = ""
        at = self._at
        first = self._tokens[at]
        while len(text) < 3:
            token = self._tokens[at]
            if token.kind in (WORD, NUMBER, END) or token.template:
                break
            if token.at != first.at + len(text):
                break
            longer = text + token.text
            if text and longer not in _OPERATORS:
                break
            text = longer
            at += 1
        return text

    def _expression(self, least: int = 1) -> Expression:
        self._enter()
        left = self._unary()
        while True:
            operator = self._operator()
            # A decrement is a statement; in an expression this is a minus before a negation.
            if operator == "--":
                operator = "-"
            precedence = _PRECEDENCE.get(operator, 0)
            if precedence < least:
                break
            at = self._token.at
            self._skip(len(operator))
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
        if token.kind != WORD or (token.text in _KEYWORDS and token.text not in ("true", "false")):
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
        if self._token.kind != WORD or self._token.text in _KEYWORDS:
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
        if self._token.template and self._accept("<"):
            arguments = self._list(">", self._expression, "a template list")
        if call and self._accept("("):
            call_arguments = self._list(")", self._expression, "an argument")
            return ("call", name.text, arguments, call_arguments, name.at)
        return ("name", name.text, arguments, name.at)

    def _attributes(self) -> Attributes:
        attributes: Attributes = {}
        while self._accept("@"):
            if self._token.kind != WORD:
                self._fail("an attribute's name after '@'")
            name = self._advance()
            if name.text in attributes and name.text != "diagnostic":
                raise self._source.error(name.at, f"the attribute '@{name.text}' is repeated")
            attributes[name.text] = []
            if name.text in _WORD_ATTRIBUTES and self._is("("):
                self._skip_brackets()
            elif self._accept("("):
                attributes[name.text] = self._list(
                    ")", self._expression, f"the value of '@{name.text}'"
                )
        return attributes

    def _skip_brackets(self) -> None:
        self._expect("(", "this word")
        while not self._accept(")"):
            if self._token.kind == END or self._token.text in ("(", "{", "}", ";"):
                self._fail("')'")
            self._advance()

    def _template_words(self) -> list[str]:
        """Parse the words in the template list of a var."""
        if not self._accept("<"):
            return []
        return self._list(
            ">", lambda: self._name("an address space or an access mode").text, "an address space"
        )

    # -- statements, with the scopes of the names that they declare

    def _declare_local(self, name: str) -> None:
        if name not in self._scopes[-1]:
            self._scopes[-1].add(name)
            self._local_counts[name] = self._local_counts.get(name, 0) + 1

    def _leave_scope(self) -> None:
        for name in self._scopes.pop():
            self._local_counts[name] -= 1

    def _block(self, parameters: Iterable[Declaration] = ()) -> None:
        """Parse a block. The parameters of a function are in the scope of its body."""
        self._expect("{", "the previous token")
        self._enter()
        self._scopes.append(set())
        for each in parameters:
            self._declare_local(each.name)
        while not self._accept("}"):
            if self._token.kind == END:
                self._fail("'}'")
            self._statement()
        self._leave_scope()
        self._depth -= 1

    def _compound(self) -> None:
        self._attributes()
        self._block()

    _loop_statement = _continuing_statement = _compound

    def _statement(self) -> None:
        if self._accept(";"):
            return
        attributes = self._attributes()
        word = self._word()
        keyword_statement = None
        if word in _KEYWORDS:
            keyword_statement = getattr(self, f"_{word}_statement", None)
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

    def _optional(self, parse_part: Callable[[], Any], close: str, previous: str) -> None:
        """Parse a part, which may be missing, and `close`."""
        if not self._is(close):
            parse_part()
        self._expect(close, previous)

    def _return_statement(self) -> None:
        self._optional(self._expression, ";", "'return' and its value")

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

    def _switch_statement(self) -> None:
        self._expression()
        self._attributes()
        self._expect("{", "the value of 'switch'")
        while not self._accept("}"):
            if self._accept("case"):
                self._selector()
                while self._accept(",") and not (self._is(":") or self._is("{")):
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
        self._optional(self._simple, ";", "the beginning of 'for'")
        self._optional(self._expression, ";", "the condition of 'for'")
        self._optional(self._simple, ")", "the step of 'for'")
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
        """Parse a statement that is also allowed in the header of 'for': a variable, a call or an
        assignment.
        """
        word = self._word()
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
        operator = self._operator()
        if operator in ("++", "--"):
            self._skip(2)
        elif operator.endswith("=") and operator not in ("==", "!=", "<=", ">="):
            self._skip(len(operator))
            self._expression()
        elif left[0] != "call":
            self._fail("an assignment or a call")

    # -- declarations

    def module(self) -> WgslModule:
        module = WgslModule(self._source)
        while self._token.kind != END:
            if self._accept(";"):
                continue
            if self._word() in ("enable", "requires"):
                self._extensions(module)
            elif self._accept("diagnostic"):
                self._skip_brackets()
                self._expect(";", "a diagnostic directive")
            elif (declared := self._declaration()) is not None:
                other = module.declared.setdefault(declared.name, declared)
                if other is not declared:
                    first_place = self._source.location(other.at)
                    raise self._source.error(
                        declared.at,
                        f"{declared.name!r} is declared twice; the first time at {first_place}",
                    )
        return module

    def _extensions(self, module: WgslModule) -> None:
        word = self._advance().text
        first = self._token
        names = self._list(";", lambda: self._name("an extension's name"), word)
        if not names:
            raise self._source.error(first.at, f"expected an extension's name after {word!r}")
        if module.declared:
            raise self._source.error(first.at, f"{word!r} must precede all declarations")
        if word == "enable":
            for name in names:
                module.enabled[name.text] = name.at

    def _declaration(self) -> Declaration | None:
        self._uses = {}
        attributes = self._attributes()
        kind = self._word()
        if kind == "const_assert":
            self._advance()
            self._const_assert_statement()
            return None
        if kind not in ("var", "const", "override", "alias", "struct", "fn"):
            hint = ""
            if kind == "let":
                hint = "; 'let' is allowed in functions only, use 'const' at module scope"
            self._fail("a declaration (var, const, override, alias, struct, fn)", hint)
        self._advance()
        words: list[str] = []
        if kind == "var":
            words = self._template_words()
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
            if self._accept(":"):
                declared.type = self._type()
            if self._accept("="):
                declared.value = self._expression()
            elif kind == "const":
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
                raise self._source.error(
                    member.at, f"{declared.name!r} has two {member.kind}s {member.name!r}"
                )
            names.add(member.name)

    def _function(self, function: Declaration) -> None:
        self._expect("(", "a function's name")
        function.members = self._list(")", lambda: self._member("parameter"), "a parameter")
        self._check_names(function)
        if self._accept("-"):
            self._expect(">", "'-'")
            self._attributes()
            function.type = self._type()
        self._attributes()
        self._block(function.members)
