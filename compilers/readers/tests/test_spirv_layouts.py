"""The element type, the size and the alignment of a buffer, from the words of its type, and the
shared memory of types.
"""

from __future__ import annotations

import pytest
from each_case import refusal
from spirv_text import Instruction, assemble, module_of

from devmod.errors import FormatError
from devmod_readers.reflection import ReflectedShader
from devmod_readers.spirv import read_module, reflect


def code(text: str) -> list[Instruction]:
    return assemble(text, globals())


(F16, F32, U32, I8, U64, V2, V3, V4, B1) = range(1, 10)
FIVE, MEMBER, BLOCK, POINTER, VARIABLE = 20, 30, 31, 32, 33
INNER, ROW = 41, 42
TYPES: list[Instruction] = code("""
22 F16 16
22 F32 32
21 U32 32 0
21 I8 8 1
21 U64 64 0
23 V2 F32 2
23 V3 F32 3
23 V4 F32 4
20 B1
43 U32 FIVE 5
""")


def shader(storage: int, *instructions: Instruction) -> ReflectedShader:
    """Return a shader with a variable of the type BLOCK, which it uses."""
    head: list[Instruction] = [
        *code('15 5 60 "main"'),
        *code("16 60 17 2 1 1"),
        (5, VARIABLE, ord("v")),
        *code("71 VARIABLE 33 4; 71 VARIABLE 34 1"),
    ]
    tail = [(32, POINTER, storage, BLOCK), (59, POINTER, VARIABLE, storage)]
    body = code("54 90 60 0 91; 61 BLOCK 92 VARIABLE; 56")
    data = module_of([*head, *instructions, *tail, *body])
    (found,) = reflect(read_module(data), "k.spv", include_unused=True)
    return found


def member(*types: Instruction, offset: int = 0) -> list[Instruction]:
    """Return a block with one member, whose type is the last."""
    marks = [each for each in types if each[0] in (71, 72)]
    others = [each for each in types if each[0] not in (71, 72)]
    return [*marks, (72, BLOCK, 0, 35, offset), *TYPES, *others, *code("30 BLOCK MEMBER")]


def array(stride: int, of: int, number: int = MEMBER) -> list[Instruction]:
    return [(71, number, 6, stride), (28, number, of, FIVE)]


def matrix(columns: int, column: int, stride: int, *marks: Instruction) -> list[Instruction]:
    return [(72, BLOCK, 0, 7, stride), *marks, (24, MEMBER, column, columns)]


def struct(number: int, *members: tuple[int, int]) -> list[Instruction]:
    """Return a struct of types at offsets."""
    marks = [(72, number, index, 35, offset) for index, (_, offset) in enumerate(members)]
    return [*marks, (30, number, *(type_ for type_, _ in members))]


ROW_MAJOR = (72, BLOCK, 0, 4)
#: A block, and the type, the size and the alignment of the buffer.
LAYOUTS: dict[str, tuple[list[Instruction], tuple[str, int, int]]] = {
    "a float": (member((22, MEMBER, 32)), ("float32", 4, 0)),
    "a float at 8": (member((22, MEMBER, 32), offset=8), ("uint8x12", 12, 4)),
    "a half": (member((22, MEMBER, 16)), ("float16", 2, 0)),
    "a double": (member((22, MEMBER, 64)), ("float64", 8, 0)),
    "a bfloat": (member((22, MEMBER, 16, 0)), ("bfloat16", 2, 0)),
    "an E4M3": (member((22, MEMBER, 8, 4214)), ("float8_e4m3fn", 1, 0)),
    "an E5M2": (member((22, MEMBER, 8, 4215)), ("float8_e5m2", 1, 0)),
    "a short": (member((21, MEMBER, 16, 1)), ("int16", 2, 0)),
    "a long": (member((21, MEMBER, 64, 0)), ("uint64", 8, 0)),
    "a vector": (member((23, MEMBER, F16, 4)), ("float16x4", 8, 0)),
    "a vector of three": (member((23, MEMBER, F32, 3)), ("float32x3", 12, 0)),
    "a vector of 16": (member((23, MEMBER, I8, 16)), ("int8x16", 16, 0)),
    "an address": (member((32, MEMBER, 5349, F32)), ("uint64", 8, 0)),
    "an array": (member(*array(4, F32)), ("float32", 20, 0)),
    "a padded array": (member(*array(16, F32)), ("uint8x16", 80, 4)),
    "vectors of three": (member(*array(16, V3)), ("float32x3", 80, 0)),
    "contiguous vectors of three": (member(*array(12, V3)), ("float32", 60, 0)),
    "padded vectors": (member(*array(24, V4)), ("uint8x24", 120, 8)),
    "an array of arrays": (
        member(*array(4, F32, INNER), *array(20, INNER)),
        ("float32", 100, 0),
    ),
    "a padded array of arrays": (
        member(*array(4, F32, INNER), *array(24, INNER)),
        ("uint8x24", 120, 4),
    ),
    "a runtime array": (member((71, MEMBER, 6, 2), (29, MEMBER, F16)), ("float16", 0, 0)),
    "a matrix": (member(*matrix(3, V2, 8)), ("float32x2", 24, 0)),
    "a padded matrix": (member(*matrix(3, V2, 16)), ("uint8x16", 48, 8)),
    "a matrix of rows": (member(*matrix(3, V2, 16, ROW_MAJOR)), ("float32x3", 32, 0)),
    "a matrix of contiguous rows": (member(*matrix(3, V2, 12, ROW_MAJOR)), ("float32", 24, 0)),
    "matrices": (
        member((72, BLOCK, 0, 7, 8), (24, INNER, V2, 4), *array(32, INNER)),
        ("float32x2", 160, 0),
    ),
    "the most bytes": (
        member((71, MEMBER, 6, 1 << 31), (43, U32, 21, 1 << 31), (28, MEMBER, F32, 21)),
        ("", 1 << 62, 0),
    ),
    "a struct": (member(*struct(MEMBER, (U64, 0), (F32, 8))), ("uint8x16", 16, 8)),
    "a struct at other offsets": (
        member(*struct(MEMBER, (U64, 4), (F32, 16))),
        ("uint8x20", 20, 4),
    ),
    "structs": (
        member(*struct(INNER, (F32, 0), (F32, 4)), *array(8, INNER)),
        ("uint8x8", 40, 4),
    ),
    "padded structs": (
        member(*struct(INNER, (F32, 0), (F32, 4)), *array(12, INNER)),
        ("uint8x12", 60, 4),
    ),
    "structs of another stride": (
        member(*struct(INNER, (U64, 0), (F32, 8)), *array(20, INNER)),
        ("uint8x20", 100, 4),
    ),
    "a number before a runtime array": (
        [
            *code("71 MEMBER 6 4"),
            *struct(BLOCK, (U32, 0), (MEMBER, 4))[:-1],
            *TYPES,
            *code("29 MEMBER U32; 30 BLOCK U32 MEMBER"),
        ],
        ("uint32", 4, 0),
    ),
    "another number before a runtime array": (
        [
            *code("71 MEMBER 6 4"),
            *struct(BLOCK, (U32, 0), (MEMBER, 4))[:-1],
            *TYPES,
            *code("29 MEMBER F32; 30 BLOCK U32 MEMBER"),
        ],
        ("", 4, 0),
    ),
    "a gap before a runtime array": (
        [
            *code("71 MEMBER 6 4"),
            *struct(BLOCK, (U32, 0), (MEMBER, 8))[:-1],
            *TYPES,
            *code("29 MEMBER U32; 30 BLOCK U32 MEMBER"),
        ],
        ("", 8, 0),
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_of_a_buffer(name: str) -> None:
    instructions, expected = LAYOUTS[name]
    (resource,) = shader(12, *instructions).resources
    assert (resource.at, resource.name, resource.kind) == ((1, 4), "v", "buffer")
    assert (resource.type, resource.size, resource.align) == expected


@pytest.mark.parametrize(
    ("instructions", "problem"),
    [
        (
            member((22, MEMBER, 8)),
            "has a number of 8 bits in an encoding that devmod does not support",
        ),
        (
            member((21, MEMBER, 24, 0)),
            "has a number of 24 bits in an encoding that devmod does not support",
        ),
        (member((23, MEMBER, F32, 1)), "is damaged: it has an invalid vector"),
        (member((23, MEMBER, F32, 17)), "is damaged: it has an invalid vector"),
        (member((23, MEMBER, V2, 2)), "is damaged: it has an invalid vector"),
        (member(*matrix(1, V2, 8)), "is damaged: it has an invalid matrix"),
        (member(*matrix(5, V2, 8)), "is damaged: it has an invalid matrix"),
        (
            member(*matrix(2, V2, 0)),
            "has a matrix without a stride in a block of memory; expected MatrixStride",
        ),
        (
            member(*array(0, F32)),
            "has an array without a stride in a block of memory; expected ArrayStride",
        ),
        (
            member((20, MEMBER)),
            "has a bool in a block of memory, where that type has no layout",
        ),
        (
            member((32, MEMBER, 12, F32)),
            "has a type of opcode 32 in a block of memory, where that type has no layout",
        ),
        (
            member((71, INNER, 6, 4), (29, INNER, F32), *array(4, INNER)),
            "is damaged: it has an array of runtime arrays",
        ),
        (
            [*TYPES, *code("30 BLOCK F32")],
            "has a block of memory whose members have no offsets; expected Offset",
        ),
        (
            member((71, MEMBER, 6, 1 << 31), (43, U32, 21, (1 << 31) + 1), (28, MEMBER, F32, 21)),
            "has a block of more than 2**62 bytes",
        ),
    ],
)
def test_a_layout_that_is_refused(instructions: list[Instruction], problem: str) -> None:
    assert refusal(FormatError, shader, 12, *instructions) == problem


#: A type, and its bytes in shared memory.
SHARED: list[tuple[list[Instruction], int]] = [
    (code("22 BLOCK 16"), 2),
    (code("21 BLOCK 64 0"), 8),
    (code("20 BLOCK"), 4),
    (code("23 BLOCK F16 3"), 6),
    (code("24 BLOCK V3 2"), 24),
    (code("28 BLOCK V2 FIVE"), 40),
    (code("30 BLOCK F16 V4 B1"), 22),
    (code("28 INNER U64 FIVE; 30 BLOCK INNER I8"), 41),
    (code("32 BLOCK 7 F32"), 0),
    (code("28 BLOCK F32 99"), 0),
    (
        code("43 U32 21 0xFFFF_FFFF; 28 INNER V4 21; 28 BLOCK INNER 21"),
        1 << 53,
    ),
]


@pytest.mark.parametrize(("types", "size"), SHARED)
def test_the_shared_memory_of_a_type(types: list[Instruction], size: int) -> None:
    found = shader(4, *TYPES, *types)
    assert (found.workgroup_memory, found.resources) == (size, ())
    assert found.block == (2, 1, 1)
