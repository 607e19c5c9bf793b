"""What a check has found: a report names the place in the source, the thread and the memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devmod_simulators.ptx.module import Module
    from devmod_simulators.ptx.ptx_types import Instruction

_TYPES = {
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "long long": "int64",
    "unsigned long long": "uint64",
    "long": "int64",
    "size_t": "uint64",
    "__half": "float16",
    "half": "float16",
    "bool": "bool",
}
_LETTERS = {"f": "float", "s": "int", "u": "uint", "b": "uint"}
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

    @property
    def text(self) -> str:
        """The report, as people read it."""
        where = f"block {self.block}, thread {self.thread}: " if self.block else ""
        lines = [f"{self.kind}: {self.source}", f"  {where}{self.detail}"]
        more = len(self.threads) - 1
        if more > 0:
            lines.append(f"  {more} more thread{'s' if more > 1 else ''} at this line")
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


def source_of(module: "Module", instruction: "Instruction") -> str:
    """Return the line of an instruction with its text: of the source if the compiler has noted it,
    else of the PTX.
    """
    number, line = module.text.source(instruction)
    if not line:
        return module.text.place(instruction)
    path = module.text.files.get(number, "?")
    lines = lines_of(module, path)
    text = lines[line - 1].strip() if line <= len(lines) else ""
    return module.text.place(instruction).split(", PTX line ")[0] + (f"  {text}" if text else "")


def lines_of(module: "Module", path: str) -> list[str]:
    """Return the lines of a source: those that the module carries, else those of the file."""
    if path not in module.sources:
        carried = re.search(
            rf"^//\| {re.escape(Path(path).name)}:\n((?://\| .*\n?)*)", module.raw, re.MULTILINE
        )
        if carried:
            lines = [line[len(_MARK) :] for line in carried[1].splitlines()]
            begin = max(
                (number for number, line in enumerate(lines, 1) if line.startswith("#line 1 ")),
                default=0,
            )
            module.sources[path] = lines[begin:]
        else:
            try:
                module.sources[path] = Path(path).read_text(errors="replace").splitlines()
            except OSError:
                module.sources[path] = []
    return module.sources[path]


def parameters_of(module: "Module", kernel: str) -> list[tuple[str, str]]:
    """Return the name and the element type of each parameter of a kernel, as its source declares
    them; none if that is not found.
    """
    mangled = re.match(r"_ZN?(\d+)(.*)", kernel)
    name = mangled[2][: int(mangled[1])] if mangled else kernel
    for path in module.text.files.values():
        found = re.search(
            rf"__global__[^;{{}}]*?\b{re.escape(name)}\s*\(([^)]*)\)",
            "\n".join(lines_of(module, path)),
        )
        if found:
            declared = [
                re.sub(r"\b(const|__restrict__|restrict|volatile)\b", " ", each)
                for each in found[1].split(",")
            ]
            parts = [re.match(r"\s*(.*?)[\s*&]*(\w+)?\s*(?:\[.*)?$", each) for each in declared]
            return [
                (part[2] or "", _TYPES.get(" ".join(part[1].split()), "")) for part in parts if part
            ]
    return []


def counted(size: int) -> str:
    """Return a number of bytes in words."""
    return f"{size} byte{'s' if size != 1 else ''}"


def type_of(instruction: "Instruction") -> str:
    """Return the element type of an access, as its opcode has it."""
    kind = next(
        (part for part in reversed(instruction.parts) if re.fullmatch(r"[fsub]\d+", part)), "b8"
    )
    return f"{_LETTERS[kind[0]]}{kind[1:]}"


def width_of(kind: str) -> int:
    """Return the bytes of an element type."""
    return int("".join(filter(str.isdigit, kind)) or 8) // 8


def name_of(symbol: str) -> str:
    """Return the name of a variable without the function that it is in: `s` of `_ZZ1kE1s`."""
    for found in re.finditer(r"\d+", symbol if symbol.startswith("_Z") else ""):
        end = found.end() + int(found[0])
        if re.fullmatch(r"E?(_\d+)?", symbol[end:]):
            return symbol[found.end() : end]
    return symbol


def variable_place(space: str, name: str, offset: int, kind: str, limits: tuple[int, int]) -> Place:
    """Return a place in a variable."""
    shown, width = name_of(name), width_of(kind)
    index = (offset - limits[0]) // width
    return Place(
        f"{shown}[{index}]",
        f"{shown} is {kind}[{(limits[1] - limits[0]) // width}] in {space} memory",
        shown,
        index,
    )
