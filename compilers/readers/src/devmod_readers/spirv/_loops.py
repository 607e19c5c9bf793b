"""Loops of SPIR-V that end where they begin.

clspv tests whether a loop ends after its body. Mesa's CPU device and SwiftShader then give a thread
values of turns that others still take: a value of the last turn, or what it loaded there, is lost.
Where the test comes first, the phis at the beginning of the loop keep these values.
"""

from __future__ import annotations

import sys
from array import array
from itertools import count

from devmod_readers.spirv._module import SpirvModule, starts

#: An instruction: its opcode and its operands.
_Words = list[int]
_Blocks = dict[int, list[_Words]]

_FUNCTION = 54
_FUNCTION_END = 56
_PHI = 245
_LOOP_MERGE = 246
_SELECTION_MERGE = 247
_LABEL = 248
_BRANCH = 249
_BRANCH_CONDITIONAL = 250
_SWITCH = 251
_UNREACHABLE = 255
_CONSTANT_TRUE = 41
_CONSTANT_FALSE = 42
_CONSTANT_NULL = 46
#: The types of which no phi is made: images, samplers, and pointers.
_OPAQUE = (25, 26, 27, 32)
_EXTENDED = 12
#: The first word that is a literal or a label, by opcode.
_LITERALS = {61: 4, 62: 3, 63: 3, 68: 4, 79: 5, 81: 4, 82: 5, 246: 0, 247: 0, 250: 2, 251: 2}


def with_exits_first(module: SpirvModule) -> bytes:
    """Return a module of clspv in which each loop with a result tests first whether it ends."""
    words = module.words
    changed = _Module(module)
    for at in starts(words):
        length = words[at] >> 16
        changed.add([words[at] & 0xFFFF, *words[at + 1 : at + length]])
    result = array(words.typecode, [*words[:3], next(changed.ids), words[4]])
    for opcode, *operands in [*changed.globals, *changed.functions]:
        length = 1 + len(operands)
        result.extend([length << 16 | opcode, *operands])
    if sys.byteorder == "big":
        result.byteswap()
    return result.tobytes()


def loses_turns(module: SpirvModule) -> bool:
    """Return whether a loop has a turn back that a constant condition never takes.

    clspv writes such a loop for one whose test it lost: where an inner loop also ends or repeats
    the outer one.
    """
    constants = {
        number: opcode == _CONSTANT_TRUE
        for number, (opcode, _) in module.constants.items()
        if opcode in (_CONSTANT_TRUE, _CONSTANT_FALSE)
    }
    words = module.words
    loops: dict[int, int] = {}
    block = 0
    for at in starts(words):
        opcode = words[at] & 0xFFFF
        if opcode == _LABEL:
            block = words[at + 1]
        elif opcode == _LOOP_MERGE:
            loops[block] = words[at + 2]
        elif opcode == _BRANCH_CONDITIONAL and words[at + 1] in constants:
            taken, other = words[at + 2], words[at + 3]
            if not constants[words[at + 1]]:
                taken, other = other, taken
            if taken != other and loops.get(other) == block:
                return True
    return False


class _Module:
    """The instructions before the functions, and those of the functions."""

    def __init__(self, module: SpirvModule) -> None:
        self.ids = count(module.words[3])
        self.globals: list[_Words] = []
        self.functions: list[_Words] = []
        self._types = module.types
        self._constants: dict[tuple[int, int], int] = {}
        self._blocks: _Blocks = {}

    def add(self, words: _Words) -> None:
        """Add an instruction. The end of a function moves the exits of its loops."""
        opcode = words[0]
        if opcode == _LABEL:
            self._blocks[words[1]] = []
        elif opcode == _FUNCTION_END:
            for label in list(self._blocks):
                self._move_exit(label)
            for label, block in self._blocks.items():
                self.functions += [[_LABEL, label], *block]
            self._blocks = {}
            self.functions.append(words)
        elif self._blocks:
            next(reversed(self._blocks.values())).append(words)
        elif self.functions or opcode == _FUNCTION:
            self.functions.append(words)
        else:
            self.globals.append(words)

    def _constant(self, opcode: int, type_: int) -> int:
        """Return the id of a new constant: true, or the zero of a type."""
        key = (opcode, type_)
        if key not in self._constants:
            self._constants[key] = next(self.ids)
            self.globals.append([opcode, type_, self._constants[key]])
        return self._constants[key]

    def _move_exit(self, header: int) -> None:  # noqa: C901 - the parts of one rewrite of a loop
        """Move the exit of a loop from the end of its body to its beginning."""
        blocks = self._blocks
        loop = _loop_at(blocks, header)
        if loop is None:
            return
        end, latch, control = loop
        inside = _reachable(blocks, header, end)
        definitions = self._definitions(inside)
        uses = _uses(blocks, inside, definitions)
        last = blocks[latch][-1]
        if not uses or last[1] not in definitions:
            return
        start = blocks[header]
        phis = [words for words in start if words[0] == _PHI]
        rest = start[len(phis) : -2]
        body = next(self.ids)
        back = latch
        added = {body: rest}
        if latch == header:
            back = body
        elif start[-1][0] != _BRANCH:
            join = _join(blocks, start[-1], latch, inside)
            if join == latch:
                join = next(self.ids)
                added[join] = [[_UNREACHABLE]]
            rest.append([_SELECTION_MERGE, join, 0])
        rest.append(start[-1])
        for label in inside:
            _rename(blocks[label], header, body)
        _rename(blocks[end], latch, header)

        entries = [each for each in _before(blocks, header) if each not in inside]
        results: dict[int, int] = {}
        copies: list[_Words] = []

        def at_exit(value: int, opcode: int = _CONSTANT_NULL) -> int:
            """Return the phi of a value of the last turn. What has none is computed again."""
            if value in results:
                return results[value]
            results[value] = next(self.ids)
            words = definitions[value].copy()
            type_ = words[1]
            if self._types[type_][0] in _OPAQUE:
                words[2] = results[value]
                for at in _operands(words)[2:]:
                    if words[at] in definitions:
                        words[at] = at_exit(words[at])
                copies.append(words)
                return results[value]
            words = [_PHI, type_, results[value]]
            for label in entries:
                words += [self._constant(opcode, type_), label]
            phis.append([*words, value, back])
            return results[value]

        opcode = _CONSTANT_NULL
        targets = [end, body]
        if last[2] == header:
            opcode = _CONSTANT_TRUE
            targets = [body, end]
        test = at_exit(last[1], opcode)
        for words, at in uses:
            words[at] = at_exit(words[at])
        after = len([words for words in blocks[end] if words[0] == _PHI])
        blocks[end][after:after] = copies
        last[:] = [_BRANCH, header]
        first = [*phis, [_LOOP_MERGE, end, back, *control], [_BRANCH_CONDITIONAL, test, *targets]]
        self._blocks = {}
        for label, block in blocks.items():
            self._blocks[label] = block
            if label == header:
                self._blocks[label] = first
                self._blocks |= added

    def _definitions(self, labels: set[int]) -> dict[int, _Words]:
        """Return the instructions of blocks that have a result, by its id."""
        definitions = {}
        for label in labels:
            for words in self._blocks[label]:
                if len(words) > 2 and words[1] in self._types:
                    definitions[words[2]] = words
        return definitions


def _loop_at(blocks: _Blocks, header: int) -> tuple[int, int, _Words] | None:
    """Return the block after a loop, the last one of a turn, which is the only one that ends the
    loop, and the words of its control; None if no such loop begins at a block.
    """
    start = blocks[header]
    if len(start) < 2 or start[-2][0] != _LOOP_MERGE:
        return None
    _, end, latch, *control = start[-2]
    last = blocks[latch][-1]
    if last[0] != _BRANCH_CONDITIONAL or {*last[2:4]} != {header, end}:
        return None
    if _before(blocks, end) != [latch]:
        return None
    return end, latch, control


def _before(blocks: _Blocks, label: int) -> list[int]:
    """Return the blocks before a block."""
    return [each for each, block in blocks.items() if label in _successors(block)]


def _uses(blocks: _Blocks, inside: set[int], values: dict[int, _Words]) -> list[tuple[_Words, int]]:
    """Return the instructions outside of a loop that use its values, and the indices of these."""
    uses = []
    for label, block in blocks.items():
        if label not in inside:
            for words in block:
                uses += [(words, at) for at in _operands(words) if words[at] in values]
    return uses


def _operands(words: _Words) -> list[int]:
    """Return the indices of the words of an instruction that may be values."""
    opcode = words[0]
    end = _LITERALS.get(opcode, len(words))
    return [at for at in range(1, end) if opcode != _EXTENDED or at != 4]


def _successors(block: list[_Words]) -> _Words:
    """Return the labels of the blocks after a block."""
    last = block[-1]
    opcode = last[0]
    if opcode == _BRANCH:
        return last[1:]
    if opcode == _BRANCH_CONDITIONAL:
        return last[2:4]
    if opcode == _SWITCH:
        return [last[2], *last[4::2]]
    return []


def _reachable(blocks: _Blocks, first: int, end: int) -> set[int]:
    """Return a block and those after it up to another one, without that."""
    found = {first}
    left = [first]
    while left:
        for label in _successors(blocks[left.pop()]):
            if label not in found and label != end:
                found.add(label)
                left.append(label)
    return found


def _join(blocks: _Blocks, branch: _Words, latch: int, inside: set[int]) -> int:
    """Return the first block that each way from a branch to the end of a turn has in common."""
    targets = _successors([branch])
    for label in blocks:
        ways = [each for each in targets if each != label]
        if label in inside and not any(latch in _reachable(blocks, each, label) for each in ways):
            return label
    return latch


def _rename(block: list[_Words], old: int, new: int) -> None:
    """Rename a block in the phis of a block after it."""
    for phi in block:
        if phi[0] == _PHI:
            for at in range(4, len(phi), 2):
                if phi[at] == old:
                    phi[at] = new
