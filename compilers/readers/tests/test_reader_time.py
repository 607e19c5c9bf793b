"""The readers of shaders do work that is linear in the size of the file."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from each_case import refusal
from work import assert_linear, work

from devmod.errors import CompileError, FormatError
from devmod_readers.spirv import read_kernels, read_module, reflect
from devmod_readers.wgsl import read_wgsl

pytestmark = pytest.mark.once


def nested(depth: int, innermost: str, space: str) -> str:
    """Return a source with a struct of two structs of two structs …"""
    structs = [f"struct S0 {{ a: {innermost} }}"]
    structs += [
        f"struct S{level} {{ a: S{level - 1}, b: S{level - 1} }}" for level in range(1, depth)
    ]
    variable = f"@group(0) @binding(0) var<{space}> v: S{depth - 1};"
    return "\n".join([*structs, variable, "@compute @workgroup_size(1) fn main() { _ = v.a; }"])


def test_nested_structs_are_laid_out_once() -> None:
    """A walk over all paths never ends."""
    found = {}
    work(lambda: found.update(read_wgsl(nested(50, "u32", "storage, read_write"), "k.wgsl")))
    assert found["main"].params[0].extra == {"least": 4 << 49}
    with pytest.raises(CompileError, match="takes 'v' of 9007199254740992 bytes by value"):
        work(lambda: read_wgsl(nested(50, "vec4u", "uniform"), "k.wgsl"))
    with pytest.raises(
        CompileError, match="the variable 'v' contains bool, which is not allowed in storage memory"
    ):
        work(lambda: read_wgsl(nested(50, "bool", "storage"), "k.wgsl"))


def test_a_constant_of_lists_of_lists_is_not_printed() -> None:
    lists = "const x0 = array(1, 1);" + "".join(
        f"const x{n} = array(x{n - 1}, x{n - 1});" for n in range(1, 60)
    )
    with pytest.raises(
        CompileError,
        match="the @workgroup_size of 'main' contains a list of values; expected integers from 1",
    ):
        work(lambda: read_wgsl(lists + "@compute @workgroup_size(x0, x59) fn main() {}", "k.wgsl"))


def chain(count: int) -> str:
    """Return a source of functions that each call the one before, and as many entries that call
    them.
    """
    return "fn f0() {}\n" + "".join(
        f"fn f{n}() {{ f{n - 1}(); }}\n@compute @workgroup_size(1) fn main{n}() {{ f{n}(); }}\n"
        for n in range(1, count)
    )


def test_thousands_of_entries() -> None:
    assert len(read_wgsl(chain(3000), "k.wgsl")) == 2999
    assert_linear(lambda count: lambda: read_wgsl(chain(count), "k.wgsl"), 100)


def shared(count: int) -> str:
    """Return a source of as many entries as variables, each of which uses all variables."""
    variables = "".join(
        f"@group(0) @binding({n}) var<storage, read_write> v{n}: array<u32>;\n"
        for n in range(count)
    )
    helper = "fn h() {" + "".join(f"v{n}[0] = 1;" for n in range(count)) + "}\n"
    return (
        variables
        + helper
        + "".join(f"@compute @workgroup_size(1) fn main{n}() {{ h(); }}\n" for n in range(count))
    )


def test_entries_that_share_thousands_of_variables_are_refused() -> None:
    assert refusal(CompileError, read_wgsl, shared(1000), "k.wgsl") == (
        "the WGSL source is refused at k.wgsl:1018:32: the compute entries up to 'main16' have more than 16384 "
        "arguments and constants together; split the source"
    )


@pytest.mark.volume  # of the 16384 arguments each costs work, however few the entries are
def test_the_work_until_entries_are_refused_is_linear() -> None:
    assert_linear(lambda count: lambda: refused(lambda: read_wgsl(shared(count), "k.wgsl")), 200)


def refused(read: Callable[[], object]) -> None:
    with pytest.raises(
        (CompileError, FormatError), match=r"have more than 16384|has entries with more than 16384"
    ):
        read()


def test_functions_that_call_each_other_use_the_same_variables() -> None:
    text = """
        @group(0) @binding(0) var<storage, read_write> a: array<u32>;
        @group(0) @binding(1) var<storage, read_write> b: array<u32>;
        @group(0) @binding(2) var<storage, read_write> c: array<u32>;
        fn one() { two(); a[0] = 1; }
        fn two() { three(); b[0] = 1; }
        fn three() { one(); leaf(); }
        fn leaf() { c[0] = 1; }
        @compute @workgroup_size(1) fn main() { three(); }
        @compute @workgroup_size(1) fn small() { leaf(); }
    """
    found = read_wgsl(text, "k.wgsl")
    assert [param.name for param in found["main"].params] == ["a", "b", "c"]
    assert [param.name for param in found["small"].params] == ["c"]


# -- SPIR-V


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
