"""Source payloads that read no file of their receiver besides the headers of its compiler.

A payload may come from a stranger, and a C compiler opens the files that its source names: by an include, ``__has_include``, a pragma,
or a directive of inline assembly. `closed_source` evaluates no condition. It writes ``#error`` in the place of an include, which is an
error in a branch that is compiled, and nothing in another. It refuses what it cannot replace.

The patterns match at least what any compiler reads: with spaces of all kinds, continued lines, digraphs and trigraphs, and also in comments
and strings. So they need not know where a comment ends, which compilers see differently.
"""

from __future__ import annotations

import re

from devmod._formats.source_options import OPTIONS_LINE
from devmod._plugins.specs import find_spec
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

#: The end of a line that the next line continues. Some compilers allow blanks before the line break, and trigraphs.
_CONTINUED = r"(?:(?:\\|\?\?/)[^\S\r\n]*(?:\r\n|\n|\r))"


def _continued(word: str) -> str:
    """Return a pattern of a word that may be written in several lines."""
    return f"{_CONTINUED}*".join(map(re.escape, word))


_HASH = rf"(?:\#|{_continued('%:')}|{_continued('??=')})"
_WORDS = "|".join(map(_continued, ("include", "include_next", "import", "embed", "__include_macros")))
#: A directive that includes a file, or has a comment after the hash, behind which its name may be.
_INCLUDE = re.compile(rf"{_HASH}(?:[^\S\n]|{_CONTINUED})*(?:(?:{_WORDS})(?!\w)|{_continued('/*')})")
_FILE = r'[^\S\r\n]*(?:"([\w.+/-]+)"|<([\w.+/-]+)>)'
_PLAIN_INCLUDE = re.compile(rf"#[^\S\r\n]*include{_FILE}", re.ASCII)
_QUERIES = ("__has_include_next", "__has_include", "__has_embed")
_QUERY = re.compile("|".join(map(_continued, _QUERIES)))
_PLAIN_QUERY = re.compile(rf"__has_include[^\S\r\n]*\({_FILE}[^\S\r\n]*\)", re.ASCII)
#: What replaces an include and a query.
_NO_INCLUDE = "#error devmod: a source payload is complete, and does not include a file of its receiver: "
_NO_FILE = "devmod_has_no_file"
#: Pragmas with the name of a file.
_PRAGMA = re.compile(r"\b(dependency[^\w\n]*[\"<]|include_alias|pch_preprocess|clang\s+module)")

_ASM = ("asm", "_asm", "__asm", "__asm__")
_ASM_WORD = re.compile(rf"\b(?:{'|'.join(_ASM)})\b")
#: Directives of assemblers that read a file, that make other directives from text, or that tell the linker to read a file.
_DIRECTIVES = ("incbin", "include", "macro", "altmacro", "rep", "rept", "irp", "irpc", "mri", "section", "pushsection")
_DIRECTIVE = re.compile(rf"\.(?:{'|'.join(_DIRECTIVES)})\b", re.IGNORECASE)
#: The beginning of one, before the end of a string, an operand or an alternative, which may bring the rest.
_BEGINNINGS = sorted({f".{word}"[:size] for word in _DIRECTIVES for size in range(1, len(word) + 1)}, reverse=True)
_BEGINNING = re.compile(rf'(?:{"|".join(map(re.escape, _BEGINNINGS))})(?=[%${{|}}"])', re.IGNORECASE)
#: An escape other than those of control characters and quotes, which stand for no letter.
_ESCAPE = re.compile(r"""'\\[0-9xA-Fa-f]+'|\\(?:[abfnrtv\\'"?]|(.))""")
_STRINGIZED = re.compile(r"(?:#|%:|\?\?=)\s*[A-Za-z_/]")
#: A character of ASCII by its number.
_NUMBERED = re.compile(r"\\(?:u00[0-7]|U000000[0-7]|[uxo]\{|N\{)")


def closed_source(kind: str, text: str) -> str:
    """Return the text of a source payload of a kind, for the receiver's compiler.

    An include remains if it has the form ``#include <name>`` or ``#include "name"``, and `TargetSpec.headers` allows the name. Any other
    is an ``#error``, and ``__has_include`` of such a file is 0. The lines keep their numbers. A text without such an include is unchanged.

    Raises
    ------
    FormatError
        The text names a file in another way, or could.
    """
    spec = find_spec(kind)
    headers, assembler = (spec.headers, spec.assembler) if spec is not None else ((), True)
    joined = re.sub(_CONTINUED, "", text)
    pastes = any(operator in joined for operator in ("##", "%:%:", "??=??="))
    has_assembly = assembler and _ASM_WORD.search(joined) is not None
    problem = _problem(joined, pastes) or (_assembly_problem(joined) if has_assembly else "")
    if problem:
        article = "an" if kind[0] in "aeiou" else "a"
        raise FormatError(f"{article} {kind} source may not read a file of its receiver, and this one {problem}", kind=kind)
    pieces, end = [], 0
    defines = {}
    for match in sorted([*_INCLUDE.finditer(text), *_QUERY.finditer(text)], key=re.Match.start):
        is_query = match.re is _QUERY
        plain = (_PLAIN_QUERY if is_query else _PLAIN_INCLUDE).match(text, match.start())
        if plain is None or not _is_header(plain[1] or plain[2], headers):
            breaks = len(re.findall(r"\r\n|\n|\r", match[0]))
            pieces += [text[end : match.start()], _NO_FILE if is_query else _NO_INCLUDE, "\\\n" * breaks]
            end = match.end()
            if is_query:
                defines[f"{_NO_FILE}(file)"] = "0"
    if assembler and pastes and not has_assembly:
        # The operator can make the keyword, which is then this macro.
        defines |= dict.fromkeys(_ASM, "devmod_has_no_assembly")
    head = "".join(f"#define {name} {value}\n" for name, value in defines.items()) + "#line 1\n" * bool(defines)
    return head + "".join(pieces) + text[end:]


def _is_header(name: str, headers: tuple[str, ...]) -> bool:
    return name.startswith(headers) and not name.startswith("/") and ".." not in name.split("/")


def _problem(text: str, pastes: bool) -> str:
    """Return how a text without continued lines could name a file besides includes; "" if it does not."""
    if text.startswith(OPTIONS_LINE) and any(query in text.partition("\n")[0] for query in _QUERIES):
        return "has an option with __has_include or __has_embed. Leave it out"
    if _NUMBERED.search(text):
        return "has a letter by its number in Unicode, which could be part of such a name. Write the letter itself"
    if pastes:
        words = set(re.findall(r"\w+", text))
        for query in _QUERIES:
            if _can_be_joined(query, words):
                return f"could make {query} with the operator ##. Rename what the operator joins"
    pragma = _PRAGMA.search(text) if pastes or "pragma" in text.lower() else None
    return f"has a pragma with the name of a file: {pragma[1].split()[0]}" if pragma else ""


def _can_be_joined(word: str, parts: Collection[str]) -> bool:
    """Return whether a word is the concatenation of two or more parts."""
    ends = [0]
    for end in range(1, len(word) + 1):
        if any(word[start:end] in parts for start in ends if end - start < len(word)):
            ends.append(end)
    return ends[-1] == len(word)


def _assembly_problem(text: str) -> str:
    """Return how the assembly of a text could have a directive that reads a file; "" if it could not."""
    text = re.sub(r'"\s*"', "", text)  # the compiler joins neighbouring strings
    directive = _DIRECTIVE.search(text)
    if directive:
        return f"has inline assembly with the directive {directive[0]}. Use assembly without it"
    part = _BEGINNING.search(text)
    if part:
        return f"has inline assembly and a text that ends in {part[0]!r}, where a directive may begin. Write the text in one string"
    if 'R"' in text:
        return "has inline assembly and a raw string, which may have a directive. Write an ordinary string"
    for line in text.split("\n"):
        _, quote, string = line.partition('"')
        if quote and any(escape[1] for escape in _ESCAPE.finditer(string)):
            return "has inline assembly and a string with a character by its number, which may be part of a directive. Write the character"
        _, word, macro = line.partition("define")
        if word and _STRINGIZED.search(re.sub(r"##|%:%:|\?\?=\?\?=", "", macro)):
            return "has inline assembly and a macro with the operator #, which may make a directive. Write the text in a string"
    return ""
