"""The preprocessor of WGSL sources: includes, conditions and macros. docs/webgpu.md has the
dialect.

WGSL has none, so the payload has the result. A line keeps its number, and a `line_marker` precedes
a line that moved.

A text between two directives is expanded at once. Most of them name no macro, and are copied. The
macros follow the rules of C: the arguments of a call are expanded, then the result is read again
together with the text after it, and a macro is not expanded within its own expansion. The tokens
that are read again are bounded, because nested macros can double a text in each line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from devmod.errors import CompileError
from devmod_targets._included import import_names
from devmod_targets.authoring import CompileRequest
from devmod_targets.authoring._source import SelfContainedSource, UserFiles
from devmod_targets.webgpu._conditions import evaluate
from devmod_wgsl import LINE_BREAKS, NAME, end_of_comment, line_marker

#: The limits on the files that are included within each other, on all includes, and on the nested
#: calls of macros in arguments.
_MAX_NESTING = 64
_MAX_INCLUDES = 10_000
#: The limit on the characters of all expansions. An empty token counts as one.
_MAX_EXPANDED = 1 << 20
#: The limit on the characters of the whole text: a marker may be longer than its line.
_MAX_SIZE = 64 << 20
#: The limit on the characters of a directive in a message.
_MAX_SHOWN = 80
#: The lines without text that are written as such. A marker replaces more.
_MAX_EMPTY = 8

#: What ends a text that is copied, or may hide such an end.
_STOP = re.compile(rf"//[^{LINE_BREAKS}]*|/\*|(?<![^{LINE_BREAKS}])[ \t]*\#")
_BREAK = re.compile(rf"\r\n|[{LINE_BREAKS}]")
_DIRECTIVE = re.compile(r"[ \t]*(\w*)")
_WORD = re.compile(NAME)
_NUMBER = r"0[xX][\w.]*(?:(?<=[pP])[+-]\w*)?|\.?\d(?:(?<=[eE])[+-]|[\w.])*"
_TOKEN = re.compile(
    rf"//[^{LINE_BREAKS}]*|/\*|{NAME}|{_NUMBER}|\r\n|[{LINE_BREAKS}]|[^\S{LINE_BREAKS}]+|\\[ \t]*(?:\r\n|[{LINE_BREAKS}])"
    r"|[(),/\\\#.]|[^\w\s(),/\\\#.]+"
)
_FILE = re.compile(rf'[ \t]*(?:"([^"{LINE_BREAKS}]+)"|<([^>{LINE_BREAKS}]+)>)')
_IMPORTED = re.compile(r"[ \t]*([A-Za-z_]\w*)(?![\w:])", re.ASCII)
#: The first characters of tokens with line breaks.
_MULTILINE = f"/\\{LINE_BREAKS}"
#: Two of them in a row may be another operator, or begin a comment.
_OPERATORS = frozenset("+-*/&|<>=!%^")

_SUPPORTED = "#define, #undef, #if, #ifdef, #ifndef, #elif, #else, #endif, #include, #import, #pragma once and #error"
#: What to do with the modules of naga_oil.
_NAGA_OIL = "Compose the shader with naga_oil, and compile the WGSL that naga writes"
#: The directives of other preprocessors.
_OTHERS = {
    "define_import_path": f"it declares a module of naga_oil. {_NAGA_OIL}",
    "elifdef": "write #elif defined(NAME)",
    "elifndef": "write #elif !defined(NAME)",
}


def preprocess(request: CompileRequest, defines: Mapping[str, str]) -> SelfContainedSource:
    """Return the text of a request without its directives. A text that has none, and names no
    define, is unchanged.

    Parameters
    ----------
    request
        The compile request.
    defines
        Its defines, name to text; the name of a macro with parameters has them: ``"F(x)"``.

    Raises
    ------
    CompileError
        A directive is wrong, an include is missing, or a macro cannot be expanded. The message has
        the file and the line.
    """
    preprocessor = _Preprocessor(request)
    for name, value in defines.items():
        preprocessor.define([*_tokens(f"{name} {value}")])
    preprocessor.fix_macros()
    preprocessor.add_file(request.text, request.name, os.path.join(request.folder, request.name), 0)
    files = preprocessor.files
    return SelfContainedSource(
        preprocessor.text(), (), defines, files.sources, files.names, files.files
    )


class _Macro(NamedTuple):
    """A macro. `parameters` is None for one without parentheses."""

    name: str
    parameters: tuple[str, ...] | None
    body: list[str]


class _Condition:
    """An ``#if`` that is open. `live` is whether its current branch is compiled, `taken` whether
    one has been or none may be.
    """

    def __init__(self, line: int, *, live: bool, taken: bool) -> None:
        self.line = line
        self.live = live
        self.taken = taken
        self.has_else = False


class _End(NamedTuple):
    """The end of the expansion of a macro, among the tokens that are read again."""

    name: str


#: What is read again, the next token last.
_Pending = list[str | _End]


class _Final(str):
    """The name of a macro inside its own expansion, which is never expanded."""

    __slots__ = ()


# Where to change: a directive of WGSL's preprocessor
#   also: `docs/webgpu.md`; `compilers/targets/src/devmod_targets/_included.py`, if it names a file
#   tests: `tests/test_two_places.py`, `compilers/targets/tests/test_wgsl_preprocessor.py`
class _Preprocessor:
    """The state of one source: its macros, and the text so far."""

    def __init__(self, request: CompileRequest) -> None:
        self.files = UserFiles(request)
        self._request = request
        self._macros: dict[str, _Macro] = {}
        #: The macros of the caller, which the source does not change.
        self._fixed: frozenset[str] = frozenset()
        #: The macros whose expansion is being read.
        self._active: set[str] = set()
        #: The real paths of the files with ``#pragma once``.
        self._once: set[str] = set()
        self._pieces: list[str] = []
        #: The file and the line of what would be written next.
        self._next = (request.name, 1)
        self._is_changed = False
        self._includes = self._expanded = self._nesting = self._size = 0
        #: The current file and line, for messages; line 0 is that of the defines.
        self._name = request.name
        self._line = 0

    def fix_macros(self) -> None:
        """Keep the macros that are defined now: later directives do not change them."""
        self._fixed = frozenset(self._macros)

    def text(self) -> str:
        """Return the whole text."""
        if not self._is_changed:
            return self._request.text
        return "".join(self._pieces)

    def add_file(self, text: str, name: str, path: str, depth: int) -> None:
        """Add the text of a file, which is included by a name."""
        conditions: list[_Condition] = []
        self._name = name
        self._line = 1
        at = 0
        while True:
            end, after = self._find_directive(text, at)
            if end > at:
                if _is_live(conditions):
                    self._add_text(text[at:end])
                else:
                    self._line += _breaks(text[at:end])
            if end == len(text):
                break
            word = _DIRECTIVE.match(text, after)
            assert word is not None
            tokens, at = self._directive_tokens(text, word.end())
            lines = 1 + sum(map(_breaks, tokens))
            self._is_changed = True
            line = self._line
            if not self._follow_condition(word[1], tokens, conditions) and _is_live(conditions):
                if word[1] in ("include", "import"):
                    self._include(word[1], text, word.end(), os.path.dirname(path), depth, tokens)
                    self._name = name
                elif word[1] == "pragma" and _plain(tokens) == "once":
                    self._once.add(os.path.realpath(path))
                else:
                    self._apply(word[1], tokens)
            self._line = line + lines
        if conditions:
            self._line = conditions[-1].line
            raise self._error("this condition has no #endif")

    def _error(self, problem: str) -> CompileError:
        return self._request.error(f"{self._location}: {problem}")

    @property
    def _location(self) -> str:
        if not self._line:
            return "defines="
        return f"{self._name}:{self._line}"

    def _find_directive(self, text: str, at: int) -> tuple[int, int]:
        """Return the start of the line of the next directive, and the position after its ``#``; the
        end of the text without one.
        """
        start = at
        while match := _STOP.search(text, at):
            if match[0].endswith("#") and not match[0].startswith("//"):
                return match.start(), match.end()
            at = match.end()
            if match[0] == "/*":
                at = end_of_comment(text, match.start())
                if not at:
                    self._line += _breaks(text[start : match.start()])
                    raise self._error("this comment has no end; expected '*/'")
        return len(text), len(text)

    def _directive_tokens(self, text: str, at: int) -> tuple[list[str], int]:
        """Return the tokens of a directive after its name, and the position after its line."""
        tokens = []
        while at < len(text):
            part = _token(text, at)
            if not part:
                raise self._error("this comment has no end; expected '*/'")
            at += len(part)
            if part[0] in LINE_BREAKS:
                break
            tokens.append(part)
        return tokens, at

    # -- directives

    def _follow_condition(self, word: str, tokens: list[str], conditions: list[_Condition]) -> bool:
        """Apply the directive of a condition. Return False for another directive."""
        if word in ("if", "ifdef", "ifndef"):
            if conditions and not conditions[-1].live:
                conditions.append(_Condition(self._line, live=False, taken=True))
                return True
            if word == "if":
                is_true = self._is_true(tokens)
            else:
                is_defined = self._only_name(word, tokens) in self._macros
                is_true = is_defined == (word == "ifdef")
            conditions.append(_Condition(self._line, live=is_true, taken=is_true))
        elif word in ("elif", "else", "endif"):
            if not conditions:
                raise self._error(f"#{word} without #if")
            self._follow_branch(word, tokens, conditions[-1])
            if word == "endif":
                conditions.pop()
        else:
            return False
        return True

    def _follow_branch(self, word: str, tokens: list[str], condition: _Condition) -> None:
        """Apply ``#elif``, ``#else`` or ``#endif`` of an open condition."""
        if word != "endif" and condition.has_else:
            raise self._error(f"#{word} after the #else of the #if in line {condition.line}")
        if word == "elif":
            condition.live = not condition.taken and self._is_true(tokens)
        else:
            if not all(map(_is_blank, tokens)):
                hint = ""
                if word == "else":
                    hint = "; a further condition is #elif"
                raise self._error(f"expected the end of the line after #{word}{hint}")
            condition.live = not condition.taken
            condition.has_else = True
        if condition.live:
            condition.taken = True

    def _apply(self, word: str, tokens: list[str]) -> None:
        """Apply a directive other than an include in a branch that is compiled."""
        if word == "define":
            self.define(tokens)
        elif word == "undef":
            name = self._only_name(word, tokens)
            if name not in self._fixed:
                self._macros.pop(name, None)
        elif word == "error":
            raise self._error(f"#error {_plain(tokens)[:_MAX_SHOWN]}".rstrip())
        elif word in _OTHERS:
            raise self._error(f"the directive #{word} is not supported: {_OTHERS[word]}")
        else:
            raise self._error(
                f"the directive '#{word}' is not supported. The directives are {_SUPPORTED}"
            )

    def _only_name(self, word: str, tokens: list[str]) -> str:
        names = [part for part in tokens if not _is_blank(part)]
        if len(names) != 1 or not _WORD.fullmatch(names[0]):
            raise self._error(f"expected one name after #{word}")
        return names[0]

    def _is_true(self, tokens: list[str]) -> bool:
        """Return whether the condition of an ``#if`` is true."""
        known = []
        pending = [part for part in reversed(tokens) if not _is_blank(part)]
        while pending:
            part = pending.pop()
            if part == "defined":
                name = ""
                if pending:
                    name = pending.pop()
                if name == "(" and len(pending) > 1 and pending[-2] == ")":
                    name = pending.pop()
                    pending.pop()
                if not _WORD.fullmatch(name):
                    raise self._error("expected a name after 'defined', as in defined(NAME)")
                part = "1" if name in self._macros else "0"
            known.append(part)
        try:
            return evaluate(" ".join(self._expand(iter(known)))) != 0
        except ValueError as error:
            raise self._error(
                f"the condition {_plain(tokens)[:_MAX_SHOWN]!r} is invalid: {error}"
            ) from None

    def define(self, tokens: Sequence[str]) -> None:
        """Define a macro by the tokens after ``#define``."""
        tokens = _trimmed([_blank_for(part) for part in tokens])
        name = next(iter(tokens), "")
        if not _WORD.fullmatch(name) or name == "defined":
            raise self._error(f"expected the name of a macro after #define, got {name!r}")
        parameters = None
        start = 1
        if tokens[1:2] == ["("]:
            if ")" not in tokens:
                raise self._error(f"the parameters of the macro {name} have no ')'")
            start = tokens.index(")") + 1
            parameters = self._parameters(name, "".join(tokens[2 : start - 1]).strip())
        elif len(tokens) > 1 and tokens[1] != " ":
            raise self._error(
                f"expected a blank after the name of the macro {name}, got {tokens[1]!r}"
            )
        body = _trimmed(tokens[start:])
        if "#" in body:
            raise self._error(
                f"the macro {name} has '#' in its value: the operators # and ## are not supported"
            )
        if name in self._fixed:
            return  # the caller's value replaces the default in the source
        self._macros[name] = _Macro(name, parameters, body)

    def _parameters(self, name: str, listed: str) -> tuple[str, ...]:
        """Return the parameters of a macro, from the text in its parentheses."""
        if not listed:
            return ()
        parameters = tuple(each.strip() for each in listed.split(","))
        if not all(map(_WORD.fullmatch, parameters)) or len(set(parameters)) < len(parameters):
            raise self._error(
                f"the parameters of the macro {name} are not different names: {listed!r}"
            )
        return parameters

    def _include(
        self, word: str, text: str, at: int, folder: str, depth: int, tokens: list[str]
    ) -> None:
        """Add the file of an include, whose word ends at a position of a text."""
        pattern = _FILE
        if word == "import":
            pattern = _IMPORTED
        match = pattern.match(text, at)
        if match is None or not all(map(_is_blank, self._directive_tokens(text, match.end())[0])):
            expected = "a name in quotes or in angle brackets"
            if word == "import":
                expected = f"the name of a file, as in '#import name'. Modules of naga_oil, as in bevy, are not supported. {_NAGA_OIL}"
            raise self._error(f"#{word} {_plain(tokens)[:_MAX_SHOWN]}: expected {expected}")

        # A name in angle brackets is not looked for beside the file.
        folders = list(self._request.include)
        if folder and match[1] is not None:
            folders.insert(0, folder)
        if word == "import":
            names = [name.decode() for name in import_names(match[1].encode())]
        else:
            names = [match[1] or match[2]]
        name, path = self._find(names, folders)
        if os.path.realpath(path) in self._once:
            return
        self._includes += 1
        limit = ""
        if depth == _MAX_NESTING:
            limit = f"nested more than {_MAX_NESTING} deep"
        elif self._includes > _MAX_INCLUDES:
            limit = f"more than {_MAX_INCLUDES}"
        if limit:
            raise self._error(
                f"the includes are {limit}, here by {name!r}. A file that may include itself needs a guard: #ifndef NAME"
            )
        # A file looks beside the name of a link, not beside its target.
        self.add_file(self.files.read(path, name, self._location), name, path, depth + 1)

    def _find(self, names: Sequence[str], folders: Sequence[str]) -> tuple[str, str]:
        """Return the first name that a file has, and its path. Raise CompileError without one."""
        for name in names:
            path = self.files.find(name, folders, self._location)
            if path:
                return name, path
        raise self.files.missing(names[0], folders, self._location)

    # -- text

    def _add_text(self, text: str) -> None:
        """Add a text without directives, with its macros expanded."""
        start = self._line
        lines = _breaks(text)
        if not self._macros.keys().isdisjoint(_WORD.findall(text)):
            text = _joined(self._expand(self._counted(text)))
            self._is_changed = True
        self._line = start + lines
        if not text or text.isspace():
            return
        name, line = self._next
        if name == self._name and line <= start <= line + _MAX_EMPTY:
            gap = "\n" * (start - line)
        else:
            gap = line_marker(start, self._name)
        self._pieces += [gap, text]
        self._size += len(gap) + len(text)
        if self._size > _MAX_SIZE:
            raise self._error(f"the source with its includes exceeds {_MAX_SIZE >> 20} MiB")
        self._next = self._name, self._line
        if text[-1] not in LINE_BREAKS:  # the end of a file
            self._pieces.append("\n")
            self._next = self._name, self._line + 1

    def _counted(self, text: str) -> Iterator[str]:
        """Yield the tokens of a text, and count its lines."""
        for part in _tokens(text):
            yield part
            if part[0] in _MULTILINE:
                self._line += _breaks(part)

    # -- macros

    def _expand(self, tokens: Iterator[str], argument: Sequence[str] = ()) -> list[str]:
        """Return the tokens of an argument, or others, with their macros expanded. An expansion
        starts and ends with an empty token.
        """
        result = []
        pending: _Pending = [*reversed(argument)]  # what is read again, the next token last
        while (part := self._read(tokens, pending)) is not None:
            macro = self._macros.get(part)
            if macro is None or isinstance(part, _Final):
                result.append(part)
            elif macro.name in self._active:
                result.append(_Final(part))
            elif macro.parameters is None:
                self._push(pending, macro, macro.body)
            else:
                self._call(macro, tokens, pending, result)
        return result

    def _read(self, tokens: Iterator[str], pending: _Pending) -> str | None:
        """Return the next token; None at the end."""
        while pending:
            part = pending.pop()
            if isinstance(part, str):
                self._count(part)
                return part
            self._active.discard(part.name)
        return next(tokens, None)

    def _count(self, part: str) -> None:
        """Raise CompileError if the macros have expanded to too much text."""
        self._expanded += len(part) or 1
        if self._expanded > _MAX_EXPANDED:
            raise self._error(
                f"the macros of the source expand to more than {_MAX_EXPANDED >> 20} MiB"
            )

    def _push(self, pending: _Pending, macro: _Macro, body: Sequence[str]) -> None:
        self._active.add(macro.name)
        pending += ["", _End(macro.name), *reversed(body), ""]

    def _call(
        self, macro: _Macro, tokens: Iterator[str], pending: _Pending, result: list[str]
    ) -> None:
        """Expand the call of a macro with parameters, or add its name alone if there is no call."""
        line = self._line
        blanks = []
        while (part := self._read(tokens, pending)) is not None and _is_blank(part):
            blanks.append(part)
        if part != "(":
            if part is not None:
                pending.append(part)
            pending += reversed(blanks)
            result.append(macro.name)
            return
        breaks: list[str] = []
        for blank in blanks:
            breaks += _BREAK.findall(blank)
        arguments = self._arguments(macro, tokens, pending, line, breaks)
        assert macro.parameters is not None
        if not macro.parameters and len(arguments) == 1 and not any(arguments[0]):
            arguments = []
        if len(arguments) != len(macro.parameters):
            self._line = line
            raise self._count_error(macro.name, len(macro.parameters), len(arguments))
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            self._line = line
            raise self._error(
                f"the calls of macros are nested more than {_MAX_NESTING} deep, here by {macro.name}"
            )
        used = frozenset(macro.body)
        values = {}
        for name, argument in zip(macro.parameters, arguments, strict=True):
            if name in used:
                values[name] = ["", *self._expand(iter(()), argument), ""]
        self._nesting -= 1
        body: list[str] = []
        for part in macro.body:
            body += values.get(part, (part,))
            if len(body) > _MAX_EXPANDED:
                break  # reading them fails
        pending += breaks  # the lines of the call, after its result
        self._push(pending, macro, body)

    def _count_error(self, name: str, expected: int, count: int) -> CompileError:
        noun = "arguments"
        if expected == 1:
            noun = "argument"
        return self._error(f"the macro {name} takes {expected} {noun}, and this call has {count}")

    def _arguments(
        self,
        macro: _Macro,
        tokens: Iterator[str],
        pending: _Pending,
        line: int,
        breaks: list[str],
    ) -> list[list[str]]:
        """Return the arguments of a call, and add the line breaks in them to `breaks`."""
        arguments: list[list[str]] = [[]]
        depth = 1
        while (part := self._read(tokens, pending)) is not None:
            if part == "(":
                depth += 1
            elif part == ")":
                depth -= 1
                if not depth:
                    return [_trimmed(each) for each in arguments]
            if part == "," and depth == 1:
                arguments.append([])
            elif _is_blank(part):
                breaks += _BREAK.findall(part)
                arguments[-1].append(_blank_for(part))
            else:
                arguments[-1].append(part)
        self._line = line
        raise self._error(
            f"the call of the macro {macro.name} has no ')' before the next directive or the end of the file"
        )


# -- tokens


def _token(text: str, at: int) -> str:
    """Return the token at a position; "" for a comment without an end."""
    match = _TOKEN.match(text, at)
    assert match is not None
    if match[0] != "/*":
        return match[0]
    return text[at : max(end_of_comment(text, at), at)]


def _tokens(text: str) -> Iterator[str]:
    """Yield the tokens of a text. A comment without an end is one token."""
    at = 0
    while at < len(text):
        part = _token(text, at) or text[at:]
        yield part
        at += len(part)


def _is_blank(part: str) -> bool:
    if not part or part.isspace() or part.startswith(("//", "/*")):
        return True
    return part[0] == "\\" and len(part) > 1


def _is_live(conditions: Sequence[_Condition]) -> bool:
    """Return whether the text inside of these conditions is compiled: the last one decides."""
    return not conditions or conditions[-1].live


def _blank_for(part: str) -> str:
    """Return a token of the value of a macro or of an argument: one blank for blanks and
    comments.
    """
    if part and _is_blank(part):
        return " "
    return part


def _trimmed(tokens: list[str]) -> list[str]:
    """Return tokens without the blanks at both ends, and with one blank for several."""
    result: list[str] = []
    for part in tokens:
        # Not before the first token, and not twice.
        if part == " " and (not result or result[-1] == " "):
            continue
        result.append(part)
    if result and result[-1] == " ":
        result.pop()
    return result


def _breaks(text: str) -> int:
    return len(_BREAK.findall(text))


def _plain(tokens: list[str]) -> str:
    return "".join(map(_blank_for, tokens)).strip()


def _joined(tokens: list[str]) -> str:
    """Return the text of tokens, with a blank where two of different origin would be one."""
    result: list[str] = []
    is_edge = False
    for part in tokens:
        if not part:
            is_edge = True
            continue
        if is_edge and result and _would_join(result[-1][-1], part[0]):
            result.append(" ")
        is_edge = False
        result.append(part)
    return "".join(result)


def _would_join(last: str, first: str) -> bool:
    """Return whether two characters may be in one token, or begin a comment."""
    if first == "." or last == ".":
        return last.isdigit() or first.isdigit()
    return (_is_word(last) and _is_word(first)) or (last in _OPERATORS and first in _OPERATORS)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
