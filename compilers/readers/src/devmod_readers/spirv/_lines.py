"""The lines of the source in the debug information of a module."""

from __future__ import annotations

from itertools import islice

from devmod_readers.spirv._module import SpirvModule, starts

_LINE = 8
_FUNCTION_END = 56
_NO_LINE = 317


def line_of(module: SpirvModule, number: int) -> str:
    """Return the file and the line of an instruction, such as "k.cl:3"; "" if they are unknown.

    `number` counts the instructions from 1, as spirv-val does.
    """
    place = ""
    words = module.words
    for at in islice(starts(words), max(number, 0)):
        opcode = words[at] & 0xFFFF
        if opcode == _LINE:
            place = f"{module.names.get(words[at + 1], '')}:{words[at + 2]}"
        elif opcode in (_NO_LINE, _FUNCTION_END):
            place = ""
    return place
