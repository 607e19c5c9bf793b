"""Read the kernels of a program in the Metal shading language with libclang, on any machine.

libclang reads the payload's text, whose ``#line`` directives give the lines of the sources. Syntax errors are errors. Of the other
diagnostics only unknown names are reported, as warnings: devmod declares Metal's functions incompletely, so Metal's compiler decides.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from devmod.errors import compile_error
from devmod.targets.metal import SPEC
from devmod_readers.reflection import ReflectedFunction
from devmod_targets.authoring._open_block import open_functions
from devmod_targets.authoring.clang import load_libclang
from devmod_targets.metal._kernels import KernelReader
from devmod_targets.metal._program import ARRAY_PARAMETER, diagnostics, parse_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from devmod_targets.authoring import CompileRequest, SelfContainedSource


def read(request: CompileRequest, source: SelfContainedSource) -> tuple[dict[str, ReflectedFunction], list[str], str]:
    """Read the kernels of a program.

    Returns
    -------
    dict of str to ReflectedFunction
        The kernels by name.
    list of str
        The warnings.
    str
        The toolchain, such as "libclang 18.1.1".

    Raises
    ------
    ToolchainNotFoundError
        libclang is not installed, or cannot be loaded.
    CompileError
        The program has syntax errors, or a kernel with an argument that devmod does not support.
    """
    library = load_libclang(SPEC, "Metal")
    program = Rewritten(source.text)
    unit = parse_program(library, request, source, program.text)
    for _ in range(3):  # clang may report one of two such parameters of a function
        places = [diagnostic.location.offset for diagnostic in unit.diagnostics if diagnostic.spelling == ARRAY_PARAMETER]
        if not places or not program.rewrite_arrays(places):
            break
        unit = parse_program(library, request, source, program.text)
    errors, warnings, unknown = diagnostics(library, unit, request.name, source.text, program)
    if errors:
        raise compile_error("metal", "Metal", errors, "\n".join((*errors, *warnings)))
    messages = ["\n".join(("the Metal source has names that Metal does not define:", *warnings))] if warnings else []
    open_names = set() if unknown else open_functions(source.text)
    reader = KernelReader(library, unit, request.name, program.text, unknown, open_names)
    kernels = reader.kernels()
    if reader.incomplete_types:
        # clang does not lay out a type that only a reference uses. An assertion after the program forces the layout.
        assertions = "".join(f"\nstatic_assert(sizeof({name}));" for name in sorted(reader.incomplete_types))
        unit = parse_program(library, request, source, program.text + assertions)
        kernels = KernelReader(library, unit, request.name, program.text, unknown, open_names).kernels()
    return kernels, messages, library.toolchain


# -- Rewrite Metal's attributes as clang annotations: ``[[buffer(0)]]`` becomes an annotation with the same words.
#
# clang drops unknown attributes. Its syntax tree contains annotations as strings with expanded macros. The tree does not contain
# explicit
# instantiations (``template [[host_name("f")]] [[kernel]] void f<float>(…)``), but it contains declared specializations
# (``template <> …``). The number of lines does not change.


_TOKEN = re.compile(
    r"""//(?:\\\r?\n|[^\r\n])* | /\*.*?(?:\*/|\Z) | "(?:\\.|[^"\\\r\n])*" | '(?:\\.|[^'\\\r\n])*'
    | (?P<coherent>\bcoherent(?:\s*\([^()]*\))?)(?=\s+(?:device|constant|threadgroup|const|volatile)\b)
    | (?P<instance>\btemplate)(?=(?:\s|\\\r?\n)*\[\[) | (?P<open>\[\[)(?=\s*[A-Za-z_])""",
    re.DOTALL | re.VERBOSE,
)
_PIECE = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\r\n])*"|[()\[\],;{}]""", re.DOTALL)
#: The limit on nested brackets in an attribute. It bounds the search for the end of a list.
_MAX_DEPTH = 32
_WIDE = re.compile(r"[^\x00-\x7f]")
_PARAMETER = re.compile(r"([A-Za-z_]\w*)[^\S\n]*\[[^\[\]\n]*\]((?:[^\S\n]*\[[^\[\]\n]*\])*)(?!\[)")
_WORD = re.compile(r"(?:\s|\\\r?\n)*([A-Za-z_]\w*)(?:\s|\\\r?\n)*(\((?P<inside>.*)\))?(?:\s|\\\r?\n)*", re.DOTALL)
#: The attributes of C++, which clang supports.
_CPP_WORDS = frozenset(("noreturn", "nodiscard", "maybe_unused", "fallthrough", "deprecated", "likely", "unlikely", "no_unique_address"))


class Rewritten:
    """A program with its attributes rewritten.

    Attributes
    ----------
    text : str
        The program.
    """

    def __init__(self, source: str) -> None:
        # libclang counts bytes. Characters outside ASCII are in comments and strings only, whose content does not matter.
        source = _WIDE.sub("_", source)
        parts: list[str] = []
        #: The starts of unchanged pieces in the text, and their starts in the source.
        self._at: list[int] = []
        self._from: list[int] = []
        done = size = at = 0

        def put(new: str, start: int, end: int) -> None:
            nonlocal done, size
            for piece, origin in ((source[done:start], done), (new, start)):
                self._at.append(size)
                self._from.append(origin)
                parts.append(piece)
                size += len(piece)
            done = end

        while token := _TOKEN.search(source, at):
            at = token.end()
            if token["coherent"]:
                put("", token.start(), at)  # it does not change an argument's type
            elif token["instance"]:
                put("template <>", token.start(), at)
            elif token["open"]:
                items, end = _attribute_list(source, at)
                if end:
                    put("".join(("[[", ",".join(map(_annotation, items)), "]]")), token.start(), end)
                    at = end
        put("", len(source), len(source))
        self.text = "".join(parts)

    def rewrite_arrays(self, places: Iterable[int]) -> bool:
        """Rewrite array parameters at these positions, ``name[2]``, as pointers, ``*name``. Return whether one was rewritten.

        The length of the text does not change.
        """
        changed = False
        for place in sorted(set(places), reverse=True):
            match = _PARAMETER.match(self.text, place)
            if match:
                name, rest = match[1], match[2]
                pointer = f"(*{name}){rest}" if rest else f"*{name}"
                new = pointer + " " * (len(match[0]) - len(pointer)) if len(pointer) <= len(match[0]) else pointer
                self.text = self.text[:place] + new + self.text[match.end() :]
                changed = True
        return changed

    def origin(self, offset: int) -> int:
        """Return the position in the source of a position in the text."""
        number = bisect_right(self._at, offset) - 1
        after = self._from[number + 1] if number + 1 < len(self._from) else offset
        return max(0, min(self._from[number] + offset - self._at[number], max(after, self._from[number])))


def _attribute_list(source: str, start: int) -> tuple[list[str], int]:
    """Return the attributes of the list at a position, and its end; the end is 0 if the list does not end."""
    begin, items, closing = start, [], ""
    for piece in _PIECE.finditer(source, start):
        mark = piece.group()
        if mark in ("(", "["):
            closing += ")" if mark == "(" else "]"
            if len(closing) > _MAX_DEPTH:
                break
        elif closing and mark == closing[-1]:
            closing = closing[:-1]
        elif mark in (")", ";", "{", "}") or (mark == "]" and closing):
            break
        elif not closing and mark in (",", "]"):
            items.append(source[begin : piece.start()])
            begin = piece.end()
            if mark == "]":
                return (items, piece.start() + 2) if source.startswith("]]", piece.start()) else ([], 0)
    return [], 0


def _annotation(attribute: str) -> str:
    match = _WORD.fullmatch(attribute)
    if not match or match[1] in _CPP_WORDS:
        return attribute
    name, inside = match[1], match["inside"]
    if name == "host_name":
        return attribute[: match.start(1)] + f'clang::annotate("metal.host_name=" {inside})'
    return attribute[: match.start(1)] + f'__devmod_attribute("{name}"{"" if inside is None else ", " + inside})'
