"""The values of a function in the parameters of its kernel, compared with the layout that C gives
structs of the same members.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmod_readers.parameters import group_values

#: The C type of a value by its size: Param.pack has addresses, and integers of 32 and 64 bits.
C_TYPES = {1: ctypes.c_int8, 2: ctypes.c_int16, 4: ctypes.c_int32, 8: ctypes.c_int64}


@functools.cache
def layout(*sizes: int) -> tuple[int, tuple[int, ...]]:
    """Return the size of the struct with members of these sizes, and their offsets, as the C
    compiler has them.
    """
    struct = type(
        "struct",
        (ctypes.Structure,),
        {"_fields_": [(f"m{number}", C_TYPES[size]) for number, size in enumerate(sizes)]},
    )
    return ctypes.sizeof(struct), tuple(
        getattr(struct, f"m{number}").offset for number in range(len(sizes))
    )


def divisions(packs: list[list[int]], sizes: list[int]) -> Iterator[list[list[int]]]:
    """Yield each division of the values of packs into structs of these sizes, those with the
    fullest first structs first.
    """
    if not packs and not sizes:
        yield []
    if not packs or not sizes:
        return
    pack, *others = packs
    for count in range(len(pack), 0, -1):
        if layout(*pack[:count])[0] == sizes[0]:
            for rest in divisions(
                [pack[count:], *others] if count < len(pack) else others, sizes[1:]
            ):
                yield [pack[:count], *rest]


def groups_of(packs: list[list[int]], sizes: list[int]) -> list[tuple[int, tuple[int, ...]]]:
    values = [size for pack in packs for size in pack]
    starts = {sum(map(len, packs[:number])) for number in range(len(packs))}
    followers = [number for number in range(len(values)) if number not in starts]
    return [
        (group.size, group.offsets)
        for group in group_values([(size, size) for size in values], followers, sizes)
    ]


#: Packs as lists of packs of structs of the sizes of their members.
PACKS = st.lists(
    st.lists(st.lists(st.sampled_from([4, 8]), min_size=1, max_size=4), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)
SMALL = st.lists(
    st.lists(
        st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3), min_size=1, max_size=3
    ),
    min_size=1,
    max_size=2,
)


@pytest.mark.row("R34")
@given(PACKS | SMALL)
def test_values_have_the_layout_of_the_structs_of_c(structs: list[list[list[int]]]) -> None:
    packs = [[size for struct in pack for size in struct] for pack in structs]
    sizes = [layout(*struct)[0] for pack in structs for struct in pack]
    # The sizes do not always tell which structs they are: of those that have them, the fullest are
    # taken.
    assert groups_of(packs, sizes) == [layout(*struct) for struct in next(divisions(packs, sizes))]


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("packs", "expected"),
    [
        # struct { float *p; int rows, cols; }, alone and before another parameter
        ([[8, 4, 4]], [(16, (0, 8, 12))]),
        ([[8, 4, 4], [4]], [(16, (0, 8, 12)), (4, (0,))]),
        # a parameter of its own behind struct { float *p; int rows; }
        ([[8, 4, 4]], [(16, (0, 8)), (4, (0,))]),
        ([[8, 4, 4], [8, 4, 4]], [(16, (0, 8)), (4, (0,)), (16, (0, 8, 12))]),
        ([[8, 4, 4], [8, 4, 4]], [(16, (0, 8, 12)), (16, (0, 8)), (4, (0,))]),
        # a second struct of the same pack
        ([[8, 4, 4, 4, 8]], [(16, (0, 8, 12)), (16, (0, 8))]),
        ([[8, 4, 4, 8, 8]], [(16, (0, 8, 12)), (16, (0, 8))]),
        ([[4, 4, 4, 8]], [(4, (0,)), (4, (0,)), (16, (0, 8))]),
    ],
)
def test_values_in_the_padding_at_the_end_of_a_struct(
    packs: list[list[int]], expected: list[tuple[int, tuple[int, ...]]]
) -> None:
    assert groups_of(packs, [size for size, _ in expected]) == expected


@pytest.mark.row("R35")
@pytest.mark.parametrize(
    ("packs", "sizes", "expected"),
    [
        ([[8, 4]], [8], [(8, (0,)), (4, (0,))]),
        ([[8, 4], [4]], [16], [(16, (0, 8)), (4, (0,))]),
        ([[8, 8], [4]], [16, 8], [(16, (0, 8)), (4, (0,))]),
        ([[8, 4, 4], [8]], [16, 4], [(16, (0, 8, 12)), (8, (0,))]),
        ([[4, 4, 4, 8]], [16], [(24, (0, 4, 8, 16))]),
        ([[8, 4, 4]], [], [(8, (0,)), (4, (0,)), (4, (0,))]),
        ([[8, 4]], [0, 4], [(8, (0,)), (4, (0,))]),
        ([[8], [4], [4]], [16, 4, 4], [(8, (0,)), (4, (0,)), (4, (0,))]),
        ([], [], []),
    ],
)
def test_the_groups_of_other_sizes(
    packs: list[list[int]], sizes: list[int], expected: list[tuple[int, tuple[int, ...]]]
) -> None:
    """The caller's error then has the parameter that differs: those before it have their
    structs.
    """
    assert groups_of(packs, sizes) == expected
