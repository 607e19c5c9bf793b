"""How the functions of a SPIR-V module use its resources: the buffers whose run-time length they
ask for, and the pairs of an image and a sampler with which they sample. Vulkan's rules for some
samplers apply to the pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from devmod_readers.spirv._module import SpirvModule, read_words

_LOAD, _ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN, _ARRAY_LENGTH, _COPY, _SAMPLED_IMAGE = (
    61,
    65,
    66,
    68,
    83,
    86,
)
_EXPLICIT_LOD, _GATHER = 88, 96
_SHUFFLE, _EXTRACT, _BITCAST, _BUILT_IN = 79, 81, 124, 11
#: The instructions that sample; all but two of them use derivatives or projection.
_SAMPLING = frozenset((87, _EXPLICIT_LOD, 91, 92, _GATHER))
#: The image operands Bias, ConstOffset, Offset and ConstOffsets.
_OFFSETS = 0x1 | 0x8 | 0x10 | 0x20


def _instructions(data: bytes | memoryview) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the opcode and the operands of each instruction that may have a result of an
    operand.
    """
    words = read_words(data)
    at = 5
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        operands = words[at + 1 : at + length]
        at += length
        if len(operands) >= 3:
            yield opcode, operands


def read_lengths(data: bytes | memoryview, module: SpirvModule) -> set[tuple[int, int]]:
    """Return the (set, binding) of each buffer whose length is used. Lengths of buffers that are
    arguments of functions are missing.

    Parameters
    ----------
    data, module
        The bytes of the file, and what `read_module` returns for it.
    """
    values = {number: number for number in module.variables}
    result = set()
    for opcode, operands in _instructions(data):
        if (
            opcode in (_ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN, _ARRAY_LENGTH)
            and operands[2] in values
        ):
            values[operands[1]] = values[operands[2]]
            place = module.place_of(values[operands[2]]) if opcode == _ARRAY_LENGTH else None
            if place is not None:
                result.add(place)
    return result


def read_axes(data: bytes | memoryview, module: SpirvModule) -> int:
    """Return the dimensions of the grid in which the entry point of a module reads its place, or 1:
    also if it reads the size of the grid.

    The result is 1 for several entry points, and if the place is an argument of a function or in a
    variable.

    Parameters
    ----------
    data, module
        The bytes of the file, and what `read_module` returns for it.
    """
    built_in = {
        number: each[_BUILT_IN][0]
        for number, each in module.decorations.items()
        if each.get(_BUILT_IN)
    }
    values, axes = (
        {number for number, each in built_in.items() if each in (26, 28)},
        [0],
    )  # WorkgroupId, GlobalInvocationId
    if len(module.entries) != 1 or not {24, 31}.isdisjoint(
        built_in.values()
    ):  # NumWorkgroups, GlobalSize
        return 1
    for opcode, operands in _instructions(data):
        if operands[2] not in values:
            continue
        if opcode in (_LOAD, _COPY, _BITCAST):
            values.add(operands[1])
        elif opcode in (_ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN):
            axes += module.constants.get(operands[3], (0, (0, 0)))[1][1:2]
        elif opcode in (_EXTRACT, _SHUFFLE):
            axes += operands[3 + (opcode == _SHUFFLE) :]
    return max(each for each in axes if each < 3) + 1


def read_samplings(
    data: bytes | memoryview, module: SpirvModule
) -> dict[tuple[tuple[int, int], tuple[int, int]], bool]:
    """Return the places of the images and samplers that the functions of a module sample with.

    Parameters
    ----------
    data
        The bytes of the file.
    module
        What `read_module` returns for it.

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
    result: dict[tuple[tuple[int, int], tuple[int, int]], bool] = {}
    for opcode, operands in _instructions(data):
        if opcode in (_LOAD, _ACCESS_CHAIN, _IN_BOUNDS_ACCESS_CHAIN, _COPY):
            if operands[2] in values:
                values[operands[1]] = values[operands[2]]
        elif opcode == _SAMPLED_IMAGE and len(operands) > 3:
            image, sampler = values.get(operands[2]), values.get(operands[3])
            if image and sampler:
                values[operands[1]] = image[0], sampler[0]
        elif opcode in _SAMPLING and operands[2] in values:
            image_place, sampler_place = map(module.place_of, values[operands[2]])
            if image_place is not None and sampler_place is not None:
                offsets = (
                    operands[4] & _OFFSETS if opcode == _EXPLICIT_LOD and len(operands) > 4 else 0
                )
                pair = image_place, sampler_place
                result[pair] = (
                    result.get(pair, False) or opcode not in (_EXPLICIT_LOD, _GATHER) or offsets > 0
                )
    return result
