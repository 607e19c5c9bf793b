"""The instructions of PTX: the table in instructions.txt, from which the engines take the forms of
each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: What a part of an opcode is that names a type.
_TYPE = re.compile(r"pred|(b|u|s|f|bf|tf)\d+(x\d)?|u?e\dm\d(x\d)?")

#: The operand of an opcode that combines a comparison with a predicate.
_PREDICATE = "p?"

#: The families of instructions that do nothing here, of those that use memory at the addresses in
#: their operands, and of those whose address is a descriptor's.
WITHOUT_EFFECT = "Without an effect"
ADDRESSES = ("Memory", "Atomic operations", "Copies", "Barriers in memory")
DESCRIPTORS = "Textures and surfaces"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an opcode: one of some texts."""

    choices: tuple[str, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class Form:
    """A form of an instruction: a row of the table, for one name."""

    family: str
    name: str
    modifiers: tuple[Part, ...]
    types: tuple[Part, ...]
    operands: tuple[str, ...]
    #: Whether an opcode may have more parts, which an engine checks.
    is_open: bool
    #: Why only the interpreter has it, or "".
    interpreted: str

    def fits(self, modifiers: Sequence[str], types: Sequence[str]) -> bool:
        """Return whether an opcode with these parts has this form."""
        if len(types) != len(self.types) and not self.is_open:
            return False
        if any(kind not in part.choices for kind, part in zip(types, self.types, strict=False)):
            return False
        rest = list(modifiers)
        for part in self.modifiers:
            found = next((each for each in rest if each in part.choices), None)
            if found is not None:
                rest.remove(found)
            elif not part.optional:
                return False
        return self.is_open or not rest

    def counts(self, modifiers: Collection[str]) -> tuple[int, int] | None:
        """Return how many operands an opcode with these modifiers has at least and at most; None
        for any number.
        """
        if "..." in self.operands:
            return None
        least = [each for each in self.operands if not each.endswith("?")]
        if _PREDICATE in self.operands:
            number = len(least) + any(each in modifiers for each in ("and", "or", "xor"))
            return number, number
        return len(least), len(self.operands)


@dataclass(frozen=True, slots=True)
class Opcode:
    """An opcode, split into its parts, and its form if the table has one."""

    parts: list[str]
    modifiers: frozenset[str]
    types: list[str]
    form: Form | None


@cache
def forms() -> dict[str, list[Form]]:
    """Return the forms of each name, in the order of the table."""
    result: dict[str, list[Form]] = {}
    for form in _rows(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")):
        result.setdefault(form.name, []).append(form)
    return result


def names(*families: str) -> set[str]:
    """Return the names of the instructions of some families."""
    return {form.name for each in forms().values() for form in each if form.family in families}


@cache
def opcode_of(text: str) -> Opcode:
    """Return an opcode with its form."""
    parts = text.split(".")
    modifiers: list[str] = []
    types: list[str] = []
    for part in parts[1:]:
        (types if _TYPE.fullmatch(part) else modifiers).append(part)
    form = next((each for each in forms().get(parts[0], []) if each.fits(modifiers, types)), None)
    return Opcode(parts, frozenset(parts[1:]), types, form)


def strange_parts(text: str) -> list[str]:
    """Return the parts of an opcode that no form of its name has."""
    opcode = opcode_of(text)
    known: set[str] = set()
    for form in forms().get(opcode.parts[0], []):
        for part in (*form.modifiers, *form.types):
            known.update(part.choices)
    return [part for part in opcode.parts[1:] if part not in known]


def _rows(text: str) -> Iterator[Form]:
    """Yield the forms of a table."""
    named: dict[str, str] = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("["):
            family = line.strip("[]")
        elif "|" in line:
            cells = [cell.strip() for cell in line.split("|")]
            yield from _forms(family, cells, named)
        elif line:
            name, _, parts = line.partition(" = ")
            named[name] = _with_names(parts, named)


def _forms(family: str, cells: list[str], named: dict[str, str]) -> Iterator[Form]:
    """Yield the forms of a row."""
    modifiers: list[Part] = []
    types: list[Part] = []
    words = _with_names(cells[1], named).split()
    for word in words:
        part = Part(tuple(word.rstrip("?").split("/")), word.endswith("?"))
        if word != "*":
            (types if _TYPE.fullmatch(part.choices[0]) else modifiers).append(part)
    for name in cells[0].split():
        yield Form(
            family,
            name,
            tuple(modifiers),
            tuple(types),
            tuple(cells[2].split()),
            "*" in words,
            " | ".join(cells[3:]),
        )


def _with_names(parts: str, named: dict[str, str]) -> str:
    """Return parts with those that names stand for."""
    return re.sub(r"\b[A-Z][A-Z_0-9]{2,}\b(?!::)", lambda name: named.get(name[0], name[0]), parts)
