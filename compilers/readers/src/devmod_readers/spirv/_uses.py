"""How the functions of a SPIR-V module use its resources: the buffers whose run-time length they
ask for, and the pairs of an image and a sampler with which they sample. Vulkan's rules for some
samplers apply to the pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from devmod_readers.spirv._module import Place, SpirvModule, Target, starts

_LOAD = 61
_ACCESS_CHAIN = 65
_IN_BOUNDS_ACCESS_CHAIN = 66
_ARRAY_LENGTH = 68
_SHUFFLE = 79
_EXTRACT = 81
_COPY = 83
_SAMPLED_IMAGE = 86
_EXPLICIT_LOD = 88
_GATHER = 96
_BITCAST = 124
#: The decoration.
_BUILT_IN = 11
#: WorkgroupId and GlobalInvocationId.
_PLACES = (26, 28)
#: NumWorkgroups and GlobalSize.
_GRID_SIZES = (24, 31)
#: The instructions that sample; all but two of them use derivatives or projection.
_SAMPLING = frozenset((87, _EXPLICIT_LOD, 91, 92, _GATHER))
#: The image operands Bias, ConstOffset, Offset and ConstOffsets.
_OFFSETS = 0x1 | 0x8 | 0x10 | 0x20


def _instructions(module: SpirvModule) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the opcode and the operands of each instruction that may have a result of an
    operand.
    """
    words = module.words
    for at in starts(words):
        length = words[at] >> 16
        operands = words[at + 1 : at + length]
        if len(operands) >= 3:
            yield words[at] & 0xFFFF, operands


def read_lengths(module: SpirvModule) -> set[Place]:
    """Return the (set, binding) of each buffer whose length is used. Lengths of buffers that are
    arguments of functions are missing.
    """
    values = {number: number for number in module.variables}
    result = set()
    for opcode, operands in _instructions(module):
        if opcode not in (_ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN, _ARRAY_LENGTH):
            continue
        if operands[2] not in values:
            continue
        variable = values[operands[2]]
        values[operands[1]] = variable
        if opcode != _ARRAY_LENGTH:
            continue
        place = module.place_of(variable)
        if place is not None:
            result.add(place)
    return result


def read_axes(module: SpirvModule) -> int:
    """Return the dimensions of the grid in which the entry point of a module reads its place, or 1:
    also if it reads the size of the grid.

    The result is 1 for several entry points, and if the place is an argument of a function or in a
    variable.
    """
    if len(module.entries) != 1:
        return 1
    values: set[Target] = set()
    for target in module.decorations:
        built_in = module.mark(target, _BUILT_IN)
        if built_in in _GRID_SIZES:
            return 1
        if built_in in _PLACES:
            values.add(target)

    axes = [0]
    for opcode, operands in _instructions(module):
        if operands[2] not in values:
            continue
        if opcode in (_LOAD, _COPY, _BITCAST):
            values.add(operands[1])
        elif opcode in (_ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN):
            for index in operands[3:4]:
                axes += module.constants[index][1][1:2]
        elif opcode == _EXTRACT:
            axes += operands[3:]
        elif opcode == _SHUFFLE:
            # Behind the second of its two vectors.
            axes += operands[4:]
    return max(axis for axis in axes if axis < 3) + 1


def read_samplings(module: SpirvModule) -> dict[tuple[Place, Place], bool]:
    """Return the places of the images and samplers that the functions of a module sample with.

    Returns
    -------
    dict
        The (set, binding) of the image and that of the sampler, to whether Vulkan requires a
        sampler with normalized coordinates there. Images and samplers that are arguments of
        functions are missing.
    """
    #: The variables of the image and of the sampler that an id stands for; one variable twice if
    #: the id is one of them.
    values = {number: (number, number) for number in module.variables}
    result: dict[tuple[Place, Place], bool] = {}
    for opcode, operands in _instructions(module):
        if opcode in (_LOAD, _ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN, _COPY):
            if operands[2] in values:
                values[operands[1]] = values[operands[2]]
        elif opcode == _SAMPLED_IMAGE and len(operands) > 3:
            image = values.get(operands[2])
            sampler = values.get(operands[3])
            if image and sampler:
                values[operands[1]] = image[0], sampler[0]
        elif opcode in _SAMPLING and operands[2] in values:
            image_place, sampler_place = map(module.place_of, values[operands[2]])
            if image_place is None or sampler_place is None:
                continue
            pair = image_place, sampler_place
            result[pair] = result.get(pair, False) or _needs_normalized(opcode, operands)
    return result


def _needs_normalized(opcode: int, operands: Sequence[int]) -> bool:
    """Return whether an instruction that samples needs a sampler with normalized coordinates."""
    if opcode == _GATHER:
        return False
    if opcode != _EXPLICIT_LOD:
        return True
    return len(operands) > 4 and operands[4] & _OFFSETS > 0
