"""The text of a kernel in PTX: registers, instructions, and lines of the source."""

from __future__ import annotations

import re
import struct
from collections import Counter
from typing import TYPE_CHECKING

from devmod_targets.spirv_ptx._types import RefusedError, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod_readers.spirv import SpirvLine
    from devmod_targets.spirv_ptx._sources import Sources

#: The prefix of the registers of each type.
_PREFIXES = {"pred": "p", "b16": "h", "b32": "r", "b64": "q", "f32": "f", "f64": "d"}
#: The most lines of a kernel: functions are inlined.
_MOST_LINES = 200_000
_WORDS = {"WARP_SZ"}
_REGISTER = re.compile(r"%[a-z]+\d+\b")
#: An instruction of `_inputs`, or a copy, with its result.
_PLAIN = re.compile(r"\t(?:mov\.[bu]32|mad\.lo\.u32) (%r\d+), ")


class Names:
    """The names of a text, each given once."""

    def __init__(self) -> None:
        self._taken = {*_WORDS}

    def add(self, name: str, default: str) -> str:
        """Return a name that PTX allows and that nothing has yet."""
        plain = re.sub(r"\W", "_", name, flags=re.ASCII) or default
        if plain[0].isdigit() or plain[0] == "_":
            plain = f"{default}_{plain}"
        number = 1
        result = plain
        while result in self._taken:
            number += 1
            result = f"{plain}_{number}"
        self._taken.add(result)
        return result


class Writer:
    """The body of one kernel."""

    def __init__(self, sources: Sources) -> None:
        self.lines: list[str] = []
        self.variables: list[str] = []
        self._sources = sources
        self._counts: Counter[str] = Counter()
        self._labels = 0
        self._line: SpirvLine | None = None

    def new(self, register: str) -> str:
        """Return a new register of a type."""
        prefix = _PREFIXES[register]
        self._counts[prefix] += 1
        return f"%{prefix}{self._counts[prefix]}"

    def label(self) -> str:
        """Return a new label."""
        self._labels += 1
        return f"$L{self._labels}"

    def put_label(self, label: str) -> None:
        """Write a label."""
        self._add(f"{label}:")

    def _add(self, line: str) -> None:
        if len(self.lines) > _MOST_LINES:
            raise RefusedError(
                f"the kernel has more than {_MOST_LINES} lines of PTX with its functions inlined"
            )
        self.lines.append(line)

    def at(self, line: SpirvLine | None) -> None:
        """Write the line of the source from which the next instructions are."""
        if line is None or line == self._line:
            return
        # naga has it for an instruction without a place.
        if line.number == line.column == 1:
            return
        self._line = line
        self.lines.append(f"\t.loc {self._sources.number(line.file)} {line.number} {line.column}")

    def put(self, opcode: str, *operands: str, guard: str = "") -> None:
        """Write an instruction."""
        start = f"{guard} {opcode}" if guard else opcode
        self._add(f"\t{start} {', '.join(operands)};")

    def op(self, register: str, opcode: str, *operands: str) -> str:
        """Write an instruction with a result, and return the new register."""
        result = self.new(register)
        self.put(opcode, result, *operands)
        return result

    def move(self, scalar: Scalar, target: str, value: str) -> None:
        """Copy a value into a register."""
        kind = scalar.register
        if kind == "pred" and value in ("true", "false"):
            self.put("setp.eq.u32", target, "0", "0" if value == "true" else "1")
        else:
            self.put(f"mov.{kind}", target, value)

    def copy(self, scalar: Scalar, value: str) -> str:
        """Return a new register with a value."""
        result = self.new(scalar.register)
        self.move(scalar, result, value)
        return result

    def held(self, scalar: Scalar, value: str) -> str:
        """Return a register with a value, for instructions that take no literal."""
        return value if value.startswith("%") else self.copy(scalar, value)

    def predicate(self, value: str) -> str:
        """Return a register with a bool."""
        return self.held(Scalar("bool"), value)

    def used_lines(self) -> list[str]:
        """Return the lines without the copies and places in the grid that nothing reads: a kernel
        that reads its place along x is for launches of one dimension.
        """
        reads = Counter(each for line in self.lines for each in _REGISTER.findall(line))
        kept = []
        for line in reversed(self.lines):
            if match := _PLAIN.match(line):
                registers = _REGISTER.findall(line)
                if reads[match[1]] == registers.count(match[1]):
                    reads.subtract(registers)
                    continue
            kept.append(line)
        return kept[::-1]

    def registers(self) -> list[str]:
        """Return the declarations of the registers."""
        lines = []
        for kind, prefix in _PREFIXES.items():
            if self._counts[prefix]:
                lines.append(f"\t.reg .{kind} %{prefix}<{self._counts[prefix] + 1}>;")
        return lines


def literal(scalar: Scalar, bits: int) -> str:
    """Return the literal of a number of given bits."""
    if scalar.form == "bool":
        return "true" if bits else "false"
    if scalar.form == "float" and scalar.bits > 16:
        return f"0{'f' if scalar.bits == 32 else 'd'}{bits:0{scalar.bits // 4}X}"
    if scalar.form == "float":
        return f"0x{bits:04X}"
    if scalar.bits == 64 and bits >= 1 << 63:
        return f"0x{bits:X}"
    return str(bits)


def float_literal(bits: int, value: float) -> str:
    """Return the literal of a float."""
    form, unsigned = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}[bits]
    (number,) = struct.unpack(unsigned, struct.pack(form, value))
    return literal(Scalar("float", bits), number)


def joined(values: Sequence[str]) -> str:
    """Return the operand of several values."""
    return "{" + ", ".join(values) + "}"
