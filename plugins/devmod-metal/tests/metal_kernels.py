"""Kernels of several tests, and the declarations of their functions. They need no toolchain."""

from __future__ import annotations

import devmod
from devmod import FunctionInfo, Interface, Param

ADD = """#include <metal_stdlib>
using namespace metal;
kernel void add(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]], device float *c [[buffer(2)]],
                constant int &n [[buffer(3)]], uint i [[thread_position_in_grid]])
{
    if (int(i) < n) c[i] = a[i] + b[i];
}
kernel void twice(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] *= 2; }
"""
#: SCALE needs a value, OFFSET does not.
CONSTANTS = """#include <metal_stdlib>
using namespace metal;
constant int SCALE [[function_constant(3)]];
constant bool OFFSET [[function_constant(1)]];
constant int offset = is_function_constant_defined(OFFSET) ? 1 : 0;
kernel void add(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]], device float *c [[buffer(2)]],
                constant int &n [[buffer(3)]], uint i [[thread_position_in_grid]])
{
    if (int(i) < n) c[i] = SCALE * (a[i] + b[i]) + offset;
}
"""


def add_info() -> FunctionInfo:
    """Return the FunctionInfo of `add`."""
    params = [
        Param(name, "buffer", "float32", access, at)
        for at, (name, access) in enumerate((("a", "r"), ("b", "r"), ("c", "rw")))
    ]
    n = Param("n", "scalar", "int32", at=3)
    return FunctionInfo(
        "add",
        ["handle"] * 3 + ["int32"],
        ["blockIdx.x", "threadIdx.x"],
        (),
        Interface([*params, n]),
    )


def twice_info() -> FunctionInfo:
    """Return the FunctionInfo of `twice`."""
    interface = Interface([Param("x", "buffer", "float32", "rw", 0)])
    return FunctionInfo("twice", ["handle"], ["blockIdx.x", "threadIdx.x"], (), interface)


def adder(source: str = ADD) -> devmod.Module:
    """Return a new module with `add` and `twice`."""
    data = source.encode()
    return devmod.create(
        "metal", {"add": data, "twice": data}, "metal", {"add": add_info(), "twice": twice_info()}
    )


def kernel(
    source: str, name: str, params: list[Param], block: tuple[int, int, int] | None = None
) -> devmod.Function:
    """Return the only function of a new module."""
    types = [
        "handle" if param.kind in ("buffer", "local", "image", "sampler") else param.type
        for param in params
    ]
    info = FunctionInfo(name, types, (), (), Interface(params, (), block))
    function: devmod.Function = devmod.create(
        "metal", {name: source.encode()}, "metal", {name: info}
    )[name]
    return function
