"""Self-contained source payloads, for every format that a C preprocessor reads.

The receiver of a source payload gets only its text. So the text contains the options, defines and includes of the build::

    //devmod: -cl-fast-relaxed-math           the options, if there are any
    #define TILE 16                           the defines
    #line 1 "k.cl"                            the start of the source, if a line precedes it
    …                                         the source; the text of a user's file replaces its include,
    #line 1 "tile.h"                          between two #line directives with the name from the include
    …
    #line 8 "k.cl"

The text is not preprocessed: the receiver's compiler evaluates conditions and macros, so a kernel can be specialized.
A source without options, defines and includes is stored byte for byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from devmod.errors import CompileError, FormatError
from devmod_readers.sources import OPTIONS_LINE, option_problem, split_options
from devmod_targets.authoring._includes import Inliner, line_directive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from devmod_targets.authoring._request import CompileRequest

_DEFINED = re.compile(r"[A-Za-z_]\w*(?:\([\w\s,.]*\))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SelfContainedSource:
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
        The real path of each source file to that name, for diagnostics. Paths are not written to the payload.
    files
        The `files` of the payload.
    """

    text: str
    options: tuple[str, ...]
    defines: Mapping[str, str]
    sources: Mapping[str, str]
    names: Mapping[str, str]
    files: Mapping[str, str]

    def with_lines(self, lines: str) -> SelfContainedSource:
        """Return the source with lines at its end, such as `explicit_instances`."""
        end = "" if self.text.endswith("\n") or not lines else "\n"
        return replace(self, text=self.text + end + lines)


def complete_source(request: CompileRequest, is_external: Callable[[str], bool] = lambda _: False) -> SelfContainedSource:
    """Return the source of a request with its options, defines and includes in the text.

    An option ``-DNAME=VALUE`` is a define. A define of the same name in `request.defines` replaces it.

    Parameters
    ----------
    request
        The compile request.
    is_external
        Returns whether the receiver's compiler has a header of this name. Such an include in quotes stays as it is.

    Raises
    ------
    CompileError
        An option names a path, a define is invalid, or an include cannot be embedded.
    """
    kind = request.target.kind
    try:
        in_source, _ = split_options(request.text)
    except FormatError as error:
        raise CompileError(str(error), kind=kind) from None
    added, defines = options_and_defines(request)
    options = in_source + tuple(added)
    body, first_line = request.text, 1
    if in_source and (added or defines):
        # The options line must be the first line of the text, so one line replaces the source's own.
        body, first_line = body.partition("\n")[2], 2
    head = f"{OPTIONS_LINE} {' '.join(options)}\n" if options and (added or defines) else ""
    head += "".join(f"#define {name} {value}".rstrip() + "\n" for name, value in defines.items())
    if head:
        head += line_directive(first_line, request.name)
    files = Inliner(request, frozenset(name.partition("(")[0] for name in defines), is_external=is_external)
    text = head + files.inline(body, first_line)
    return SelfContainedSource(text, options, defines, files.sources, files.names, files.files)


def options_and_defines(request: CompileRequest) -> tuple[list[str], dict[str, str]]:
    """Return the options of a request that are not defines, and all its defines, name to text.

    An option ``-DNAME=VALUE`` is a define. A define of the same name in `request.defines` replaces it.

    Raises
    ------
    CompileError
        An option names a path, or a define is invalid.
    """
    kind = request.target.kind
    options, flags = [], {}
    for option in _join_defines(kind, request.options):
        if option.startswith("-D"):
            name, equals, value = option[2:].strip().partition("=")
            flags[name] = value if equals else "1"
        else:
            problem = option_problem(option)
            if problem:
                raise CompileError(f"the {kind} option {option!r} {problem}", kind=kind)
            options.append(option)
    defines = flags | {name: "1" if value is None else value for name, value in request.defines.items()}
    for name, value in defines.items():
        _check_define(kind, name, value)
    return options, defines


def _join_defines(kind: str, options: Iterable[str]) -> Iterator[str]:
    """Yield the options; a separate ``-D`` is joined to the name after it."""
    pending = ""
    for option in options:
        if not option.strip() or not option.isprintable() or (" " in option.strip() and not option.startswith("-D")):
            raise CompileError(f"the {kind} option {option!r} is not one printable word; pass each option as a separate item", kind=kind)
        if option == "-D" and not pending:
            pending = option
            continue
        yield pending + option.strip()
        pending = ""
    if pending:
        raise CompileError(f"the {kind} option '-D' has no name after it; write -DNAME or -DNAME=VALUE", kind=kind)


def _check_define(kind: str, name: str, value: str) -> None:
    if not _DEFINED.fullmatch(name):
        raise CompileError(f"the define {name!r} is invalid: expected a name, or a name with parameters such as 'F(x)'", kind=kind)
    text = value.replace("\t", " ")
    if not text.isprintable():
        raise CompileError(f"the value of the define {name} contains a line break or a control character: {value!r}", kind=kind)
    if value.rstrip().endswith("\\") or value.rfind("/*") > value.rfind("*/"):
        raise CompileError(
            f"the value of the define {name} ends in a backslash or an open comment, which continues in the next line: {value!r}", kind=kind
        )
