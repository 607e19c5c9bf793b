"""The buffers of a SPIR-V module whose run-time length a function uses."""

from __future__ import annotations

from devmod_readers.spirv._module import SpirvModule, read_words

_ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN, _ARRAY_LENGTH = 65, 66, 68


def read_lengths(data: bytes | memoryview, module: SpirvModule) -> set[tuple[int, int]]:
    """Return the (set, binding) of each buffer whose length is used. Lengths of buffers that are arguments of functions are missing.

    Parameters
    ----------
    data, module
        The bytes of the file, and what `read_module` returns for it.
    """
    words = read_words(data)
    values = {number: number for number in module.variables}
    result = set()
    at = 5
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        operands = words[at + 1 : at + length]
        at += length
        if opcode in (_ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN, _ARRAY_LENGTH) and len(operands) >= 3 and operands[2] in values:
            values[operands[1]] = values[operands[2]]
            place = module.place_of(values[operands[2]]) if opcode == _ARRAY_LENGTH else None
            if place is not None:
                result.add(place)
    return result
