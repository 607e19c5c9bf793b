"""The reader of SPIR-V does work that is linear in the size of the file."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from each_case import refusal
from work import assert_linear

from devmod.errors import FormatError
from devmod_readers.spirv import read_kernels, read_module, reflect

pytestmark = pytest.mark.once


def refused(read: Callable[[], object]) -> None:
    with pytest.raises(FormatError, match="has entries with more than 16384"):
        read()


def instruction(opcode: int, *operands: int) -> bytes:
    return struct.pack(f"<{len(operands) + 1}I", (len(operands) + 1) << 16 | opcode, *operands)


def shared_block(*, members: int, variables: int, entries: int) -> bytes:
    """Return a module whose many entry points use many buffers of one struct with many members."""
    names = [int.from_bytes(f"{n:03x}".encode(), "little") for n in range(entries)]
    first, function_type, void, uint, block, pointer = 10_000, 1, 2, 3, 4, 5
    parts = [struct.pack("<5I", 0x07230203, 0x00010300, 0, 1 << 24, 0), instruction(17, 1)]
    parts += [instruction(15, 5, first + variables + n, names[n]) for n in range(entries)]
    parts += [instruction(16, first + variables + n, 17, 1, 1, 1) for n in range(entries)]
    parts += [
        instruction(71, block, 2),
        *(instruction(72, block, n, 35, 4 * n) for n in range(members)),
    ]
    for n in range(variables):
        parts += [instruction(71, first + n, 34, 0), instruction(71, first + n, 33, n)]
    parts += [
        instruction(19, void),
        instruction(33, function_type, void),
        instruction(21, uint, 32, 0),
    ]
    parts += [instruction(30, block, *[uint] * members), instruction(32, pointer, 12, block)]
    parts += [instruction(59, pointer, first + n, 12) for n in range(variables)]
    for n in range(entries):
        number = first + variables + n
        parts += [instruction(54, void, number, 0, function_type)]
        if n:
            parts += [instruction(57, void, 900_000 + n, number - 1)]
        else:
            parts += [
                instruction(61, uint, 800_000 + each, first + each) for each in range(variables)
            ]
        parts += [instruction(56)]
    return b"".join(parts)


def test_spirv_reads_a_shared_struct_once() -> None:
    (found,) = reflect(
        read_module(shared_block(members=2000, variables=2000, entries=1)),
        "k.spv",
        include_unused=False,
    )
    assert len(found.resources) == 2000
    found_by_entry = reflect(
        read_module(shared_block(members=2000, variables=15, entries=1000)),
        "k.spv",
        include_unused=False,
    )
    assert {len(each.resources) for each in found_by_entry} == {15}

    def nested_structs(count: int) -> Callable[[], object]:
        structs = b"".join(instruction(30, 10 + n, 9 + n, 9 + n) for n in range(count))
        head = (
            struct.pack("<5I", 0x07230203, 0x00010300, 0, 1 << 24, 0)
            + instruction(15, 6, 1, 0x6B)
            + instruction(21, 9, 32, 0)
        )
        data = (
            head
            + structs
            + instruction(33, 2, 3, 9 + count)
            + instruction(54, 3, 1, 0, 2)
            + instruction(56)
        )
        return lambda: read_kernels(read_module(data))

    def many_variables(count: int) -> Callable[[], object]:
        data = shared_block(members=count, variables=count, entries=1)
        return lambda: reflect(read_module(data), "k.spv", include_unused=False)

    def many_entries(count: int) -> Callable[[], object]:
        data = shared_block(members=count, variables=15, entries=count)
        return lambda: reflect(read_module(data), "k.spv", include_unused=False)

    assert_linear(nested_structs, 30)
    assert_linear(many_variables, 100)
    assert_linear(many_entries, 100)


def test_spirv_entries_that_share_thousands_of_variables_are_refused() -> None:
    data = shared_block(members=1, variables=5000, entries=1000)
    assert (
        refusal(FormatError, reflect, read_module(data), "k.spv", include_unused=False)
        == "has entries with more than 16384 arguments and constants together; split it"
    )

    def call(count: int) -> Callable[[], object]:
        data = shared_block(members=1, variables=5 * count, entries=count)
        return lambda: refused(lambda: reflect(read_module(data), "k.spv", include_unused=False))

    assert_linear(call, 200)
