"""What a check has found: a report names the place in the source, the thread and the memory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devmod_simulators.ptx.module import Module
    from devmod_simulators.ptx.ptx_types import Instruction

_LETTERS = {"f": "float", "s": "int", "u": "uint", "b": "uint"}
#: How a program gets lines of the source.
ADVICE = "for the line of the source, compile with -lineinfo (numba: @cuda.jit(lineinfo=True))"
#: A module's text may end with its sources: each line has this mark, and each file the line "//|
#: FILE:".
_MARK = "//| "


@dataclass
class Place:
    """A place in memory: the element, the array that it is in, the array's name, and the index."""

    element: str
    array: str = ""
    name: str = ""
    index: int | None = None
    freed: bool = False


@dataclass
class Report:
    """A fault: all threads with the same one at a line are one report."""

    check: str
    kind: str  # such as "out of bounds (write)"
    source: str  # the line of the source, and its text where it is known
    function: str
    block: tuple[int, ...]
    thread: tuple[int, ...]
    detail: str
    argument: str = ""
    index: int | None = None
    threads: set[int] = field(default_factory=set)
    advice: str = ""

    @property
    def text(self) -> str:
        """The report, as people read it."""
        where = f"block {self.block}, thread {self.thread}: " if self.block else ""
        lines = [f"{self.kind}: {self.source}", f"  {where}{self.detail}"]
        more = len(self.threads) - 1
        if more > 0:
            lines.append(f"  {more} more thread{'s' if more > 1 else ''} at this line")
        if self.advice:
            lines.append(f"  {self.advice}")
        return "\n".join(lines)

    def fields(self) -> dict[str, Any]:
        """Return what a program reads of the report."""
        names = (
            "check",
            "kind",
            "source",
            "function",
            "block",
            "thread",
            "argument",
            "index",
            "text",
        )
        return {name: getattr(self, name) for name in names} | {"threads": len(self.threads)}


def source_of(module: Module, instruction: Instruction) -> str:
    """Return the line of an instruction with its text: of the source if the compiler has noted it,
    else of the PTX.
    """
    number, line = module.text.source(instruction)
    if not line:
        return module.text.place(instruction)
    path = module.text.files.get(number, "?")
    lines = lines_of(module, path)
    text = ""
    if line <= len(lines):
        text = lines[line - 1].strip()
    place, _, _ = module.text.place(instruction).partition(", PTX line ")
    if not text:
        return place
    return f"{place}  {text}"


def lines_of(module: Module, path: str) -> list[str]:
    """Return the lines of a source: those that the module carries, else those of the file."""
    if not module.sources:
        module.sources |= carried_sources(module.raw)
    name = Path(path).name
    if name in module.sources:
        return module.sources[name]
    key = os.path.abspath(path)  # files of several folders may have one name
    if key not in module.sources:
        module.sources[key] = lines_of_file(path) or lines_of_file(name)
    return module.sources[key]


def carried_sources(text: str) -> dict[str, list[str]]:
    """Return the lines of the sources at the end of a module's text, by the name of the file."""
    sources: dict[str, dict[int, str]] = {}
    name = ""
    number = 1
    for line in text[text.find("\n" + _MARK) :].splitlines():
        begin = re.fullmatch(r"//\| (.+):", line)
        directive = re.match(r'//\| #line (\d+)(?: "(.*)")?', line)
        if begin and not name:
            name = Path(begin[1]).name
        elif directive:
            number = int(directive[1])
            if directive[2]:
                name = Path(directive[2]).name
        elif line.startswith(_MARK.rstrip()):
            sources.setdefault(name, {})[number] = line[len(_MARK) :]
            number += 1
        else:
            name = ""
            number = 1
    return {
        each: [lines.get(place, "") for place in range(1, max(lines) + 1)]
        for each, lines in sources.items()
    }


def lines_of_file(path: str) -> list[str]:
    """Return the lines of a file, or none if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


def counted(size: int) -> str:
    """Return a number of bytes in words."""
    return f"{size} byte{'s' if size != 1 else ''}"


def type_of(instruction: Instruction) -> str:
    """Return the element type of an access, as its opcode has it."""
    kind = next(
        (part for part in reversed(instruction.parts) if re.fullmatch(r"[fsub]\d+", part)), "b8"
    )
    return f"{_LETTERS[kind[0]]}{kind[1:]}"


def width_of(kind: str) -> int:
    """Return the bytes of an element type."""
    return int("".join(filter(str.isdigit, kind)) or 8) // 8


def name_of(symbol: str) -> str:
    """Return the name of a variable without the function that it is in: `s` of `_ZZ1kE1s`, and of
    `k_$_s` or `k_$_s_$_0`, as clang writes that of C.
    """
    _, separator, name = symbol.partition("_$_")
    if separator and not symbol.startswith("_$_"):
        return name.partition("_$_")[0]
    if not symbol.startswith("_Z"):
        return symbol
    for found in re.finditer(r"\d+", symbol):
        end = found.end() + int(found[0])
        if re.fullmatch(r"E?(_\d+)?", symbol[end:]):
            return symbol[found.end() : end]
    return symbol


def local_argument(symbol: str) -> int | None:
    """Return the number of the `local` argument of OpenCL C whose memory a variable is: that of
    `k_$_tile_$_local2` is 2. The argument is its offset in the dynamic shared memory.
    """
    match = re.search(r"_\$_local(\d{1,9})$", symbol, re.ASCII)
    if match is None:
        return None
    return int(match[1])


def shown_name(module: Module, symbol: str) -> str:
    """Return the name of a variable as its source has it: Slang adds a number to
    each.
    """
    name = name_of(symbol)
    short = re.sub(r"_\d+$", "", name)
    if short == name:
        return name
    if not module.sources:
        module.sources |= carried_sources(module.raw)
    words = set()
    for lines in module.sources.values():
        words |= set(re.findall(r"\w+", "\n".join(lines)))
    if short in words and name not in words:
        return short
    return name


def variable_place(
    space: str, shown: str, offset: int, kind: str, limits: tuple[int, int]
) -> Place:
    """Return a place in a variable."""
    width = width_of(kind)
    start, end = limits
    index = (offset - start) // width
    array = f"{shown} is {kind}[{(end - start) // width}] in {space} memory"
    return Place(f"{shown}[{index}]", array, shown, index)
