"""The reader of WGSL does work that is linear in the size of the text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from each_case import refusal
from work import assert_linear, work

from devmod.errors import CompileError
from devmod_wgsl import read_wgsl

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
    with pytest.raises(CompileError, match="have more than 16384"):
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
