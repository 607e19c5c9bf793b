"""Which variables of a thread are registers: those whose address nothing needs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod_readers.spirv import SpirvBlock, SpirvCode, SpirvConstants, SpirvInstruction

_CALL = 57
_LOAD = 61
_STORE = 62
_ACCESS_CHAINS = (65, 66)
_VARIABLE = 59


class Promotion:
    """The uses of the pointers of a module."""

    def __init__(self, code: SpirvCode, constants: SpirvConstants) -> None:
        self._code = code
        self._constants = constants
        self._uses: dict[int, list[SpirvInstruction]] = defaultdict(list)
        self._known: dict[int, bool] = {}
        self._written_first: set[int] = set()
        for function in code.functions.values():
            self._add(function.blocks)

    def _add(self, blocks: Sequence[SpirvBlock]) -> None:
        seen: set[int] = set()
        for block in blocks:
            for instruction in block.instructions:
                operands = {*instruction.operands}
                for operand in operands:
                    self._uses[operand].append(instruction)
                if instruction.opcode == _VARIABLE:
                    if len(instruction.operands) > 3:
                        self._written_first.add(instruction.operands[1])
                    continue
                # What the first block stores, before anything else uses it, is always written.
                if block is blocks[0] and instruction.opcode == _STORE:
                    self._written_first |= {instruction.operands[0]} - seen
                seen |= operands

    def is_written_first(self, variable: int) -> bool:
        """Return whether a variable is written before anything reads it."""
        return variable in self._written_first

    def allows(self, pointer: int) -> bool:
        """Return whether a variable can be registers: nothing but loads, stores, and accesses to
        its parts by constant indices uses it.
        """
        known = self._known.get(pointer)
        if known is None:
            # A pointer that depends on itself is no pointer to a variable.
            self._known[pointer] = False
            known = self._known[pointer] = all(
                self._is_plain(pointer, each) for each in self._uses[pointer]
            )
        return known

    def _is_plain(self, pointer: int, use: SpirvInstruction) -> bool:
        operands = use.operands
        if use.opcode in (_LOAD, _VARIABLE):
            return not _is_volatile(use)
        if use.opcode == _STORE:
            return operands[0] == pointer and operands[1] != pointer and not _is_volatile(use)
        if use.opcode in _ACCESS_CHAINS:
            if operands[2] != pointer:
                return operands[1] == pointer
            if any(index not in self._constants.values for index in operands[3:]):
                return False
            return self.allows(operands[1])
        if use.opcode != _CALL or pointer in operands[:3]:
            return False
        function = self._code.functions.get(operands[2])
        if function is None or len(function.parameters) != len(operands) - 3:
            return False
        pairs = zip(function.parameters, operands[3:], strict=True)
        return all(self.allows(number) for (_, number), argument in pairs if argument == pointer)


def _is_volatile(use: SpirvInstruction) -> bool:
    """Return whether an access has the memory operand Volatile."""
    if use.opcode == _VARIABLE:
        return False
    position = 3 if use.opcode == _LOAD else 2
    return len(use.operands) > position and bool(use.operands[position] & 1)
