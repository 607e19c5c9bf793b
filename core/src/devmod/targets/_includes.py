"""Putting the text of a user's includes in their places, exactly as a C preprocessor would have it read.

Nothing is evaluated: an include inside a condition is replaced inside that condition. A file that guards itself (``#ifndef`` round
all of it, or ``#pragma once``) and stands where no condition can hide it does not come a second time; every other include is
replaced each time, since the receiver's preprocessor decides what is left of it. ``#pragma once`` has no meaning in one text, so a
macro of the file's own digest takes its place.
"""

from __future__ import annotations

import os
import re

from devmod.errors import CompileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod._payload import CompileRequest

_MOST_NESTING = 64
_MOST_BYTES = 64 << 20

#: Blanks inside a directive. A comment ends at its first end: the star round it must not try the others.
_BLANK = r"(?:[^\S\r\n]|/\*(?:[^*]|\*(?!/))*\*/|\\\r?\n)*"
_TOKEN = re.compile(
    r"""(?P<blank>[^\S\r\n]+|\\[^\S\r\n]*\r?\n|//(?:\\\r?\n|[^\r\n])*|/\*.*?(?:\*/|\Z))
    |(?P<line>\r\n|\n|\r)
    |(?P<hash>\#)
    |(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
    |"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'
    |\w+|.""",
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(rf"#{_BLANK}(?P<word>\w+){_BLANK}", re.DOTALL)
_BRANCHES = ("else", "elif", "elifdef", "elifndef", "endif")
_INCLUDED = re.compile(r'"(?P<quoted>[^"\r\n]*)"|<(?P<angled>[^>\r\n]*)>')
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def line_directive(number: int, name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {number} "{escaped}"\n'


class _Directive:
    """A preprocessor directive in a text: its word, where it begins and ends, its line, how many conditions are open round it, and
    where the line behind it begins, with its number."""

    __slots__ = ("depth", "end", "line", "next", "next_line", "start", "word")

    def __init__(self, word: str, start: int, end: int, line: int, depth: int) -> None:
        self.word, self.start, self.end, self.line, self.depth = word, start, end, line, depth
        self.next, self.next_line = 0, 0


def _scan(text: str) -> tuple[list[_Directive], bool]:
    """The directives of a text, none in comments or strings, and whether there is nothing but them and blanks outside of conditions."""
    found: list[_Directive] = []
    at, line, depth, fresh, bare = 0, 1, 0, True, True
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None
        end = token.end()
        if token["line"]:
            if found and not found[-1].next:
                found[-1].next, found[-1].next_line = end, line + 1
            fresh = True
        elif token["hash"] and fresh and (directive := _DIRECTIVE.match(text, at)):
            word, end, fresh = directive["word"], directive.end(), False
            depth -= word == "endif" and depth > 0
            found.append(_Directive(word, at, end, line, depth))
            depth += word in ("if", "ifdef", "ifndef")
            # The rest of a directive outside of conditions is no text of the program.
            if word in ("include", "error", "pragma", "define", "undef", "if", "ifdef", "ifndef", "endif", "else", "elif", "line"):
                rest = _INCLUDED.match(text, end) if word == "include" else _NAME.match(text, end)
                end = rest.end() if rest else end
                found[-1].end = end
        elif not token["blank"]:
            fresh = False
            bare = bare and depth > 0
        line += text.count("\n", at, end)
        at = end
    return found, bare


def _guard(text: str, directives: list[_Directive], bare: bool) -> str:
    """The macro of an include guard that spans the whole text; "" where there is none."""
    if (
        len(directives) < 3
        or not bare
        or directives[0].word != "ifndef"
        or directives[1].word != "define"
        or directives[-1].word != "endif"
    ):
        return ""
    if any(directive.depth == 0 or (directive.depth == 1 and directive.word.startswith("el")) for directive in directives[1:-1]):
        return ""  # a second condition, or a branch for the second time
    names = [text[directive.start : directive.end].split()[-1] for directive in directives[:2]]
    return names[0] if names[0] == names[1] and _NAME.fullmatch(names[0]) else ""


class Inliner:
    """The files of one request: finds includes, and puts their texts in their places.

    `directive` makes the line that sets the number and the name of the next one, for languages in which a name is not to be had.
    """

    def __init__(self, request: CompileRequest, defined: frozenset[str], directive: Callable[[int, str], str] = line_directive) -> None:
        self.directive = directive
        self.kind = request.target.kind
        self.request = request
        self.defined = defined
        self.sources: dict[str, str] = {}
        self.names: dict[str, str] = {}
        #: Guarded files whose text stands where no condition can hide it: they need not come again.
        self.settled: set[str] = set()
        self.size = len(request.text)
        self._digest(request.name, request.text)

    def inline(self, text: str, first_line: int = 1) -> str:
        """The source itself with its includes in place."""
        return self._expand(text, self.request.name, self.request.folder, (), 0, first_line, _scan(text)[0])

    def _expand(
        self, text: str, name: str, folder: str, within: tuple[str, ...], hidden: int, first_line: int, directives: list[_Directive]
    ) -> str:
        parts: list[str] = []
        done = 0
        shifted = False
        for directive in directives:
            if shifted and directive.next and directive.word in _BRANCHES:
                # A #line in a branch that is not taken counts for nothing: behind each branch the number is set anew.
                parts += [text[done : directive.next], self.directive(directive.next_line + first_line - 1, name)]
                done, shifted = directive.next, directive.depth > 0
                continue
            depth = hidden + directive.depth
            where = f"{name}:{directive.line + first_line - 1}"
            path, wanted = self._resolve(text, directive, folder, where, depth)
            if not path:
                continue
            inside = self._included(path, wanted, within, depth, where)
            if not inside:
                parts.append(text[done : directive.start])
                done = directive.end
                continue
            line_start, line_end = directive.start, text.find("\n", directive.end)
            line_end = len(text) if line_end < 0 else line_end + 1
            head = text[done:line_start]
            # What stands before and behind the include on its lines (comments) stays, on a line of the same number.
            rest = text[directive.end : line_end]
            number = directive.line + first_line - 1 + text.count("\n", directive.start, directive.end)
            parts.append(head if head.endswith("\n") or not head else head + "\n")
            parts.append(inside)
            shifted = shifted or directive.depth > 0
            if rest.strip():
                parts.append(self.directive(number, name))
                done = directive.end
            else:
                parts.append(self.directive(number + 1, name))
                done = line_end
        parts.append(text[done:])
        return "".join(parts)

    def _included(self, path: str, wanted: str, within: tuple[str, ...], depth: int, where: str) -> str:
        """The text that stands for an include; "" where the file's own guard would leave nothing of it."""
        text = self._read(path, wanted, where)
        directives, bare = _scan(text)
        guard = _guard(text, directives, bare)
        once = [directive for directive in directives if directive.word == "pragma" and directive.depth == 0 and _is_once(text, directive)]
        if (guard or once) and (path in self.settled or path in within):
            return ""
        if len(within) >= _MOST_NESTING or path in within:
            raise CompileError(
                f"{where}: the include of {wanted!r} nests without end: the file includes itself and has no guard", kind=self.kind
            )
        if (guard or once) and depth == 0 and guard not in self.defined:
            self.settled.add(path)
        for directive in reversed(once):
            text = text[: directive.start] + text[directive.end :]
        if once:
            directives, _ = _scan(text)
        hidden = depth - (1 if guard else 0)
        text = self._expand(text, wanted, os.path.dirname(path), (*within, path), hidden, 1, directives)
        text = text if text.endswith("\n") else text + "\n"
        if text.endswith("\\\n"):
            text += "\n"  # a backslash that ends a file would swallow the #line behind it
        text = self.directive(1, wanted) + text
        if once:
            macro = f"DEVMOD_ONCE_{self.sources[self.names[path]][:16]}"
            text = f"#ifndef {macro}\n#define {macro}\n{text}#endif\n"
        return text

    def _resolve(self, text: str, directive: _Directive, folder: str, where: str, depth: int) -> tuple[str, str]:
        """The real path and the name of the user's file that an include names; two empty strings where it is none."""
        if directive.word == "include_next":
            raise CompileError(f"{where}: #include_next cannot be carried in a payload", kind=self.kind)
        found = _INCLUDED.search(text, directive.start, directive.end) if directive.word == "include" else None
        if found is None:
            return "", ""
        quoted = found["quoted"] is not None
        wanted = found["quoted"] if quoted else found["angled"]
        folders = ([folder] if quoted and folder else []) + list(self.request.include)
        if os.path.isabs(wanted):
            if depth:
                return "", ""
            raise CompileError(
                f"{where}: the include of {wanted!r} is an absolute path; name it as a folder in include= has it", kind=self.kind
            )
        for place in folders:
            path = os.path.realpath(os.path.join(place, wanted))
            if os.path.isfile(path):
                return path, wanted
        if quoted and depth == 0:
            places = ["beside the file that includes it"] if folder else []
            places += ["in a folder of include="] if self.request.include else []
            looked = " or ".join(places) or "anywhere: the source is text, so that it stands in no folder, and include= names none"
            raise CompileError(f"{where}: the include {wanted!r} was not found {looked}", kind=self.kind)
        return "", ""

    def _read(self, path: str, wanted: str, where: str) -> str:
        try:
            with open(path, "rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise CompileError(f"{where}: the include {wanted!r} cannot be read: {error.strerror}", kind=self.kind) from error
        self.size += len(data)
        if self.size > _MOST_BYTES:
            raise CompileError(f"{where}: the source with its includes is over {_MOST_BYTES >> 20} MiB", kind=self.kind)
        text = decode(data, wanted, self.kind)
        if path not in self.names:
            self.names[path] = self._digest(wanted, text)
        return text

    def _digest(self, name: str, text: str) -> str:
        """Enter a source under its name, or where another has it, under the name with a number; that name."""
        from hashlib import sha256

        digest, unique, number = sha256(text.encode()).hexdigest(), name, 1
        while self.sources.get(unique, digest) != digest:
            number += 1
            unique = f"{name} ({number})"
        self.sources[unique] = digest
        return unique


def _is_once(text: str, directive: _Directive) -> bool:
    return text[directive.start : directive.end].split()[-1] == "once"


def decode(data: bytes, name: str, kind: str) -> str:
    """The text of a source file: UTF-8; a byte-order mark at its head is no part of it.

    Raises
    ------
    CompileError
        It is not UTF-8, or has a zero byte.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CompileError(
            f"{name}:{line}: the source is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; save the file as UTF-8",
            kind=kind,
        ) from None
    return checked_text(text, name, kind)


def checked_text(text: str, name: str, kind: str) -> str:
    """`text` where it can be stored as UTF-8 and read by compilers; a CompileError where not."""
    bad = re.search("[\0\ud800-\udfff]", text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        what = "a zero character" if bad[0] == "\0" else f"the character {bad[0]!r}, which UTF-8 cannot hold"
        raise CompileError(f"{name}:{line}: the source has {what}", kind=kind)
    return text
