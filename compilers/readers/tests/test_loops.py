"""Loops of SPIR-V of which the exit is moved to their beginning: each word of the result."""

from __future__ import annotations

import pytest
from spirv_text import Instruction, assemble, module_of

from devmod_readers.spirv import read_module, with_exits_first


def code(text: str) -> list[Instruction]:
    return assemble(text, globals())


(VOID, BOOL, INT, FUNCTION, POINTER, IMAGE, VARIABLE, ZERO, STEP, PICTURE) = range(1, 11)
GLOBALS = code("""
19 VOID
20 BOOL
21 INT 32 0
33 FUNCTION VOID
32 POINTER 2 INT
25 IMAGE INT 1 0 0 0 1 0
59 POINTER VARIABLE 2
43 INT ZERO 0
43 INT STEP 3
59 POINTER PICTURE 2
""")
#: The first id that is free.
FREE = 200
BEGIN = (54, VOID, 40, 0, FUNCTION)
END = (56,)
RETURN = (253,)


def assert_moved(
    before: list[Instruction], new: list[Instruction], after: list[Instruction], bound: int
) -> None:
    """Compare the functions, and the constants that are new."""
    data = module_of([*GLOBALS, BEGIN, *before, END], FREE, 7)
    expected = module_of([*GLOBALS, *new, BEGIN, *after, END], bound, 7)
    assert with_exits_first(read_module(data)) == expected


def test_a_loop_of_one_block() -> None:
    before = [
        *code("""
248 50
249 51
248 51
245 INT 60 ZERO 50 61 51
128 INT 61 60 STEP
1 INT 64
174 BOOL 62 61 STEP
246 52 51 1 9
250 62 52 51
248 52
245 INT 63 61 51
62 VARIABLE 61 60
62 VARIABLE 64
"""),
        RETURN,
    ]
    after = [
        *code("""
248 50
249 51
248 51
245 INT 60 ZERO 50 61 200
245 BOOL 201 202 50 62 200
245 INT 203 204 50 61 200
245 INT 205 204 50 64 200
246 52 200 1 9
250 201 52 200
248 200
128 INT 61 60 STEP
1 INT 64
174 BOOL 62 61 STEP
249 51
248 52
245 INT 63 203 51
62 VARIABLE 203 60
62 VARIABLE 205
"""),
        RETURN,
    ]
    assert_moved(before, code("46 BOOL 202; 46 INT 204"), after, 206)


#: A loop whose first block branches. Its ways join in the last block, or in one before that.
BRANCHES = code("""
248 49
250 90 50 59
248 59
249 51
248 50
249 51
248 51
245 INT 60 ZERO 50 61 54 ZERO 59
128 INT 61 60 STEP
246 55 54 0
250 91 52 53
248 52
245 INT 64 61 51
249 56
248 53
249 56
""")
JOIN = code("248 56; 249 54")
LATCH = [
    *code("""
248 54
174 BOOL 62 61 STEP
250 62 51 55
248 55
245 INT 65 61 54
128 INT 66 61 60
250 62 57 58 60 61
248 57
"""),
    RETURN,
    *code("248 58"),
    RETURN,
]
MOVED = code("""
248 49
250 90 50 59
248 59
249 51
248 50
249 51
248 51
245 INT 60 ZERO 50 61 54 ZERO 59
""")


def changed(instructions: list[Instruction], old: int, new: int) -> list[Instruction]:
    """Return branches to another block."""
    results = []
    for each in instructions:
        if each == (249, old):
            each = (249, new)
        results.append(each)
    return results


@pytest.mark.parametrize("joins_before", [False, True])
def test_a_loop_that_branches(joins_before: bool) -> None:
    """It ends where its condition is false."""
    before = [*changed(BRANCHES, 56, 54), *LATCH]
    body, join = 200, 201
    first = 202
    if joins_before:
        before = [*BRANCHES, *JOIN, *LATCH]
        join = 56
        first = 201
    test, true, sum_, zero, phi, _ = range(first, first + 6)
    after = [
        *MOVED,
        (245, BOOL, test, true, 59, true, 50, 62, 54),
        (245, INT, sum_, zero, 59, zero, 50, 61, 54),
        (245, INT, phi, zero, 59, zero, 50, 60, 54),
        *code("246 55 54 0"),
        (250, test, body, 55),
        (248, body),
        *code("128 INT 61 60 STEP"),
        (247, join, 0),
        *code("250 91 52 53"),
    ]
    if not joins_before:
        after += [(248, join), *code("255")]
    rest = [*code("248 52"), (245, INT, 64, 61, body), *code("249 56; 248 53; 249 56")]
    if joins_before:
        after += [*rest, *JOIN]
    else:
        after += changed(rest, 56, 54)
    after += [
        *code("248 54; 174 BOOL 62 61 STEP; 249 51; 248 55"),
        (245, INT, 65, sum_, 51),
        (128, INT, 66, sum_, phi),
        (250, test, 57, 58, 60, 61),
        *LATCH[7:],
    ]
    assert_moved(before, [(41, BOOL, true), (46, INT, zero)], after, phi + 1)


def test_values_without_a_phi_are_computed_again() -> None:
    """Images, and pointers, each once."""
    before = [
        *code("""
248 50
249 51
248 51
246 55 54 0
249 54
248 54
61 INT 60 VARIABLE 2 61
65 POINTER 61 VARIABLE 60
61 IMAGE 63 PICTURE
174 BOOL 62 60 STEP
250 62 55 51
248 55
245 INT 70 ZERO 54
61 INT 71 61 60
62 61 71
98 INT 72 63 STEP
"""),
        RETURN,
    ]
    after = [
        *code("""
248 50
249 51
248 51
245 BOOL 201 202 50 62 54
245 INT 204 205 50 60 54
246 55 54 0
250 201 55 200
248 200
249 54
248 54
61 INT 60 VARIABLE 2 61
65 POINTER 61 VARIABLE 60
61 IMAGE 63 PICTURE
174 BOOL 62 60 STEP
249 51
248 55
245 INT 70 ZERO 51
65 POINTER 203 VARIABLE 204
61 IMAGE 206 PICTURE
61 INT 71 203 60
62 203 71
98 INT 72 206 STEP
"""),
        RETURN,
    ]
    assert_moved(before, code("46 BOOL 202; 46 INT 205"), after, 207)


#: Instructions behind a loop with the value 61, of which 60 is a literal, and the moved ones.
AT_EXIT = [
    ((61, INT, 80, 61, 60), (61, INT, 80, 203, 60)),
    ((62, 61, 61, 60), (62, 203, 203, 60)),
    ((63, 61, 61, 60), (63, 203, 203, 60)),
    ((68, INT, 80, 61, 60), (68, INT, 80, 203, 60)),
    ((79, INT, 80, 61, 61, 60), (79, INT, 80, 203, 203, 60)),
    ((81, INT, 80, 61, 60), (81, INT, 80, 203, 60)),
    ((82, INT, 80, 61, 61, 60), (82, INT, 80, 203, 203, 60)),
    ((12, INT, 80, 61, 60, 61, 61), (12, INT, 80, 203, 60, 203, 203)),
    ((128, INT, 80, 61, 61), (128, INT, 80, 203, 203)),
    ((251, 61, 57, 60, 58), (251, 203, 57, 60, 58)),
    ((254, 61), (254, 203)),
]


@pytest.mark.parametrize(("used", "moved"), AT_EXIT)
def test_a_literal_is_no_value(used: Instruction, moved: Instruction) -> None:
    start = code("248 50; 249 51; 248 51")
    body = code("128 INT 60 STEP STEP; 128 INT 61 60 STEP; 174 BOOL 62 61 STEP")
    behind = code("248 52; 246 52 52 60; 247 52 60")
    before = [*start, *body, *code("246 52 51 0; 250 62 52 51"), *behind, used]
    after = [
        *start,
        *code("""
245 BOOL 201 202 50 62 200
245 INT 203 204 50 61 200
246 52 200 0
250 201 52 200
248 200
"""),
        *body,
        *code("249 51"),
        *behind,
        moved,
    ]
    assert_moved(before, code("46 BOOL 202; 46 INT 204"), after, 205)


#: Functions that have no loop to change.
UNCHANGED: dict[str, list[Instruction]] = {
    "no loop": code("248 50; 128 INT 60 STEP STEP; 254 60"),
    "a loop without a result": [
        *code("""
248 50
249 51
248 51
174 BOOL 62 STEP ZERO
246 52 51 0
250 62 52 51
248 52
"""),
        RETURN,
    ],
    "a condition from outside": code("""
248 50
249 51
248 51
128 INT 60 STEP STEP
246 52 51 0
250 90 52 51
248 52
254 60
"""),
    "a loop that tests first": [
        *code("""
248 50
249 51
248 51
174 BOOL 62 STEP ZERO
246 53 52 0
250 62 53 52
248 52
249 51
248 53
62 VARIABLE 62
"""),
        RETURN,
    ],
    "two exits": [
        *code("""
248 50
249 51
248 51
174 BOOL 62 STEP ZERO
246 53 52 0
251 62 52 7 53
248 52
250 62 53 51
248 53
62 VARIABLE 62
"""),
        RETURN,
    ],
    "an exit to another block": [
        *code("""
248 50
249 51
248 51
174 BOOL 62 STEP ZERO
246 53 51 0
250 62 52 51
248 52
249 53
248 53
62 VARIABLE 62
"""),
        RETURN,
    ],
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_other_functions_stay(name: str) -> None:
    assert_moved(UNCHANGED[name], [], UNCHANGED[name], FREE)
