"""The text of source files, which is UTF-8 without a zero character, and of devmod's own
headers.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from functools import cache

from devmod.errors import CompileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable


#: Comments of C-like languages, and the strings that may contain what looks like one. An escape
#: outside of them, such as the next one after a quotation mark without an end, begins no string:
#: the search from each of them would take minutes.
_COMMENTS = re.compile(
    r"""(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))|R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\\.""",
    re.DOTALL,
)

#: A directive of the preprocessor with the lines that continue it.
_DIRECTIVE = re.compile(r"(?P<directive>^[ \t]*#(?:\\\r?\n|[^\n])*)|[^\n]", re.MULTILINE)

_BRACKET = re.compile(r"[()\[\]{}<>,;]")
_PAIRS = {")": "(", "]": "[", "}": "{", ">": "<"}

#: A comment or a string of C, GLSL, HLSL and Slang.
COMMENT = r'(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
#: What is no code: comments, strings and ``#line`` directives.
_NO_CODE = re.compile(rf"{COMMENT}|^[ \t]*#[ \t]*line[^\n]*", re.MULTILINE)
_LINE = re.compile(r'#line (\d+) "(.*)"')


def decode_source(data: bytes, name: str, kind: str) -> str:
    """Return the text of a source file in UTF-8, without a byte-order mark. Other bytes in comments
    are read as Latin-1.

    Raises
    ------
    CompileError
        The file is not UTF-8 outside of its comments, or has a zero byte.
    """
    text = data.removeprefix(BOM_UTF8).decode(errors="surrogateescape")
    if not is_utf8(text):
        text = _COMMENTS.sub(_with_latin_1, text)
        bad = re.search("[\udc80-\udcff]", text)
        if bad:
            line = text.count("\n", 0, bad.start()) + 1
            byte = ord(bad[0]) - 0xDC00
            raise CompileError(
                f"{name}:{line}: the source is not UTF-8: byte 0x{byte:02x} outside of a comment; save the file as UTF-8",
                kind=kind,
            )
    return check_source_text(text, name, kind)


def _with_latin_1(match: re.Match[str]) -> str:
    """Return a comment with its bytes that are not UTF-8 as Latin-1; another match as it is."""
    if not match["comment"]:
        return match[0]
    return re.sub("[\udc80-\udcff]", lambda byte: chr(ord(byte[0]) - 0xDC00), match[0])


def check_source_text(text: str, name: str, kind: str) -> str:
    """Return `text`. Raise CompileError if UTF-8 cannot encode it, or if it has a zero
    character.
    """
    bad = re.search("[\0\ud800-\udfff]", text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        character = f"the character {bad[0]!r}, which UTF-8 cannot encode"
        if bad[0] == "\0":
            character = "a zero character"
        raise CompileError(f"{name}:{line}: the source has {character}", kind=kind)
    return text


def is_utf8(path: str) -> bool:
    """Return whether a path can be written as UTF-8. Python has surrogates for the other bytes of a
    path.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def blank_code(text: str) -> str:
    """Return a part of a C-like source as blanks. Its directives and its line ends stay: the rest
    of the source may need them.
    """
    text = _COMMENTS.sub(_without_comment, text)
    return _DIRECTIVE.sub(lambda match: match["directive"] or " ", text)


def _without_comment(match: re.Match[str]) -> str:
    """Return a comment as blanks and line ends; another match as it is."""
    if not match["comment"]:
        return match[0]
    return re.sub(r"[^\n]", " ", match[0])


def split_arguments(text: str, start: int = 0) -> list[str] | None:
    """Return the texts between commas, from a position up to the parenthesis that closes; None if
    the brackets do not match.
    """
    pieces = []
    open_brackets: list[str] = []
    for mark in _BRACKET.finditer(text, start):
        bracket = mark[0]
        if not open_brackets and bracket in ",)":
            pieces.append(text[start : mark.start()].strip())
            start = mark.end()
            if bracket == ")":
                return pieces if any(pieces) else []
        elif bracket in "([{<":
            open_brackets.append(bracket)
        elif bracket != "," and (not open_brackets or open_brackets.pop() != _PAIRS.get(bracket)):
            return None
    return None


@cache
def header_text(package: str, name: str) -> str:
    """Return the text of a file of a package, such as "headers/begin.h". The package may be in a
    zip file.

    It imports less than `header_files`, for the compile of a small source.
    """
    from pkgutil import get_data

    data = get_data(package, name)
    assert data is not None
    return data.decode()


@cache
def header_files(package: str, folder: str = "headers") -> dict[str, str]:
    """Return the text of each file in a folder of a package, which may be in a zip file, by its
    name in an include.
    """
    from importlib.resources import files

    def read(place: Traversable, start: str) -> Iterator[tuple[str, str]]:
        for each in place.iterdir():
            if each.is_dir():
                yield from read(each, f"{start}{each.name}/")
            else:
                yield start + each.name, each.read_text(encoding="utf-8")

    return dict(sorted(read(files(package) / folder, "")))


def define_lines(defines: Mapping[str, str | None]) -> str:
    """Return the directives of defines."""
    return "".join(f"#define {name} {value}\n" for name, value in defines.items())


def blank_comments(text: str) -> str:
    """Return code with spaces in place of its comments and ``#line`` directives."""
    return _NO_CODE.sub(lambda each: re.sub(r"[^\n]", " ", each[0]), text)


def find_code(pattern: str, text: str, name: str) -> tuple[str, str]:
    """Return the file and the line of the first match of a pattern in code, by the ``#line``
    directives, and the match.

    Without a match, the result is `name`, the file in which the text starts, and "".
    """
    found = re.search(pattern, blank_comments(text))
    if not found:
        return name, ""
    return place_of(found.start(), text, name), found[0]


def place_of(position: int, text: str, name: str) -> str:
    """Return the file and the line of a position by the ``#line`` directives. The text starts in
    the file `name`.
    """
    start = 0
    line = 1
    for each in _NO_CODE.finditer(text, 0, position):
        directive = _LINE.fullmatch(each[0])
        if directive:
            start = each.end() + 1
            line = int(directive[1])
            name = directive[2]
    line += text.count("\n", start, position)
    return f"{name}:{line}"


def print_place(name: str, text: str) -> tuple[str, str]:
    """Return the file and the line of the first print of a source, and its function; the file alone
    if an include has the print.
    """
    code = re.sub(COMMENT, lambda match: "\n" * match[0].count("\n"), text)
    found = re.search(r"\b(?:debugPrintfEXT|printf)\b", code)
    if found is None:
        return name, "printf"
    line = code.count("\n", 0, found.start()) + 1
    return f"{name}:{line}", found[0]


def dropped_print(name: str, text: str, spirv: bytes) -> str:
    """Return the warning about a print of a shader, with its line; "" if the SPIR-V prints
    nothing.
    """
    if b"NonSemantic.DebugPrintf" not in spirv:
        return ""
    place, what = print_place(name, text)
    return (
        f"{place}: warning: {what} prints nothing without Vulkan's validation layers. Enable their printing "
        "(docs/vulkan.md), or write the values to an array"
    )
