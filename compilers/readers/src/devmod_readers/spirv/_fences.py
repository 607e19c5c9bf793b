"""SPIR-V whose fences of memory are atomic instructions.

Mesa 22's CPU device waits for the block at each fence, and at each atomic instruction that has an
order of memory, even if only some threads are there. It then ends the threads that still run.
"""

from __future__ import annotations

import sys
from array import array

from devmod_readers.spirv._module import SpirvModule, starts

_ENTRY_POINT = 15
_TYPE_POINTER = 32
_CONSTANT = 43
_FUNCTION = 54
_VARIABLE = 59
_FENCE = 225
_LOAD = 227
_STORE = 228
_STORES = (62, _STORE)
_EXCHANGE = 229
_WORKGROUP = 4
#: Memory of blocks with a layout, which excludes variables of blocks without one.
_EXPLICIT_LAYOUT = 4428
#: The words that have an order of memory, by the opcode of an atomic instruction.
_ORDERS = {
    **dict.fromkeys((_LOAD, _EXCHANGE, *range(232, 243), 5614, 5615, 6035), (5,)),
    _STORE: (3,),
    230: (5, 6),
}
#: A fence, and the atomic instructions that are none: the words that have the scope and the order.
_FENCED = {_FENCE: (1, 2), _LOAD: (4, 5), _STORE: (2, 3)}
#: A load and a store of memory: the word of their access. Its bits 8 and 16 have a scope and order
#: memory, and its bit 2 has a number before the scopes.
_ACCESSES = {61: 4, 62: 3}
_ALIGNED = 2
_COHERENT = (8, 16)
_MOST_WORDS = 0xFFFF


def with_atomic_fences(module: SpirvModule) -> bytes:
    """Return a module of shaders in which atomic instructions are the fences of memory, and no
    atomic instruction has an order of memory.

    It has the same results on a driver that orders all memory at each atomic instruction that reads
    and writes, as Mesa's CPU device does. Control barriers remain.
    """
    words = module.words
    fences = _Fences(module)
    entries = []
    before = words[:5]
    functions = array(words.typecode)
    for at in starts(words):
        instruction = words[at : at + (words[at] >> 16)]
        opcode = instruction[0] & 0xFFFF
        if functions or opcode == _FUNCTION:
            fences.add(instruction, functions)
            continue
        before.extend(instruction)
        if opcode == _ENTRY_POINT:
            entries.append((len(before) - len(instruction), len(before)))
    if fences.variable and module.version >= (1, 4):
        for start, end in reversed(entries):
            before[start] += 1 << 16
            before.insert(end, fences.variable)
    before[3] = fences.bound
    before.extend(fences.declarations)
    before.extend(functions)
    if sys.byteorder == "big":
        before.byteswap()
    return before.tobytes()


class _Fences:
    """The instructions of functions with other fences.

    Attributes
    ----------
    bound
        The number after the last id.
    declarations
        The instructions for the module itself.
    variable
        The id of the number that the fences exchange; 0 if there are none.
    """

    def __init__(self, module: SpirvModule) -> None:
        words = module.words
        self.bound = words[3]
        self.declarations = array(words.typecode)
        self.variable = 0
        self._code = words.typecode
        self._module = module
        self._type = 0
        self._zeros: dict[int, int] = {}
        entries = [words[at] >> 16 for at in starts(words) if words[at] & 0xFFFF == _ENTRY_POINT]
        self._can_add = max(entries, default=0) < _MOST_WORDS
        self._can_add &= _EXPLICIT_LAYOUT not in module.capabilities

    def add(self, words: array[int], functions: array[int]) -> None:
        """Add an instruction of a function, with its fence."""
        opcode = words[0] & 0xFFFF
        fence = array(self._code)
        if opcode in _FENCED:
            fence = self._fence(words, *_FENCED[opcode])
            if not fence:
                functions.extend(words)
                return
        elif opcode in _ACCESSES:
            fence = self._fence_of_access(words, _ACCESSES[opcode])
        for index in _ORDERS.get(opcode, ()):
            if index < len(words):
                words[index] = self._relaxed(words[index])
        parts = [words, fence]
        if opcode == _FENCE:
            parts = [fence]
        elif opcode in _STORES:
            parts = [fence, words]
        for part in parts:
            functions.extend(part)

    def _fence(self, words: array[int], scope: int, order: int) -> array[int]:
        """Return an atomic instruction for the order of an instruction; nothing without one."""
        fence = array(self._code)
        if not self._can_add or len(words) <= order or self._relaxed(words[order]) == words[order]:
            return fence
        return self._exchange(words[scope], words[order])

    def _fence_of_access(self, words: array[int], at: int) -> array[int]:
        """Return a fence for the order of a load or a store, which loses it."""
        fence = array(self._code)
        access = 0
        if self._can_add and len(words) > at:
            access = words[at]
        scopes = at + 1 + bool(access & _ALIGNED)
        for bit in _COHERENT:
            if not access & bit:
                continue
            if len(words) <= scopes or self._relaxed(words[scopes]) == words[scopes]:
                return fence
            fence = self._exchange(words[scopes], words[scopes])
            words[at] ^= bit
            words[0] -= 1 << 16
            del words[scopes]
        return fence

    def _exchange(self, scope: int, value: int) -> array[int]:
        """Return the exchange of a number with a constant integer."""
        fence = array(self._code)
        kind = self._module.constants[value][1][0]
        if not self.variable:
            pointer, self.variable = self._new(), self._new()
            self._type = kind
            self.declarations.extend([4 << 16 | _TYPE_POINTER, pointer, _WORKGROUP, kind])
            self.declarations.extend([4 << 16 | _VARIABLE, pointer, self.variable, _WORKGROUP])
        zero = self._zero(self._type)
        fence.extend([7 << 16 | _EXCHANGE, self._type, self._new(), self.variable])
        fence.extend([scope, zero, zero])
        return fence

    def _relaxed(self, order: int) -> int:
        """Return the id of no order for the id of an order, and other ids as they are."""
        opcode, operands = self._module.constants.get(order, (0, ()))
        if opcode != _CONSTANT or not any(operands[1:]):
            return order
        if self._module.types.get(operands[0], (0, ()))[1][:1] != (32,):
            return order
        return self._zero(operands[0])

    def _zero(self, kind: int) -> int:
        """Return the id of a new constant 0 of a type."""
        if kind not in self._zeros:
            self._zeros[kind] = self._new()
            self.declarations.extend([4 << 16 | _CONSTANT, kind, self._zeros[kind], 0])
        return self._zeros[kind]

    def _new(self) -> int:
        self.bound += 1
        return self.bound - 1
