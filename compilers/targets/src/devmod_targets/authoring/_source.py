"""Self-contained source payloads, for every format that a C preprocessor reads.

The receiver of a source payload gets only its text. So the text contains the options, defines and
includes of the build::

    //devmod: -cl-fast-relaxed-math   the options, if there are any
    #define TILE 16                   the defines
    #line 1 "k.cl"                    the start of the source, if a line precedes it
    …                                 the source; the text of a user's file replaces its include,
    #line 1 "tile.h"                  between two #line directives with the name from the include
    …
    #line 8 "k.cl"

The text is not preprocessed: the receiver's compiler evaluates conditions and macros, so a kernel
can be specialized. A source without options, defines and includes is stored byte for byte.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from devmod import Origin
from devmod.errors import CompileError, FormatError, list_names
from devmod_readers.options import OPTIONS_LINE, option_problem, split_options
from devmod_targets._included import UNKNOWN_FILE
from devmod_targets._text import decode_source
from devmod_targets.authoring._macro_includes import MacroIncludes
from devmod_targets.authoring._request import CompileRequest

_DEFINED = re.compile(r"[A-Za-z_]\w*(?:\([\w\s,.]*\))?", re.ASCII)

_MAX_NESTING = 64
_MAX_BYTES = 64 << 20

#: Blanks inside a directive. The pattern of a comment excludes ``*/``, so the outer repetition
#: cannot backtrack over it.
_BLANK = r"(?:[^\S\r\n]|/\*(?:[^*]|\*(?!/))*\*/|\\\r?\n)*"
#: The bound of the last repetition limits its memory, which grows with each word of a long line.
_TOKEN = re.compile(
    r"""(?P<blank>[^\S\r\n]+|\\[^\S\r\n]*\r?\n|//(?:\\\r?\n|[^\r\n])*|/\*.*?(?:\*/|\Z))
    |(?P<line>\r\n|\n|\r)
    |(?P<hash>\#)
    |(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
    |"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'
    |(?:\d[\w.]*+(?:'[\w.]++)*|(?!(?:u8|[uUL])?R")\w++|[^\w\s\#"'/\\]|[^\S\r\n]){1,999}|.""",
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(rf"#{_BLANK}(?P<word>\w+){_BLANK}", re.DOTALL)
#: The words of the branches of a condition after the first, and of its end.
BRANCHES = ("else", "elif", "elifdef", "elifndef", "endif")
#: The file of an include.
INCLUDED = re.compile(r'"(?P<quoted>[^"\r\n]*)"|<(?P<angled>[^>\r\n]*)>')
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: The rest of the line of an include that a macro names, up to a comment with two slashes.
_MACRO = re.compile(r"(?:\\[^\S\r\n]*\r?\n|/\*(?s:.*?)(?:\*/|\Z)|(?!//)[^\r\n])*")

#: The directives whose operand, up to a name or the file of an include, is not program text.
_WITH_OPERAND = (
    *("if", "ifdef", "ifndef", "elif", "else", "endif"),
    *("include", "error", "pragma", "define", "undef", "line"),
)


class SelfContainedSource(NamedTuple):
    """The text of a source payload, and its parts.

    Parameters
    ----------
    text
        The payload.
    options
        Its options, in order.
    defines
        Its defines, name to text.
    sources
        The name of each source file, as in the include, to the SHA-256 of its text.
    names
        The real path of each source file to that name, for diagnostics. Paths are not written to
        the payload.
    files
        The `files` of the payload.
    """

    text: str
    options: tuple[str, ...]
    defines: Mapping[str, str]
    sources: Mapping[str, str]
    names: Mapping[str, str]
    files: Mapping[str, str]

    def origin(self, request: CompileRequest, toolchain: str) -> Origin:
        """Return the origin of a payload of the source."""
        options = (*self.options, *define_options(self.defines))
        return Origin(str(request.target), toolchain, options, self.sources)

    def with_include(self, header: str) -> SelfContainedSource:
        """Return the source with the include of a header before its first line. The line of its
        options stays the first one.
        """
        begin = ""
        rest = self.text
        first_line = 1
        if rest.startswith(OPTIONS_LINE) and "\n" in rest:
            options, rest = rest.split("\n", 1)
            begin = f"{options}\n"
            first_line = 2
        name = next(iter(self.sources))
        include = f"#include <{header}>\n{line_directive(first_line, name)}"
        return self._replace(text=begin + include + rest)

    def with_lines(self, lines: str) -> SelfContainedSource:
        """Return the source with lines at its end, such as `explicit_instances`."""
        if not lines:
            return self
        end = "" if self.text.endswith("\n") else "\n"
        return self._replace(text=self.text + end + lines)


def complete_source(
    request: CompileRequest,
    is_external: Callable[[str], bool] = lambda _: False,
    *,
    dialect: Sequence[str] = (),
) -> SelfContainedSource:
    """Return the source of a request with its options, defines and includes in the text.

    An option ``-DNAME=VALUE`` is a define. A define of the same name in `request.defines` replaces
    it.

    Parameters
    ----------
    request
        The compile request.
    is_external
        Returns whether the receiver's compiler has a header of this name. Such an include in quotes
        stays as it is.
    dialect
        The arguments that give clang's preprocessor the language of the source. It finds the files
        of includes that a macro names. Empty: such includes stay in the text.

    Raises
    ------
    CompileError
        An option names a path, a define is invalid, or an include cannot be embedded.
    """
    try:
        in_source, _ = split_options(request.text)
    except FormatError as error:
        raise request.error(str(error)) from None
    added, defines = options_and_defines(request)
    options = in_source + tuple(added)
    body = request.text
    first_line = 1
    if in_source and (added or defines):
        # The options line must be the first line of the text, so one line replaces the source's
        # own.
        body = body.partition("\n")[2]
        first_line = 2
    head = ""
    if options and (added or defines):
        head = f"{OPTIONS_LINE} {' '.join(options)}\n"
    for name, value in defines.items():
        head += f"#define {name} {value}".rstrip() + "\n"
    if head:
        head += line_directive(first_line, request.name)

    files = Inliner(request, defines, is_external=is_external)
    text = files.inline(body, first_line)
    if files.by_macro and dialect:
        of_macros = (each for each in options if each.startswith(("-D", "-U", "-cl-std=")))
        flags = [*dialect, *of_macros]
        files.taken = MacroIncludes(request, flags, defines, files.by_macro)
        text = files.inline(body, first_line)
    return SelfContainedSource(
        head + text, options, defines, files.sources, files.names, files.files
    )


def define_options(defines: Mapping[str, str | None]) -> list[str]:
    """Return the options of compilers for defines."""
    return [f"-D{name}={value}" for name, value in defines.items()]


def options_and_defines(request: CompileRequest) -> tuple[list[str], dict[str, str]]:
    """Return the options of a request that are not defines, and all its defines, name to text.

    An option ``-DNAME=VALUE`` is a define. A define of the same name in `request.defines` replaces
    it.

    Raises
    ------
    CompileError
        An option names a path, or a define is invalid.
    """
    kind = request.target.kind
    options = []
    defines = {}
    for option in _join_defines(request):
        if option.startswith("-D"):
            name, equals, value = option[2:].strip().partition("=")
            defines[name] = value if equals else "1"
        else:
            problem = option_problem(option)
            if problem:
                raise request.error(f"the {kind} option {option!r} {problem}")
            options.append(option)
    for name, given in request.defines.items():
        defines[name] = "1" if given is None else given
    for name, value in defines.items():
        _check_define(request, name, value)
    return options, defines


def _join_defines(request: CompileRequest) -> Iterator[str]:
    """Yield the options; a separate ``-D`` is joined to the name after it."""
    kind = request.target.kind
    pending = ""
    for option in request.options:
        word = option.strip()
        is_word = " " not in word or option.startswith("-D")
        if not word or not is_word or not option.isprintable():
            raise request.error(
                f"the {kind} option {option!r} is not one printable word; pass each option as a separate item"
            )
        if option == "-D" and not pending:
            pending = option
            continue
        yield pending + word
        pending = ""
    if pending:
        raise request.error(
            f"the {kind} option '-D' has no name after it; write -DNAME or -DNAME=VALUE"
        )


def _check_define(request: CompileRequest, name: str, value: str) -> None:
    if not _DEFINED.fullmatch(name):
        raise request.error(
            f"the define {name!r} is invalid: expected a name, or a name with parameters such as 'F(x)'"
        )
    text = value.replace("\t", " ")
    if not text.isprintable():
        raise request.error(
            f"the value of the define {name} contains a line break or a control character: {value!r}"
        )
    if value.rstrip().endswith("\\") or value.rfind("/*") > value.rfind("*/"):
        raise request.error(
            f"the value of the define {name} ends in a backslash or an open comment, which continues in the next line: {value!r}"
        )


# -- Replace the includes of user files by their text, so that a C preprocessor reads the same
# tokens.
#
# Nothing is evaluated: an include inside a condition is replaced inside that condition. A file with
# an include guard or ``#pragma once`` is embedded once for the text, and once for a branch of a
# condition that the text before it does not cover. Every other include is replaced each time,
# because the receiver's preprocessor evaluates the conditions. ``#pragma once`` has no meaning in a
# single text, so a guard replaces it. The guard's macro is made of the file's digest.


def line_directive(number: int, name: str) -> str:
    """Return the directive that sets the number and the file name of the next line."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {number} "{quoted}"\n'


class UserFiles:
    """The files that a source includes, and where they may be.

    Parameters
    ----------
    request
        The compile request.

    Attributes
    ----------
    sources : dict
        The name of each source file, as in the include, to the SHA-256 of its text.
    names : dict
        The real path of each included file to that name.
    files : dict
        The path of each included file, as it was opened, to the SHA-256 of its text.
    """

    def __init__(self, request: CompileRequest) -> None:
        self.request = request
        self.sources: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.size = len(request.text)
        self._digest(request.name, request.text)

    def find(self, name_in_include: str, folders: Iterable[str], location: str) -> str:
        """Return the path of the first file of a name in some folders; "" if there is none.

        Raises
        ------
        CompileError
            The name is an absolute path, or the file is outside of the caller's folders: a payload
            would publish its text.
        """
        if os.path.isabs(name_in_include):
            raise self.request.error(
                f"{location}: the include of {name_in_include!r} is an absolute path; write a path relative to a folder of include="
            )
        for place in folders:
            path = os.path.join(place, name_in_include)
            if os.path.isfile(path):
                self._check_root(os.path.realpath(path), name_in_include, location)
                return path
        return ""

    def missing(self, name_in_include: str, folders: Iterable[str], location: str) -> CompileError:
        """Return the CompileError for an include whose file is in none of the folders."""
        return self.request.error(
            f"{location}: the include {name_in_include!r} is missing. {include_hint(folders)}"
        )

    def read(self, opened: str, name_in_include: str, location: str) -> str:
        """Return the text of a file, and list the file."""
        path = os.path.realpath(opened)
        try:
            with open(path, "rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise self.request.error(
                f"{location}: the include {name_in_include!r} cannot be read: {error.strerror}"
            ) from error
        self.count(len(data), location)
        text = decode_source(data, name_in_include, self.request.target.kind)
        if path not in self.names:
            self.names[path] = self._digest(name_in_include, text)
        self.files[opened] = self.sources[self.names[path]]
        return text

    def count(self, size: int, location: str) -> None:
        """Raise CompileError if the source with its includes is too large."""
        self.size += size
        if self.size > _MAX_BYTES:
            raise self.request.error(
                f"{location}: the source with its includes exceeds {_MAX_BYTES >> 20} MiB"
            )

    def _check_root(self, path: str, name_in_include: str, location: str) -> None:
        if outside := self.request.outside(path):
            raise self.request.error(
                f"{location}: the include {name_in_include!r} is the file {path!r}, which is {outside}"
            )

    def _digest(self, name: str, text: str) -> str:
        """Add a source's digest under its name and return that name; add a number if another source
        has the name.
        """
        from hashlib import sha256

        digest = sha256(text.encode()).hexdigest()
        unique = name
        number = 1
        while self.sources.get(unique, digest) != digest:
            number += 1
            unique = f"{name} ({number})"
        self.sources[unique] = digest
        return unique


class Inliner(UserFiles):
    """Embed the include files of one request.

    Parameters
    ----------
    request
        The compile request.
    defines
        The defines, whose names an include guard may test.
    directive
        Returns the directive that sets the number and the file of the next line. GLSL's takes no
        file name.
    is_external
        Returns whether the receiver's compiler has a header of this name. Such an include in quotes
        stays as it is.

    Attributes
    ----------
    by_macro : str
        The place of the first include that a macro names, such as "k.cl:3"; "" if there is none.
    taken : MacroIncludes
        The files of includes that a macro names. Others stay in the text: an include of a branch
        that is not compiled here is an error at a receiver that compiles it.
    """

    def __init__(
        self,
        request: CompileRequest,
        defines: Iterable[str],
        directive: Callable[[int, str], str] = line_directive,
        is_external: Callable[[str], bool] = lambda _: False,
    ) -> None:
        super().__init__(request)
        self.directive = directive
        self.is_external = is_external
        self.by_macro = ""
        self.taken: MacroIncludes | None = None
        self.defined = {name.partition("(")[0] for name in defines}
        #: For the text and each condition that is open at this point, the guarded files that are
        #: embedded there. Where the text at this point is compiled, all open conditions are true,
        #: so a second include of such a file has no effect.
        self._embedded: list[set[str]] = [set()]
        self._scanned: dict[str, tuple[str, list[Directive], str, bool]] = {}

    def inline(self, text: str, first_line: int = 1) -> str:
        """Return the source text with its includes replaced."""
        self._embedded = [set()]
        self.size = len(self.request.text)
        directives = scan(text)[0]
        return self._expand(
            text, self.request.name, self.request.folder, (), 0, first_line, directives
        )

    def _expand(
        self,
        text: str,
        name: str,
        folder: str,
        chain: tuple[str, ...],
        outer_depth: int,
        first_line: int,
        directives: list[Directive],
        opening: Directive | None = None,
    ) -> str:
        """Return a text with its includes replaced. `opening` is the condition of its include
        guard.
        """
        parts = []
        position = 0
        shifted = False
        first_condition = len(self._embedded)
        for directive in directives:
            # The last #endif closes no condition of `_embedded`, and is ignored.
            if directive is not opening:
                self._follow_condition(directive.word, first_condition)
            if shifted and directive.next and directive.word in BRANCHES:
                # The preprocessor ignores a #line in a skipped branch, so one follows each branch.
                parts.append(text[position : directive.next])
                parts.append(self.directive(directive.next_line + first_line - 1, name))
                position = directive.next
                shifted = directive.depth > 0
                continue

            depth = outer_depth + directive.depth
            line = directive.line + first_line - 1
            location = f"{name}:{line}"
            place = (chain[-1] if chain else "", line)
            path, name_in_include = self._resolve(text, directive, folder, location, depth, place)
            if not path:
                continue
            inside = self._replacement(path, name_in_include, chain, depth, location)
            head = text[position : directive.start]
            position = directive.end
            if not inside:
                parts.append(head)
                continue

            if head and not head.endswith("\n"):
                head += "\n"
            parts += [head, inside]
            shifted = shifted or directive.depth > 0
            # Comments before and after the include are kept, on a line of the same number.
            number = line + text.count("\n", directive.start, directive.end)
            line_end = text.find("\n", directive.end) + 1 or len(text)
            if not text[directive.end : line_end].strip():
                number += 1
                position = line_end
            parts.append(self.directive(number, name))
        del self._embedded[first_condition:]
        parts.append(text[position:])
        return "".join(parts)

    def _follow_condition(self, word: str, first: int) -> None:
        """Update the open conditions of a file, the first of which has the index `first`."""
        if word in ("if", "ifdef", "ifndef"):
            self._embedded.append(set())
        elif word in BRANCHES and len(self._embedded) > first:
            self._embedded.pop()
            if word != "endif":
                self._embedded.append(set())

    def _replacement(
        self, opened: str, name_in_include: str, chain: tuple[str, ...], depth: int, location: str
    ) -> str:
        """Return the text that replaces an include; "" if the file's guard makes it empty."""
        path = os.path.realpath(opened)
        text, directives, guard, once = self._scan_file(opened, path, name_in_include, location)
        is_guarded = bool(guard or once)
        if is_guarded and (path in chain or any(path in names for names in self._embedded)):
            return ""
        if len(chain) >= _MAX_NESTING or path in chain:
            raise self.request.error(
                f"{location}: the include of {name_in_include!r} never ends: the file includes itself and has no include guard"
            )
        if is_guarded and guard not in self.defined:
            self._embedded[-1].add(path)
        opening = None
        if guard:
            opening = directives[0]
            depth -= 1
        # A compiler looks beside the name of a link, not beside its target.
        text = self._expand(
            text,
            name_in_include,
            os.path.dirname(opened),
            (*chain, path),
            depth,
            1,
            directives,
            opening,
        )
        if not text.endswith("\n"):
            text += "\n"
        if text.endswith("\\\n"):
            # Otherwise a backslash at the end of the file continues into the next #line.
            text += "\n"
        text = self.directive(1, name_in_include) + text
        if once:
            macro = f"DEVMOD_ONCE_{self.sources[self.names[path]][:16]}"
            text = f"#ifndef {macro}\n#define {macro}\n{text}#endif\n"
        return text

    def _scan_file(
        self, opened: str, path: str, name_in_include: str, location: str
    ) -> tuple[str, list[Directive], str, bool]:
        """Return the text of a file without ``#pragma once``, its directives, its guard, and
        whether it has that pragma.
        """
        if path in self._scanned:
            self.count(len(self._scanned[path][0]), location)
            self.files[opened] = self.sources[self.names[path]]
            return self._scanned[path]
        text = self.read(opened, name_in_include, location)
        directives, guarded = scan(text)
        guard = guard_of(text, directives, guarded)
        once = False
        for directive in reversed(directives):
            if directive.word != "pragma" or directive.depth != 0:
                continue
            if text[directive.start : directive.end].split()[-1] == "once":
                once = True
                text = text[: directive.start] + text[directive.end :]
        if once:
            directives, _ = scan(text)
        self._scanned[path] = text, directives, guard, once
        return self._scanned[path]

    def _resolve(
        self,
        text: str,
        directive: Directive,
        folder: str,
        location: str,
        depth: int,
        place: tuple[str, int],
    ) -> tuple[str, str]:
        """Return the path and the name of the included user file; two empty strings for any other
        include.

        `place` has the directive's file and line, as `MacroIncludes.files` takes them.
        """
        if directive.word == "include_next":
            raise self.request.error(
                f"{location}: #include_next is not supported in a source payload; use #include"
            )
        if directive.word != "include":
            return "", ""
        match = INCLUDED.match(text, directive.operand)
        if match is None:
            self.by_macro = self.by_macro or location
            if self.taken is None:
                return "", ""
            operand = text[directive.operand : directive.end].strip()
            return self._resolve_macro(self.taken, operand, place, location)

        in_quotes = match["quoted"] is not None
        name_in_include = match["quoted"] or match["angled"] or ""
        folders = list(self.request.include)
        if in_quotes and folder:
            folders.insert(0, folder)
        if depth and os.path.isabs(name_in_include):
            return "", ""
        path = self.find(name_in_include, folders, location)
        if path:
            return path, name_in_include
        if in_quotes and depth == 0 and not self.is_external(name_in_include):
            raise self.missing(name_in_include, folders, location)
        return "", ""

    def _resolve_macro(
        self, taken: MacroIncludes, operand: str, place: tuple[str, int], location: str
    ) -> tuple[str, str]:
        """Return the path and the name of the user file that a macro names; two empty strings if
        there is none.
        """
        files = taken.files(*place)
        if not files:
            return "", ""
        unsure = taken.unsure_macro(operand)
        if unsure or len(files) > 1:
            values = "its values differ"
            if unsure:
                values = f"the macro {unsure} may have another value where the payload is compiled"
            raise self.request.error(
                f"{location}: a macro names the file of this include, and {values}. It cannot be embedded in the payload; write the name "
                "in quotes, once in each branch"
            )
        path, name = files[0]
        if path:
            self._check_root(os.path.realpath(path), name, location)
            if not taken.is_plain(operand):
                self.files[UNKNOWN_FILE] = ""
            return path, name
        if not self.is_external(name):
            folders = filter(None, (self.request.folder, *self.request.include))
            raise self.request.error(
                f"{location}: the include {name!r}, which a macro names, is missing. {include_hint(folders)}"
            )
        return "", ""


def include_hint(folders: Iterable[str]) -> str:
    """Return the sentences for a missing include: the searched folders, and how to add another."""
    names = list_names(folders)
    searched = f"Searched: {names}"
    if names == "none":
        searched = "No folder was searched: include= is empty"
    return f"{searched}. Add the folder that contains it: include=['FOLDER']"


# -- The preprocessor directives in a C-like text, and the include guard around it.


class Directive:
    """A preprocessor directive in a text.

    Attributes
    ----------
    word : str
        Its name, such as "include".
    start, operand, end : int
        Its first character, that of its operand, and the character after it.
    line : int
        Its line, from 1.
    depth : int
        The number of conditions around it.
    next, next_line : int
        The first character of the line after it, and that line's number.
    """

    __slots__ = ("depth", "end", "line", "next", "next_line", "operand", "start", "word")

    def __init__(self, word: str, start: int, end: int, line: int, depth: int) -> None:
        self.word = word
        self.start = start
        self.operand = end
        self.end = end
        self.line = line
        self.depth = depth
        self.next = 0
        self.next_line = 0


def scan(text: str) -> tuple[list[Directive], bool]:
    """Return the directives of a text, and whether all its other tokens are inside conditions."""
    directives: list[Directive] = []
    at = 0
    line = 1
    depth = 0
    at_line_start = True
    guarded = True
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None
        end = token.end()
        if token["line"]:
            if directives and not directives[-1].next:
                directives[-1].next = end
                directives[-1].next_line = line + 1
            at_line_start = True
        elif token["hash"] and at_line_start and (match := _DIRECTIVE.match(text, at)):
            at_line_start = False
            word = match["word"]
            if word == "endif" and depth > 0:
                depth -= 1
            directive = Directive(word, at, match.end(), line, depth)
            directives.append(directive)
            if word in ("if", "ifdef", "ifndef"):
                depth += 1
            if word in _WITH_OPERAND:
                directive.end = _operand_end(text, word, directive.end)
            end = directive.end
        elif not token["blank"]:
            at_line_start = False
            guarded = guarded and depth > 0
        line += text.count("\n", at, end)
        at = end
    return directives, guarded


def _operand_end(text: str, word: str, at: int) -> int:
    """Return the end of a directive's operand, which begins at a place of the text."""
    if word == "include":
        operand = INCLUDED.match(text, at) or _MACRO.match(text, at)
    else:
        operand = _NAME.match(text, at)
    return at if operand is None else operand.end()


def guard_of(text: str, directives: list[Directive], guarded: bool) -> str:
    """Return the macro of an include guard around the whole text; "" if there is none."""
    if len(directives) < 3 or not guarded:
        return ""
    words = [each.word for each in (*directives[:2], directives[-1])]
    if words != ["ifndef", "define", "endif"]:
        return ""
    for each in directives[1:-1]:
        if each.depth == 0 or (each.depth == 1 and each.word.startswith("el")):
            return ""  # the text has a second condition, or an #else
    tested, defined = (text[each.start : each.end].split()[-1] for each in directives[:2])
    if tested == defined and _NAME.fullmatch(tested):
        return tested
    return ""
