"""Instructions of SPIR-V as texts, to write modules that no assembler writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The words of an instruction: the opcode and the operands.
Instruction = tuple[int, ...]


def words_of(text: str) -> Instruction:
    """Return a text as words, with a zero at its end."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return tuple(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4))


def assemble(text: str, names: Mapping[str, Any]) -> list[Instruction]:
    """Return the instructions of a text, one to a line or behind a semicolon: numbers, names of
    numbers, and texts in quotes.
    """
    results: list[Instruction] = []
    for line in text.strip().replace(";", "\n").split("\n"):
        words: list[int] = []
        for part in line.split():
            if part.startswith('"'):
                words += words_of(part.strip('"'))
            elif part[0].isdigit():
                words.append(int(part, 0))
            else:
                words.append(names[part])
        results.append(tuple(words))
    return results


def module_of(instructions: list[Instruction], bound: int = 1000, generator: int = 0) -> bytes:
    """Return a module of version 1.3."""
    words = [0x07230203, 0x00010300, generator, bound, 0]
    for opcode, *operands in instructions:
        words += [len(operands) + 1 << 16 | opcode, *operands]
    return b"".join(word.to_bytes(4, "little") for word in words)
