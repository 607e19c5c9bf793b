"""The preprocessor directives in a C-like text, and the include guard around it."""

from __future__ import annotations

import re

#: Blanks inside a directive. The pattern of a comment excludes ``*/``, so the outer repetition cannot backtrack over it.
_BLANK = r"(?:[^\S\r\n]|/\*(?:[^*]|\*(?!/))*\*/|\\\r?\n)*"
_TOKEN = re.compile(
    r"""(?P<blank>[^\S\r\n]+|\\[^\S\r\n]*\r?\n|//(?:\\\r?\n|[^\r\n])*|/\*.*?(?:\*/|\Z))
    |(?P<line>\r\n|\n|\r)
    |(?P<hash>\#)
    |(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
    |"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'
    |\d(?:'?[\w.])*|\w+|.""",
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(rf"#{_BLANK}(?P<word>\w+){_BLANK}", re.DOTALL)
#: The words of the branches of a condition after the first, and of its end.
BRANCHES = ("else", "elif", "elifdef", "elifndef", "endif")
#: The file of an include.
INCLUDED = re.compile(r'"(?P<quoted>[^"\r\n]*)"|<(?P<angled>[^>\r\n]*)>')
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Directive:
    """A preprocessor directive in a text.

    Attributes
    ----------
    word : str
        Its name, such as "include".
    start, end : int
        Its first character, and the character after it.
    line : int
        Its line, from 1.
    depth : int
        The number of conditions around it.
    next, next_line : int
        The first character of the line after it, and that line's number.
    """

    __slots__ = ("depth", "end", "line", "next", "next_line", "start", "word")

    def __init__(self, word: str, start: int, end: int, line: int, depth: int) -> None:
        self.word, self.start, self.end, self.line, self.depth = word, start, end, line, depth
        self.next, self.next_line = 0, 0


def scan(text: str) -> tuple[list[Directive], bool]:
    """Return the directives of a text, and whether all its other tokens are inside conditions."""
    directives: list[Directive] = []
    at, line, depth, line_start, guarded = 0, 1, 0, True, True
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None
        end = token.end()
        if token["line"]:
            if directives and not directives[-1].next:
                directives[-1].next, directives[-1].next_line = end, line + 1
            line_start = True
        elif token["hash"] and line_start and (directive := _DIRECTIVE.match(text, at)):
            word, end, line_start = directive["word"], directive.end(), False
            depth -= word == "endif" and depth > 0
            directives.append(Directive(word, at, end, line, depth))
            depth += word in ("if", "ifdef", "ifndef")
            # The operand of a directive is not program text.
            if word in ("include", "error", "pragma", "define", "undef", "if", "ifdef", "ifndef", "endif", "else", "elif", "line"):
                rest = INCLUDED.match(text, end) if word == "include" else _NAME.match(text, end)
                end = rest.end() if rest else end
                directives[-1].end = end
        elif not token["blank"]:
            line_start = False
            guarded = guarded and depth > 0
        line += text.count("\n", at, end)
        at = end
    return directives, guarded


def guard_of(text: str, directives: list[Directive], guarded: bool) -> str:
    """Return the macro of an include guard around the whole text; "" if there is none."""
    if (
        len(directives) < 3
        or not guarded
        or directives[0].word != "ifndef"
        or directives[1].word != "define"
        or directives[-1].word != "endif"
    ):
        return ""
    if any(directive.depth == 0 or (directive.depth == 1 and directive.word.startswith("el")) for directive in directives[1:-1]):
        return ""  # the text has a second condition, or an #else
    names = [text[directive.start : directive.end].split()[-1] for directive in directives[:2]]
    return names[0] if names[0] == names[1] and _NAME.fullmatch(names[0]) else ""
