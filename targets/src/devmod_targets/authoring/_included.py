"""The files that a text of a C-like language includes, by their names. Conditions are not evaluated.

The result has at least the names that a preprocessor looks up, in every spelling: ``#include``, ``#import``, ``#embed``, ``%:include``,
``__has_include``. Some of the names may be in comments.
"""

from __future__ import annotations

import re

from devmod_targets.authoring._directives import code_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Blanks and comments inside a directive. The bounds keep the work linear in the size of a text. An include with a longer comment or name
#: counts as one without a name.
_BLANK = rb"(?:[^\S\n]|/\*(?:[^*]|\*(?!/)){0,128}+\*/)*+"
_HASH = rb"(?:\#|%:|\?\?=)" + _BLANK
#: The start of an include in any spelling, and its file, or the macro for it.
_INCLUDE = re.compile(
    rb"(?:" + _HASH + rb"(?:(?:include_next|include|import|embed)\b|/\*)"
    rb"|__has_(?:include_next|include|embed)" + _BLANK + rb"(?:\(|/\*))"
    + _BLANK + rb'(?:"(?P<quoted>[^"\n]{0,500})"|<(?P<angled>[^>\n]{0,500})>|/\*|["<][^">\n]{500}'
    rb"|(?P<macro>[A-Za-z_]\w{0,200}+)" + _BLANK + rb"(?=[)\n]|//|\Z))?"
)  # fmt: skip
_DEFINE = re.compile(rb"\s*" + _HASH + rb"define\b")
#: Every text with an include contains one of these names.
_WORDS = (b"include", b"import", b"embed")
_SPLICE = re.compile(rb"\\[^\S\n]*\n")
#: The value of a macro that is the name of a file in quotes, or another macro.
_VALUE = re.compile(rb'\s*(?:"(?P<file>[^"\n]+)"|(?P<macro>[A-Za-z_]\w*))\s*(?://.*|/\*[^*]*\*/\s*)?')
_ABSOLUTE = rb"^(?:[/\\]|[A-Za-z]:)"
_PARENT = rb"(?:^|[/\\])\.\.(?:[/\\]|$)"
#: The start of an absolute path, or ``..``, in a directive.
_PATH = re.compile(rb'(?<!\.)\.\.(?!\.)|["<(,]\s*[/\\]|define\s+\w+(?:\([^)]*\))?\s+[/\\]')


class IncludedNames:
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

    __slots__ = ("macros", "names", "opaque")

    def __init__(self, names: Iterable[bytes] = (), macros: Iterable[bytes] = (), *, opaque: bool = False) -> None:
        self.names, self.macros, self.opaque = tuple(names), tuple(macros), opaque


def included_names(data: bytes) -> IncludedNames:
    """Return the names that a text includes."""
    data = _joined(data)
    if not any(word in data for word in _WORDS):
        return IncludedNames()
    found = _search(data)
    if not (found.macros or found.opaque):
        return found
    # Such a match may be in a comment. The exact reader is slow, so it reads only these texts.
    code = code_of(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    exact = _search(code)
    # In ``#define HAS(x) __has_include(x)`` the name is a parameter.
    hidden = b"__has_" in code and any(b"__has_" in line and _DEFINE.match(line) for line in code.split(b"\n"))
    return IncludedNames(dict.fromkeys((*found.names, *exact.names)), exact.macros, opaque=exact.opaque or hidden)


def macro_files(macros: Iterable[bytes], texts: Iterable[bytes]) -> list[bytes] | None:
    """Return the files for which macros stand, by all their definitions in texts. None if one has no definition, or another value."""
    texts = [_joined(text) for text in texts]
    files: dict[bytes, None] = {}
    pending, seen = list(macros), set(macros)
    while pending:
        define = re.compile(
            _HASH + rb"define(?=[\s/])" + _BLANK + re.escape(pending.pop()) + rb"(?![\w(])" + _BLANK + rb"(?P<value>[^\n]*)"
        )
        values = [_VALUE.fullmatch(match["value"]) for text in texts for match in define.finditer(text)]
        if not values:
            return None
        for value in values:
            if value is None:
                return None
            if value["file"]:
                files[value["file"]] = None
            elif value["macro"] not in seen:
                seen.add(value["macro"])
                pending.append(value["macro"])
    return list(files)


def unresolved_names(text: str, *, parents: bool = False) -> dict[str, str]:
    """Return what may lead a compiler to a file of this machine, in a text whose includes devmod has embedded.

    The compiler gets the text alone, so a relative name is that of a header of the compiler. An absolute path, or a macro that may stand
    for one, leads to any file.

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
    leads_out = re.compile(_ABSOLUTE + (b"|" + _PARENT if parents else b"")).search
    found = included_names(text.encode())
    if not (found.macros or found.opaque or any(map(leads_out, found.names))):
        return {}
    code = code_of(text).encode()  # the names may have been in comments
    names = [name.decode("utf-8", "replace") for name in included_names(code).names if leads_out(name)]
    directives = [line for line in _joined(code).split(b"\n") if line.lstrip().startswith((b"#", b"%:", b"??="))]
    if (found.macros or found.opaque) and any(map(_PATH.search, directives)):
        names.append("a file that a macro names")
    return dict.fromkeys(names, "")


def _joined(data: bytes) -> bytes:
    """Return a text with joined lines: without a backslash, or its trigraph, at the end of a line."""
    data = data.replace(b"??/", b"\\")
    return _SPLICE.sub(b"", re.sub(rb"\r\n?", b"\n", data)) if b"\\" in data else data


def _search(data: bytes) -> IncludedNames:
    names: dict[bytes, None] = {}
    macros: dict[bytes, None] = {}
    opaque = False
    for match in _INCLUDE.finditer(data):
        name = match["quoted"] if match["quoted"] is not None else match["angled"]
        if name:
            names[name] = None
        elif match["macro"]:
            macros[match["macro"]] = None
        else:
            opaque = True
    return IncludedNames(names, macros, opaque=opaque)
