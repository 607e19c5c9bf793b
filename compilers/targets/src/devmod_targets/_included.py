"""The files that a text of a C-like language includes, by their names. Conditions are not
evaluated.

The result has at least the names that a preprocessor looks up, in every spelling: ``#include``,
``#import``, ``#embed``, ``%:include``, ``__has_include``. Some of the names may be in comments.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable
from itertools import chain
from typing import NamedTuple

from devmod_readers.options import OPTIONS_LINE

#: A blank, as the least strict compiler has them: also a zero byte, and every character outside of
#: ASCII.
_SPACE = rb"[^!-~\n]"
#: Blanks and comments inside a directive. The bounds keep the work linear in the size of a text. An
#: include with more or longer comments, or with a longer name, counts as one without a name.
_BLANK = _SPACE + rb"*+(?>(?:/\*(?s:.{0,128}?)\*/" + _SPACE + rb"*+){0,8})"
_HASH = rb"(?:\#|%:|\?\?=)"
_OPERATORS = ("__has_include_next", "__has_include", "__has_embed")
_OPERATOR = rb"__has_(?:include_next|include|embed)\b"
#: A file, or the macro for it.
_FILE = (
    rb'(?:"(?P<quoted>[^"\n]{0,500}+)"|<(?P<angled>[^>\n]{0,500}+)>|(?P<macro>[A-Za-z_]\w{0,200}+)'
    + _BLANK
    + rb"(?=[)\n]|//|\Z))?"
)
#: The start of an include in any spelling. A match is short, so that it hides no other one.
_DIRECTIVE = re.compile(
    _HASH
    + rb"(?="
    + _BLANK
    + rb"(?:(?:include_next|include|import|embed)\b"
    + _BLANK
    + _FILE
    + rb"|/\*))"
)
#: WGSL's import of a file.
_IMPORT = re.compile(rb"#[ \t]*+import[ \t]*+([A-Za-z_]\w*+)")
#: Slang's import of a module, and its inclusion of a part of one.
_SLANG_IMPORT = re.compile(
    rb'\b(?:import|__include)\s++(?:"([^"\n]{1,500})"|([A-Za-z_][\w.]{0,500}+))\s*+;'
)
_TEST = re.compile(
    rb"^[ \t]*+"
    + _HASH
    + rb"[ \t]*+(?:(?:el)?ifn?def|(?:el)?if[ \t]++!?defined)[ \t(]++"
    + _OPERATOR
    + rb"|"
    rb"(?P<operator>" + _OPERATOR + rb")(?=(?:" + _BLANK + rb"\(" + _BLANK + _FILE + rb")?)",
    re.MULTILINE,
)
#: The line of a condition, up to the operator. In another line, such as a definition, the macro may
#: be a parameter.
_CONDITION = _SPACE + rb"*+" + _HASH + _BLANK + rb"(?:el)?if\b(?!.*\*/).*"
_MAX_CONDITION = 1000
#: The start of an operator, which ``##`` may complete; a letter by its number, which some compilers
#: accept there; and pragmas that look for a file. Each begins with a literal, or needs one of some
#: words: such a search takes a tenth of the time of one for a word's boundary.
_STARTS = {name[1:end] for name in _OPERATORS for end in range(1, len(name))} - {
    name[1:] for name in _OPERATORS
}
_OPAQUE_NAME = re.compile(rb"_(?<!\w_)(?:" + "|".join(sorted(_STARTS)).encode() + rb")\b")
_OPAQUE_LETTER = re.compile(rb"\\(?:u00[0-7]|U000000[0-7]|[uxo]\{|N\{)")
_OPAQUE_PRAGMA = rb"\b(?:dependency|include_alias|pch_preprocess|clang\s+module)\b"
_PRAGMA_WORDS = (b"dependency", b"include_alias", b"pch_preprocess", b"clang")
#: Every other text with an include contains one of these names.
_WORDS = (b"include", b"import", b"embed")
_SPLICE = rb"(?:\\|\?\?/)[^\S\n]*\n"
#: Comments that are surely comments: in each language and standard, nothing before them in their
#: line makes them a part of something else.
_COMMENT = rb"""(?m)^(?P<before>(?![^\n"'</*]*?(?:warning|error))[^\n"'</*]*+)(?://(?!devmod:|.*\*/).*|/\*(?s:.*?)(?:\*/|\Z))"""
#: The value of a macro that is the name of a file in quotes, or another macro.
_VALUE = rb'\s*(?:"(?P<file>[^"?\n]+)"|(?P<macro>[A-Za-z_]\w*))\s*(?://.*|/\*[^*]*\*/\s*)?'
_DEFINE = re.compile(_HASH + _BLANK + rb"define(?!\w)" + _BLANK + rb"([A-Za-z_]\w*)([^\n]*)")
_ABSOLUTE = rb"^(?:[/\\]|[A-Za-z]:)"
_PARENT = rb"(?:^|[/\\])\.\.(?:[/\\]|$)"
#: The start of an absolute path, or ``..``, in a directive.
_PATH = rb'(?<!\.)\.\.(?!\.)|["<(,=]\s*[/\\]|define\s+\w+(?:\([^)]*\))?\s+[/\\]'
#: What stands in `Payload.files` for a file that a search of the text cannot find.
UNKNOWN_FILE = "a file that a macro names"


class IncludedNames(NamedTuple):
    """The names in a text.

    Attributes
    ----------
    names
        The names of files, in their order.
    macros
        The macros that stand for the name of a file, as in ``#include CONFIG``.
    opaque
        Whether an include names its file in another way, as in ``#include NAME(x)``.
    """

    names: Collection[bytes] = ()
    macros: Collection[bytes] = ()
    opaque: bool = False


def included_names(data: bytes) -> IncludedNames:
    """Return the names that a text includes."""
    if b"-D" in _first_line(data):
        return IncludedNames(opaque=True)  # compilers differ in the quotes that they accept there
    found = _search(_joined(data))
    if not (found.macros or found.opaque):
        return found
    exact = _search(_without_comments(data))
    return IncludedNames(
        dict.fromkeys((*found.names, *exact.names)), exact.macros, opaque=exact.opaque
    )


def imported_names(data: bytes) -> IncludedNames:
    """Return the names of the files that a Python program may import; of a dotted name, those of
    the packages too.
    """
    import ast

    try:
        nodes = [*ast.walk(ast.parse(data))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return IncludedNames()
    modules = []
    for node in nodes:
        if isinstance(node, ast.Import):
            modules += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "../" * (node.level - 1) + (node.module or "")
            prefix = f"{module}." if node.module else module
            modules.append(module)
            modules += [prefix + each.name for each in node.names]
    names: dict[bytes, None] = {}
    for text in modules:
        parts = text.rpartition("../")[2].split(".")
        start = text[: len(text) - len(".".join(parts))]
        for end in range(1, len(parts) + 1):
            path = start + "/".join(parts[:end])
            names |= dict.fromkeys((f"{path}.py".encode(), f"{path}/__init__.py".encode()))
    return IncludedNames(names)


def macro_files(macros: Iterable[bytes], texts: Iterable[bytes]) -> list[bytes] | None:
    """Return the files for which macros stand, by all their definitions in texts. None if one has
    no definition, or another value.
    """
    texts = [_joined(text) for text in texts]
    files: dict[bytes, None] = {}
    pending = list(macros)
    seen = set(pending)
    while pending:
        name = pending.pop()
        if name.startswith(b"__"):
            return None  # the compiler may have another definition
        define = re.compile(
            _HASH
            + _BLANK
            + rb"define(?!\w)"
            + _BLANK
            + rb"(?:"
            + re.escape(name)
            + rb"(?![\w(])"
            + _BLANK
            + rb"(?P<value>[^\n]*)|/\*)"
        )
        definitions = [*chain.from_iterable(map(define.finditer, texts))]
        if not definitions:
            return None
        for match in definitions:
            value = re.fullmatch(_VALUE, match["value"] or b"")
            if value is None:
                return None
            if value["file"]:
                files[value["file"]] = None
            elif value["macro"] not in seen:
                seen.add(value["macro"])
                pending.append(value["macro"])
    return list(files)


def macro_values(texts: Iterable[bytes]) -> dict[bytes, set[bytes]]:
    """Return the values of the macros that texts define, without blanks at the ends; of one with
    parameters, the parameters too.
    """
    values: dict[bytes, set[bytes]] = {}
    for text in texts:
        for name, value in _DEFINE.findall(_without_comments(text)):
            values.setdefault(name, set()).add(value.strip())
    return values


def import_names(name: bytes) -> tuple[bytes, bytes]:
    """Return the files that ``#import name`` may include in WGSL; the first one that exists is
    included.
    """
    return b"shared/%s.wgsl" % name, b"%s.wgsl" % name


def slang_names(path: bytes, module: bytes) -> list[bytes]:
    """Return the files that an import in Slang may read: of a path in quotes, or of a module such
    as ``a.b``.
    """
    if path:
        return [path, path + b".slang", path + b".slang-module"]
    result = []
    stem = module.replace(b".", b"/")
    for each in dict.fromkeys((stem, stem.replace(b"_", b"-"))):
        result += [each + b".slang", each + b".slang-module"]
    return result


def unresolved_names(text: str, *, parents: bool = False) -> dict[str, str]:
    """Return what may lead a compiler to a file of this machine, in a text whose includes devmod
    has embedded.

    The compiler gets the text alone, so a relative name is that of a header of the compiler. An
    absolute path, or a macro that may stand for one, leads to any file.

    Parameters
    ----------
    text
        The text.
    parents
        Whether ``..`` leads out of a folder of the compiler's own headers.

    Returns
    -------
    dict of str to str
        The names as keys, as in `Payload.files`.
    """
    pattern = _ABSOLUTE
    if parents:
        pattern += b"|" + _PARENT
    leads_out = re.compile(pattern).search
    found = included_names(text.encode())
    is_unsure = bool(found.macros or found.opaque)
    if not is_unsure and not any(map(leads_out, found.names)):
        return {}
    code = _without_comments(text.encode())  # the names may have been in comments
    result = {}
    for name in included_names(code).names:
        if leads_out(name):
            result[name.decode("utf-8", "replace")] = ""
    if is_unsure and _has_path(code):
        result[UNKNOWN_FILE] = ""
    return result


def _has_path(code: bytes) -> bool:
    """Return whether a directive has what may begin a path out of the compiler's folders."""
    starts = (b"#", b"%:", b"??=", OPTIONS_LINE.encode())
    directives = [line for line in code.split(b"\n") if line.lstrip().startswith(starts)]
    return any(re.search(_PATH, line) for line in directives)


def _first_line(data: bytes) -> bytes:
    """Return the line with the options of a source; b"" if there is none."""
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.startswith(OPTIONS_LINE.encode()):
        return b""
    return data.partition(b"\n")[0]


def _joined(data: bytes) -> bytes:
    """Return a text with joined lines: without a backslash, or its trigraph, at the end of a
    line.
    """
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\\" not in data and b"??/" not in data:
        return data
    return re.sub(_SPLICE, b"", data)


def _without_comments(data: bytes) -> bytes:
    """Return a text with joined lines, and without the comments that are certain."""
    joined = _joined(data)
    # Whether a comment ends, or starts, there depends on the language and its standard.
    if b"??/" in data or b'R"' in joined:
        return joined
    return re.sub(_COMMENT, rb"\g<before> ", joined)


def _search(data: bytes) -> IncludedNames:
    names: dict[bytes, None] = {}
    macros: dict[bytes, None] = {}
    opaque = _is_opaque(data)
    if not any(word in data for word in _WORDS):
        return IncludedNames(opaque=opaque)
    matches = [*_DIRECTIVE.finditer(data)]
    if b"__has_" in data:
        matches += _TEST.finditer(data)
    for match in matches:
        is_operator = match.re is _TEST
        if is_operator and not match["operator"]:
            continue  # the text asks for the operator alone
        name = match["quoted"] or match["angled"]
        if name:
            names[name] = None
            opaque = opaque or b"??" in name
        elif match["macro"] and (not is_operator or _is_condition(data, match.start())):
            macros[match["macro"]] = None
        else:
            opaque = True
    for name in _IMPORT.findall(data):
        names |= dict.fromkeys(import_names(name))
    for path, module in _SLANG_IMPORT.findall(data):
        names |= dict.fromkeys(slang_names(path, module))
    return IncludedNames(names, macros, opaque=opaque)


def _is_opaque(data: bytes) -> bool:
    """Return whether a text may name a file in a way that is not evaluated."""
    pragma = any(word in data for word in _PRAGMA_WORDS) and re.search(_OPAQUE_PRAGMA, data)
    return bool(_OPAQUE_NAME.search(data) or _OPAQUE_LETTER.search(data) or pragma)


def _is_condition(data: bytes, end: int) -> bool:
    """Return whether the line before a position is the start of an ``#if``."""
    start = data.rfind(b"\n", max(end - _MAX_CONDITION, 0), end) + 1
    return (start > 0 or end < _MAX_CONDITION) and re.fullmatch(
        _CONDITION, data[start:end]
    ) is not None
