"""Read the kernels that a PTX text declares.

Only the headers of kernels are parsed. Their bodies are skipped by their braces. Source of the
grammar: the PTX ISA 9.0, "Kernel and Function Directives", "Performance-Tuning Directives" and
"Cluster Dimension Directives".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
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
for _bits in (8, 16, 32, 64):
    _SIZES |= dict.fromkeys((f"b{_bits}", f"s{_bits}", f"u{_bits}"), _bits // 8)
#: CUDA's limit on the parameter block. A greater size in a file is an error, which bounds all
#: numbers.
_MAX_BYTES = 1 << 16
_MAX_THREADS = 1 << 31
#: The limit on the characters of a parameter's declaration. Mangled names may be long.
_MAX_DECLARATION = 1 << 16


def read_ptx(text: str) -> dict[str, KernelEntry]:
    """Return the kernels of a PTX text by name.

    Parameters
    ----------
    text
        The text. A NUL ends it.

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
    #: The header of each kernel, and the place of its body.
    headers: dict[str, tuple[re.Match[str], int]] = {}
    for word, start, opening, end in _definitions(stripped):
        pattern = _FUNCTION if word == ".func" else _HEADER
        header = pattern.match(stripped, start, opening)
        if word == ".entry":
            if header is None:
                raise _error(stripped, start, "expected a name and parameters after .entry")
            if header[1] in headers:
                raise _error(stripped, start, f"the kernel {header[1]!r} is defined twice")
            headers[header[1]] = header, opening
        if (dynamic or static) and header is not None:
            words[header[1]] = set(_IDENTIFIER.findall(stripped, opening, end))

    users = users_of(dynamic, words)
    # The assembler places the variables of a called function, in an order of its own.
    functions = set()
    for name in words.keys() - headers.keys():
        if not static.keys().isdisjoint(words[name]):
            functions.add(name)
    callers = users_of(functions, words)

    kernels = {}
    for name, (header, opening) in headers.items():
        static_bytes = 0
        if name not in callers:
            static_bytes = _end_of(static.keys() & words.get(name, ()), static)
        directives = stripped[header.end() : opening]
        kernels[name] = _kernel(stripped, header, directives, name in users, static_bytes)
    return kernels


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
    if len(declarations) != len(_SHARED.findall(text)):
        return {}
    return found


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
    position = 0
    start = -1
    word = ""
    while (token := _OUTER.search(text, position)) is not None:
        mark = token[0]
        position = token.end()
        if mark == "{":
            opening = token.start()
            position = _end_of_block(text, opening)
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
            start = token.end()
            word = mark
    if start >= 0:
        raise _error(text, start, "expected the body of the function before the end")


def _end_of_block(text: str, opening: int) -> int:
    """Return the place behind the brace that matches the one at a place."""
    position = opening + 1
    depth = 1
    while depth:
        brace = _BRACE.search(text, position)
        if brace is None:
            raise _error(text, opening, "'{' has no matching '}'")
        if brace[0] == "{":
            depth += 1
        else:
            depth -= 1
        position = brace.end()
    return position


def _kernel(
    text: str, header: re.Match[str], directives: str, is_dynamic: bool, static_bytes: int
) -> KernelEntry:
    name = header[1]
    try:
        params = _params(header[2] or "")
        values = _directives(directives)
    except _Problem as problem:
        raise _error(text, header.start(), f"the kernel {name!r} has {problem}") from None
    return KernelEntry(
        name,
        params,
        _dims(values.get("reqntid")),
        prod(values.get("maxntid", (0,))),
        _dims(values.get("reqnctapercluster")),
        values.get("maxclusterrank", (0,))[0],
        "explicitcluster" in values,
        "blocksareclusters" in values,
        is_dynamic,
        static_bytes,
    )


class _Problem(Exception):
    """What is wrong with a kernel, as a clause."""


def _params(text: str) -> tuple[ParamPlace, ...]:
    """Return the parameters of a kernel with their places."""
    if not text.strip():
        return ()
    params = []
    offset = 0
    for piece in text.split(","):
        param = _param(piece.strip())
        if param is None:
            raise _Problem(f"the invalid parameter {_short(piece)!r}")
        if param.size:
            offset = -(-offset // param.align) * param.align
            param = param._replace(offset=offset)
            offset += param.size
        params.append(param)
        if offset > _MAX_BYTES:
            raise _Problem(f"more than {_MAX_BYTES} bytes of parameters")
    return tuple(params)


def _directives(text: str) -> dict[str, tuple[int, ...]]:
    """Return the directives before the body of a kernel, with the numbers of those that are
    read.
    """
    if text.strip() and not text.lstrip().startswith("."):
        raise _Problem(f"{_short(text)!r} before its body; expected a directive")
    values: dict[str, tuple[int, ...]] = {}
    for directive in _DIRECTIVE.finditer(text):
        key = directive[1]
        values[key] = ()
        if key not in ("maxntid", "reqntid", "reqnctapercluster", "maxclusterrank"):
            continue
        rest = directive[2].strip()
        numbers: list[int] = []
        for each in rest.split(","):
            number = _number(each.strip())
            if number is None or not 1 <= number < _MAX_THREADS or len(numbers) == 3:
                raise _Problem(
                    f"the directive .{key} with {_short(rest)!r}; expected up to three numbers of 1 or more"
                )
            numbers.append(number)
        values[key] = tuple(numbers)
    return values


def _param(text: str) -> ParamPlace | None:
    """Return the size, alignment and type of a parameter; None if the text is invalid. The offset
    is 0.
    """
    if len(text) > _MAX_DECLARATION:
        return None
    match = _PARAM.fullmatch(text)
    if match is None:
        return None
    type_ = ""
    align = 0
    pointer = False
    for word in _WORD.finditer(match[1]):
        key = word[1]
        if key == "ptr":
            pointer = True
        elif key == "align" and not pointer:
            # After .ptr it is the alignment of the memory.
            align = _number(word[2] or "") or 0
            if not 0 < align <= 1024 or align & (align - 1):
                return None
        elif key in _SIZES:
            type_ = key
    if not type_:
        return None
    natural = _SIZES[type_]
    count = _count(match[3])
    if count is None:
        return None
    if not natural:
        return ParamPlace(0, 0, 0, type_)
    size = min(natural * count, _MAX_BYTES + 1)
    return ParamPlace(0, size, align or natural, type_, pointer)


def _count(dims: str) -> int | None:
    """Return the number of elements of an array, at most one more than the most bytes; None if the
    text is invalid. It is 1 for no array.
    """
    total = 1
    for length in dims.replace("[", " ").replace("]", " ").split():
        count = _number(length)
        if count is None or count > _MAX_BYTES:
            return None
        total = min(total * count, _MAX_BYTES + 1)
    return total


def _number(text: str) -> int | None:
    """Return the value of an integer in hexadecimal, binary, octal or decimal; None for other
    text.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    for digits, base in zip(match.groups(), (16, 2, 8, 10), strict=True):
        if digits:
            return int(digits, base)
    return None


def _dims(values: tuple[int, ...] | None) -> Dims | None:
    if not values:
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _short(text: str) -> str:
    text = " ".join(text[:200].split())
    if len(text) > 80:
        return f"{text[:80]}…"
    return text


def _error(text: str, position: int, problem: str) -> FormatError:
    line = text.count("\n", 0, position) + 1
    return FormatError(f"the PTX is invalid at line {line}: {problem}", kind="cuda")
