"""The global variables of an image: PTX, a cubin, an AMD code object, a shared object."""

from __future__ import annotations

import re
from collections.abc import Iterator

from devmod_readers.elf import ElfFile

_ELF = b"\x7fELF"
_SYMBOLS = 2
_DYNAMIC_SYMBOLS = 11
_OBJECT = 1
#: A variable's declaration in PTX, and not an instruction such as ``ld.global``.
_PTX = re.compile(
    rb"(?<![\w.])\.(?:global|const)\s++(?>(?:\.\w++(?:\s++\d++|\([^()]{1,99}+\))?\s*+){1,8})([A-Za-z_$%][\w$]{0,4095}+)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: The parts of a mangled name before the name: a namespace, or internal linkage.
_MANGLED = re.compile(r"_Z(N?)L?", re.ASCII)
_PART = re.compile(r"L?(\d{1,5})", re.ASCII)
#: The start of the name of an anonymous namespace, for clang and for NVIDIA's compilers.
_ANONYMOUS = ("_GLOBAL__N_", "_INTERNAL_")
#: The most variables that are read. An image has them all in a table of its own.
_MAX_VARIABLES = 1 << 16
#: The most bytes of a name that is read.
_MAX_NAME = 4096


def variable_name(symbol: str) -> str:
    """Return the name of a variable in the source, with its namespaces: "filters::weights" for
    "_ZN7filters7weightsE".

    A symbol that is not mangled, or in a way that variables of namespaces are not, is returned
    unchanged.
    """
    start = _MANGLED.match(symbol)
    if start is None:
        return symbol
    parts = []
    at = start.end()
    while (length := _PART.match(symbol, at)) is not None:
        at = length.end() + int(length[1])
        part = symbol[length.end() : at]
        if not part.startswith(_ANONYMOUS):
            parts.append(part)
        if not start[1]:
            break
    expected_end = "E" if start[1] else ""
    if not parts or symbol[at:] != expected_end:
        return symbol
    if not all(map(_IDENTIFIER.fullmatch, parts)):
        return symbol
    return "::".join(parts)


def read_variables(code: bytes) -> dict[str, str]:
    """Return the symbols of an image's global variables by their names in the source. An image that
    is damaged has none.

    Parameters
    ----------
    code
        PTX, or an ELF file.
    """
    symbols = _elf_symbols(code) if code[:4] == _ELF else _ptx_symbols(code)
    found: dict[str, str] = {}
    try:
        for symbol in symbols:
            found.setdefault(variable_name(symbol), symbol)
            if len(found) == _MAX_VARIABLES:
                break
    except ValueError:
        # A table is outside of the file.
        return {}
    return found


def _ptx_symbols(code: bytes) -> Iterator[str]:
    for match in _PTX.finditer(code):
        yield match[1].decode()


def _elf_symbols(code: bytes) -> Iterator[str]:
    elf = ElfFile(code)
    kinds = [section[1] for section in elf.sections()]
    for kind in (_SYMBOLS, _DYNAMIC_SYMBOLS):
        if kind not in kinds:
            continue
        # A file has one table of each kind.
        number = kinds.index(kind)
        names = bytes(elf.contents(elf.section(number)[4]))
        for start, info, place, _, size in elf.symbols(elf.contents(number)):
            if info & 15 != _OBJECT or not place or not size:
                continue
            end = max(names.find(b"\0", start, start + _MAX_NAME), start)
            name = names[start:end].decode("utf-8", "replace")
            # A kernel's descriptor of AMD is also an object, with the name k.kd. Those of the
            # compiler begin with two underscores.
            if _IDENTIFIER.fullmatch(name) and not name.startswith("__"):
                yield name
