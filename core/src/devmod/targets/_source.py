"""Source payloads that are complete in themselves, for every format that a C preprocessor reads.

The receiver of a source payload sees its text alone. So the text carries what the compiler was given beside it::

    //devmod: -cl-fast-relaxed-math           the options, where there are any
    #define TILE 16                           the defines
    #line 1 "k.cl"                            where the source's own text begins, if anything stands above it
    …                                         the source, each include that names a user's file replaced by its text
    #line 1 "tile.h"                          between two #line, the names being as the include has them
    …
    #line 8 "k.cl"

It is not preprocessed otherwise: conditions and macros stay for the receiver's compiler, so that a kernel can be specialized.
A source with none of these is stored byte for byte.
"""

from __future__ import annotations

import re

from devmod._info import _Value
from devmod.errors import CompileError, FormatError
from devmod.targets._includes import Inliner, line_directive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from devmod._payload import CompileRequest

_OPTIONS_LINE = "//devmod:"
#: Options of C compilers whose value is a file or a folder, in one word or in two.
_PATH_OPTIONS = ("-I", "-L", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-iprefix", "-isysroot", "--sysroot")
_DEFINED = re.compile(r"[A-Za-z_]\w*(?:\([\w\s,.]*\))?", re.ASCII)


class Complete(_Value):
    """A source payload, and what it was made of.

    Parameters
    ----------
    text
        The payload.
    options
        The options in it, in order.
    defines
        The defines in it, name to text.
    sources
        The name of each source, as an include has it, to the SHA-256 of its text.
    names
        The real path of each file in it to that name: for diagnostics, never written anywhere.
    """

    __slots__ = ("defines", "names", "options", "sources", "text")
    defines: Mapping[str, str]
    names: Mapping[str, str]
    options: tuple[str, ...]
    sources: Mapping[str, str]
    text: str

    def __init__(
        self, text: str, options: tuple[str, ...], defines: Mapping[str, str], sources: Mapping[str, str], names: Mapping[str, str]
    ) -> None:
        self._set(text=text, options=options, defines=defines, sources=sources, names=names)


def complete(request: CompileRequest) -> Complete:
    """The payload of a source request, with its options, defines and includes inside.

    An option ``-DNAME=VALUE`` is a define; one in `request.defines` of the same name replaces it.

    Raises
    ------
    CompileError
        An option names a path, a define is malformed, or an include cannot be carried.
    """
    kind = request.target.kind
    try:
        own, _ = split_options(request.text)
    except FormatError as error:
        raise CompileError(str(error), kind=kind) from None
    given, defines = options_and_defines(request)
    options = own + tuple(given)
    body, first_line = request.text, 1
    if own and (given or defines):
        # The source's own line of options has to stay the first one, and to hold the others too.
        body, first_line = body.partition("\n")[2], 2
    head = f"{_OPTIONS_LINE} {' '.join(options)}\n" if options and (given or defines) else ""
    head += "".join(f"#define {name} {value}".rstrip() + "\n" for name, value in defines.items())
    if head:
        head += line_directive(first_line, request.name)
    files = Inliner(request, frozenset(name.partition("(")[0] for name in defines))
    text = head + files.inline(body, first_line)
    return Complete(text, options, defines, files.sources, files.names)


def options_and_defines(request: CompileRequest) -> tuple[list[str], dict[str, str]]:
    """The options of a request that are no defines, and all its defines, name to text.

    An option ``-DNAME=VALUE`` is a define; one in `request.defines` of the same name replaces it.

    Raises
    ------
    CompileError
        An option names a path, or a define is malformed.
    """
    kind = request.target.kind
    given, flags = [], {}
    for option in _joined(kind, request.options):
        if option.startswith("-D"):
            name, equals, value = option[2:].strip().partition("=")
            flags[name] = value if equals else "1"
        else:
            wrong = _wrong_option(option)
            if wrong:
                raise CompileError(f"the {kind} option {option!r} {wrong}", kind=kind)
            given.append(option)
    defines = flags | {name: "1" if value is None else value for name, value in request.defines.items()}
    for name, value in defines.items():
        _check_define(kind, name, value)
    return given, defines


def split_options(text: str) -> tuple[tuple[str, ...], str]:
    """The build options in a payload's first line, and the text for the compiler.

    The text is given back whole: to the compiler that line is a comment, and without it every line number would be off by one.

    Raises
    ------
    FormatError
        The line has an option that names a path: files come from strangers, and must not have others read.
    """
    if not text.startswith(_OPTIONS_LINE):
        return (), text
    options = tuple(text.partition("\n")[0][len(_OPTIONS_LINE) :].split())
    for option in options:
        wrong = _wrong_option(option) if not option.startswith("-D") else ""
        if wrong:
            raise FormatError(f"the source's first line has the option {option!r}, which {wrong.partition(';')[0]}")
    return options, text


def _joined(kind: str, options: Iterable[str]) -> Iterator[str]:
    """The options, with a ``-D`` that stands alone joined to its name."""
    pending = ""
    for option in options:
        if not option.strip() or not option.isprintable() or (" " in option.strip() and not option.startswith("-D")):
            raise CompileError(f"the {kind} option {option!r} is not one printable word; give each option as an item of its own", kind=kind)
        if option == "-D" and not pending:
            pending = option
            continue
        yield pending + option.strip()
        pending = ""
    if pending:
        raise CompileError(f"the {kind} option '-D' has no name behind it", kind=kind)


def _wrong_option(option: str) -> str:
    """What is wrong with an option that is no define; "" where it can travel in a payload."""
    if option.startswith(_PATH_OPTIONS) or option == "-o" or not {"/", "\\"}.isdisjoint(option):
        return "names a path; a payload is complete in itself, and its receiver has no such path. Folders of includes go into include="
    if not option.startswith("-") and not option.isalnum():
        return "is no option and no value of one"
    return ""


def _check_define(kind: str, name: str, value: str) -> None:
    if not _DEFINED.fullmatch(name):
        raise CompileError(f"the define {name!r} is not a name, nor a name with parameters such as 'F(x)'", kind=kind)
    shown = value.replace("\t", " ")
    if not shown.isprintable():
        raise CompileError(f"the define {name} has a line break or a control character in its value: {value!r}", kind=kind)
    if value.rstrip().endswith("\\") or value.rfind("/*") > value.rfind("*/"):
        raise CompileError(f"the define {name} would run into the next line: {value!r}", kind=kind)
