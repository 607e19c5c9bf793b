"""Change a source of C or JavaScript by rule, at its tokens.

Comments, texts, regular expressions, lines of the preprocessor and imports are not changed, nor
what a `throw` evaluates. An operator between two spaces is binary: both formatters write it so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mutating.mutant import OTHER, Mutant, Recorder

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<preprocessor>^\#(?:\\\n|[^\n])*)
    | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)
    | (?P<number>0[xX][0-9a-fA-F]+\w*|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?\w*)
    | (?P<name>[A-Za-z_$][\w$]*)
    | (?P<operator>>>>=?|<<=|>>=|[!=]==|[!=<>]=|&&|\|\||\?\?|<<|>>|->|=>|\+\+|--|[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_EXPRESSION = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/\w*")
_COMPARISONS = {"<", "<=", ">", ">=", "==", "!=", "===", "!=="}
_ARITHMETIC = {"+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"}
_LOGIC = {"&&", "||"}
_CHOICES = {"min", "max", "some", "every", "startsWith", "endsWith"}
_EXITS = {"return", "throw", "goto", "continue", "break"}
#: Functions whose arguments have no order, and those of which equality has none.
_COMMUTATIVE = {"min", "max"}
_COMPARING = {"compare", "compare_pairs", "memcmp", "strcmp"}
#: Names before a parenthesis that call nothing.
_STATEMENTS = {"if", "for", "while", "switch", "return", "catch", "function", "sizeof", "await"}
#: Names after which an expression starts.
_BEFORE_A_VALUE = {"return", "case", "typeof", "in", "of", "yield"}
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d[\d_]*)([uUlLn]*)")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def mutants(path: Path, text: str) -> list[Mutant]:
    """Return the changes of a source, in the order of its tokens."""
    rules = _Rules(path, text)
    for at in range(len(rules.tokens)):
        rules.change(at)
    return rules.mutants


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens that are neither space, comment, preprocessor, import nor of a `throw`."""
    at = 0
    last = _Token("operator", ";", 0, 0)
    skips_statement = False
    while at < len(text):
        expression = None
        if text[at] == "/" and not _ends_a_value(last):
            expression = _EXPRESSION.match(text, at)
        found = _TOKEN.match(text, at)
        assert found is not None
        kind = str(found.lastgroup)
        if expression is not None and kind != "comment":
            found, kind = expression, "text"
        token = _Token(kind, found[0], at, found.end())
        at = token.end
        if kind in {"space", "comment", "preprocessor"}:
            continue
        last = token
        if token.text in {"throw", "import"}:
            skips_statement = True
            yield token
        if token.text == ";":
            skips_statement = False
        if not skips_statement:
            yield token


def _ends_a_value(token: _Token) -> bool:
    if token.kind == "operator":
        return token.text in {")", "]", "}"}
    return token.text not in _BEFORE_A_VALUE


class _Rules(Recorder):
    """Looks at each token and those beside it, and records the changes."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(path, text)
        self.tokens = list(_tokens(text))
        self._false = "0" if path.suffix == ".c" else "false"
        self._pairs = self._find_pairs()

    def _find_pairs(self) -> dict[int, int]:
        """Return the places of the opening parentheses with those of the closing ones."""
        pairs: dict[int, int] = {}
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            if token.kind != "operator":
                continue
            if token.text in _CLOSING:
                opened.append(at)
            elif opened and token.text == _CLOSING[self.tokens[opened[-1]].text]:
                pairs[opened.pop()] = at
        return pairs

    def change(self, at: int) -> None:
        """Record the changes of one token."""
        token = self.tokens[at]
        if token.kind == "number":
            self._number(at)
        elif token.kind == "name":
            self._name(at)
        elif token.kind == "operator":
            self._operator(at)

    def _text_at(self, at: int) -> str:
        if not 0 <= at < len(self.tokens):
            return ""
        return self.tokens[at].text

    def _number(self, at: int) -> None:
        token = self.tokens[at]
        found = _NUMBER.fullmatch(token.text)
        if found is None:
            return
        digits = found[1].replace("_", "")
        base = 8 if digits[0] == "0" and digits.isdigit() else 0
        value = int(digits, base)
        is_index = self._text_at(at - 1) == "[" and self._text_at(at + 1) == "]"
        rule = "index" if is_index else "number"
        self.add(rule, token.start, token.end, f"{value + 1}{found[2]}")
        if value > 0:
            self.add(rule, token.start, token.end, f"{value - 1}{found[2]}")

    def _name(self, at: int) -> None:
        token = self.tokens[at]
        if token.text in {"true", "false"}:
            self.add("boolean", token.start, token.end, OTHER[token.text])
        if self._text_at(at + 1) != "(" or at + 1 not in self._pairs:
            return
        if token.text == "if":
            self._condition(at + 1, self._pairs[at + 1])
        elif token.text not in _STATEMENTS:
            if token.text in _CHOICES:
                self.add("choice", token.start, token.end, OTHER[token.text])
            self._call(at, self._pairs[at + 1])

    def _condition(self, opening: int, closing: int) -> None:
        start, end = self.tokens[opening].end, self.tokens[closing].start
        first = closing + 1
        if self._text_at(first) == "{":
            first += 1
        ending = first
        while self._text_at(ending) not in {";", "{", ""}:
            ending += 1
        is_block = self._text_at(closing + 1) == "{"
        is_alone = not is_block or self._text_at(ending + 1) == "}"
        has_other = self._text_at(ending + 1 + is_block) == "else"
        if self._text_at(first) in _EXITS and is_alone and not has_other:
            self.add("guard", start, end, self._false)
        else:
            self.add("branch", start, end, f"!({self.text[start:end]})")

    def _call(self, at: int, closing: int) -> None:
        """Record the changes of a call, unless the name is that of a function's definition."""
        before = self._text_at(at - 1)
        first = at
        while self._text_at(first - 1) in {".", "->"} and self.tokens[first - 2].kind == "name":
            first -= 2
        is_statement = self._text_at(first - 1) in {"", ";", "{", "}"}
        if self._text_at(closing + 1) == "{" or before in {"function", "*"}:
            return
        is_declared = self.tokens[at - 1].kind == "name" and before not in _BEFORE_A_VALUE
        if at > 0 and is_declared and before not in {"new", "await", "else"}:
            return
        if is_statement and self._text_at(closing + 1) == ";":
            self.add("call", self.tokens[first].start, self.tokens[closing].end, "")
        commas = self._commas(at + 1, closing)
        if not commas or self._is_symmetric(at, closing):
            return
        first_text = self._between(at + 1, commas[0])
        second_end = commas[1] if len(commas) > 1 else closing
        second_text = self._between(commas[0], second_end)
        if first_text[:3] == "..." or second_text[:3] == "...":
            return
        start, end = self.tokens[at + 2].start, self.tokens[second_end - 1].end
        self.add("swap", start, end, f"{second_text}, {first_text}")

    def _is_symmetric(self, at: int, closing: int) -> bool:
        """Return whether the order of a call's arguments is of no account."""
        name = self.tokens[at].text
        before, after = self._text_at(at - 1), self._text_at(closing + 1)
        is_truth = before in {"!", "(", "&&", "||"} and after in {")", "&&", "||", ";", "?"}
        return name in _COMMUTATIVE or (name in _COMPARING and is_truth)

    def _commas(self, opening: int, closing: int) -> list[int]:
        """Return the places of the commas between the arguments; the last may have none behind."""
        commas: list[int] = []
        at = opening + 1
        while at < closing:
            if at in self._pairs:
                at = self._pairs[at]
            elif self._text_at(at) == "," and at + 1 < closing:
                commas.append(at)
            at += 1
        return commas

    def _between(self, first: int, last: int) -> str:
        return self.text[self.tokens[first + 1].start : self.tokens[last - 1].end]

    def _operator(self, at: int) -> None:
        token = self.tokens[at]
        around = self.text[token.start - 1 : token.start] + self.text[token.end : token.end + 1]
        is_binary = len(around) == 2 and around.isspace()
        beside = (self.tokens[max(at - 1, 0)], self.tokens[min(at + 1, len(self.tokens) - 1)])
        has_text = any(each.kind == "text" for each in beside)
        if token.text == "!":
            self.add("logic", token.start, token.end, "")
        elif token.text == "-" and not is_binary and not _ends_a_value(self.tokens[at - 1]):
            self.add("sign", token.start, token.end, "")
        elif not is_binary:
            return
        elif token.text in _COMPARISONS:
            self.add("comparison", token.start, token.end, OTHER[token.text])
        elif token.text in _LOGIC:
            self.add("logic", token.start, token.end, OTHER[token.text])
        elif token.text in _ARITHMETIC and not has_text:
            new = OTHER[token.text]
            self.add("arithmetic", token.start, token.end, {"//": "/"}.get(new, new))
