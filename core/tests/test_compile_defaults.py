"""The defaults of calls that `devmod.compile` stores: the block of threads, and the sizes of local
memory.
"""

from __future__ import annotations

from typing import Any

import pytest
from each_case import raised

import devmod
from devmod import Interface, Local

TWO = """
kernel void sum(global float *x, local float *scratch, local int *counts) { x[0] = scratch[0]; }
kernel void scan(global float *x, local float *scratch) { x[0] = scratch[0]; }
__attribute__((reqd_work_group_size(8, 8, 1))) kernel void tile(global float *x) { x[0] = 1; }
"""


def interface(module: devmod.Module, name: str) -> Interface:
    found = module.functions[name].interface
    assert found is not None
    return found


def defaults(module: devmod.Module, name: str) -> dict[str, Local]:
    return {
        param.name: param.default
        for param in interface(module, name).params
        if param.default is not None
    }


@pytest.mark.row("R29")
def test_a_default_block_of_one_function() -> None:
    module = devmod.compile(TWO, "opencl", block={"sum": 256, "scan": (16, 4), "tile": (8, 8)})
    assert [interface(module, name).default_block for name in module.functions] == [
        (256, 1, 1),
        (16, 4, 1),
        None,
    ]
    assert interface(module, "tile").block == (8, 8, 1)


@pytest.mark.row("R29")
def test_a_default_block_of_all_functions_is_saved() -> None:
    source = TWO.replace("__attribute__((reqd_work_group_size(8, 8, 1)))", "")
    module = devmod.compile(source, "opencl", block=[64, 2])
    loaded = devmod.loads(devmod.dumps(module))
    assert [interface(loaded, name).default_block for name in loaded.functions] == [(64, 2, 1)] * 3


@pytest.mark.row("R29")
def test_default_sizes_of_local_memory_are_saved() -> None:
    module = devmod.compile(
        TWO,
        "opencl",
        local={
            "sum": {"scratch": Local(per_thread=4)},
            "scan": {"scratch": Local(1024)},
            "counts": Local(per_thread=8),
        },
    )
    loaded = devmod.loads(devmod.dumps(module))
    assert defaults(loaded, "sum") == {
        "scratch": Local(per_thread=4),
        "counts": Local(per_thread=8),
    }
    assert defaults(loaded, "scan") == {"scratch": Local(1024)}


def test_the_payload_does_not_depend_on_the_defaults() -> None:
    source = "kernel void f(global float *x) { x[0] = 1; }"
    plain, given = devmod.compile(source, "opencl"), devmod.compile(source, "opencl", block=64)
    assert plain.inspect_source() == given.inspect_source() == source
    assert (
        plain.save_to_bytes()
        == devmod.compile(source, "opencl", block=None, local=None).save_to_bytes()
    )
    assert plain.save_to_bytes() != given.save_to_bytes()


@pytest.mark.row("R29", "R39")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"block": 64},
            "block=(64, 1, 1) contradicts the source: the opencl function 'tile' is built for blocks of (8, 8, 1) threads",
        ),
        (
            {"block": {"tile": (8, 4)}},
            "block=(8, 4, 1) contradicts the source: the opencl function 'tile' is built for blocks of (8, 8, 1) threads",
        ),
        (
            {"block": {"scam": 64}},
            "block= has 'scam', and the source has no such function; it has: 'sum', 'scan', 'tile'. Did you mean 'scan'?",
        ),
        (
            {"block": 0},
            "block=: expected the threads of a block, an int of 1 or more, or up to three for x, y, z, got 0",
        ),
        (
            {"block": "64"},
            "block= of 'sum' is an expression of constants, which only a tuned function has: pass tune= too, or numbers",
        ),
        (
            {"block": {"sum": (1, 2, 3, 4)}},
            "block= of 'sum': expected the threads of a block, an int of 1 or more, or up to three for x, y, z, got (1, 2, 3, 4)",
        ),
        (
            {"local": {"scratch": Local(4)}},
            "local= has 'scratch', which is a parameter of 'sum', 'scan': give it by function, as in local={'sum': {'scratch': Local(4)}}",
        ),
        (
            {"local": {"count": Local(4)}},
            "local= has 'count', which is not a parameter of local memory; there are: 'scratch', 'counts'. Did you mean 'counts'?",
        ),
        (
            {"local": {"x": Local(4)}},
            "local= has 'x', which is not a parameter of local memory; there are: 'scratch', 'counts'",
        ),
        (
            {"local": {"scan": {"counts": Local(4)}}},
            "local= has 'counts', which is not a parameter of local memory; the function 'scan' has: 'scratch'",
        ),
        (
            {"local": {"scam": {"scratch": Local(4)}}},
            "local= has 'scam', and the source has no such function; it has: 'sum', 'scan', 'tile'. Did you mean 'scan'?",
        ),
        (
            {"local": {"counts": 4}},
            "local= has 4 for 'counts': expected a devmod.Local, such as devmod.Local(1024) or devmod.Local(per_thread=4)",
        ),
        ({"local": 4}, "local= is a map of a parameter's name to a devmod.Local, not 4"),
    ],
)
def test_wrong_defaults(arguments: dict[str, Any], text: str) -> None:
    error = raised(devmod.CompileError, devmod.compile, TWO, "opencl", **arguments)
    assert str(error) == text
    assert error.kind == "opencl"
