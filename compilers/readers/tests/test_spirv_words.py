"""What is read of a SPIR-V module's words: kernels, constants, and the uses of variables."""

from __future__ import annotations

import pytest
from each_case import refusal
from spirv_text import Instruction, assemble, module_of, words_of

from devmod.backend import PipelineConstant
from devmod.errors import FormatError
from devmod_readers.reflection import MAX_ARGUMENTS
from devmod_readers.spirv import (
    KernelArgument,
    SpirvConstants,
    SpirvInstruction,
    SpirvKernel,
    SpirvLine,
    SpirvModule,
    line_of,
    read_axes,
    read_code,
    read_imports,
    read_kernels,
    read_lengths,
    read_module,
    relax_atomics,
    with_atomic_fences,
)


def code(text: str) -> list[Instruction]:
    return assemble(text, globals())


def module(*instructions: Instruction) -> SpirvModule:
    return read_module(module_of([*instructions]))


# -- kernels

VOID, INT, HALF, LONG = 1, 2, 3, 4
NUMBERS: list[Instruction] = code("19 VOID; 21 INT 32 0; 22 HALF 16; 21 LONG 64 0")
TYPE, INNER, MORE, LENGTH = 20, 21, 22, 23
LARGE = (43, INT, LENGTH, 0xFFFF_FFFF)


def image(*operands: int) -> list[Instruction]:
    return [(25, TYPE, VOID, *operands)]


def value(size: int) -> KernelArgument:
    return KernelArgument("PRIVATE", size=size)


#: The types behind those of numbers, the last of an argument, and the argument.
ARGUMENTS: dict[str, tuple[list[Instruction], KernelArgument]] = {
    "int": (code("21 TYPE 32 1"), value(4)),
    "double": (code("22 TYPE 64"), value(8)),
    "half2": (code("23 TYPE HALF 2"), value(4)),
    "int3": (code("23 TYPE INT 3"), value(16)),
    "half16": (code("23 TYPE HALF 16"), value(32)),
    "five ints": (code("43 INT LENGTH 5; 28 TYPE INT LENGTH"), value(20)),
    "a length that a receiver sets": (code("50 INT LENGTH 5; 28 TYPE INT LENGTH"), value(0)),
    "a struct that is padded": (code("30 TYPE HALF INT HALF"), value(12)),
    "a struct with a vector": (code("23 INNER INT 3; 30 TYPE HALF INNER"), value(32)),
    "a struct with an address": (code("32 INNER 5 INT; 30 TYPE HALF INNER HALF"), value(24)),
    "a struct of structs": (
        code("30 INNER HALF LONG; 30 TYPE HALF INNER INT"),
        value(32),
    ),
    "three structs": (
        code("30 INNER INT HALF; 43 INT LENGTH 3; 28 TYPE INNER LENGTH"),
        value(24),
    ),
    "a struct of no members": (code("30 TYPE"), value(0)),
    "a struct of a member without a size": (code("30 TYPE INT VOID"), value(0)),
    "an address of a generic space": (code("30 TYPE INT HALF"), value(8)),
    "large arrays": (
        [LARGE, *code("28 INNER INT LENGTH; 28 MORE INNER LENGTH; 28 TYPE MORE LENGTH")],
        value(1 << 62),
    ),
    "a sampler": (code("26 TYPE"), KernelArgument("PRIVATE", "sampler_t")),
    "global memory": (code("32 TYPE 5 INT"), KernelArgument("GLOBAL")),
    "local memory": (code("32 TYPE 4 INT"), KernelArgument("LOCAL")),
    "constant memory": (code("32 TYPE 0 INT"), KernelArgument("CONSTANT")),
    "a struct by its address": (code("30 INNER INT HALF; 32 TYPE 7 INNER"), value(8)),
    "an image": (image(1, 0, 0, 0, 0, 0, 0), KernelArgument("GLOBAL", "image2d_t", "r")),
    "a line": (image(0, 0, 0, 0, 0, 0, 1), KernelArgument("GLOBAL", "image1d_t", "w")),
    "a volume": (image(2, 0, 0, 0, 0, 0, 2), KernelArgument("GLOBAL", "image3d_t", "rw")),
    "lines": (image(0, 0, 1, 0, 0, 0, 1), KernelArgument("GLOBAL", "image1d_array_t", "w")),
    "an image over a buffer": (
        image(5, 0, 0, 0, 0, 0),
        KernelArgument("GLOBAL", "image1d_buffer_t", "r"),
    ),
    "an unknown image": (image(3, 0, 0, 1, 1, 1, 3), KernelArgument("GLOBAL", "image_t", "r")),
    "a multisampled image": (
        image(1, 1, 0, 1, 1, 1, 1),
        KernelArgument("GLOBAL", "image2d_t", "w"),
    ),
}


def kernel_module(
    types: list[Instruction], *arguments: int, modes: list[Instruction] | None = None
) -> SpirvModule:
    return module(
        (15, 6, 40, *words_of("scale")),
        (15, 5, 41, *words_of("shader")),
        *(modes or []),
        *NUMBERS,
        *types,
        (33, 30, VOID, *arguments),
        (54, VOID, 40, 0, 30),
        (56,),
        (54, VOID, 41, 0, 30),
        (56,),
    )


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_argument_of_a_kernel(name: str) -> None:
    types, argument = ARGUMENTS[name]
    found = read_kernels(kernel_module(types, HALF, TYPE))
    assert found == {"scale": SpirvKernel((value(2), argument), None)}


def test_the_block_of_a_kernel() -> None:
    modes = code("16 40 18 9 9 9; 16 40 17 8 4 2")
    assert read_kernels(kernel_module([], modes=modes)) == {"scale": SpirvKernel((), (8, 4, 2))}
    most = kernel_module([], *[HALF] * MAX_ARGUMENTS)
    assert len(read_kernels(most)["scale"].arguments) == MAX_ARGUMENTS


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (
            kernel_module([], modes=code("16 40 17 8 4")),
            "is damaged: the size of the kernel 'scale' has 2 numbers; expected 3",
        ),
        (
            kernel_module([], *[HALF] * (MAX_ARGUMENTS + 1)),
            f"has the kernel 'scale' with more than {MAX_ARGUMENTS} arguments",
        ),
        (
            kernel_module(code("32 TYPE 8 INT"), TYPE),
            "has a kernel with a pointer of the storage class 8, which OpenCL does not pass",
        ),
        (
            module((15, 6, 40, *words_of("k")), (54, 1, 40, 0, 30), (56,)),
            "is damaged: the kernel 'k' has no function type",
        ),
        (module((15, 5, 40, *words_of("k")), (54, 1, 40, 0, 30), (56,)), "has no OpenCL kernel"),
    ],
)
def test_a_kernel_that_is_refused(damaged: SpirvModule, problem: str) -> None:
    assert refusal(FormatError, read_kernels, damaged) == problem


def test_the_functions_that_a_module_imports() -> None:
    names = {40: "first", 41: "abc", 42: "built", 43: "exported", 50: "variable"}
    linkage = [
        (71, number, 41, *words_of(name), int(number != 43)) for number, name in names.items()
    ]
    functions = [(54, VOID, number, 0, 30) for number in (41, 40, 42, 43, 44)]
    ends = [each for function in functions for each in (function, (56,))]
    found = module(*linkage, (71, 42, 11, 28), (71, 44, 41), (59, 9, 50, 5), *ends)
    assert read_imports(found) == ["first", "abc"]


# -- constants

(BOOL, U16, I16, U32, I32, U64, I64, F16, F32, F64, VECTOR) = range(1, 12)
SCALARS: list[Instruction] = code("""
20 BOOL
21 U16 16 0
21 I16 16 1
21 U32 32 0
21 I32 32 1
21 U64 64 0
21 I64 64 1
22 F16 16
22 F32 32
22 F64 64
23 VECTOR I32 2
""")
MINUS_7 = 2**32 - 7
FIRST, SECOND, THIRD, RESULT = 51, 52, 53, 60


def constant(type_: int, number: int, id_: int, opcode: int = 43) -> Instruction:
    words = [number & 0xFFFF_FFFF]
    if type_ in (U64, I64, F64):
        words.append(number >> 32 & 0xFFFF_FFFF)
    return (opcode, type_, id_, *words)


#: An operation, the type of the result and the result, and the types and numbers of the operands.
#: The last ones have no result, or are not evaluated.
OPERATIONS = """
128 I32 10 = I32:7 I32:3
128 U32 2 = U32:4294967295 U32:3
128 I32 -2147483648 = I32:2147483647 I32:1
130 I32 -4 = I32:3 I32:7
130 U32 4294967292 = U32:3 U32:7
132 I32 21 = I32:7 I32:3
134 U32 2147483644 = I32:-7 I32:2
135 I32 -3 = U32:4294967289 I32:2
137 U32 9 = I32:-7 I32:10
138 I32 -1 = U32:4294967289 I32:3
139 I32 2 = U32:4294967289 I32:3
194 I32 15 = I32:-7 I32:28
195 I32 -4 = U32:4294967289 I32:1
196 I32 -1073741824 = I32:3 I32:30
197 I32 7 = I32:5 I32:3
198 I32 6 = I32:5 I32:3
199 I32 1 = I32:5 I32:3
166 BOOL 1 = BOOL:0 BOOL:1
166 BOOL 0 = BOOL:0 BOOL:0
167 BOOL 0 = BOOL:0 BOOL:1
167 BOOL 1 = BOOL:1 BOOL:1
164 BOOL 1 = BOOL:0 BOOL:0
165 BOOL 1 = BOOL:0 BOOL:1
165 BOOL 0 = BOOL:1 BOOL:1
170 BOOL 1 = I32:5 I32:5
170 BOOL 0 = I32:5 I32:6
171 BOOL 1 = I32:5 I32:6
171 BOOL 0 = I32:5 I32:5
172 BOOL 1 = I32:-7 I32:2
172 BOOL 0 = I32:2 I32:2
173 BOOL 0 = U32:4294967289 U32:2
173 BOOL 1 = U32:2 U32:4294967289
173 BOOL 0 = U32:2 U32:2
174 BOOL 1 = I32:-7 I32:2
174 BOOL 1 = I32:2 I32:2
175 BOOL 0 = U32:4294967289 U32:2
175 BOOL 1 = U32:2 U32:2
176 BOOL 1 = I32:2 I32:-7
176 BOOL 0 = I32:2 I32:2
177 BOOL 1 = U32:4294967289 U32:2
177 BOOL 0 = U32:2 U32:2
178 BOOL 1 = I32:2 I32:-7
178 BOOL 1 = I32:2 I32:2
179 BOOL 1 = U32:4294967289 U32:2
179 BOOL 1 = U32:2 U32:2
179 BOOL 0 = U32:3 U32:2
113 U32 65529 = I16:-7
114 I32 -7 = U16:65529
114 I32 7 = U16:7
124 I32 -7 = U32:4294967289
126 I32 -7 = I32:7
168 BOOL 1 = BOOL:0
168 BOOL 0 = BOOL:1
200 I32 -7 = I32:6
169 I32 5 = BOOL:1 I32:5 I32:6
169 I32 6 = BOOL:0 I32:5 I32:6
128 U64 8589934597 = U64:8589934592 U64:5
128 I64 -8589934587 = I64:-8589934592 I64:5
134 I32 none = I32:7 I32:0
135 I32 none = I32:7 I32:0
137 I32 none = I32:7 I32:0
138 I32 none = I32:7 I32:0
139 I32 none = I32:7 I32:0
135 I32 none = I32:-2147483648 I32:-1
138 I32 none = I32:-2147483648 I32:-1
139 I32 none = I32:-2147483648 I32:-1
135 I16 none = I16:-32768 I16:-1
135 I32 32768 = I32:-32768 I32:-1
135 I32 -2147483648 = I32:-2147483648 I32:1
194 U32 1 = U32:2147483648 U32:31
194 U32 none = U32:1 U32:32
195 U32 none = U32:1 U32:32
196 U32 none = U32:1 U32:32
196 U16 32768 = U16:1 U32:15
196 U16 none = U16:1 U32:16
195 I32 none = I32:1 I32:-1
129 I32 none = I32:7 I32:3
128 I32 none = I32:7
126 I32 none = I32:7 I32:3
169 I32 none = BOOL:1 I32:5
128 I32 none = F32:7 I32:3
169 I32 none = F32:1 I32:5 I32:6
128 F32 none = I32:7 I32:3
"""


@pytest.mark.parametrize("operation", OPERATIONS.strip().split("\n"))
def test_an_operation_on_constants(operation: str) -> None:
    opcode, type_, result, _, *operands = operation.split()
    given = []
    ids = range(FIRST, FIRST + len(operands))
    for number, operand in zip(ids, operands, strict=True):
        name, value = operand.split(":")
        if name == "BOOL":
            given.append((42 - int(value), BOOL, number))
        else:
            given.append(constant(globals()[name], int(value), number))
    applied = (52, globals()[type_], RESULT, int(opcode), *ids)
    found = SpirvConstants(module(*SCALARS, *given, applied))
    assert str(found.values.get(RESULT, "none")) == result


#: Constants, the last with the id RESULT, and its value.
VALUES: list[tuple[list[Instruction], int | None]] = [
    (code("41 BOOL RESULT"), 1),
    (code("42 BOOL RESULT"), 0),
    (code("46 I32 RESULT"), 0),
    (code("46 F32 RESULT"), None),
    (code("48 BOOL RESULT"), 1),
    (code("49 BOOL RESULT"), 0),
    (code("43 I16 RESULT 0xFFF9"), -7),
    (code("43 I32 RESULT 9 5"), 9),
    (code("43 I64 RESULT 9 5"), 5 * 2**32 + 9),
    (code("43 I64 RESULT 9 5 3"), 5 * 2**32 + 9),
    (code("50 U64 RESULT 9 5"), 5 * 2**32 + 9),
    (code("43 F32 RESULT 9"), None),
    (code("21 12 8 1; 43 12 RESULT 255"), -1),
    (code("21 12 4 1; 43 12 RESULT 3"), None),
    (code("21 12 65 1; 43 12 RESULT 3"), None),
    (code("44 VECTOR RESULT FIRST FIRST"), None),
]
PAIR = [constant(I32, 5, FIRST), constant(I32, 6, SECOND)]
for _opcode in (44, 51):
    _vector: Instruction = (_opcode, VECTOR, THIRD, FIRST, SECOND)
    for _index, _value in ((0, 5), (1, 6), (2, None)):
        VALUES.append(([*PAIR, _vector, (52, I32, RESULT, 81, THIRD, _index)], _value))
    VALUES.append(([*PAIR, _vector, *code("52 I32 RESULT 81 THIRD 0 0")], None))
    VALUES.append(([*PAIR, _vector, *code("52 I32 RESULT 81 THIRD")], None))
VALUES.append(([*PAIR, *code("52 I32 RESULT 81 FIRST 0")], None))


@pytest.mark.parametrize(("constants", "value"), VALUES)
def test_the_value_of_a_constant(constants: list[Instruction], value: int | None) -> None:
    found = SpirvConstants(module(*SCALARS, *constants))
    assert found.values.get(RESULT) == value


#: Numbers that a receiver sets: the words of the default, and how it is listed.
SPECIALIZED: list[tuple[Instruction, PipelineConstant]] = [
    ((48, BOOL, RESULT), PipelineConstant("", "bool", 7, True)),
    ((49, BOOL, RESULT), PipelineConstant("", "bool", 7, False)),
    ((50, U16, RESULT, 0xFFF9), PipelineConstant("", "uint16", 7, 65529)),
    ((50, I16, RESULT, 0xFFF9), PipelineConstant("", "int16", 7, -7)),
    ((50, U32, RESULT, MINUS_7), PipelineConstant("", "uint32", 7, MINUS_7)),
    ((50, I64, RESULT, 9, 5), PipelineConstant("", "int64", 7, 5 * 2**32 + 9)),
    ((50, F16, RESULT, 0xFFFF_3E00), PipelineConstant("", "float16", 7, 1.5)),
    ((50, F32, RESULT, 0x40200000), PipelineConstant("", "float32", 7, 2.5)),
    ((50, F32, RESULT, 0x40200000, 7), PipelineConstant("", "float32", 7, 2.5)),
    ((50, F64, RESULT, 5, 0x40040000), PipelineConstant("", "float64", 7, 2.5 + 5 * 2**-51)),
]


@pytest.mark.parametrize(("specialized", "expected"), SPECIALIZED)
def test_a_constant_that_a_receiver_sets(
    specialized: Instruction, expected: PipelineConstant
) -> None:
    found = SpirvConstants(module((71, RESULT, 1, 7), *SCALARS, specialized))
    assert found.listed == [expected]


def test_what_the_constants_depend_on() -> None:
    """By the order of their specialization ids."""
    found = module(
        (71, 51, 1, 9),
        (71, 52, 1, 4),
        (71, 53, 1, 9),
        (71, 54, 1, 6),
        (71, 59, 1, 1),
        (5, 53, *words_of("lanes")),
        (5, 54, *words_of("scale")),
        *SCALARS,
        (50, U32, 51, 8),
        (50, U32, 52, 3),
        (50, I32, 53, 8),
        (50, F32, 54, 0),
        (43, U32, 55, 2),
        (52, U32, 56, 128, 51, 52),
        (51, VECTOR, 57, 55, 56),
        (52, U32, 58, 81, 57, 52),
        (43, U32, 59, 2),
        (52, VECTOR, 61, 79, 55, 57, 54, 54),
        (52, VECTOR, 62, 82, 55, 57, 54),
    )
    constants = SpirvConstants(found)
    assert constants.listed == [
        PipelineConstant("", "uint32", 4, 3),
        PipelineConstant("scale", "float32", 6, 0.0),
        PipelineConstant("lanes", "int32", 9, 8),
    ]
    sources = {number: constants.source(number) for number in (*range(51, 60), 61, 62)}
    assert sources == {
        51: 2,
        52: 0,
        53: 2,
        54: 1,
        55: -1,
        56: (0, 2),
        57: (0, 2),
        58: (0, 2),
        59: -1,
        61: (0, 2),
        62: (0, 2),
    }
    given = SpirvConstants(found, {9: 5, 6: 2.5, 4: True})
    assert [each.default for each in given.listed] == [True, 2.5, 5]
    assert [given.values.get(number) for number in range(51, 57)] == [5, 1, 5, None, 2, 6]


def test_defaults_that_differ() -> None:
    marks = code("71 51 1 9; 71 52 1 9; 71 53 1 4; 71 54 1 4")
    bools = code("48 BOOL 53; 49 BOOL 54")
    sum_ = (52, U32, 56, 128, 51, 55)
    numbers = [*code("50 U32 51 8; 50 U32 52 7"), constant(U32, 2, 55)]
    found = SpirvConstants(module(*marks, *SCALARS, *numbers, *bools, sum_))
    assert [each.default for each in found.listed] == [None, None]
    assert [found.is_set(number) for number in (51, 52, 55, 56)] == [False, False, True, False]


def test_constants_that_are_refused() -> None:
    marks = code("71 51 1 9; 71 52 1 9")
    both = code("50 U32 51 8; 50 F32 52 8")
    assert refusal(FormatError, SpirvConstants, module(*marks, *SCALARS, *both)) == (
        "has the specialization constant '9' with the types uint32 and float32; expected one type"
    )
    for count in (1024, 1025):
        many: list[Instruction] = [(71, 100 + number, 1, number) for number in range(count)]
        many += [*SCALARS, *(constant(U32, 1, 100 + number, 50) for number in range(count))]
        if count == 1024:
            assert len(SpirvConstants(module(*many)).listed) == count
        else:
            problem = "has more than 1024 specialization constants"
            assert refusal(FormatError, SpirvConstants, module(*many)) == problem
    for type_ in ((21, 12, 24, 0), (22, 12, 16, 0), (19, 12)):
        one = module((71, 51, 1, 9), *SCALARS, type_, (50, 12, 51, 8))
        problem = "has the specialization constant 9, which is neither a number nor a bool"
        assert refusal(FormatError, SpirvConstants, one) == problem


# -- uses

ENTRY = (15, 5, 1, *words_of("main"), 13)


def used(*body: Instruction, marks: list[Instruction] | None = None) -> SpirvModule:
    types: list[Instruction] = code("21 5 32 0; 43 5 6 1; 43 5 7 2; 43 5 8 3")
    variables: list[Instruction] = code("59 12 13 1; 59 12 14 1")
    function = [*code("54 2 1 0 3"), *body, *code("56")]
    return module(ENTRY, *(marks or []), *types, *variables, *function)


PLACE = code("71 13 11 28")
GROUP = code("71 13 11 26")
LOADED = (61, 4, 20, 13)
#: The instructions of a shader, its decorations, and the dimensions of its grid.
AXES: dict[str, tuple[list[Instruction], list[Instruction], int]] = {
    "nothing": ([], PLACE, 1),
    "the first": ([LOADED, *code("81 5 21 20 0")], PLACE, 1),
    "the second": ([LOADED, *code("81 5 21 20 1")], PLACE, 2),
    "the third": ([LOADED, *code("81 5 21 20 2")], PLACE, 3),
    "no axis": ([LOADED, *code("81 5 21 20 3")], PLACE, 1),
    "of a group": ([LOADED, *code("81 5 21 20 1")], GROUP, 2),
    "of another built-in": ([LOADED, *code("81 5 21 20 1")], code("71 13 11 27"), 1),
    "of another variable": (code("61 4 20 14; 81 5 21 20 1"), PLACE, 1),
    "a copy": ([LOADED, *code("83 4 22 20; 81 5 21 22 1")], PLACE, 2),
    "a bitcast": ([LOADED, *code("124 4 22 20; 81 5 21 22 2")], PLACE, 3),
    "a sum": ([LOADED, *code("128 4 22 20 20; 81 5 21 22 2")], PLACE, 1),
    "a chain": (code("65 4 20 13 7"), PLACE, 3),
    "a chain to the second": (code("65 4 20 13 6 7"), PLACE, 2),
    "a chain in bounds": (code("66 4 20 13 6"), PLACE, 2),
    "a chain beyond": (code("66 4 20 13 8"), PLACE, 1),
    "a shuffle": ([LOADED, *code("79 4 21 20 20 0 1")], PLACE, 2),
    "a shuffle of the first": ([LOADED, *code("79 4 21 20 2 0 0")], PLACE, 1),
    "the size in threads": ([LOADED, *code("81 5 21 20 1")], [*PLACE, *code("71 14 11 31")], 1),
    "the size in groups": ([LOADED, *code("81 5 21 20 1")], [*PLACE, *code("71 14 11 24")], 1),
    "the index in a group": ([LOADED, *code("81 5 21 20 1")], [*PLACE, *code("71 14 11 29")], 2),
    "a second entry": ([LOADED, *code("81 5 21 20 1")], [*PLACE, *code('15 5 1 "b"')], 1),
}


@pytest.mark.parametrize("name", AXES)
def test_the_axes_in_which_a_shader_reads_its_place(name: str) -> None:
    body, marks, dimensions = AXES[name]
    assert read_axes(used(*body, marks=marks)) == dimensions


#: Instructions, and the places whose lengths they use.
LENGTHS: list[tuple[list[Instruction], set[tuple[int, int]]]] = [
    (code("68 5 20 13 0"), {(3, 4)}),
    (code("68 5 20 14 0"), {(0, 9)}),
    (code("68 5 20 13 0; 68 5 21 14 0"), {(3, 4), (0, 9)}),
    (code("65 12 20 13 6; 68 5 21 20 0"), {(3, 4)}),
    (code("66 12 20 13 6; 65 12 21 20 6; 68 5 22 21 0"), {(3, 4)}),
    (code("61 12 20 13; 68 5 21 20 0"), set()),
    (code("65 12 20 13 6"), set()),
    (code("68 5 21 99 0; 68 5 20 14 0"), {(0, 9)}),
    (code("253; 68 5 20; 68 5 20 14"), {(0, 9)}),
]


@pytest.mark.parametrize(("body", "places"), LENGTHS)
def test_the_buffers_whose_length_is_used(
    body: list[Instruction], places: set[tuple[int, int]]
) -> None:
    marks = code("71 13 33 4; 71 13 34 3; 71 14 33 9")
    assert read_lengths(used(*body, marks=marks)) == places
    assert read_lengths(used(*body)) == set()


def test_the_line_of_an_instruction() -> None:
    body: list[Instruction] = code("8 70 12 1; 253; 8 70 15 2; 317; 8 71 16 3")
    ends: list[Instruction] = code("56; 54 2 4 0 3; 56")
    found = module((7, 70, *words_of("k.comp")), (54, 2, 1, 0, 3), *body, *ends)
    lines = [line_of(found, number) for number in range(-1, 10)]
    assert lines == ["", "", "", "", "k.comp:12", "k.comp:12", "k.comp:15", "", ":16", "", ""]


def test_the_instructions_of_functions_have_lines() -> None:
    """A line ends with its block."""
    head: list[Instruction] = code("""
        7 70 "k.comp"; 3 2 450 70 "one"; 2 "two"; 59 9 13 4 6; 1 5 8
        8 70 3 1; 54 2 4 0 3; 55 5 11
        248 20; 8 70 4 2; 128 5 12 11 11; 317; 249 21
        248 21; 253; 56
    """)
    found = read_code(module(*head))
    assert found.sources == {"k.comp": "onetwo"}
    assert (found.undefined, found.initializers) == ({8: 5}, {13: 6})
    (function,) = found.functions.values()
    assert (function.number, function.result, function.parameters) == (4, 2, [(5, 11)])
    first, second = function.blocks
    assert [first.label, second.label] == [20, 21]
    line = SpirvLine("k.comp", 4, 2)
    assert first.instructions == [
        SpirvInstruction(128, (5, 12, 11, 11), line),
        SpirvInstruction(249, (21,), None),
    ]
    assert second.instructions == [SpirvInstruction(253, (), None)]


def test_lines_of_debug_information() -> None:
    head: list[Instruction] = code("""
        11 70 "NonSemantic.Shader.DebugInfo.100"; 7 71 "k.hlsl"; 7 72 "text"; 7 73 "more"
        43 INT 80 7; 43 INT 81 3
        12 VOID 74 70 35 71 72; 12 VOID 75 70 102 73
        54 2 4 0 3; 248 20; 12 VOID 76 70 103 74 80 80 81 81; 0; 12 VOID 77 70 104; 253; 56
    """)
    found = read_code(module(*head))
    assert found.sources == {"k.hlsl": "textmore"}
    (block,) = found.functions[4].blocks
    assert [each.line for each in block.instructions] == [SpirvLine("k.hlsl", 7, 3), None]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("54 2 4 0 3; 253; 56", "is damaged: the instruction 253 is outside of a block"),
        ("1 5", "is damaged: the instruction 1 at word 5 has 1 operands"),
    ],
)
def test_damaged_functions(body: str, text: str) -> None:
    found = module(*code(body))
    assert refusal(FormatError, read_code, found) == text


#: Atomic instructions: 90 orders other memory, in the next ones zero (8).
ATOMICS = code("""
227 5 20 13 6 90
228 13 6 90 7
229 5 20 13 6 90 7
230 5 20 13 6 90 90 7 7
231 5 20 13 6 90 7
232 5 20 13 6 90
242 5 20 13 6 90 7
243 5 20 13 6 90 7
226 5 20 13 6 90 7
""")
RELAXED = code("""
227 5 20 13 6 8
228 13 6 8 7
229 5 20 13 6 8 7
230 5 20 13 6 8 8 7 7
231 5 20 13 6 90 7
232 5 20 13 6 8
242 5 20 13 6 8 7
243 5 20 13 6 90 7
226 5 20 13 6 90 7
""")


@pytest.mark.parametrize(
    ("constants", "is_changed"),
    [
        (code("21 5 32 0; 43 5 8 0; 43 5 9 1"), True),
        (code("21 5 32 0; 43 5 9 1"), False),
        (code("21 5 32 1; 43 5 8 0"), False),
        (code("21 5 32 0; 50 5 8 0"), False),
    ],
)
def test_the_order_of_atomic_instructions(constants: list[Instruction], is_changed: bool) -> None:
    start = [*constants, *code("54 2 1 0 3")]
    found = module(*start, *ATOMICS, (56,))
    relax_atomics(found)
    expected = ATOMICS
    if is_changed:
        expected = RELAXED
    assert found.words == module(*start, *expected, (56,)).words


#: One function with fences of the order 8 in the scope 9, and the same with atomic instructions,
#: which exchange the number 102. 7 is the order 0. The accesses 50 and 40 have the scope 9.
FENCED = code("""
54 2 1 0 3; 248 20
225 9 8; 225 9 7
227 5 21 13 9 8
228 13 9 8 9
234 5 22 13 9 8 9; 230 5 23 13 9 8 8 9 9
61 5 24 13 50 4 9; 62 13 24 40 9; 61 5 25 13 50 4 7; 61 5 26 13; 62 13 26 2 4
224 9 9 8
253; 56
""")
WITHOUT_FENCES = code("""
21 5 32 0; 43 5 7 0; 43 5 8 72; 43 5 9 1
32 101 4 5; 59 101 102 4
54 2 1 0 3; 248 20
229 5 103 102 9 100 100; 225 9 7
227 5 21 13 9 100; 229 5 104 102 9 100 100
229 5 105 102 9 100 100; 228 13 9 100 9
234 5 22 13 9 100 9; 230 5 23 13 9 100 100 9 9
61 5 24 13 34 4; 229 5 106 102 9 100 100
229 5 107 102 9 100 100; 62 13 24 32
61 5 25 13 50 4 7; 61 5 26 13; 62 13 26 2 4
224 9 9 8
253; 56
""")


def instructions(data: bytes) -> list[Instruction]:
    """Return the instructions of a module. The new constant, 100, is left out."""
    words = memoryview(data).cast("I").tolist()
    found: list[Instruction] = []
    at = 5
    while at < len(words):
        length = words[at] >> 16
        found.append((words[at] & 0xFFFF, *words[at + 1 : at + length]))
        at += length
    return [each for each in found if each != (43, 5, 100, 0)]


def test_fences_are_atomic_instructions() -> None:
    constants = code("21 5 32 0; 43 5 7 0; 43 5 8 72; 43 5 9 1")
    found = module(*constants, *FENCED)
    found.words[3] = 100
    before = found.words[:]
    changed = with_atomic_fences(found)
    assert instructions(changed) == WITHOUT_FENCES
    assert found.words == before
    # The first change is that of atomic instructions, and the last one adds no instruction.
    again = read_module(changed)
    assert with_atomic_fences(again) == changed


def test_the_number_of_fences_is_in_the_interface_of_each_entry_point() -> None:
    start = code('15 5 1 "one" 40; 15 5 1 "two"; 21 5 32 1; 43 5 8 72; 43 5 9 1')
    found = module(*start, *FENCED)
    found.version = (1, 4)
    found.words[3] = 100
    entries = read_module(with_atomic_fences(found)).entries
    assert [each.interface for each in entries] == [{40, 102}, {102}]


@pytest.mark.parametrize(
    "start",
    [
        # Memory of blocks with a layout.
        "17 4428; 21 5 32 0; 43 5 8 72; 43 5 9 1",
        # An order that is not known.
        "21 5 32 0; 50 5 8 72; 43 5 9 1",
        "21 5 64 0; 43 5 8 72 0; 43 5 9 1 0",
        "19 5",
    ],
)
def test_fences_that_remain(start: str) -> None:
    found = module(*code(start), *FENCED)
    remaining = instructions(with_atomic_fences(found))
    assert [each for each in FENCED if each[0] == 225] == [
        each for each in remaining if each[0] == 225
    ]
