"""Source payloads that read no file of their receiver besides the headers of its compiler.

A payload may come from a stranger, and a C compiler opens the files that its source names: by an
include, ``__has_include``, a pragma, or a directive of inline assembly. `closed_source` evaluates
no condition, and does not look for the ends of comments and strings, which compilers see
differently. It allows a few plain forms, wherever they are. Other forms of an include, a query and
assembly become an error in code that is compiled, and nothing in a comment or in a branch that is
not. It refuses what it cannot replace.
"""

from __future__ import annotations

import re

from devmod.backend import find_spec
from devmod.errors import FormatError
from devmod_readers.options import OPTIONS_LINE, option_problem, split_options

__all__ = ["OPTIONS_LINE", "closed_source", "option_problem", "split_options"]

#: The end of a line that the next line continues. Compilers differ in the blanks that they allow
#: before the line break.
_CONTINUED = r"\\[^!-~\r\n]*(?:\r\n?|\n)"
#: At least what any compiler ignores between the words of a directive.
_GAP = rf"(?>(?:[^!-~\n]++|{_CONTINUED})*)"
_HASH = "(?:#|%:)"
#: A word or an operator in two lines, and trigraphs, which not every compiler replaces.
_SPLIT = re.compile(rf"(?<=[\w#%:/])(?:{_CONTINUED})+(?=[\w#%:*])|\?\?[=/]", re.ASCII)

#: A directive that includes a file, or has a comment after the hash, behind which its name may be;
#: and C++'s import of a header.
_INCLUDE = re.compile(
    rf'{_HASH}{_GAP}(?:(?:include|include_next|import|embed|__include_macros)\b|/\*)|\bimport(?={_GAP}["<])',
    re.ASCII,
)
_FILE = r'[^\S\r\n]*(?:"([\w.+/-]+)"|<([\w.+/-]+)>)'
#: The patterns that few texts need are texts, and compiled at their first use.
_PLAIN_INCLUDE = rf"#[^\S\r\n]*include{_FILE}"
#: A macro of a header may write the underscores before a name.
_QUERIES = tuple(
    f"{start}has_{end}" for start in ("__", "") for end in ("include_next", "include", "embed")
)
_QUERY = re.compile("|".join(_QUERIES))
_PLAIN_QUERY = rf"__has_include[^\S\r\n]*\({_FILE}[^\S\r\n]*\)"
#: What replaces an include, a query, and the keyword of assembly.
_NO_INCLUDE = (
    "#error devmod: a source payload is complete, and does not include a file of its receiver: "
)
_NO_FILE = "devmod_has_no_file"
_NO_ASM = "devmod_has_no_assembly"

#: Blanks and line breaks between tokens.
_SPACE = r"(?>(?:\s++|\\(?=\s*[\r\n]))*)"
#: The words after which a pragma may have the name of a file.
_FILE_PRAGMAS = ("dependency", "include_alias", "pch_preprocess", "module", "comment")
_PRAGMA_STRING = rf'{_SPACE}\({_SPACE}"'
_PRAGMA = re.compile(
    rf"(?:{_HASH}{_GAP}pragma|_Pragma{_PRAGMA_STRING}){_GAP}(?:(?:GCC|clang){_GAP})?({'|'.join(_FILE_PRAGMAS)}|/\*)"
)
#: A pragma whose text other macros may make.
_MADE_PRAGMA = re.compile(rf"_Pragma(?!{_PRAGMA_STRING})|__pragma")

_ASM_WORDS = ("asm", "_asm", "__asm", "__asm__")
#: The spellings of an attribute that gives a symbol any name. A text has none of them, so it cannot
#: remove the macros of these names.
_SYMBOL_WORDS = ("weakref", "__weakref__")
_ASM = re.compile(rf"\b(?:{'|'.join(_ASM_WORDS)}|__volatile__)\b", re.ASCII)
#: Assembly whose whole text is in this place, without numbered characters: no macro adds to it.
_PLAIN_ASM = rf'\w+({_SPACE})((?:__)?volatile(?:__)?\b)?({_SPACE}\({_SPACE}(?>(?:"(?:[^"\\\r\n]++|\\[nrtv"])*"{_SPACE})+))(?=[:)])'
_OTHER_ASM = rf"\w+{_SPACE}(?:[({{]|(?:__)?(?:volatile|inline|goto)(?:__)?\b)"
#: Directives of assemblers that read a file, that make other directives from text, or that tell the
#: linker to read a file.
_DIRECTIVES = (
    "incbin",
    "include",
    "macro",
    "altmacro",
    "rep",
    "rept",
    "irp",
    "irpc",
    "mri",
    "section",
    "pushsection",
)
_BEGINNINGS = "|".join(word[:size] for word in _DIRECTIVES for size in range(1, len(word) + 1))
#: One of them, or its beginning before an operand, an alternative or the end, which may bring the
#: rest.
_DIRECTIVE = rf"\.(?:(?:{'|'.join(_DIRECTIVES)})\b|(?:{_BEGINNINGS})?(?=[%${{|}}]|$))"


def closed_source(kind: str, text: str) -> str:
    """Return the text of a source payload of a kind, for the receiver's compiler.

    An include remains if it has the form ``#include <name>`` or ``#include "name"``, and
    `TargetSpec.headers` allows the name. Any other is an ``#error``, and ``__has_include`` of such
    a file is 0. Inline assembly remains if its text is in plain strings, with the keywords
    ``__asm__`` and ``__volatile__``. The lines keep their numbers. A text without all these is
    unchanged.

    Raises
    ------
    FormatError
        The text names a file in another way, or could.
    """
    spec = find_spec(kind)
    # In Metal, as in C++11, a name with an underscore right behind a quotation mark is in a string,
    # or is the suffix of one. The first line may have options.
    first, _, rest = text.partition("\n")
    word = r'"_\w*|\w+' if kind == "metal" else r"\w+"
    words = {*re.findall(r"\w+", first, re.ASCII), *re.findall(word, rest, re.ASCII)}
    try:
        if spec is None:
            return _closed(text, words, (), assembler=True)
        return _closed(text, words, spec.headers, assembler=spec.assembler)
    except ValueError as problem:
        article = "an" if kind[0] in "aeiou" else "a"
        message = (
            f"{article} {kind} source may not read a file of its receiver, and this one {problem}"
        )
        raise FormatError(message, kind=kind) from None


def _closed(text: str, words: set[str], headers: tuple[str, ...], *, assembler: bool) -> str:
    """Return the result of `closed_source`, from the text and its words. ValueError has the reason
    why the text is refused.
    """
    _check(text, words)
    found = [*_INCLUDE.finditer(text), *_QUERY.finditer(text)]
    if assembler:
        _check_made(words, *_ASM_WORDS[2:])
        found += _ASM.finditer(text)
    pieces: list[str] = []
    defines: dict[str, str] = {}
    has_header = False
    end = 0
    for match in sorted(found, key=re.Match.start):
        if match.start() < end:
            # The keyword __volatile__ of assembly.
            continue
        pieces.append(text[end : match.start()])
        new = match[0]
        end = match.end()
        if match.re is _ASM:
            new, end = _closed_assembly(text, match)
        elif _is_header(text, match, headers):
            has_header = True
        elif match.re is _QUERY:
            new = _NO_FILE
            defines[f"{_NO_FILE}(file)"] = "0"
        else:
            new = _NO_INCLUDE + "\\\n" * len(re.findall(r"\r\n|\n|\r", new))
        pieces.append(new)
    if any(piece.startswith("__asm__") for piece in pieces):
        defines |= _symbol_defines(text, words)
    if assembler:
        # The operator could make one of these keywords, which headers use: without their parts in
        # the text, its headers stay as they are.
        has_operator = "##" in text.replace("%:", "#")
        if has_operator or (has_header and _made(words, *_ASM_WORDS[:2])):
            defines |= dict.fromkeys(
                _ASM_WORDS[:2], '"devmod: the operator ## makes no keyword of assembly"'
            )
    closed = "".join(pieces) + text[end:]
    if not defines:
        return closed
    head = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    return head + "#line 1\n" + closed


def _symbol_defines(text: str, words: set[str]) -> dict[str, str]:
    """Return the macros for a text with inline assembly, with which no name of a symbol can be
    made.
    """
    if "weakref" in text:
        # It gives a symbol any name, which an operand brings into the assembly.
        raise ValueError(
            "has inline assembly and the attribute weakref, which may bring a directive. Leave the attribute out"
        )
    if not _made(words, *_SYMBOL_WORDS):
        return {}
    return dict.fromkeys(_SYMBOL_WORDS, '"devmod: the operator ## makes no name of a symbol"')


def _is_header(text: str, match: re.Match[str], headers: tuple[str, ...]) -> bool:
    """Return whether an include or a query has the plain form, and names a header of the
    compiler.
    """
    pattern = _PLAIN_QUERY if match.re is _QUERY else _PLAIN_INCLUDE
    plain = re.compile(pattern, re.ASCII).match(text, match.start())
    if plain is None:
        return False
    name = plain[1] or plain[2]
    return name.startswith(headers) and not name.startswith("/") and ".." not in name.split("/")


def _check(text: str, words: set[str]) -> None:
    """Raise ValueError if a text could name a file in a way that has no replacement."""
    if _SPLIT.search(text):
        raise ValueError(
            "has a word or an operator in two lines or with a trigraph. Write it in one line, with its own characters"
        )
    if text.startswith(OPTIONS_LINE):
        options, _, _ = text.partition("\n")
        option = re.search(rf"{_QUERY.pattern}|{_ASM.pattern}|_Pragma", options)
        if option:
            raise ValueError(f"has an option with {option[0]}. Leave it out")
    _check_made(words, *_QUERIES, "_Pragma")
    pragma = _PRAGMA.search(text)
    if pragma is None and _MADE_PRAGMA.search(text):
        _check_made(words, *_FILE_PRAGMAS)
        pragma = re.search(rf"\b({'|'.join(_FILE_PRAGMAS)})\b", text)
    if pragma:
        raise ValueError(
            f"has a pragma with the name of a file, or with a comment in its place: {pragma[1]}"
        )


def _check_made(words: set[str], *made: str) -> None:
    """Raise ValueError if a word is the concatenation of two or more words."""
    word = _made(words, *made)
    if word:
        raise ValueError(f"could make {word} with the operator ##. Rename what the operator joins")


def _made(words: set[str], *made: str) -> str:
    """Return the first of several words that is the concatenation of two or more words; "" if none
    is.
    """
    for word in made:
        ends = [0]
        for end in range(1, len(word) + 1):
            if any(word[start:end] in words for start in ends if end - start < len(word)):
                ends.append(end)
        if ends[-1] == len(word):
            return word
    return ""


def _closed_assembly(text: str, match: re.Match[str]) -> tuple[str, int]:
    """Return what replaces a keyword of assembly, with the assembly's text if it is plain, and
    where that ends.
    """
    if match[0] == "__volatile__":
        # A macro of this name could bring text.
        return "volatile", match.end()
    plain = re.compile(_PLAIN_ASM, re.ASCII).match(text, match.start())
    if plain is None or any(pattern.search(plain[3]) for pattern in (_ASM, _INCLUDE, _QUERY)):
        if re.compile(_OTHER_ASM, re.ASCII).match(text, match.start()):
            raise ValueError(
                f'has inline assembly in another form than {match[0]} volatile("text" "text" : ...). Write its text in plain strings there'
            )
        return _NO_ASM, match.end()
    assembly = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', plain[3]))
    part = re.search(_DIRECTIVE, assembly, re.IGNORECASE)
    if part:
        raise ValueError(
            f"has inline assembly with {part[0]!r}, where a directive that reads a file may begin. Use assembly without it"
        )
    keyword = "__volatile__" if plain[2] else ""
    statement = f"__asm__{plain[1]}{keyword}{plain[3]}"
    # One line for the compiler, also at the end of a directive.
    return re.sub(r"(\r\n?|\n)", r" \\\1", re.sub(r"\\(\s)", r"\1", statement)), plain.end()
