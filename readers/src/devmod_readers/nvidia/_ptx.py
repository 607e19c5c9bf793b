"""Read the kernels that a PTX text declares.

Only the headers of kernels are parsed. Their bodies are skipped by their braces. Source of the
grammar: the PTX ISA 9.0, "Kernel and Function Directives", "Performance-Tuning Directives" and
"Cluster Dimension Directives".
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from math import prod

from devmod.errors import FormatError
from devmod_readers.nvidia._entry import Dims, KernelEntry, ParamPlace
from devmod_readers.uses import users_of

#: Comments, strings with the pragma before them, and preprocessor lines. All alternatives take the
#: rest of the text if it has no end mark.
_NOISE = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|(?:\.pragma\s+)?"[^"\n]*"?(?:\s*,\s*"[^"\n]*"?)*(?:\s*;)?',
    re.DOTALL,
)
_OUTER = re.compile(r"[{};]|\.(?:entry|func)\b")
_BRACE = re.compile(r"[{}]")
_NAME = r"[A-Za-z_$%][\w$]*"
_HEADER = re.compile(rf"\s*({_NAME})\s*(?:\(([^()]*)\))?", re.ASCII)
_FUNCTION = re.compile(rf"\s*(?:\([^()]*\)\s*)?({_NAME})", re.ASCII)
#: Shared memory without a length is that of the launch.
_DYNAMIC = re.compile(
    rf"\.extern\s+\.shared\s[^;{{}}\[]{{0,200}}?({_NAME})\s*\[\s*\]\s*;", re.ASCII
)
_SHARED = re.compile(r"\.shared\s+\.")
_STATIC = re.compile(
    rf"\.shared((?:\s+\.\w+(?:\s+\d+(?=\s))?)+)\s+({_NAME})\s*((?:\[[^\[\]]*\]\s*)*);", re.ASCII
)
_IDENTIFIER = re.compile(_NAME, re.ASCII)
_NUMBER = re.compile(
    r"(?:0[xX]([0-9a-fA-F]{1,8})|0[bB]([01]{1,32})|(0[0-7]{0,10})|([1-9][0-9]{0,9}))U?", re.ASCII
)
_PARAM = re.compile(
    rf"\.param((?:\s*\.[a-z]\w*(?:\s+\w+(?=\s*[.\s]))?)+)\s+({_NAME})((?:\s*\[[^\[\]]*\])*)",
    re.ASCII,
)
_WORD = re.compile(r"\.(\w+)(?:\s+(\w+))?", re.ASCII)
_DIRECTIVE = re.compile(r"\.(\w+)([^.]*)", re.ASCII)
#: The bytes of PTX's types. A reference to a texture or surface is not in the parameter block.
_SIZES = {
    **{f"{letter}{bits}": bits // 8 for letter in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 16,
    "f16": 2,
    "f16x2": 4,
    "bf16": 2,
    "bf16x2": 4,
    "f32": 4,
    "f64": 8,
    "texref": 0,
    "samplerref": 0,
    "surfref": 0,
}
#: CUDA's limit on the parameter block. A greater size in a file is an error, which bounds all
#: numbers.
_MAX_BYTES = 1 << 16
_MAX_THREADS = 1 << 31
#: The limit on the characters of a parameter's declaration. Mangled names may be long.
_MAX_DECLARATION = 1 << 16


def read_ptx(text: str, names: Container[str] | None = None) -> dict[str, KernelEntry]:
    """Return the kernels of a PTX text by name.

    Parameters
    ----------
    text
        The text. A NUL ends it.
    names
        The kernels to read; None for all.

    Raises
    ------
    FormatError
        The declaration of a kernel is invalid, or braces do not match.
    """
    # The line breaks of a comment or string stay, so that errors have the lines of the text.
    stripped = _NOISE.sub(lambda noise: " " + "\n" * noise[0].count("\n"), text.partition("\0")[0])
    dynamic = set(_DYNAMIC.findall(stripped))
    static = _static_variables(stripped, dynamic)
    words: dict[str, set[str]] = {}
    headers: dict[str, re.Match[str]] = {}
    ends: dict[str, int] = {}
    for word, start, opening, end in _definitions(stripped):
        header = (_FUNCTION if word == ".func" else _HEADER).match(stripped, start, opening)
        if word == ".entry":
            if header is None:
                raise _error(stripped, start, "expected a name and parameters after .entry")
            if header[1] in headers:
                raise _error(stripped, start, f"the kernel {header[1]!r} is defined twice")
            headers[header[1]], ends[header[1]] = header, opening
        if (dynamic or static) and header is not None:
            words[header[1]] = set(_IDENTIFIER.findall(stripped, opening, end))
    users = users_of(dynamic, words)
    # The assembler places the variables of a called function, in an order of its own.
    callers = users_of(
        {
            name
            for name in words.keys() - headers.keys()
            if not static.keys().isdisjoint(words[name])
        },
        words,
    )
    return {
        name: _kernel(
            stripped,
            header,
            stripped[header.end() : ends[name]],
            name in users,
            0
            if name in callers
            else _end_of([each for each in words.get(name, ()) if each in static], static),
        )
        for name, header in headers.items()
        if names is None or name in names
    }


def _static_variables(text: str, dynamic: Set[str]) -> dict[str, tuple[int, ParamPlace]]:
    """Return the number and the place of each variable in shared memory; none if one of them has
    another form than compilers write.
    """
    found: dict[str, tuple[int, ParamPlace]] = {}
    declarations = _STATIC.findall(text)
    for words, name, dims in declarations:
        place = _param(f".param{words} {name}{dims.strip()}")
        if place is None or ".v" in words or name in found or not 0 < place.size <= _MAX_BYTES:
            return {}
        if name not in dynamic:
            found[name] = len(found), place
    return found if len(declarations) == len(_SHARED.findall(text)) else {}


def _end_of(names: Iterable[str], places: Mapping[str, tuple[int, ParamPlace]]) -> int:
    """Return the bytes of variables, which the assembler places in the order of the text."""
    end = 0
    for _, place in sorted(places[name] for name in names):
        end = -(-end // place.align) * place.align + place.size
    return end


def _definitions(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield for each kernel and function with a body its directive, the start of its header, and
    the start and end of its body.
    """
    position, start, word = 0, -1, ""
    while (token := _OUTER.search(text, position)) is not None:
        mark, position = token[0], token.end()
        if mark == "{":
            depth, opening = 1, token.start()
            while depth:
                brace = _BRACE.search(text, position)
                if brace is None:
                    raise _error(text, opening, "'{' has no matching '}'")
                depth += 1 if brace[0] == "{" else -1
                position = brace.end()
            if start >= 0:
                yield word, start, opening, position
            start = -1
        elif mark == "}":
            raise _error(text, token.start(), "'}' has no matching '{'")
        elif mark == ";":
            start = -1
        elif start >= 0:
            raise _error(text, token.start(), f"expected the body of the function before {mark}")
        else:
            start, word = token.end(), mark
    if start >= 0:
        raise _error(text, start, "expected the body of the function before the end")


def _kernel(
    text: str, header: re.Match[str], directives: str, is_dynamic: bool, static_bytes: int
) -> KernelEntry:
    name, start = header[1], header.start()

    def fail(problem: str) -> FormatError:
        return _error(text, start, f"the kernel {name!r} has {problem}")

    params, offset = [], 0
    pieces = header[2].split(",") if header[2] and not header[2].isspace() else []
    for piece in pieces:
        param = _param(piece.strip())
        if param is None:
            raise fail(f"the invalid parameter {_short(piece)!r}")
        if param.size:
            offset = -(-offset // param.align) * param.align
            param = param._replace(offset=offset)
            offset += param.size
        params.append(param)
        if offset > _MAX_BYTES:
            raise fail(f"more than {_MAX_BYTES} bytes of parameters")
    values: dict[str, tuple[int, ...]] = {}
    if directives.strip() and not directives.lstrip().startswith("."):
        raise fail(f"{_short(directives)!r} before its body; expected a directive")
    for directive in _DIRECTIVE.finditer(directives):
        key, rest = directive[1], directive[2].strip()
        numbers = [_number(each.strip()) for each in rest.split(",")] if rest else []
        if key in ("maxntid", "reqntid", "reqnctapercluster", "maxclusterrank"):
            if not 1 <= len(numbers) <= 3 or any(
                number is None or not 1 <= number < _MAX_THREADS for number in numbers
            ):
                raise fail(
                    f"the directive .{key} with {_short(rest)!r}; expected up to three numbers of 1 or more"
                )
            values[key] = tuple(number for number in numbers if number is not None)
        else:
            values[key] = ()
    return KernelEntry(
        name,
        tuple(params),
        _dims(values.get("reqntid")),
        prod(values.get("maxntid", (0,))),
        _dims(values.get("reqnctapercluster")),
        values.get("maxclusterrank", (0,))[0],
        "explicitcluster" in values,
        "blocksareclusters" in values,
        is_dynamic,
        static_bytes,
    )


def _param(text: str) -> ParamPlace | None:
    """Return the size, alignment and type of a parameter; None if the text is invalid. The offset
    is 0.
    """
    match = _PARAM.fullmatch(text) if len(text) <= _MAX_DECLARATION else None
    if match is None:
        return None
    type_, align, pointer = "", 0, False
    for word in _WORD.finditer(match[1]):
        key = word[1]
        if key == "ptr":
            pointer = True
        elif key == "align" and not pointer:  # after .ptr it is the alignment of the memory
            align = _number(word[2] or "") or 0
            if not 0 < align <= 1024 or align & (align - 1):
                return None
        elif key in _SIZES:
            type_ = key
    if not type_:
        return None
    size = natural = _SIZES[type_]
    for length in match[3].replace("[", " ").replace("]", " ").split():
        count = _number(length)
        if count is None or count > _MAX_BYTES:
            return None
        size = min(size * count, _MAX_BYTES + 1)
    return (
        ParamPlace(0, size, align or natural, type_, pointer)
        if natural
        else ParamPlace(0, 0, 0, type_)
    )


def _number(text: str) -> int | None:
    """Return the value of an integer in hexadecimal, binary, octal or decimal;

    None for other text.
    """
    match = _NUMBER.fullmatch(text)
    found = zip(match.groups(), (16, 2, 8, 10), strict=True) if match is not None else ()
    return next((int(digits, base) for digits, base in found if digits), None)


def _dims(values: tuple[int, ...] | None) -> Dims | None:
    if not values:
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _short(text: str) -> str:
    text = " ".join(text[:200].split())
    return text if len(text) <= 80 else f"{text[:80]}…"


def _error(text: str, position: int, problem: str) -> FormatError:
    line = text.count("\n", 0, position) + 1
    return FormatError(f"the PTX is invalid at line {line}: {problem}", kind="cuda")
